//! The latency curve's plan: from the record so far to the next round of trials.

use fathom_analysis::tiers::{Reading, Tier};
use fathom_probe::machine::Pages;
use fathom_probe::pattern::{self, Alu, Chase, Clock, Memory, OrderKind, Pattern, Trial, Walk};
use fathom_probe::splitmix::mix;
use fathom_units::facts;

use super::curves::{Curves, MAX_PAIR, PLATEAU_SPAN};
use super::rows::MIN_MEMORY_NS;
use super::splinters;
use super::translation::Pair;
use crate::budget::Budget;
use crate::cost::Cost;
use crate::record::{Record, TrialRun};
use crate::round::shuffle;
use crate::scale::{At, DENSE_SHARE, DENSE_STRIDE, STRIDE, Scale, Short};

/// Smallest working set of the latency curve: four lines. No L1 data cache of interest is below 1 KiB.
const MIN_BYTES: u64 = 256;
/// Largest working set of the fine part of the coarse scan (three points per octave).
const FINE_TOP: u64 = 2 << 20;
/// Largest working set of the coarse scan: larger than the last level of all but the largest servers. If the curve does
/// not end on a plateau there, later rounds continue to [`MAX_BYTES`].
const COARSE_TOP: u64 = 256 << 20;
/// Largest working set, with any amount of memory.
const MAX_BYTES: u64 = 4 << 30;
/// Share of the budget after which no new round begins.
const LAST_ROUND_STARTS_BY: f64 = 0.9;
/// Share of the budget that rounds may plan, at most: estimates err, and planning itself takes time.
const MAX_PLANNED_SHARE: f64 = 0.95;
/// Share of the budget that a round of the scan may take. The three of them leave two fifths for the refinement.
const MAX_SCAN_SHARE: f64 = 0.2;
/// The same for a round of the refinement, so that the plan sees results early.
const MAX_ROUND_SHARE: f64 = 0.3;
/// First round of the refinement.
const FIRST_REFINEMENT: u64 = 5;
/// Relative width to which the brackets of a capacity are narrowed: a third of the intended precision.
const RESOLUTION: f64 = 0.012;
/// Points per bracket and round.
const POINTS_PER_BRACKET: usize = 3;
/// Additional points at the end of a curve that has no plateau there yet, as shares of its largest working set: those of
/// the coarse scan that the last tier is read from, the cheapest first, then between them. The first two beyond the last
/// capacity are taken.
const LAST_TIER_PARTS: [f64; 5] = [0.125, 0.25, 0.5, 0.84, 0.71];

/// Returns the next round of the latency curve, the TLB pairs and the access orders; empty if the plan is complete or
/// the budget is spent.
///
/// Pure: the same record, seed and budget give the same round. `budget_ms` is wall time on hardware and counts accesses
/// on a model (see [`crate::budget`]).
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
        2 => planner.scan_pairs(),
        3 => planner.coarse_scan(),
        // The curve begins again with another spacing.
        _ if planner.scale.stride > STRIDE && !planner.is_scanned() => planner.scan_all(),
        4 => planner.scan_large_sizes(),
        _ => planner.refine(),
    }
    planner.finish()
}

/// Returns the largest mapping in pages of this kind, bytes.
fn memory_limit(record: &Record, scale: &Scale, pages: Pages) -> u64 {
    let name = match pages {
        Pages::Base | Pages::Coloured => facts::MEMORY_MAPPABLE_BASE_BYTES,
        Pages::Huge => facts::MEMORY_MAPPABLE_HUGE_BYTES,
    };
    // A host states one limit for both kinds, which may be in use at once.
    let shared = || record.int(facts::MEMORY_CEILING_BYTES).map(|b| b / 2);
    let stated = record.int(name).or_else(shared).unwrap_or(COARSE_TOP);
    // A refused size is a limit too.
    let refused = record.trials.iter().filter(|r| r.refusal.is_some() && r.trial.memory.page == pages);
    let refused = refused.map(|r| r.trial.extent(scale.base)).min().unwrap_or(u64::MAX);
    stated.min(refused.saturating_sub(1)).min(MAX_BYTES)
}

/// Returns the largest working set that every latency curve should have, bytes.
pub(crate) fn coarse_top(record: &Record, scale: &Scale) -> u64 {
    memory_limit(record, scale, scale.pages()).min(COARSE_TOP)
}

