//! Whether a step of the translation curve is the end of a TLB, or page tables that no longer fit a cache.
//!
//! Lines in every 11th or 13th page need as many TLB entries as lines in consecutive pages, and eight times as many lines of page
//! tables. Where a TLB holds all the pages, both take the same time: no table is read. If the step is due to page tables,
//! it comes earlier with both distances. Then every 17th page is tried, too: the lines in the others may be in few sets of a TLB.

use std::ops::{Range, RangeInclusive};

use fathom_analysis::interval::Interval;
use fathom_analysis::tiers::{Capacity, Reading, Tier};
use fathom_probe::machine::Pages;
use fathom_probe::pattern::{Conflict, Groups, Memory, Pattern, PatternKind, Trial};

use super::conflicts;
use super::splinters::{Z, time};
use super::translation::{Pair, is_tlb, steps};
use crate::record::Record;
use crate::scale::{At, Scale};

/// Stride key of the conflict trials that test translation. It has no effect on groups of one line, and no other conflict
/// trial has it.
const KEY_STRIDE: u64 = 8;
/// Distances of the pages. From 8 on, the descriptors of 8 bytes are in lines of their own, of 64 bytes. Primes use all sets of a TLB whose
/// number of sets they do not divide: pages 8 apart use half of 154 sets, and pages 13 apart few of 182. None is divided by both. The last one
/// is measured if the others show page tables: of a TLB with 542 sets, 512 lines 11 or 13 pages and 256 bytes apart are in 77 and 161, 17 apart in 491.
const APART: [u64; 3] = [13, 11, 17];
/// Distances that are always measured.
const FIRST: usize = 2;
/// Numbers of pages of the test, in reaches of the tested TLB: so few that even pages at random overfill few of its sets (a
/// quarter of them is in overfull sets of two ways, two fifths in those of one: Poisson distribution), and so many that
/// eight times their tables need twice the room of those at the step.
const INSIDE: RangeInclusive<f64> = 0.25..=0.5;
/// Distance from the end of the nearer TLB, whose misses rise up to there under random replacement.
const BEYOND_NEARER: f64 = 1.2;
/// Smallest number of pages: fewer do not spread evenly over the sets of a TLB.
const MIN_PAGES: u64 = 16;
/// Share of a step that shows page tables: more than pages at random add inside a TLB. Page tables add at least the whole
/// step, less what the caches still hold.
const TABLES_FROM: f64 = 0.5;

/// Hits of a lap that show that a TLB has more entries, as a share of them: the cost of a walk differs by some percent.
const MAX_HITS: f64 = 1.1;

/// Points that show a plateau at least: one may be anywhere on a rise.
const MIN_PLATEAU: usize = 2;
/// Ratio of pages within which half of a TLB's misses appear.
const OCTAVE: f64 = 2.0;

/// Returns whether this trial belongs to the test.
pub(super) fn is_test(trial: &Trial) -> bool {
    trial.kind() == PatternKind::Conflict
        && trial.memory.stride == KEY_STRIDE
        && trial.memory.page != Pages::Huge
}

/// Returns the bytes from line to line, so many pages and a line: the lines use all sets of a cache.
fn period(scale: &Scale, apart: u64) -> u64 {
    apart * scale.base + scale.pair_stride()
}

/// Returns the patterns of a test, and the memory for them.
pub(super) fn trials(scale: &Scale, test: Test) -> impl Iterator<Item = (Pattern, Memory)> + use<> {
    let memory = Memory { page: scale.base_pages(), ..Memory::of(test.pages * KEY_STRIDE, KEY_STRIDE) };
    let periods = APART.map(|apart| period(scale, apart)).into_iter().take(test.distances);
    periods.map(move |period| (Conflict::of(Groups::apart(period)).into(), memory))
}

/// A test of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Test {
    /// Number of pages.
    pub(super) pages: u64,
    /// Number of distances, the first of [`APART`].
    distances: usize,
}

/// The curves that the tests are planned and read with.
pub(super) struct Steps<'a> {
    curve: &'a [At],
    pairs: &'a [Pair],
    /// Each step with the time that it adds, ns.
    steps: Vec<(Capacity, f64)>,
    /// Whether each step begins within an octave of the one before, and no plateau is between.
    without_plateau: Vec<bool>,
    /// The same, with one point between at most that looks like a plateau: it may be anywhere on a rise.
    without_points: Vec<bool>,
}

