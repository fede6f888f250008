//! Later rounds: brackets narrowed, the end extended, doubtful points repeated.

use fathom_analysis::tiers::{self, Reading, Tier};
use fathom_probe::machine::Pages;
use fathom_probe::pattern::{Memory, OrderKind, Pattern, PatternKind, Trial};

use super::scan::MIN_BYTES;
use super::{BEYOND_CLAIM, COARSE_TOP, MORE_PAIRS_BUDGET, PASSES_BUDGET, Planner, unexceeded_claim};
use crate::latency_curve::curves::Curves;
use crate::latency_curve::descriptors::{self, Cause, Steps};
use crate::latency_curve::passes::{self, Ends};
use crate::latency_curve::rows::MIN_MEMORY_NS;
use crate::latency_curve::spacings;
use crate::latency_curve::splinters;
use crate::latency_curve::translation::{self, PLATEAU_SPAN, Pair};
use crate::latency_curve::two_lines;
use crate::record::TrialRun;
use crate::scale::{DENSE_TRIALS, MAX_DISTURBED_BYTES, MIN_SLOWER, STRIDE, Short, dense_range};

/// Relative width to which the brackets of a capacity are narrowed: a third of the intended precision.
const RESOLUTION: f64 = 0.012;
/// Points per bracket and round.
const POINTS_PER_BRACKET: usize = 3;
/// Additional points at the end of a curve that has no plateau there yet, as shares of its largest working set: those of
/// the coarse scan that the last tier is read from, the cheapest first, then between them. The first two beyond the last
/// capacity are taken.
const LAST_TIER_PARTS: [f64; 5] = [0.125, 0.25, 0.5, 0.84, 0.71];

/// Largest ratio of two successive working sets on a wide rise: three points in an octave, as in the fine part of the scan.
const MAX_GAP: f64 = 1.3;
/// Largest working set at which a rise begins whose gaps are filled, bytes, of an exact machine and of others. A lap of 16 MiB takes a
/// six-hundredth of the default budget of a described machine.
const MAX_FILLED_RISE: [f64; 2] = [16.0 * 1024.0 * 1024.0, 256.0 * 1024.0];
/// Largest ratio of two successive working sets on one: four points in half an octave.
const MAX_FILLED_GAP: f64 = 1.13;
/// Part beyond the end of a wide rise that has such points too: a plateau there needs them.
const WIDE_RISE_BEYOND: f64 = 2.0;

/// Packed halves that test a plateau for long lines, as multiples of its beginning.
const LONG_LINES: [f64; 2] = [1.1, 1.3];
/// Largest working set of that test, bytes: a lap of it takes a hundredth of the default budget of a described machine.
const MAX_LONG_LINES: f64 = 64.0 * 1024.0 * 1024.0;

/// Trials of the largest working set before a rise there makes the curve longer, unless the machine is exact: the faster half of three counts.
const TRIALS_OF_LAST: usize = 3;
/// Samples of each order of the test for open rows: its 256 lines may find other rows open by chance. Of two samples, loads of 158 ns
/// that differ by 12 seemed to differ by 1.6 ns (described machine).
const OPEN_ROW_SAMPLES: u64 = 16;

/// Numbers of pages on which passes over lines in memory are compared with few lines in a cache.
const ROWS_OF_PASSES: usize = 6;

/// Trials of loads in the order of addresses, in as many rounds, unless the machine is exact.
const TRIALS_IN_ORDER: usize = 5;

