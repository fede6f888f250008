//! The latency curve's plan: from the record so far to the next round of trials.

mod refine;
mod scan;

use fathom_probe::machine::Pages;
use fathom_probe::pattern::{self, Alu, Chase, Memory, OrderKind, Pattern, Trial, Walk};
use fathom_probe::splitmix::mix;
use fathom_units::facts;

use super::curves::MAX_PAIR;
use super::passes;
use super::rows::MIN_MEMORY_NS;
use super::two_lines;
use crate::budget::Budget;
use crate::cost::Cost;
use crate::record::Record;
use crate::round::shuffle;
use crate::scale::{At, STRIDE, Scale, largest_claim, line_pairs, mappable};

/// Largest working set of the coarse scan: larger than the last level of all but the largest servers. If the curve does
/// not end on a plateau there, later rounds continue to [`MAX_BYTES`].
const COARSE_TOP: u64 = 256 << 20;
/// Largest working set, with any amount of memory.
const MAX_BYTES: u64 = 4 << 30;
/// Share of the budget after which no new round begins.
const LAST_ROUND_STARTS_BY: f64 = 0.9;
/// Share of the budget after which the curve is not begun again with another spacing: the rest would not suffice for it.
const LAST_SCAN_STARTS_BY: f64 = 0.6;
/// Share of the budget that rounds may plan, at most: estimates err, and planning itself takes time.
const MAX_PLANNED_SHARE: f64 = 0.95;
/// Share of the budget that a round of the scan may take. The three of them leave two fifths for the refinement.
const MAX_SCAN_SHARE: f64 = 0.2;
/// The same for a round of the refinement, so that the plan sees results early.
const MAX_ROUND_SHARE: f64 = 0.3;
/// Steps of the clock in n loads: they limit the error of its resolution to 0.4 %.
const MIN_STEPS: f64 = 250.0;
/// Steps of the clock in a cycle calibration from which on they do not matter: half a step is an error of 0.02 %.
const MANY_STEPS: f64 = 2500.0;
/// Shortest latency of an L1 hit, cycles.
const MIN_HIT_CYCLES: f64 = 3.0;
/// How many times as slow as without neighbours a point may be that tells the steps of the clock for larger ones: if it is slower, they get fewer
/// than [`MIN_STEPS`].
const MAX_DISTURBED: f64 = 2.0;
/// Share of the budget of a described machine that a trial may take for the resolution of the clock: the scan has about a hundred trials.
const MAX_TRIAL_SHARE: f64 = 1.0 / 150.0;
/// Rounds of the scan, before any refinement.
pub(crate) const SCAN_ROUNDS: u64 = 4;
/// First round of the refinement.
const FIRST_REFINEMENT: u64 = SCAN_ROUNDS + 1;

/// Returns the next round of the latency curve, the TLB pairs and the access orders; empty if the plan is complete or
/// the budget is spent.
///
/// Pure: the same record, seed and budget give the same round. `budget_ms` is wall time on hardware and counts accesses
/// on a model (see [`crate::budget`]).
pub(crate) fn plan(record: &Record, seed: u64, budget_ms: u64) -> Vec<Trial> {
    let round = record.round() + 1;
    let mut scale = Scale::of(record);
    let budget = Budget::of(record, budget_ms);
    if scale.untested_long_lines && budget.spent <= budget.share(LAST_SCAN_STARTS_BY) {
        scale.space_widely();
    }
    if round > 1 && budget.spent >= budget.share(LAST_ROUND_STARTS_BY) {
        return Vec::new();
    }
    let latency_curve = scale.latency_curve(record);
    let mut planner = Planner {
        record,
        cost: Cost { modelled: budget.modelled, latency_curve: &latency_curve },
        scale,
        budget,
        latency_curve: &latency_curve,
        seed: mix(seed ^ mix(round)),
        round,
        trials: Vec::new(),
    };
    match round {
        1 => planner.calibrate(),
        2 => planner.scan_pairs(),
        3 => planner.coarse_scan(),
        // The curve begins again with another spacing.
        _ if planner.scale.stride > STRIDE && !planner.is_scanned() => planner.scan_all(),
        4 => planner.scan_large_sizes(),
        _ => {
            planner.finish_scan();
            planner.refine();
        }
    }
    planner.finish()
}

/// Returns the largest mapping in pages of this kind, bytes.
fn memory_limit(record: &Record, scale: &Scale, pages: Pages) -> u64 {
    // A host states one limit for both kinds, which may be in use at once.
    let shared = || record.int(facts::MEMORY_CEILING_BYTES).map(|b| b / 2);
    let stated = record.int(mappable(pages)).or_else(shared).unwrap_or(COARSE_TOP);
    // A refused size is a limit too.
    let refused = record.trials.iter().filter(|r| r.refusal.is_some() && r.trial.memory.page == pages);
    let refused = refused.map(|r| r.trial.extent(scale.base)).min().unwrap_or(u64::MAX);
    stated.min(refused.saturating_sub(1)).min(MAX_BYTES)
}