/// Returns the steps that are one rise with step `i`, if those so marked continue the rise of the one before.
fn rise(i: usize, continues: &[bool]) -> Range<usize> {
    let first = (0..=i).rfind(|&i| !continues[i]).unwrap_or(0);
    let end = (i + 1..continues.len()).find(|&i| !continues[i]).unwrap_or(continues.len());
    first..end
}

impl<'a> Steps<'a> {
    pub(super) fn of(curve: &'a [At], pairs: &'a [Pair], translated: &Reading) -> Steps<'a> {
        let before = translated.tiers.iter().map(|tier| tier.latency.value);
        let steps = steps(translated).zip(before);
        let steps = steps.map(|((capacity, beyond), before)| (capacity, beyond.latency.value - before));
        let steps: Vec<(Capacity, f64)> = steps.collect();
        let onset = |i: usize| steps[i].0.onset.value;
        let is_near = |i: usize| i > 0 && onset(i) < OCTAVE * onset(i - 1);
        let mark = |continues: &dyn Fn(usize, &Tier) -> bool| -> Vec<bool> {
            (0..steps.len()).map(|i| is_near(i) && continues(i, &translated.tiers[i])).collect()
        };
        let without_plateau = mark(&|i, between| between.begin > onset(i));
        let without_points = mark(&|_, between| between.on_plateau < MIN_PLATEAU);
        Steps { curve, pairs, steps, without_plateau, without_points }
    }

    /// Joins the steps of each rise that is that of one TLB. It ends at the first step: few pairs on a rise are read as several steps. If more pages
    /// hit than such a TLB holds, it ends at the largest step.
    pub(super) fn join(&self, translated: &mut Reading, causes: &mut Vec<Cause>) {
        // From the last on, so that the numbers of the steps before stay.
        for first in (0..causes.len()).rev().filter(|&i| !self.without_points[i]) {
            let rise = rise(first, &self.without_points);
            if causes[rise.clone()].iter().all(|cause| *cause == Cause::Tlb) && !self.is_slow(&rise) {
                if let Some(end) = self.end_of_joined(&rise) {
                    translated.tiers[first].capacity = Some(end);
                }
                translated.tiers.drain(first + 1..rise.end);
                causes.drain(first + 1..rise.end);
            }
        }
    }

    /// Returns the end of the TLB of a rise of several steps, if it is not the first one: of a lap over n pages no more hit than it has entries, and a
    /// pair whose cost is a share m of the rise has (1 - m) n hits.
    fn end_of_joined(&self, rise: &Range<usize>) -> Option<Capacity> {
        let first = self.steps.get(rise.start).filter(|_| rise.len() > 1)?.0;
        let before: f64 = self.steps[..rise.start].iter().map(|(_, added)| added).sum();
        let added: f64 = self.steps[rise.clone()].iter().map(|(_, added)| added).sum();
        let largest = self.steps[rise.clone()].iter().max_by(|a, b| a.1.total_cmp(&b.1))?.0;
        let hits = |pair: &Pair| pair.pages as f64 * (1.0 - (pair.extra - before) / added);
        let on_rise = first.onset.high..=largest.onset.high;
        let inside = self.pairs.iter().filter(|pair| on_rise.contains(&(pair.pages as f64)));
        let most = inside.map(hits).fold(0.0, f64::max);
        (most > MAX_HITS * first.onset.high).then(|| {
            let onset = Interval { low: first.onset.low, ..largest.onset };
            Capacity { onset, ..largest }
        })
    }

    /// Returns whether a rise of several steps is slower than beyond one TLB: half of the misses appear within an octave (see
    /// [`tlb_steps`](super::translation::tlb_steps)). The shapes of its steps alone do not show it.
    fn is_slow(&self, rise: &Range<usize>) -> bool {
        let added = |steps: &[(Capacity, f64)]| steps.iter().map(|(_, added)| added).sum::<f64>();
        let half = added(&self.steps[..rise.start]) + added(&self.steps[rise.clone()]) / 2.0;
        let octave = OCTAVE * self.steps[rise.start].0.onset.value;
        let within = self.pairs.iter().take_while(|pair| pair.pages as f64 <= octave);
        rise.len() > 1 && within.map(|pair| pair.extra).reduce(f64::max).is_some_and(|most| most < half)
    }

    /// Returns the pairs that can test a step: inside its TLB and beyond the nearer one.
    fn pairs(&self, i: usize) -> impl Iterator<Item = &Pair> {
        let (capacity, _) = &self.steps[i];
        let nearer = i.checked_sub(1).map_or(0.0, |nearer| BEYOND_NEARER * self.steps[nearer].0.onset.high);
        let reach = capacity.onset.low;
        let inside = (INSIDE.start() * reach).max(nearer)..=INSIDE.end() * reach;
        self.pairs.iter().filter(move |pair| pair.pages >= MIN_PAGES && inside.contains(&(pair.pages as f64)))
    }

    /// Returns the tests, one for each step that can be tested in `limit` bytes of memory: where
    /// conflicts of lines cost least. `causes` are those of the tests so far.
    pub(super) fn tests(&self, scale: &Scale, limit: u64, causes: &[Cause]) -> Vec<Test> {
        let cost = |pair: &&Pair| conflicts::spread_cost(pair, self.curve);
        let of = |i: usize| {
            let distances = if causes.get(i) == Some(&Cause::Tables) { APART.len() } else { FIRST };
            let longest = APART.map(|apart| period(scale, apart)).into_iter().take(distances).max()?;
            let fits = |pair: &&Pair| pair.pages.saturating_mul(longest) <= limit;
            let least = self.pairs(i).filter(fits).min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
            Some(Test { pages: least.pages, distances })
        };
        (0..self.steps.len()).filter_map(of).collect()
    }

    /// Returns the cause of each step.
    pub(super) fn causes(&self, record: &Record, scale: &Scale) -> Vec<Cause> {
        let of = |apart: u64| {
            let period = period(scale, apart);
            scale.gather(record, PatternKind::Conflict, |t| is_test(t) && t.pattern.groups().period == period)
        };
        let tested = APART.map(of);
        let on =
            |pages: u64, times: &'_ [At]| times.iter().find(|at| at.bytes / KEY_STRIDE == pages).map(time);
        // What page tables surely add: the lines of both arrangements may conflict in different sets.
        let added = |pair: &Pair, tested: &[At]| {
            let (apart, together) = (on(pair.pages, tested)?, time(&pair.spread));
            let error = Z * apart.1.hypot(together.1);
            Some(apart.0 - together.0 - error - conflicts::spread_cost(pair, self.curve))
        };
        let all_add = |pair: &Pair, least: f64| {
            let adds = |(nth, tested): (usize, &Vec<At>)| match added(pair, tested) {
                Some(added) => added > least,
                None => nth >= FIRST,
            };
            tested.iter().enumerate().all(adds)
        };
        let cause = |i: usize| {
            let least = TABLES_FROM * self.steps[i].1;
            // The last distance is measured on one number of pages, which is another one if the curve showed the others to be no better.
            let last = |pair: &&Pair| tested.iter().all(|tested| on(pair.pages, tested).is_some());
            let with_last = self.pairs(i).any(|pair| last(&pair));
            let mut tested = self.pairs(i).filter(|pair| !with_last || last(pair));
            match tested.any(|pair| all_add(pair, least)) {
                true => Cause::Tables,
                false if is_tlb(&self.steps[i].0) && !self.is_slow(&rise(i, &self.without_plateau)) => {
                    Cause::Tlb
                }
                false => Cause::Unknown,
            }
        };
        (0..self.steps.len()).map(cause).collect()
    }
}

