//! The latency curve's plan: from the record so far to the next round of trials.

use fathom_analysis::tiers::Reading;
use fathom_probe::machine::Pages;
use fathom_probe::pattern::{self, Alu, Chase, Clock, Memory, OrderKind, Pattern, Trial, Walk};
use fathom_probe::splitmix::mix;
use fathom_units::facts;

use super::PAIR_STRIDE;
use super::curves::{Curves, MAX_PAIR};
use crate::budget::Budget;
use crate::cost::Cost;
use crate::record::Record;
use crate::round::shuffle;
use crate::scale::STRIDE;
use crate::scale::{At, Scale};

/// Smallest working set of the latency curve. No L1 data cache of interest is below 2 KiB.
const SMALLEST: u64 = 1 << 10;
/// End of the fine part of the first sketch (three points an octave).
const FINE: u64 = 2 << 20;
/// Top of the coarse scan: above the last level of all but the largest servers. Where the curve has not
/// ended on a plateau there, later rounds go on to [`LARGEST`].
const COARSE_TOP: u64 = 256 << 20;
/// No working set is larger than this, whatever the memory.
const LARGEST: u64 = 4 << 30;
/// Share of the budget after which no new round begins.
const LAST_ROUND_STARTS_BY: f64 = 0.9;
/// Share of the budget that no round plans beyond: estimates err, and the plan itself takes time.
const MAX_PLANNED_SHARE: f64 = 0.95;
/// Most of the budget that one round may take, so that the plan sees what it got.
const ROUND: f64 = 0.3;
/// Brackets of a capacity are narrowed to this (relative): a third of what is promised.
const RESOLUTION: f64 = 0.012;
/// Points inside a bracket and round.
const EACH: usize = 3;

/// The next round: the latency curve, the TLBs' pairs and the ladder of orders; empty when nothing is left to ask or to
/// spend.
///
/// Pure: the same record, seed and budget give the same round. `budget_ms` is wall time on hardware
/// and stands for accesses on a model (see [`crate::budget`]).
pub(crate) fn plan(record: &Record, seed: u64, budget_ms: u64) -> Vec<Trial> {
    let round = record.round() + 1;
    let scale = Scale::of(record);
    let budget = Budget::of(record, budget_ms);
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
        2 => planner.coarse_scan(),
        3 => planner.heights(),
        _ => planner.refine(),
    }
    planner.close()
}

struct Planner<'a> {
    record: &'a Record,
    scale: Scale,
    budget: Budget,
    cost: Cost<'a>,
    latency_curve: &'a [At],
    seed: u64,
    round: u64,
    /// Wanted, most wanted first.
    trials: Vec<Trial>,
}

