//! Whether huge pages translate as a whole or in pieces of base pages ("splintered").
//!
//! A host may map a guest's huge pages as base pages, and some TLBs hold huge pages in pieces. The test compares three
//! times of as many lines: one line in each base page, the same lines inside few huge pages, and packed lines. The
//! first two differ by the translations that huge pages save.

use fathom_analysis::findings::Report;
use fathom_analysis::findings::{Basis, Warning, WarningKind};
use fathom_analysis::interval::Interval;
use fathom_analysis::metrics::survey;
use fathom_analysis::tiers::Reading;
use fathom_probe::machine::Pages;
use fathom_probe::pattern::{self, Memory, OrderKind, Pattern, PatternKind, Trial, Variant, Walk};
use fathom_units::size;

use super::translation::{Pair, tlb_steps};
use crate::reading::measured;
use crate::record::Record;
use crate::scale::{At, Scale};

/// Numbers of pages that can show it, in reaches of the first TLB: under random replacement a third of the loads still
/// hit at one and a half times its reach.
const REACHES: std::ops::RangeInclusive<f64> = 1.5..=4.0;
/// The same if none of these is possible: the lines of so many may exceed the nearest caches.
const FAR_REACHES: std::ops::RangeInclusive<f64> = 4.0..=16.0;
/// Huge pages that the lines may be in, at most: the smallest first-level TLB known for huge pages has 4 entries, and
/// one is left for the stack.
const MAX_HUGE_PAGES: u64 = 3;
/// Largest pair that is measured for the test alone, pages: the scan has enough larger ones.
const MAX_NEW_PAIR: u64 = 1024;
/// Share of a cache that the lines may fill, at most.
const MAX_FILL: f64 = 0.75;
/// Multiple of a nearer cache's capacity that the lines need so that none of them stays in it.
const MIN_OVERFILL: f64 = 2.0;
/// Share of what a translation adds that the arrangements may differ by because their lines are in different caches, at most, if none
/// has them all in one.
const MAX_CACHE_SHARE: f64 = 0.05;
/// Standard errors of an interval of 95 %.
pub(super) const Z: f64 = 1.96;
/// Relative error of each time in addition to that of its samples: the floor of the translation curve.
const FLOOR: f64 = 0.01;
/// Share of the translations from which huge pages count as splintered: the difference is then larger than the errors
/// of the times, which are a few percent of a miss.
const MIN_SHARE: f64 = 0.15;

/// Result of the test.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Splinters {
    /// Cost of the misses in huge pages as a share of the cost in base pages: 0 if huge pages are whole, 1 if each base
    /// page of them is translated separately.
    pub(crate) share: Interval,
    /// Number of pages.
    pages: u64,
    /// Number of samples.
    count: usize,
    trials: Vec<u64>,
}

impl Splinters {
    /// Returns the share of the translations that huge pages do not save; 0 if it is not significant.
    pub(crate) fn significant(&self) -> f64 {
        if self.share.low > 0.0 && self.share.value > MIN_SHARE { self.share.value } else { 0.0 }
    }

    /// Returns whether huge pages may be translated in pieces, so that their frames may be scattered.
    pub(crate) fn are_possible(&self) -> bool {
        self.share.value > MIN_SHARE
    }
}

/// Returns whether this trial belongs to the test.
fn is_test(scale: &Scale, trial: &Trial) -> bool {
    let pattern = pattern::Pages::of(&trial.pattern);
    trial.memory.page == Pages::Huge
        && trial.memory.stride == scale.pair_stride()
        && pattern.is_some_and(|pattern| Some(pattern.per_page) == pieces(scale))
}

/// Returns the number of base pages in a huge one; `None` without huge pages.
fn pieces(scale: &Scale) -> Option<u64> {
    scale.huge.map(|huge| huge / scale.base)
}

/// Returns the pattern of the test, and the memory for it on this number of pages: the lines of a pair's spread half, whose sets of a cache are the same.
pub(super) fn trial(scale: &Scale, pages: u64) -> (Pattern, Memory) {
    let walk = Walk { order: OrderKind::Random, window: scale.base };
    let stride = scale.pair_stride();
    let pattern = pattern::Pages { walk, per_page: pieces(scale).unwrap_or(1) };
    (pattern.into(), Memory { page: Pages::Huge, ..Memory::of(pages * stride, stride) })
}

/// Returns the number of pages of the test: that of the pair farthest beyond the first TLB, but not beyond the next, whose
/// lines stay in one cache of these capacities (bytes), or whose caches make no difference; without such a pair, that of one to be measured. `None`
/// without huge pages or if there can be none.
pub(super) fn pages(
    scale: &Scale,
    (curve, pairs): (&[At], &[Pair]),
    translated: &Reading,
    capacities: &[f64],
) -> Option<u64> {
    let huge = scale.huge?;
    let steps = tlb_steps(translated);
    let (first, beyond) = steps.first()?;
    let reach = first.onset.value;
    let next = steps.get(1).map_or(f64::INFINITY, |next| next.0.onset.low);
    let added = beyond.latency.value - translated.tiers.first()?.latency.value;
    let in_one_cache = |pages: u64| in_one_cache(scale, pages as f64, capacities);
    let alike = |pages: u64| difference(scale, pages, curve).is_some_and(|ns| ns <= MAX_CACHE_SHARE * added);
    let find = |is_possible: &dyn Fn(u64) -> bool, reaches: std::ops::RangeInclusive<f64>| {
        let inside = |pages: &u64| {
            reaches.contains(&(*pages as f64 / reach))
                && (*pages as f64) < next
                && pages * scale.base <= MAX_HUGE_PAGES * huge
                && is_possible(*pages)
        };
        let most = (reaches.end() * reach).min(next) as u64;
        let measured = pairs.iter().map(|pair| pair.pages).filter(inside).max();
        measured.or_else(|| (1..=most.min(MAX_NEW_PAIR)).rev().find(inside))
    };
    let all: [&dyn Fn(u64) -> bool; 2] = [&in_one_cache, &alike];
    all.into_iter()
        .find_map(|possible| [REACHES, FAR_REACHES].into_iter().find_map(|reaches| find(possible, reaches)))
}

