//! Whether a step of the translation curve is the end of a TLB, or page tables that no longer fit a cache.
//!
//! Lines in every eighth page need as many TLB entries as lines in consecutive pages, and eight times as many lines of page
//! tables. Where a TLB holds all the pages, both take the same time: no table is read. If the step is due to page tables,
//! it comes earlier with every eighth page.

use std::ops::RangeInclusive;

use fathom_analysis::tiers::{Capacity, Reading};
use fathom_probe::machine::Pages;
use fathom_probe::pattern::{Conflict, Groups, Memory, Pattern, PatternKind, Trial};

use super::conflicts;
use super::splinters::{KEY_STRIDE, Z, time};
use super::translation::{Pair, is_tlb, steps};
use crate::record::Record;
use crate::scale::{At, Scale};

/// Distance of the pages: the descriptors of 8 bytes in a line of 64 bytes, so that each line has one of them.
const APART: u64 = 8;
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

/// Ratio of pages within which half of a TLB's misses appear.
const OCTAVE: f64 = 2.0;

/// Returns whether this trial belongs to the test.
pub(super) fn is_test(trial: &Trial) -> bool {
    trial.kind() == PatternKind::Conflict
        && trial.memory.stride == KEY_STRIDE
        && trial.memory.page == Pages::Base
}

/// Returns the bytes from line to line on this number of pages: [`APART`] pages and an odd number of lines, so that the
/// lines use all sets of a cache evenly, and the pages all sets of a TLB.
fn period(scale: &Scale, pages: u64) -> u64 {
    let (apart, line) = (APART * scale.base, scale.pair_stride());
    apart + ((apart / pages / line) | 1) * line
}

/// Returns the pattern of the test, and the memory for it on this number of pages.
pub(super) fn trial(scale: &Scale, pages: u64) -> (Pattern, Memory) {
    let pattern = Conflict::of(Groups::apart(period(scale, pages)));
    (pattern.into(), Memory { page: Pages::Base, ..Memory::of(pages * KEY_STRIDE, KEY_STRIDE) })
}

/// The curves that the tests are planned and read with.
pub(super) struct Steps<'a> {
    curve: &'a [At],
    pairs: &'a [Pair],
    /// Each step with the time that it adds, ns.
    steps: Vec<(Capacity, f64)>,
    /// Whether each step continues the rise of the one before: it begins within an octave of it, and no plateau is between.
    continues: Vec<bool>,
}

impl<'a> Steps<'a> {
    pub(super) fn of(curve: &'a [At], pairs: &'a [Pair], translated: &Reading) -> Steps<'a> {
        let before = translated.tiers.iter().map(|tier| tier.latency.value);
        let steps = steps(translated).zip(before);
        let steps = steps.map(|((capacity, beyond), before)| (capacity, beyond.latency.value - before));
        let steps: Vec<(Capacity, f64)> = steps.collect();
        let plateaus = translated.tiers.iter().map(|tier| tier.begin);
        let before = [None].into_iter().chain(steps.iter().map(|(capacity, _)| Some(capacity.onset.value)));
        let continues = steps.iter().zip(before).zip(plateaus).map(|(((capacity, _), before), plateau)| {
            let onset = capacity.onset.value;
            before.is_some_and(|before| onset < OCTAVE * before) && plateau > onset
        });
        Steps { curve, pairs, continues: continues.collect(), steps }
    }

    /// Returns whether this step is part of several without a plateau between that rise more slowly than beyond one TLB: half of
    /// the misses appear within an octave (see [`tlb_steps`](super::translation::tlb_steps)). Their shapes alone do not show it.
    fn is_slow(&self, i: usize) -> bool {
        let first = (0..=i).rfind(|&i| !self.continues[i]).unwrap_or(0);
        let end = (i + 1..self.steps.len()).find(|&i| !self.continues[i]).unwrap_or(self.steps.len());
        let added = |steps: &[(Capacity, f64)]| steps.iter().map(|(_, added)| added).sum::<f64>();
        let half = added(&self.steps[..first]) + added(&self.steps[first..end]) / 2.0;
        let octave = OCTAVE * self.steps[first].0.onset.value;
        let within = self.pairs.iter().take_while(|pair| pair.pages as f64 <= octave);
        end - first > 1 && within.map(|pair| pair.extra).reduce(f64::max).is_some_and(|most| most < half)
    }

    /// Returns the pairs that can test a step: inside its TLB and beyond the nearer one.
    fn pairs(&self, i: usize) -> impl Iterator<Item = &Pair> {
        let (capacity, _) = &self.steps[i];
        let nearer = i.checked_sub(1).map_or(0.0, |nearer| BEYOND_NEARER * self.steps[nearer].0.onset.high);
        let reach = capacity.onset.low;
        let inside = (INSIDE.start() * reach).max(nearer)..=INSIDE.end() * reach;
        self.pairs.iter().filter(move |pair| pair.pages >= MIN_PAGES && inside.contains(&(pair.pages as f64)))
    }

    /// Returns the numbers of pages of the tests, one for each step that can be tested in `limit` bytes of memory: where
    /// conflicts of lines cost least.
    pub(super) fn tests(&self, scale: &Scale, limit: u64) -> Vec<u64> {
        let fits = |pair: &&Pair| pair.pages.saturating_mul(period(scale, pair.pages)) <= limit;
        let cost = |pair: &&Pair| conflicts::spread_cost(pair, self.curve);
        let of = |i: usize| self.pairs(i).filter(fits).min_by(|a, b| cost(a).total_cmp(&cost(b)));
        (0..self.steps.len()).filter_map(of).map(|pair| pair.pages).collect()
    }

    /// Returns the cause of each step.
    pub(super) fn causes(&self, record: &Record, scale: &Scale) -> Vec<Cause> {
        let tested = scale.gather(record, PatternKind::Conflict, is_test);
        // What page tables surely add: the lines of both arrangements may conflict in different sets.
        let added = |pair: &Pair| {
            let test = tested.iter().find(|at| at.bytes / KEY_STRIDE == pair.pages)?;
            let (apart, together) = (time(test), time(&pair.spread));
            let error = Z * apart.1.hypot(together.1);
            Some(apart.0 - together.0 - error - conflicts::spread_cost(pair, self.curve))
        };
        let cause = |i: usize| {
            let least = TABLES_FROM * self.steps[i].1;
            match self.pairs(i).filter_map(added).any(|added| added > least) {
                true => Cause::Tables,
                false if is_tlb(&self.steps[i].0) && !self.is_slow(i) => Cause::Tlb,
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