/// Returns the largest working set that every latency curve should have, bytes.
pub(crate) fn coarse_top(record: &Record, scale: &Scale) -> u64 {
    memory_limit(record, scale, scale.pages()).min(COARSE_TOP)
}

/// Working sets that the largest claimed data cache cannot hold, relative to its size: even if it is exclusive and the
/// nearer levels hold a quarter of it. Two, because one point alone may be an outlier.
const BEYOND_CLAIM: [f64; 2] = [1.5, 1.25];
/// The same of a working set that shows it alone: most of its loads miss.
const FAR_BEYOND_CLAIM: f64 = 2.0;

/// Working sets of which a described machine's caches can hold nothing after a lap, relative to the largest claimed one: nearer levels
/// have half of it each at most. Three, for a plateau.
const ALL_BEYOND_CLAIM: [f64; 3] = [2.2, 2.6, 3.0];

/// Returns the size of the largest data cache that any source claims, bytes, if the latency curve does not show yet whether
/// it ends.
pub(crate) fn unexceeded_claim(record: &Record, latency_curve: &[At]) -> Option<u64> {
    let claimed = largest_claim(record)?;
    let [.., nearest] = BEYOND_CLAIM.map(|part| part * claimed as f64);
    // Sizes are rounded down to whole lines.
    let beyond = latency_curve.iter().filter(|at| at.bytes as f64 > 0.99 * nearest).count();
    let far =
        latency_curve.last().is_some_and(|at| at.bytes as f64 > 0.99 * FAR_BEYOND_CLAIM * claimed as f64);
    (beyond < BEYOND_CLAIM.len() && !far).then_some(claimed)
}

/// Smallest budget for pairs that were too much for their round, and without huge pages for two lines in each page, accesses: a quarter of the
/// default one. On bcm2835 the latter take 1.6 million, and with a tenth of the default budget nothing was left for its sets and ways; ends of
/// caches stayed wide with a twentieth and the former.
const MORE_PAIRS_BUDGET: u64 = 10_000_000;
/// Smallest budget for passes over lines in memory, accesses: a fifth of the default one. With an eighth of it nothing was left for the second TLB of
/// am5728-l2-off, nor for the order of addresses on s1-8way.
const PASSES_BUDGET: u64 = 30_000_000;

struct Planner<'a> {
    record: &'a Record,
    scale: Scale,
    budget: Budget,
    cost: Cost<'a>,
    latency_curve: &'a [At],
    seed: u64,
    round: u64,
    /// Scheduled trials, the most important first.
    trials: Vec<Trial>,
}