impl Planner<'_> {
    /// Later rounds, the most informative trials first.
    pub(super) fn refine(&mut self) {
        let all = Curves::of(self.record, &self.scale);
        let Curves { pairs, reading: curves, translated, doubtful, doubtful_pages, .. } = &all;
        if let Some(curves) = curves {
            self.short_lines(curves);
            self.long_lines(curves);
            self.narrow(curves);
            self.fill_wide_rises(curves);
            self.fill_unexplained_rises(curves);
            self.fill_hiding_gaps(curves);
            self.extend(curves);
            self.spacings(curves, &all);
        }
        if let Some(tlbs) = translated {
            let capacities = curves.iter().flat_map(|curves| &curves.tiers);
            let capacities: Vec<f64> = capacities.filter_map(|t| Some(t.capacity?.onset.value)).collect();
            self.splinters(pairs, tlbs, &capacities);
            self.descriptors(pairs, tlbs, &all.causes);
            self.same_lines();
            self.more_lines(&all);
            for n in self.missing_pairs(tlbs, &all) {
                self.pair(n);
                if self.has_two_lines() {
                    self.two_lines(n);
                }
            }
        }
        if let Some(curves) = curves {
            self.orders(curves);
            if self.scale.is_survey {
                self.exceed_claim();
            }
            self.repeat_brackets(curves);
        }
        self.doubtful(doubtful, doubtful_pages);
        if !self.exact() {
            self.repeat(&pairs.iter().map(|p| (p.pages, p.spread.trials.len())).collect::<Vec<_>>());
        }
    }

    /// Returns the numbers of pages of the pairs that would narrow the reaches of TLBs most, or the translation in points of the curve.
    fn missing_pairs(&self, tlbs: &Reading, curves: &Curves) -> Vec<u64> {
        let narrower = tlbs.refinement_points(RESOLUTION, POINTS_PER_BRACKET);
        let inside = translation::uncertain(&curves.latency_curve, &curves.translation);
        let inside = inside.filter(|_| self.exact()).map(|bytes| bytes.div_ceil(self.scale.base) as f64);
        let mut missing = Vec::new();
        for x in tlbs.plateau_points(PLATEAU_SPAN).into_iter().chain(narrower).chain(inside) {
            let n = x.round() as u64;
            let is_new = !missing.contains(&n) && curves.pairs.iter().all(|p| p.pages != n);
            if (1..=self.max_pages()).contains(&n) && is_new {
                missing.push(n);
            }
        }
        missing
    }

    /// Returns whether pairs of the same lines are measured too: on exact machines whose frames are known to follow one another.
    fn has_two_lines(&self) -> bool {
        let is_affordable = self.scale.huge.is_some() || self.budget.total >= MORE_PAIRS_BUDGET;
        self.scale.is_survey && self.exact() && is_affordable && self.scale.are_in_order()
    }

    /// Returns whether lines that come from memory are measured too: on exact machines, whatever their frames.
    fn has_lines_in_memory(&self) -> bool {
        self.scale.is_survey && self.exact() && self.budget.total >= PASSES_BUDGET
    }

    /// Schedules the pairs of the same lines that were not measured; those in memory were, but do not count.
    fn same_lines(&mut self) {
        if !self.has_two_lines() {
            return;
        }
        let pairs = self.scale.pairs(self.record);
        for pair in pairs.iter().filter(|pair| pair.two_lines.is_none()) {
            self.two_lines(pair.pages);
        }
        if pairs.iter().any(|pair| pair.is_in_memory(self.latency_curve)) {
            self.open_rows();
        }
    }

    /// Schedules passes over the pages of which two lines each just fill a cache, and over some of which they do not: these show what open rows add.
    fn more_lines(&mut self, all: &Curves) {
        let Some(reading) = all.reading.as_ref().filter(|_| self.has_lines_in_memory()) else { return };
        let ends = Ends::of(&self.scale, reading);
        let had = passes::read(self.record, &self.scale);
        let pages = || all.pairs.iter().map(|pair| pair.pages);
        let beside: Vec<u64> = pages().filter(|n| ends.show_rows(*n)).collect();
        let mut planned: Vec<u64> = match &beside[..] {
            [] => passes::FOR_ROWS.into_iter().filter(|n| ends.show_rows(*n)).collect(),
            few if few.len() <= ROWS_OF_PASSES => few.to_vec(),
            many => many[..ROWS_OF_PASSES / 2]
                .iter()
                .chain(many.iter().rev().take(ROWS_OF_PASSES / 2))
                .copied()
                .collect(),
        };
        if planned.is_empty() {
            return;
        }
        let filled = all
            .pairs
            .iter()
            .filter(|pair| ends.are_filled(pair.pages) || passes::conflict(pair, &all.latency_curve));
        planned.extend(filled.map(|pair| pair.pages));
        planned.retain(|n| !had.contains_key(n));
        for n in planned {
            if all.pairs.iter().all(|pair| pair.pages != n) {
                self.pair(n);
                if self.has_two_lines() {
                    self.two_lines(n);
                }
            }
            self.passes(n);
        }
    }

    /// Schedules the test for open rows of memory, unless it was measured.
    fn open_rows(&mut self) {
        for (pattern, memory) in two_lines::open_rows_test(&self.scale).into_iter().flatten() {
            let order = pattern.walk().order;
            let is_of = |run: &TrialRun| two_lines::tests_open_rows(&self.scale, &run.trial, order);
            if !self.record.of(PatternKind::Chase).any(is_of) {
                self.chain(pattern, memory.cells(), memory.stride, memory.page);
                if let (true, Some(trial)) = (self.exact(), self.trials.last_mut()) {
                    trial.samples = OPEN_ROW_SAMPLES;
                }
            }
        }
    }

    /// Schedules the test whether huge pages are splintered.
    fn splinters(&mut self, pairs: &[Pair], translated: &Reading, capacities: &[f64]) {
        if let Some(pages) =
            splinters::pages(&self.scale, (self.latency_curve, pairs), translated, capacities)
        {
            if pairs.iter().all(|pair| pair.pages != pages) {
                self.pair(pages);
            }
            self.translation_test(pages, splinters::trial(&self.scale, pages));
        }
    }

    /// Schedules the tests whether steps of the TLB pairs are due to page tables.
    fn descriptors(&mut self, pairs: &[Pair], translated: &Reading, causes: &[Cause]) {
        let limit = self.memory_limit(self.scale.base_pages());
        for test in Steps::of(self.latency_curve, pairs, translated).tests(&self.scale, limit, causes) {
            for trial in descriptors::trials(&self.scale, test) {
                self.translation_test(test.pages, trial);
            }
        }
    }

    /// Schedules a test of translation on this number of pages, as often as noise requires.
    fn translation_test(&mut self, pages: u64, (pattern, memory): (Pattern, Memory)) {
        let same = |run: &&TrialRun| {
            run.trial.pattern == pattern
                && run.trial.memory == Memory { place: run.trial.memory.place, ..memory }
        };
        let had = self.record.trials.iter().filter(same).count();
        let times = if self.exact() { 1 } else { 3 };
        for _ in had..times {
            self.trial(Trial {
                memory,
                loads: self.loads(pages, memory.stride),
                samples: self.samples(pages),
                warm: self.warm(pages, memory.stride),
                ..Trial::of(pattern.clone())
            });
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
        if !(self.modelled() && self.scale.is_survey) {
            return;
        }
        let dense = self.scale.dense(self.record);
        let mut nearer = 0.0;
        for capacity in curves.tiers.iter().filter_map(|tier| tier.capacity) {
            let end = capacity.onset.value;
            let (least, most) = dense_range(nearer, end);
            nearer = end;
            // The end may be known better since: what is too small for it says nothing.
            let had = dense.iter().find(|had| (least..=end).contains(&(had.bytes as f64)));
            let fits = || self.latency_curve.iter().rfind(|at| at.bytes as f64 <= most);
            let bytes = match had.or_else(fits).map(|at| at.bytes) {
                Some(bytes) if bytes as f64 >= least => bytes,
                _ => (most as u64 / STRIDE * STRIDE).max(STRIDE),
            };
            if !self.exact() && bytes > MAX_DISTURBED_BYTES {
                break;
            }
            let same = self.latency_curve.iter().find(|at| at.bytes == bytes);
            self.test_spacing(
                bytes,
                same.map_or(0, |at| at.trials.len()),
                had.map_or(0, |at| at.trials.len()),
            );
        }
        for (from, to) in self.scale.short_lines.iter().filter_map(Short::part).collect::<Vec<_>>() {
            for bytes in Self::octaves(from.max(MIN_BYTES), to, 3.0) {
                if self.latency_curve.iter().all(|at| at.bytes != bytes) {
                    self.step(bytes);
                }
            }
        }
    }

    /// Schedules the trials that a working set lacks for the test for short lines: with the curve's spacing and with half of it, of which
    /// it has this many. All that noise requires are in one round, so that a burst meets both.
    fn test_spacing(&mut self, bytes: u64, same: usize, dense: usize) {
        let times = if self.exact() { 1 } else { DENSE_TRIALS };
        for nth in 0..times {
            if nth >= same {
                self.step(bytes);
            }
            if nth >= dense {
                self.step_with(bytes, self.scale.dense_stride());
            }
        }
    }

    /// Schedules packed halves on the plateaus that have too few, to find lines longer than the order of the curve keeps apart.
    fn long_lines(&mut self, curves: &Reading) {
        if !(self.exact() && self.scale.is_survey) || self.scale.stride != STRIDE {
            return;
        }
        let step = self.scale.pair_stride();
        let had: Vec<u64> = self.scale.packed(self.record).iter().map(|at| at.bytes).collect();
        for tier in curves.tiers.iter().skip(1).filter(|tier| tier.begin.is_finite()) {
            let end = tier.capacity.map_or(self.top() as f64, |capacity| capacity.below).min(MAX_LONG_LINES);
            let on = |bytes: f64| (tier.begin..end).contains(&bytes);
            let missing = MIN_SLOWER.saturating_sub(had.iter().filter(|bytes| on(**bytes as f64)).count());
            let sizes = LONG_LINES.map(|part| part * tier.begin).into_iter().filter(|bytes| on(*bytes));
            let cells = sizes.map(|bytes| bytes as u64 / step).filter(|cells| !had.contains(&(cells * step)));
            for cells in cells.take(missing) {
                self.packed(cells);
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

    /// Schedules points in the gaps of wide rises, and beyond them: a tier of few points there is taken for a bend of the rise.
    /// On exact machines, all points of a rise count.
    fn fill_wide_rises(&mut self, curves: &Reading) {
        if self.exact() {
            return;
        }
        let stride = self.scale.stride;
        for capacity in curves.tiers.iter().filter_map(|tier| tier.capacity).filter(|c| c.wide_rise) {
            let inside = capacity.onset.value..WIDE_RISE_BEYOND * capacity.onset.high;
            let gaps = self.latency_curve.windows(2).map(|two| (two[0].bytes as f64, two[1].bytes as f64));
            let gaps =
                gaps.filter(|(from, to)| *from < inside.end && *to > inside.start && *to > MAX_GAP * from);
            for (from, to) in gaps.collect::<Vec<_>>() {
                self.step((from * to).sqrt() as u64 / stride * stride);
            }
        }
    }

    /// Schedules points on rises that no single capacity explains: behind a cache, an exclusive one of half
    /// its size has a plateau of half an octave, of which the scan has one point.
    fn fill_unexplained_rises(&mut self, curves: &Reading) {
        if !(self.scale.is_survey && self.scale.are_in_order()) {
            return;
        }
        let stride = self.scale.stride;
        let pairs = curves.tiers.windows(2).filter_map(|two| Some((two[0].capacity?, two[1].begin)));
        let largest = MAX_FILLED_RISE[usize::from(!self.exact())];
        let unexplained = pairs.filter(|(capacity, _)| !capacity.explained && capacity.above <= largest);
        for (from, to) in
            unexplained.map(|(capacity, begin)| (capacity.above, begin.min(4.0 * capacity.above)))
        {
            let ends = self.latency_curve.windows(2).map(|two| (two[0].bytes as f64, two[1].bytes as f64));
            let gaps = ends.filter(|(a, b)| *a < to && *b > from && *b > MAX_FILLED_GAP * a);
            for (a, b) in gaps.collect::<Vec<_>>() {
                self.step((a * b).sqrt() as u64 / stride * stride);
            }
        }
    }

    /// Schedules points in gaps of the rises of exact machines in which the plateau of one more level may be.
    fn fill_hiding_gaps(&mut self, curves: &Reading) {
        if !(self.exact() && self.scale.is_survey) {
            return;
        }
        let stride = self.scale.stride;
        let curve: Vec<(f64, f64)> =
            self.latency_curve.iter().map(|at| (at.bytes as f64, at.time())).collect();
        for (from, to) in curves.tiers.windows(2).flat_map(|two| tiers::hiding_gaps(two, &curve)) {
            self.step((from * to).sqrt() as u64 / stride * stride);
        }
    }

    /// Extends the curve if the last tier was not reached, or only just: a working set of eight times the last capacity
    /// has no hits even under random replacement. A tier that is faster than memory can be is not the last.
    fn extend(&mut self, curves: &Reading) {
        let Some(last) = self.latency_curve.last().map(|a| a.bytes) else { return };
        let onset = curves.tiers.iter().rev().find_map(|t| t.capacity).map_or(0.0, |c| c.onset.value);
        let survey = self.scale.is_survey;
        let too_fast = |tier: &Tier| survey && tier.latency.value < MIN_MEMORY_NS;
        let too_fast = curves.tiers.last().is_some_and(too_fast);
        if !curves.flat_end && self.repeat_last() {
            return;
        }
        if !curves.flat_end || 8.0 * onset > last as f64 || too_fast {
            let stride = self.scale.stride;
            let next = (2 * last).min(self.top() / stride * stride);
            if next > last + last / 4 {
                // Where the spacing does not matter, the wider one takes half the loads. In a cache whose sets are hashed or no
                // power of two it does: half the lines fit in half the room.
                let wide =
                    survey && self.exact() && next > COARSE_TOP && self.scale.packed_are_points && !too_fast;
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

    /// Schedules the walks with a wider spacing that tell the translation in the last tier.
    fn spacings(&mut self, curves: &Reading, all: &Curves) {
        if !(self.exact() && self.scale.is_survey && curves.flat_end) || all.translation.is_empty() {
            return;
        }
        for bytes in spacings::missing(self.record, &self.scale, &all.latency_curve, curves) {
            self.step_with(bytes, spacings::stride(&self.scale));
        }
    }

    /// Schedules the largest working set again where others use the machine, until it has [`TRIALS_OF_LAST`] trials. Returns whether it did:
    /// a burst at its only trial looks like one more level, and larger working sets would not tell.
    fn repeat_last(&mut self) -> bool {
        let Some(last) = self.latency_curve.last().filter(|_| !self.exact()) else { return false };
        let missing = TRIALS_OF_LAST.saturating_sub(last.trials.len());
        for _ in 0..missing {
            self.step(last.bytes);
        }
        missing > 0
    }

    /// Schedules working sets beyond the largest claimed cache. A hashed index spreads lines over all sets, so they are
    /// spaced like the rest of the curve.
    fn exceed_claim(&mut self) {
        let Some(claimed) = unexceeded_claim(self.record, self.latency_curve) else { return };
        let (stride, top) = (self.scale.stride, self.top());
        for part in BEYOND_CLAIM {
            let bytes = (part * claimed as f64) as u64 / stride * stride;
            if bytes <= top && self.latency_curve.iter().all(|at| at.bytes != bytes) {
                self.step_with(bytes, stride);
            }
        }
    }

    /// Returns the working set of the access orders: well beyond the last capacity.
    fn orders_bytes(&self, curves: &Reading) -> u64 {
        let onset = curves.tiers.iter().rev().find_map(|t| t.capacity).map_or(0.0, |c| c.onset.value);
        let request = ((4.0 * onset) as u64).next_power_of_two().clamp(4 << 20, 64 << 20);
        request.min(self.top() / 2).min(self.memory_limit(self.scale.base_pages()) / 2)
    }

    fn orders(&mut self, curves: &Reading) {
        let page = self.scale.pages();
        if let Some(had) = self.scale.chases(self.record, OrderKind::Sequential, page).last() {
            // What is prefetched takes several times as long while other users take bandwidth.
            if !self.exact() && had.trials.len() < TRIALS_IN_ORDER {
                self.chase(had.bytes, OrderKind::Sequential, self.scale.base, page);
                self.chase(had.bytes, OrderKind::Window, self.scale.base, page);
            }
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
}