/// Returns by how much loads of so many lines differ, ns, from those that take least room to those that take most; `None` if the curve does not
/// show it.
fn difference(scale: &Scale, lines: u64, curve: &[At]) -> Option<f64> {
    let least = curve.iter().rfind(|at| at.bytes <= lines * scale.stride)?;
    let most = curve.iter().find(|at| at.bytes >= lines * scale.pair_stride())?;
    Some((most.time() - least.time()).abs())
}

/// Returns whether all three arrangements of this many lines are in the same cache: they fit in it with room for their
/// page tables, and exceed the nearer one, or fit in the nearest.
fn in_one_cache(scale: &Scale, lines: f64, capacities: &[f64]) -> bool {
    let (packed, least) = (lines * scale.pair_stride() as f64, lines * scale.stride as f64);
    let Some(at) = capacities.iter().position(|capacity| packed <= MAX_FILL * capacity) else { return false };
    at.checked_sub(1).is_none_or(|nearer| least >= MIN_OVERFILL * capacities[nearer])
}

/// Reads the test; `None` if it was not made.
pub(super) fn read(record: &Record, scale: &Scale, pairs: &[Pair]) -> Option<Splinters> {
    let tested = scale.gather(record, PatternKind::Pages, |trial| is_test(scale, trial));
    let of = |pages: u64| pairs.iter().find(|pair| pair.pages == pages);
    // Several numbers of pages were tested if the reach of the first TLB became known better: the last is the best.
    let last = tested.iter().max_by_key(|at| at.trials.last())?;
    let pages = last.bytes / scale.pair_stride();
    share(last, of(pages)?).map(|share| Splinters {
        share,
        pages,
        count: last.values().len(),
        trials: last.trials.clone(),
    })
}

/// Returns the share with its interval: first-order propagation of the errors of the three times.
fn share(huge: &At, pair: &Pair) -> Option<Interval> {
    let (huge, base, packed) = (time(huge), time(&pair.spread), time(&pair.packed));
    let added = base.0 - packed.0;
    if added <= 0.0 {
        return None;
    }
    let share = (huge.0 - packed.0) / added;
    let error = (huge.1.hypot(share * base.1)).hypot((1.0 - share) * packed.1) / added;
    let within = |share: f64| share.clamp(0.0, 1.0);
    Some(Interval { value: within(share), low: within(share - Z * error), high: within(share + Z * error) })
}

/// Returns a time and its standard error, ns.
pub(super) fn time(at: &At) -> (f64, f64) {
    (at.time(), at.time() * at.sigma().max(FLOOR))
}

/// Adds the finding, and a warning if huge pages are splintered.
pub(crate) fn rows(splinters: Option<&Splinters>, scale: &Scale, report: &mut Report) {
    let (Some(found), Some(huge)) = (splinters, scale.huge) else { return };
    let mut row = measured(&survey::HUGE_SPLINTERED, found.share, "", found.count, &found.trials);
    row.basis = Basis::Derived;
    let (huge, base) = (size(huge as f64), size(scale.base as f64));
    row.notes.push(format!(
        "one line per {base} on {} pages, in huge pages of {huge} and in base pages",
        found.pages
    ));
    report.findings.push(row);
    if found.significant() > 0.0 {
        report.warnings.push(Warning::new(
            WarningKind::SplinteredPages,
            format!(
                "huge pages of {huge} are translated in pieces of {base}: they avoid only {:.0} % of the cost of TLB misses",
                100.0 * (1.0 - found.significant())
            ),
            "in a guest, let the host back its memory with huge pages",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    /// The lines of a pair's spread half and those of the test may conflict in a cache, but in the same way.
    #[test]
    fn test_has_the_lines_of_a_pair() {
        let mut scale = Scale::of(&Record::default());
        (scale.base, scale.huge) = (4096, Some(2 << 20));
        let (in_huge, memory) = trial(&scale, 700);
        let test = Trial { memory, seed: 5, ..Trial::of(in_huge.clone()) };
        let walk = Walk { order: OrderKind::Random, window: scale.base };
        let pair = Trial {
            memory: Memory { page: Pages::Base, ..memory },
            seed: 5,
            ..Trial::of(pattern::Pages::over(walk))
        };
        let lines = |trial: &Trial, page: u64| {
            let chain = trial.pattern.chain(trial, 0, 0, page).expect("a chain");
            (0..700).map(|n| chain.at(n)).collect::<Vec<u64>>()
        };
        let in_base = lines(&pair, 4096);
        assert_eq!(lines(&test, 2 << 20), in_base);
        assert!(in_base.iter().all(|offset| offset % 128 == 0 && *offset < 700 * 4096));
        assert!(is_test(&scale, &test) && !is_test(&scale, &pair));
    }
}