impl Planner<'_> {
    fn modelled(&self) -> bool {
        self.budget.modelled
    }

    /// Returns whether a repeated trial gives the same times.
    fn exact(&self) -> bool {
        self.budget.exact
    }

    fn memory_limit(&self, pages: Pages) -> u64 {
        memory_limit(self.record, &self.scale, pages)
    }

    fn top(&self) -> u64 {
        self.memory_limit(self.scale.pages())
    }

    fn trial(&mut self, trial: Trial) {
        let nth = self.trials.len() as u64;
        let seed = mix(self.seed ^ mix(nth + 1));
        // 48 bits of seed suffice and keep the lines short.
        let memory = Memory { place: mix(seed) >> 40, ..trial.memory };
        self.trials.push(Trial { round: self.round, seed: seed >> 16, memory, ..trial });
    }

    /// Returns n for a chain of `cells` cells, `step` bytes apart: whole laps and one more load (whole laps would prove
    /// nothing), enough for the clock; part of a lap if a lap is long.
    fn loads(&self, cells: u64, step: u64) -> u64 {
        let (min, max) = if self.modelled() { (2048, 32_768) } else { (8192, 32_768) };
        // The halves of a TLB pair have as many loads.
        let min = (self.dithered(self.loads_for_the_clock(cells * step), cells) as u64).clamp(min, 1 << 22);
        let mut n = if cells <= max.max(min) { min.div_ceil(cells) * cells + 1 } else { max.max(min) + 1 };
        while cells > 2 && (2 * n).is_multiple_of(cells) {
            n += 1;
        }
        n
    }

    /// Returns a number of operations that is up to a quarter smaller, another one for each `key`. Trials with the same number end at the
    /// same part of a step of the clock, so that each is off by as much.
    fn dithered(&self, operations: f64, key: u64) -> f64 {
        if self.exact() {
            return operations;
        }
        let drawn = mix(self.seed ^ mix(!key)) >> 32;
        operations * (1.0 - 0.25 * drawn as f64 / f64::from(u32::MAX))
    }

    /// Returns the operations of the `nth` cycle calibration of a round, of `ops` at most: fewer if they take few steps of the clock.
    fn calibrating(&self, ops: u64, nth: usize) -> u64 {
        let steps =
            self.scale.cycle().map_or(f64::INFINITY, |cycle| ops as f64 * cycle / self.scale.resolution);
        if steps < MANY_STEPS { self.dithered(ops as f64, nth as u64) as u64 } else { ops }
    }

    /// Returns the loads that take [`MIN_STEPS`] steps of the clock. A smaller working set shows how long a load takes at least. On a model
    /// a coarse clock gets fewer steps, so that the budget suffices for the whole curve.
    fn loads_for_the_clock(&self, bytes: u64) -> f64 {
        let Some(cycle) = self.scale.cycle() else { return 0.0 };
        let smaller = self.latency_curve.iter().rfind(|at| at.bytes <= bytes);
        let known = smaller.map_or(0.0, |at| at.time() / self.scale.tick_ns);
        let known = if self.exact() { known } else { known / MAX_DISTURBED };
        let needed = MIN_STEPS * self.scale.resolution / known.max(MIN_HIT_CYCLES * cycle);
        if !self.modelled() {
            return needed;
        }
        // Three n loads are timed in a sample: n and 2 n.
        let affordable = self.budget.share(MAX_TRIAL_SHARE) / (3 * self.samples(0));
        needed.min(affordable as f64)
    }

    /// Returns the loads before the first sample. On hardware initialising a chain warms the caches like a lap. On the
    /// model it does not, and random replacement needs laps to settle.
    ///
    /// Of more than all caches hold, nothing is left after a lap, so lines that were never loaded take as long: a lap of gigabytes would
    /// take the whole budget.
    fn warm(&self, cells: u64, step: u64) -> u64 {
        let bytes = cells.saturating_mul(step);
        let least = |claimed: u64| 0.99 * ALL_BEYOND_CLAIM[0] * claimed as f64;
        if self.modelled()
            && bytes > COARSE_TOP
            && self.unscanned_claim().is_some_and(|c| bytes as f64 >= least(c))
        {
            return cells.min(0x1_0000);
        }
        match (self.modelled(), cells) {
            (true, ..=0x8000) => 3 * cells,
            (true, ..=0x4_0000) => 2 * cells,
            (true, _) => cells,
            (false, _) => cells.min(0x1_0000),
        }
    }

    /// Returns the largest claimed data cache, bytes, if all working sets of the scan may fit in it.
    fn unscanned_claim(&self) -> Option<u64> {
        largest_claim(self.record).filter(|claimed| FAR_BEYOND_CLAIM * *claimed as f64 > COARSE_TOP as f64)
    }

    fn samples(&self, cells: u64) -> u64 {
        match (self.exact(), cells) {
            (true, _) => 2,
            (false, ..=0x8000) => 7,
            (false, _) => 5,
        }
    }

    fn chase(&mut self, bytes: u64, order: OrderKind, window: u64, page: Pages) {
        let pattern = Chase::over(Walk { order, window });
        self.chain(pattern.into(), bytes / self.scale.stride, self.scale.stride, page);
    }

    fn chain(&mut self, pattern: Pattern, cells: u64, step: u64, page: Pages) {
        self.trial(Trial {
            memory: Memory { page, ..Memory::of(cells * step, step) },
            loads: self.loads(cells, step),
            samples: self.samples(cells),
            warm: self.warm(cells, step),
            ..Trial::of(pattern)
        });
    }

    /// Schedules a point of the latency curve.
    fn step(&mut self, bytes: u64) {
        self.step_with(bytes, self.scale.stride_at(bytes));
    }

    /// Schedules a chase with the curve's walk and this spacing.
    fn step_with(&mut self, bytes: u64, stride: u64) {
        let walk = Walk { order: OrderKind::Window, window: self.scale.window };
        self.chain(Chase { walk, events: true }.into(), bytes / stride, stride, self.scale.pages());
    }

    /// Schedules a TLB pair on `n` pages: one line per page, and as many lines packed.
    fn pair(&mut self, n: u64) {
        self.packed(n);
        let spread = pattern::Pages::over(Walk { order: OrderKind::Random, window: self.scale.base });
        self.chain(spread.into(), n, self.scale.pair_stride(), self.scale.base_pages());
    }

    /// Schedules a TLB pair of the same lines in two orders on `n` pages, in the same frames where a machine can choose them.
    fn two_lines(&mut self, n: u64) {
        let first = self.trials.len();
        for (pattern, memory) in two_lines::both(&self.scale, n, self.scale.base_pages()) {
            self.chain(pattern, memory.cells(), memory.stride, memory.page);
        }
        self.in_the_same_frames(first);
    }

    /// Schedules passes over `n` pages, in two orders over the same lines in the same frames.
    fn passes(&mut self, n: u64) {
        let wanted = self.loads(n, self.scale.pair_stride());
        let Some((loads, warm)) = passes::loads(&self.scale, n, wanted) else { return };
        for _ in 0..passes::trials(loads) {
            let first = self.trials.len();
            for (pattern, memory) in passes::both(&self.scale, n) {
                self.trial(Trial { memory, loads, warm, samples: passes::SAMPLES, ..Trial::of(pattern) });
            }
            self.in_the_same_frames(first);
        }
    }

    /// Gives the last trial the chain and the frames of trial `first`, where a machine can choose them.
    fn in_the_same_frames(&mut self, first: usize) {
        let (seed, place) = (self.trials[first].seed, self.trials[first].memory.place);
        if let Some(last) = self.trials.last_mut() {
            (last.seed, last.memory.place) = (seed, place);
        }
    }

    /// Schedules the packed half of a TLB pair. It must not miss in a TLB itself.
    fn packed(&mut self, n: u64) {
        let packed = Chase::over(self.scale.packed_walk());
        self.chain(packed.into(), n, self.scale.pair_stride(), self.scale.pages());
    }

    /// Schedules the test for long lines by pairs of loads: in one round if times are exact, else in as many as noise requires.
    fn line_pairs(&mut self) {
        let times = if self.exact() { 1 } else { line_pairs::TRIALS };
        let is_planned = self.trials.iter().any(line_pairs::is_of);
        let extent = line_pairs::EXTENT.min(self.top());
        let is_possible = self.scale.is_survey && extent >= line_pairs::MIN_EXTENT;
        if !is_possible || is_planned || line_pairs::rounds(self.record) >= times {
            return;
        }
        for step in line_pairs::DISTANCES {
            let cells = extent / step / 2 * 2;
            self.chain(line_pairs::pattern(&self.scale), cells, step, self.scale.pages());
            if let (true, Some(trial)) = (self.budget.modelled, self.trials.last_mut()) {
                // All loads are from memory.
                let steps = MIN_STEPS * self.scale.resolution * self.scale.tick_ns;
                (trial.warm, trial.loads) = (0, (steps / MIN_MEMORY_NS) as u64 + line_pairs::MIN_LOADS);
            }
        }
    }

    fn max_pages(&self) -> u64 {
        (self.memory_limit(self.scale.base_pages()) / self.scale.base).min(MAX_PAIR)
    }

    /// Trims the round to its share of the budget, shuffles it and adds cycle calibrations at both ends.
    fn finish(mut self) -> Vec<Trial> {
        let end = self.budget.share(MAX_PLANNED_SHARE).saturating_sub(self.budget.spent);
        let share = if self.round < FIRST_REFINEMENT { MAX_SCAN_SHARE } else { MAX_ROUND_SHARE };
        let mut allowance = end.min(self.budget.share(share));
        if self.round > 1 && self.trials.is_empty() {
            return Vec::new();
        }
        let scheduled = core::mem::take(&mut self.trials);
        let mut kept: Vec<Trial> = Vec::new();
        for trial in scheduled {
            let cost = self.cost.of(&trial);
            if cost <= allowance {
                allowance -= cost;
                kept.push(trial);
            }
        }
        if kept.is_empty() {
            return Vec::new();
        }
        shuffle(&mut kept, self.seed);
        let mut kept = self.with_cycle_calibrations(kept);
        let first = self.record.trials.iter().map(|r| r.trial.id).max().unwrap_or(0);
        for (i, trial) in kept.iter_mut().enumerate() {
            trial.id = first + 1 + i as u64;
        }
        kept
    }
}

/// On hardware, trials between two cycle calibrations within a round: about ten milliseconds, in which a core's clock
/// seldom changes twice.
const CALIBRATE_EVERY: usize = 12;

impl Planner<'_> {
    /// Returns the round with a cycle calibration at both ends. On hardware, where the clock may change within the
    /// round, shorter ones are added in between.
    fn with_cycle_calibrations(&self, trials: Vec<Trial>) -> Vec<Trial> {
        let ops = if self.modelled() { 1 << 20 } else { 200_000 };
        let round = self.round;
        let calibration = |ops: u64, nth: usize| Trial {
            loads: self.calibrating(ops, nth),
            samples: 5,
            warm: 1000,
            round,
            ..Trial::of(Alu)
        };
        let last = trials.len();
        let mut all = vec![calibration(ops, 0)];
        for (i, trial) in trials.into_iter().enumerate() {
            if i > 0 && i.is_multiple_of(CALIBRATE_EVERY) && !self.exact() {
                all.push(calibration(ops / 8, i));
            }
            all.push(trial);
        }
        all.push(calibration(ops, last));
        all
    }
}