/// Returns ascending sizes in an order of which every beginning covers the whole range: each fourth, the second of
/// each four, the others.
fn spread_first(sizes: &[u64]) -> impl Iterator<Item = u64> + '_ {
    let part = |from: usize, by: usize| sizes.iter().skip(from).step_by(by).copied();
    part(0, 4).chain(part(2, 4)).chain(part(1, 2))
}

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

    /// Returns n for a chain of `cells`: whole laps and one more load (whole laps would prove nothing), enough for the
    /// clock; part of a lap if a lap is long.
    fn loads(&self, cells: u64) -> u64 {
        let (min, max) = if self.modelled() { (2048, 32_768) } else { (8192, 32_768) };
        // 250 times the resolution of the clock over an L1 hit of about three cycles limit the error of its resolution
        // to 0.4 %.
        let clock = self.scale.cycle().map_or(0.0, |c| 250.0 * self.scale.resolution / (3.0 * c));
        let min = (clock as u64).clamp(min, 1 << 22);
        let mut n = if cells <= max.max(min) { min.div_ceil(cells) * cells + 1 } else { max.max(min) + 1 };
        while cells > 2 && (2 * n).is_multiple_of(cells) {
            n += 1;
        }
        n
    }

    /// Returns the loads before the first sample. On hardware initialising a chain warms the caches like a lap. On the
    /// model it does not, and random replacement needs laps to settle.
    fn warm(&self, cells: u64) -> u64 {
        match (self.modelled(), cells) {
            (true, ..=0x8000) => 3 * cells,
            (true, ..=0x4_0000) => 2 * cells,
            (true, _) => cells,
            (false, _) => cells.min(0x1_0000),
        }
    }

    fn samples(&self, cells: u64) -> u64 {
        match (self.exact(), cells) {
            (true, _) => 2,
            (false, ..=0x8000) => 7,
            (false, _) => 5,
        }
    }

    fn chase(&mut self, bytes: u64, order: OrderKind, window: u64, page: Pages) {
        let pattern = Chase { walk: Walk { order, window } };
        self.chain(pattern.into(), bytes / self.scale.stride, self.scale.stride, page);
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

    /// Schedules a point of the latency curve.
    fn step(&mut self, bytes: u64) {
        self.step_with(bytes, self.scale.stride_at(bytes));
    }

    /// Schedules a chase with the curve's walk and this spacing.
    fn step_with(&mut self, bytes: u64, stride: u64) {
        let walk = Walk { order: OrderKind::Window, window: self.scale.window };
        self.chain(Chase { walk }.into(), bytes / stride, stride, self.scale.pages());
    }

    /// Schedules a TLB pair on `n` pages: one line per page, and as many lines packed.
    fn pair(&mut self, n: u64) {
        self.packed(n);
        let spread = pattern::Pages { walk: Walk { order: OrderKind::Random, window: self.scale.base } };
        self.chain(spread.into(), n, self.scale.pair_stride(), Pages::Base);
    }

    /// Schedules the packed half of a TLB pair. It must not miss in a TLB itself.
    fn packed(&mut self, n: u64) {
        let packed = Chase { walk: self.scale.packed_walk() };
        self.chain(packed.into(), n, self.scale.pair_stride(), self.scale.pages());
    }

    /// Schedules the test whether huge pages are splintered.
    fn splinters(&mut self, pairs: &[Pair], translated: &Reading, capacities: &[f64]) {
        let Some(pages) = splinters::pages(&self.scale, pairs, translated, capacities) else { return };
        let (pattern, memory) = splinters::trial(&self.scale, pages);
        let same = |run: &&TrialRun| {
            splinters::is_splinter_test(&run.trial)
                && run.trial.memory == Memory { place: run.trial.memory.place, ..memory }
        };
        let had = self.record.trials.iter().filter(same).count();
        let times = if self.exact() { 1 } else { 3 };
        for _ in had..times {
            self.trial(Trial {
                memory,
                loads: self.loads(pages),
                samples: self.samples(pages),
                warm: self.warm(pages),
                ..Trial::of(pattern.clone())
            });
        }
    }

    fn max_pages(&self) -> u64 {
        (self.memory_limit(Pages::Base) / self.scale.base).min(MAX_PAIR)
    }

    fn calibrate(&mut self) {
        self.trial(Trial { loads: 200, samples: 200, warm: 0, ..Trial::of(Clock) });
    }

    /// Returns `per` points per octave from `from` up to and including `to`.
    fn octaves(from: u64, to: u64, per: f64) -> impl Iterator<Item = u64> {
        let steps = ((to as f64 / from as f64).log2() * per + 1e-9).floor() as i64;
        (0..=steps).map(move |i| (from as f64 * (i as f64 / per).exp2()) as u64 / STRIDE * STRIDE)
    }

    /// Schedules the TLB pairs on up to a thousand pages. They come before the latency curve, because they decide its
    /// pages and its window.
    fn scan_pairs(&mut self) {
        let mut last = 0;
        for n in Self::octaves(2 * STRIDE, self.max_pages().min(1024) * STRIDE, 2.0).map(|b| b / STRIDE) {
            if n > last {
                self.pair(n);
                last = n;
            }
        }
    }

    fn coarse_scan(&mut self) {
        let top = self.top().min(FINE_TOP);
        let sizes: Vec<u64> = Self::octaves(MIN_BYTES, top, 3.0).collect();
        for bytes in spread_first(&sizes) {
            self.step(bytes);
        }
        self.pack_pairs();
    }

    /// Schedules the packed halves that the pairs lack: those in base pages, if the curve is not measured in huge pages
    /// after all.
    fn pack_pairs(&mut self) {
        let packed: Vec<u64> = self.scale.packed(self.record).iter().map(|at| at.bytes).collect();
        let lone = self.scale.spread(self.record).into_iter().map(|at| at.bytes);
        for bytes in lone.filter(|bytes| !packed.contains(bytes)).collect::<Vec<_>>() {
            self.packed(bytes / self.scale.pair_stride());
        }
    }

    /// Schedules the large working sets, the largest first: without it nothing shows where the last tier ends.
    fn scan_large_sizes(&mut self) {
        let top = coarse_top(self.record, &self.scale);
        let mut sizes: Vec<u64> = Self::octaves(FINE_TOP, top.min(32 << 20), 2.0).skip(1).collect();
        sizes.extend(Self::octaves(32 << 20, top, 1.0).skip(1));
        if let Some(top) = sizes.pop() {
            self.step(top);
        }
        if self.max_pages() > 1024 {
            for n in Self::octaves(1024 * STRIDE, self.max_pages() * STRIDE, 2.0).skip(1) {
                self.pair(n / STRIDE);
            }
        }
        for bytes in spread_first(&sizes) {
            self.step(bytes);
        }
    }

    /// Returns whether the pairs were measured with the present spacing. They come first in a scan.
    fn is_scanned(&self) -> bool {
        !self.scale.spread(self.record).is_empty()
    }

    /// Schedules the pairs and the whole curve in one round.
    fn scan_all(&mut self) {
        self.scan_pairs();
        self.coarse_scan();
        self.scan_large_sizes();
    }

    /// Later rounds, the most informative trials first.
    fn refine(&mut self) {
        let Curves { pairs, reading: curves, translated, doubtful, doubtful_pages, .. } =
            Curves::of(self.record, &self.scale);
        if let Some(curves) = &curves {
            self.short_lines(curves);
            self.narrow(curves);
            self.extend(curves);
        }
        if let Some(tlbs) = &translated {
            let capacities = curves.iter().flat_map(|curves| &curves.tiers);
            let capacities: Vec<f64> = capacities.filter_map(|t| Some(t.capacity?.onset.value)).collect();
            self.splinters(&pairs, tlbs, &capacities);
            let narrower = tlbs.refinement_points(RESOLUTION, POINTS_PER_BRACKET);
            for x in tlbs.plateau_points(PLATEAU_SPAN).into_iter().chain(narrower) {
                let n = x.round() as u64;
                if (1..=self.max_pages()).contains(&n) && pairs.iter().all(|p| p.pages != n) {
                    self.pair(n);
                }
            }
        }
        if let Some(curves) = &curves {
            self.orders(curves);
            self.repeat_brackets(curves);
        }
        self.doubtful(&doubtful, &doubtful_pages);
        if !self.exact() {
            self.repeat(&pairs.iter().map(|p| (p.pages, p.spread.trials.len())).collect::<Vec<_>>());
        }
    }

    /// Repeats working sets and pairs that noise may have made slow, in one round with a control that fits.
    fn doubtful(&mut self, sizes: &[u64], pages: &[u64]) {
        for &bytes in sizes {
            self.step(bytes);
        }
        for &n in pages {
            self.pair(n);
        }
    }

    /// Schedules the test for lines shorter than the curve's spacing in every level, and the scan with half of it where
    /// there are such lines.
    fn short_lines(&mut self, curves: &Reading) {
        if !(self.exact() && self.scale.is_survey) || self.scale.stride != STRIDE {
            return;
        }
        let had: Vec<u64> = self.scale.dense(self.record).iter().map(|at| at.bytes).collect();
        for capacity in curves.tiers.iter().filter_map(|tier| tier.capacity) {
            let end = capacity.onset.value;
            let fits = self.latency_curve.iter().rfind(|at| at.bytes as f64 <= DENSE_SHARE * end);
            let Some(bytes) = fits.map(|at| at.bytes) else { continue };
            // With half the spacing the level ends at half the size.
            if had.iter().all(|had| !(0.3 * end..=end).contains(&(*had as f64))) {
                self.step_with(bytes, DENSE_STRIDE);
            }
        }
        for (from, to) in self.scale.short_lines.iter().filter_map(Short::part).collect::<Vec<_>>() {
            for bytes in Self::octaves(from.max(MIN_BYTES), to, 3.0) {
                if self.latency_curve.iter().all(|at| at.bytes != bytes) {
                    self.step(bytes);
                }
            }
        }
    }

    fn narrow(&mut self, curves: &Reading) {
        for x in curves.refinement_points(RESOLUTION, POINTS_PER_BRACKET) {
            let stride = self.scale.stride;
            let bytes = (x / stride as f64).round() as u64 * stride;
            if self.latency_curve.iter().all(|a| a.bytes != bytes) {
                self.step(bytes);
            }
        }
    }

    /// Extends the curve if the last tier was not reached, or only just: a working set of eight times the last capacity
    /// has no hits even under random replacement. A tier that is faster than memory can be is not the last.
    fn extend(&mut self, curves: &Reading) {
        let Some(last) = self.latency_curve.last().map(|a| a.bytes) else { return };
        let onset = curves.tiers.iter().rev().find_map(|t| t.capacity).map_or(0.0, |c| c.onset.value);
        let survey = self.scale.is_survey;
        let too_fast = |tier: &Tier| survey && tier.latency.value < MIN_MEMORY_NS;
        if !curves.flat_end || 8.0 * onset > last as f64 || curves.tiers.last().is_some_and(too_fast) {
            let stride = self.scale.stride;
            let next = (2 * last).min(self.top() / stride * stride);
            if next > last + last / 4 {
                // Where the spacing does not matter, the wider one takes half the loads.
                let wide = survey && self.exact() && next > COARSE_TOP && self.scale.packed_are_points;
                self.step_with(next, if wide { self.scale.pair_stride() } else { stride });
            }
            // A plateau needs three points.
            let parts = LAST_TIER_PARTS.map(|part| (last as f64 * part) as u64 / stride * stride);
            for bytes in parts.into_iter().filter(|bytes| *bytes as f64 > onset).take(2) {
                if self.latency_curve.iter().all(|at| at.bytes != bytes) {
                    self.step(bytes);
                }
            }
        }
    }

    /// Returns the working set of the access orders: well beyond the last capacity.
    fn orders_bytes(&self, curves: &Reading) -> u64 {
        let onset = curves.tiers.iter().rev().find_map(|t| t.capacity).map_or(0.0, |c| c.onset.value);
        let request = ((4.0 * onset) as u64).next_power_of_two().clamp(4 << 20, 64 << 20);
        request.min(self.top() / 2).min(self.memory_limit(Pages::Base) / 2)
    }

    fn orders(&mut self, curves: &Reading) {
        let page = self.scale.pages();
        if !self.scale.chases(self.record, OrderKind::Sequential, page).is_empty() {
            return;
        }
        let bytes = self.orders_bytes(curves);
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

    /// Repeats both ends of every bracket with new orders and placements: a step must be reproducible.
    fn repeat_brackets(&mut self, curves: &Reading) {
        let times = if self.exact() { 2 } else { 3 };
        for capacity in curves.tiers.iter().filter_map(|t| t.capacity) {
            for x in [capacity.below, capacity.above] {
                let bytes = x as u64;
                if self.latency_curve.iter().any(|a| a.bytes == bytes && a.trials.len() < times) {
                    self.step(bytes);
                }
            }
        }
    }

    /// Measures every point on hardware in three rounds, minutes apart if the budget allows; the cheapest first.
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
        let end = Trial { loads: ops, samples: 5, warm: 1000, round, ..Trial::of(Alu) };
        let between = Trial { loads: ops / 8, samples: 5, ..end.clone() };
        let mut all = vec![end.clone()];
        for (i, trial) in trials.into_iter().enumerate() {
            if i > 0 && i.is_multiple_of(CALIBRATE_EVERY) && !self.exact() {
                all.push(between.clone());
            }
            all.push(trial);
        }
        all.push(end);
        all
    }
}