impl Planner<'_> {
    fn modelled(&self) -> bool {
        self.budget.modelled
    }

    /// Most bytes of one mapping in pages of this kind.
    fn ceiling(&self, pages: Pages) -> u64 {
        let name = match pages {
            Pages::Base | Pages::Coloured => facts::MEMORY_MAPPABLE_BASE_BYTES,
            Pages::Huge => facts::MEMORY_MAPPABLE_HUGE_BYTES,
        };
        // A host states one ceiling for both kinds, which may be in use at once.
        let shared = || self.record.int(facts::MEMORY_CEILING_BYTES).map(|b| b / 2);
        let stated = self.record.int(name).or_else(shared).unwrap_or(COARSE_TOP);
        // A refusal of a size is a ceiling too.
        let refused =
            self.record.trials.iter().filter(|r| r.refusal.is_some() && r.trial.memory.page == pages);
        let refused = refused.map(|r| r.trial.extent(self.scale.base)).min().unwrap_or(u64::MAX);
        stated.min(refused.saturating_sub(1)).min(LARGEST)
    }

    fn top(&self) -> u64 {
        self.ceiling(self.scale.pages())
    }

    fn trial(&mut self, trial: Trial) {
        let nth = self.trials.len() as u64;
        let seed = mix(self.seed ^ mix(nth + 1));
        // 48 bits of seed are plenty and keep the lines short.
        let memory = Memory { place: mix(seed) >> 40, ..trial.memory };
        self.trials.push(Trial { round: self.round, seed: seed >> 16, memory, ..trial });
    }

    /// n for a chain of `cells`: whole laps and one load more (whole laps would prove nothing), enough
    /// of them for the clock; a part of a lap where a lap is long.
    fn loads(&self, cells: u64) -> u64 {
        let (least, most) = if self.modelled() { (2048, 32_768) } else { (8192, 32_768) };
        // 250 steps of the clock over an L1 hit of about three cycles bound its resolution's error to 0.4 %.
        let clock = self.scale.cycle().map_or(0.0, |c| 250.0 * self.scale.resolution / (3.0 * c));
        let least = (clock as u64).clamp(least, 1 << 22);
        let mut n =
            if cells <= most.max(least) { least.div_ceil(cells) * cells + 1 } else { most.max(least) + 1 };
        while cells > 2 && (2 * n).is_multiple_of(cells) {
            n += 1;
        }
        n
    }

    /// Loads before the first sample. On hardware laying a chain warms the caches as a lap would; on the
    /// model laying leaves them alone, and random replacement needs laps to settle.
    fn warm(&self, cells: u64) -> u64 {
        match (self.modelled(), cells) {
            (true, ..=0x8000) => 3 * cells,
            (true, ..=0x4_0000) => 2 * cells,
            (true, _) => cells,
            (false, _) => cells.min(0x1_0000),
        }
    }

    fn samples(&self, cells: u64) -> u64 {
        match (self.modelled(), cells) {
            (true, _) => 2,
            (false, ..=0x8000) => 7,
            (false, _) => 5,
        }
    }

    fn chase(&mut self, bytes: u64, order: OrderKind, window: u64, page: Pages) {
        let pattern = Chase { walk: Walk { order, window } };
        self.chain(pattern.into(), bytes / STRIDE, STRIDE, page);
    }

    fn chain(&mut self, pattern: Pattern, cells: u64, step: u64, page: Pages) {
        self.trial(Trial {
            memory: Memory { page, ..Memory::of(cells * step, step) },
            loads: self.loads(cells),
            samples: self.samples(cells),
            warm: self.warm(cells),
            ..Trial::of(pattern)
        });
    }

    /// A step of the latency curve.
    fn step(&mut self, bytes: u64) {
        self.chase(bytes, OrderKind::Window, self.scale.window(), self.scale.pages());
    }

    /// A TLB pair on `n` pages: one line a page, and as many lines packed.
    fn pair(&mut self, n: u64) {
        // The packed half must not miss in a TLB itself: huge pages, or one base page after the other.
        let (order, page) = self.scale.control();
        let window = self.scale.base;
        let packed = Chase { walk: Walk { order, window } };
        let spread = pattern::Pages { walk: Walk { order: OrderKind::Random, window } };
        self.chain(packed.into(), n, PAIR_STRIDE, page);
        self.chain(spread.into(), n, PAIR_STRIDE, Pages::Base);
    }

    fn most_pages(&self) -> u64 {
        (self.ceiling(Pages::Base) / self.scale.base).min(MAX_PAIR)
    }

    fn calibrate(&mut self) {
        self.trial(Trial { loads: 200, samples: 200, warm: 0, ..Trial::of(Clock) });
    }

    /// `per` points an octave from `from` up to and with `to`.
    fn octaves(from: u64, to: u64, per: f64) -> impl Iterator<Item = u64> {
        let steps = ((to as f64 / from as f64).log2() * per + 1e-9).floor() as i64;
        (0..=steps).map(move |i| (from as f64 * (i as f64 / per).exp2()) as u64 / STRIDE * STRIDE)
    }

    fn coarse_scan(&mut self) {
        let mut last = 0;
        for n in Self::octaves(2 * STRIDE, self.most_pages().min(1024) * STRIDE, 2.0).map(|b| b / STRIDE) {
            if n > last {
                self.pair(n);
                last = n;
            }
        }
        let top = self.top().min(FINE);
        for bytes in Self::octaves(SMALLEST, top, 3.0) {
            self.step(bytes);
        }
    }

    fn heights(&mut self) {
        if self.most_pages() > 1024 {
            for n in Self::octaves(1024 * STRIDE, self.most_pages() * STRIDE, 2.0).skip(1) {
                self.pair(n / STRIDE);
            }
        }
        let top = self.top().min(COARSE_TOP);
        let mut sizes: Vec<u64> = Self::octaves(FINE, top.min(32 << 20), 2.0).skip(1).collect();
        sizes.extend(Self::octaves(32 << 20, top, 1.0).skip(1));
        for bytes in sizes {
            self.step(bytes);
        }
    }

    /// Later rounds: what narrows the reading most comes first.
    fn refine(&mut self) {
        let Curves { pairs, reading: curves, translated, .. } = Curves::of(self.record, &self.scale);
        if let Some(curves) = &curves {
            self.narrow(curves);
            self.go_on(curves);
        }
        if let Some(tlbs) = &translated {
            for x in tlbs.refinement_points(RESOLUTION, EACH) {
                let n = x.round() as u64;
                if n >= 1 && pairs.iter().all(|p| p.pages != n) {
                    self.pair(n);
                }
            }
        }
        if let Some(curves) = &curves {
            self.ladder(curves);
            self.validate(curves);
        }
        if !self.modelled() {
            self.repeat(&pairs.iter().map(|p| (p.pages, p.spread.trials.len())).collect::<Vec<_>>());
        }
    }

    fn narrow(&mut self, curves: &Reading) {
        for x in curves.refinement_points(RESOLUTION, EACH) {
            let bytes = (x / STRIDE as f64).round() as u64 * STRIDE;
            if self.latency_curve.iter().all(|a| a.bytes != bytes) {
                self.step(bytes);
            }
        }
    }

    /// The last tier was not reached, or only just: eight times the last capacity leaves no hit even
    /// under random replacement.
    fn go_on(&mut self, curves: &Reading) {
        let Some(last) = self.latency_curve.last().map(|a| a.bytes) else { return };
        let onset = curves.tiers.iter().rev().find_map(|t| t.capacity).map_or(0.0, |c| c.onset.value);
        if !curves.flat_end || 8.0 * onset > last as f64 {
            let next = (2 * last).min(self.top() / STRIDE * STRIDE);
            if next > last + last / 4 {
                self.step(next);
            }
        }
    }

    /// The working set that the ladder climbs: well beyond the last capacity.
    fn ladder_bytes(&self, curves: &Reading) -> u64 {
        let onset = curves.tiers.iter().rev().find_map(|t| t.capacity).map_or(0.0, |c| c.onset.value);
        let request = ((4.0 * onset) as u64).next_power_of_two().clamp(4 << 20, 64 << 20);
        request.min(self.top() / 2).min(self.ceiling(Pages::Base) / 2)
    }

    fn ladder(&mut self, curves: &Reading) {
        let page = self.scale.pages();
        if !self.scale.chases(self.record, OrderKind::Sequential, page).is_empty() {
            return;
        }
        let bytes = self.ladder_bytes(curves);
        if bytes < 1 << 20 {
            return;
        }
        self.chase(bytes, OrderKind::Sequential, self.scale.base, page);
        self.chase(bytes, OrderKind::Window, self.scale.base, page);
        self.chase(bytes, OrderKind::Random, self.scale.base, page);
        if page == Pages::Huge {
            self.chase(bytes, OrderKind::Random, self.scale.base, Pages::Base);
        }
    }

    /// Both ends of every bracket again, with new orders and placements: an inflection that does not
    /// come back is none.
    fn validate(&mut self, curves: &Reading) {
        let times = if self.modelled() { 2 } else { 3 };
        for capacity in curves.tiers.iter().filter_map(|t| t.capacity) {
            for x in [capacity.below, capacity.above] {
                let bytes = x as u64;
                if self.latency_curve.iter().any(|a| a.bytes == bytes && a.trials.len() < times) {
                    self.step(bytes);
                }
            }
        }
    }

    /// On hardware every point is measured in three rounds, minutes' worth of neighbours apart as far
    /// as the budget allows; the cheapest first.
    fn repeat(&mut self, pairs: &[(u64, usize)]) {
        for times in 1..3 {
            for at in self.latency_curve {
                if at.trials.len() == times {
                    self.step(at.bytes);
                }
            }
            for &(n, had) in pairs {
                if had == times {
                    self.pair(n);
                }
            }
        }
    }

    /// Trims the round to its share of the budget, shuffles it and puts the cycle calibration at both ends.
    fn close(mut self) -> Vec<Trial> {
        let end = self.budget.share(MAX_PLANNED_SHARE).saturating_sub(self.budget.spent);
        let mut allowance = end.min(self.budget.share(ROUND));
        if self.round > 1 && self.trials.is_empty() {
            return Vec::new();
        }
        let wanted = core::mem::take(&mut self.trials);
        let mut kept: Vec<Trial> = Vec::new();
        for trial in wanted {
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
        let mut kept = self.with_yardsticks(kept);
        let first = self.record.trials.iter().map(|r| r.trial.id).max().unwrap_or(0);
        for (i, trial) in kept.iter_mut().enumerate() {
            trial.id = first + 1 + i as u64;
        }
        kept
    }
}

/// On hardware, trials between two cycle calibrations inside a round: some ten milliseconds, in which a core's clock
/// seldom changes twice.
const CALIBRATE_EVERY: usize = 12;

impl Planner<'_> {
    /// The round with a cycle calibration at both ends; on hardware, where the clock may change under way, with
    /// shorter ones in between.
    fn with_yardsticks(&self, trials: Vec<Trial>) -> Vec<Trial> {
        let ops = if self.modelled() { 1 << 20 } else { 200_000 };
        let round = self.round;
        let end = Trial { loads: ops, samples: 5, warm: 1000, round, ..Trial::of(Alu) };
        let between = Trial { loads: ops / 8, samples: 5, ..end.clone() };
        let mut all = vec![end.clone()];
        for (i, trial) in trials.into_iter().enumerate() {
            if i > 0 && i.is_multiple_of(CALIBRATE_EVERY) && !self.modelled() {
                all.push(between.clone());
            }
            all.push(trial);
        }
        all.push(end);
        all
    }
}