/// The cause of a step of the translation curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The end of a TLB, by the shape of the rise, and by its test if it has one.
    Tlb,
    /// Page tables leave a cache: the test shows it.
    Tables,
    /// The rise is slower than beyond a TLB.
    Unknown,
}

#[cfg(test)]
mod tests {
    use fathom_analysis::tiers::shape::Shape;

    use super::*;

    fn exactly(value: f64) -> Interval {
        Interval { value, low: value, high: value }
    }

    /// Returns a translation curve of steps: where each begins, the points of the plateau beyond it, and its time; a load that hits
    /// takes 1 ns.
    fn reading(steps: &[(f64, usize, f64)]) -> Reading {
        let capacity = |onset: f64| Capacity {
            onset: exactly(onset),
            below: onset,
            above: onset,
            shape: Shape::Gradual(2),
            explained: true,
            wide_rise: false,
            covered: 0,
        };
        let first = Tier { latency: exactly(1.0), capacity: None, points: 3, on_plateau: 3, begin: 0.0 };
        let mut tiers = vec![first];
        for &(onset, on_plateau, time) in steps {
            if let Some(last) = tiers.last_mut() {
                last.capacity = Some(capacity(onset));
            }
            let begin = if on_plateau > 0 { 1.1 * onset } else { f64::INFINITY };
            tiers.push(Tier { latency: exactly(time), on_plateau, begin, ..first });
        }
        Reading { tiers, scatter: 0.0, flat_end: true, notes: Vec::new() }
    }

