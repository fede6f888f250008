//! Events per load in random order, by working set, and their check against the times.

use fathom_analysis::findings::{Basis, Report};
use fathom_analysis::interval::Interval;
use fathom_analysis::metrics::latency;
use fathom_probe::machine::CountedEvent;

use super::measure::{MIN_TLB_MISS_RATIO, Measure, Set, ids, nearest};
use crate::counted::{self, HARDLY_ANY, MOST, TrialEvents};
use crate::reading::measured;

/// What time says of a working set.
pub(super) struct ByTime {
    /// Its size, bytes.
    pub(super) bytes: u64,
    /// Tier of the loads that any TLB holds, from 1.
    pub(super) tier: u64,
    /// Whether random loads miss in the TLB, if it is known.
    pub(super) tlb_misses: Option<bool>,
    /// Time of a load in random order, as a multiple of one in the first level; infinite if it is not known.
    pub(super) slower: f64,
}

/// Adds the events of each working set, if the machine counts any, and a warning if they contradict the times.
pub(super) fn rows(sets: &[Set], by_time: &[ByTime], measure: &Measure<'_>, report: &mut Report) {
    let nearest = nearest(sets);
    for set in sets.iter().filter(|set| !set.events.is_empty()) {
        report.findings.extend(counted::rows(&latency::EVENTS, set.bytes, &set.events));
        if let Some((mean, nearest)) = set.mean().zip(nearest)
            && measure.unit == "cycles"
        {
            wait(set, mean, nearest, report);
        }
    }
    let of_sets = by_time.iter().zip(sets);
    let texts: Vec<String> = of_sets.flat_map(|(time, set)| contradictions(time, &set.events)).collect();
    counted::warn(&texts, report);
}

/// Adds the cycles of a load beyond those of a load at the reference, which the first level serves. `mean` and `nearest`
/// are the cycles of both.
fn wait(set: &Set, mean: Interval, nearest: Interval, report: &mut Report) {
    let value = mean.value - nearest.value;
    let wait = Interval {
        value,
        low: value - (mean.value - mean.low).hypot(nearest.high - nearest.value),
        high: value + (mean.high - mean.value).hypot(nearest.value - nearest.low),
    };
    let trials = ids(&set.random);
    let mut row =
        measured(latency::LATENCY_WAIT.at([set.bytes.into()]), wait, "cycles", trials.len(), &trials);
    row.basis = Basis::Derived;
    report.findings.push(row);
}

/// Returns in which way counts and time of a working set contradict each other.
fn contradictions(time: &ByTime, trials: &[TrialEvents]) -> Vec<String> {
    let size = fathom_units::exact(time.bytes);
    let per_load = |event| counted::interval(trials, event).map(|(interval, _)| interval.value);
    let mut texts = Vec::new();
    match per_load(CountedEvent::Refill(1)) {
        Some(n) if n >= MOST && time.tier == 1 => texts.push(format!(
            "{size}: {n:.2} refills of the first level are counted per load, but loads take no longer than in it"
        )),
        Some(n) if n < HARDLY_ANY && time.tier > 1 => texts.push(format!(
            "{size}: loads take longer than in the first level, but {n:.4} of its refills are counted per load"
        )),
        _ => {}
    }
    // The kernel's TLB misses may leave out those that a farther TLB serves, which take time, too.
    let misses = [CountedEvent::Walks, CountedEvent::TlbMisses].into_iter().find_map(per_load);
    // A walk takes at least as long as a load in the first level, and must then be seen.
    let visible = |n: f64| n > (MIN_TLB_MISS_RATIO - 1.0) * time.slower;
    if let Some(n) = misses.filter(|n| *n >= MOST && visible(*n) && time.tlb_misses == Some(false)) {
        texts.push(format!(
            "{size}: {n:.2} TLB misses are counted per load, but loads take no longer than in few pages"
        ));
    }
    let refills = per_load(CountedEvent::TlbRefill(1));
    if let Some(n) = refills.filter(|n| *n < HARDLY_ANY && time.tlb_misses == Some(true)) {
        texts.push(format!(
            "{size}: loads take longer than in few pages, but {n:.4} refills of the first TLB are counted per load"
        ));
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counted::counted_in;

    fn of(tier: u64, tlb_misses: bool, refills: f64, walks: f64) -> Vec<String> {
        let trial = counted_in(
            1,
            &[
                (CountedEvent::Refill(1), refills),
                (CountedEvent::TlbRefill(1), walks),
                (CountedEvent::Walks, walks),
            ],
        );
        let time = ByTime { bytes: 1 << 20, tier, tlb_misses: Some(tlb_misses), slower: 5.0 };
        contradictions(&time, &[trial])
    }

    #[test]
    fn counts_that_agree_with_times_are_no_contradiction() {
        for (tier, tlb_misses, refills, walks) in [
            (1, false, 0.0, 0.0),
            (2, false, 1.0, 0.0),
            (2, true, 1.0, 0.9),
            (2, true, 0.01, 0.01),
            (1, false, 0.1, 0.1),
        ] {
            assert_eq!(of(tier, tlb_misses, refills, walks), Vec::<String>::new());
        }
    }

    #[test]
    fn each_contradiction_is_told() {
        assert!(of(1, false, 0.9, 0.0)[0].contains("no longer than in it"));
        assert!(of(2, false, 0.0, 0.0)[0].contains("of its refills"));
        assert!(
            of(2, false, 1.0, 0.9)[0].contains("TLB misses are counted per load, but loads take no longer")
        );
        assert!(of(2, true, 1.0, 0.0)[0].contains("longer than in few pages"));
        // A farther TLB serves the misses of the first one.
        let served = counted_in(1, &[(CountedEvent::TlbRefill(1), 0.9), (CountedEvent::Walks, 0.0)]);
        let time = ByTime { bytes: 1 << 20, tier: 2, tlb_misses: Some(true), slower: 5.0 };
        assert_eq!(contradictions(&time, &[served]), Vec::<String>::new());
        // A walk may be short beside a load from memory.
        let walks = counted_in(1, &[(CountedEvent::Walks, 0.9)]);
        let time = ByTime { bytes: 1 << 30, tier: 4, tlb_misses: Some(false), slower: 50.0 };
        assert_eq!(contradictions(&time, &[walks]), Vec::<String>::new());
        // An event that is not counted contradicts nothing.
        assert!(contradictions(&time, &[]).is_empty());
    }
}