    /// Returns pairs on so many pages that take so much longer than hits.
    fn pairs_of(pairs: &[(u64, f64)]) -> Vec<Pair> {
        let pair = |&(pages, extra): &(u64, f64)| Pair {
            pages,
            extra,
            two_lines: None,
            spread: At::default(),
            packed: At::default(),
        };
        pairs.iter().map(pair).collect()
    }

    /// Returns whether each step is no TLB because it is slow, and how many TLBs are left when steps of one rise are joined, if pairs on
    /// so many pages take so much longer than hits.
    fn read(steps: &[(f64, usize, f64)], pairs: &[(u64, f64)]) -> (Vec<bool>, usize) {
        let pairs = pairs_of(pairs);
        let mut reading = reading(steps);
        let found = Steps::of(&[], &pairs, &reading);
        let slow = (0..steps.len()).map(|i| found.is_slow(&rise(i, &found.without_plateau))).collect();
        let mut causes = vec![Cause::Tlb; steps.len()];
        found.join(&mut reading, &mut causes);
        assert_eq!(causes.len() + 1, reading.tiers.len());
        (slow, causes.len())
    }

    #[test]
    fn steps_without_a_plateau_between_are_one_rise() {
        // Page tables leave a cache: a quarter of the rise within an octave, in two steps.
        let slowly = [(64, 0.0), (96, 3.0), (128, 6.0), (256, 16.0), (512, 24.0)];
        assert_eq!(read(&[(64.0, 0, 13.0), (100.0, 3, 25.0)], &slowly), (vec![true, true], 2));
        // A TLB whose misses all appear within an octave.
        let fast = [(64, 0.0), (96, 12.0), (128, 24.0), (256, 24.0)];
        assert_eq!(read(&[(64.0, 0, 13.0), (100.0, 3, 25.0)], &fast), (vec![false, false], 1));
        // The one pair between may look like a plateau.
        assert_eq!(read(&[(64.0, 1, 13.0), (100.0, 3, 25.0)], &fast), (vec![false, false], 1));
        // With a plateau between, or beyond an octave, these are two TLBs.
        assert_eq!(read(&[(64.0, 3, 13.0), (100.0, 3, 25.0)], &fast), (vec![false, false], 2));
        assert_eq!(read(&[(64.0, 0, 13.0), (200.0, 3, 25.0)], &slowly), (vec![false, false], 2));
    }

    #[test]
    fn more_hits_than_entries_move_the_end_to_the_largest_step() {
        let end = |pairs: &[(u64, f64)]| {
            let pairs = pairs_of(pairs);
            let mut reading = reading(&[(32.0, 0, 20.0), (45.0, 3, 93.0)]);
            Steps::of(&[], &pairs, &reading).join(&mut reading, &mut vec![Cause::Tlb; 2]);
            let onset = reading.tiers[0].capacity.unwrap().onset;
            (onset.low, onset.value, onset.high)
        };
        // Of 45 pages, 39 hit.
        assert_eq!(end(&[(32, 0.0), (33, 1.0), (45, 11.3), (64, 92.0)]), (32.0, 45.0, 45.0));
        // A third misses, as with one set of two ways overfull: 30 hit.
        assert_eq!(end(&[(32, 0.0), (33, 6.0), (45, 31.0), (64, 92.0)]), (32.0, 32.0, 32.0));
    }
}
