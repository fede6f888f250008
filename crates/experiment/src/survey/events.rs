//! Events per load of the latency curve, by tier, and their check against the tiers.

use fathom_analysis::findings::Report;
use fathom_analysis::metrics::survey::EVENTS;
use fathom_analysis::tiers::Reading;
use fathom_probe::machine::CountedEvent;
use fathom_units::size;

use crate::counted::{self, MOST, TrialEvents};
use crate::record::Record;

/// Ratio of a working set and the capacity before it from which on most loads miss there: with random replacement 80 %
/// do at twice the capacity, with LRU all.
const BEYOND: f64 = 2.0;

/// Adds the events of each tier, from the points of the curve that are clearly in it, and a warning if the refills of
/// the first level contradict the tiers.
pub(super) fn rows(record: &Record, curves: &Reading, report: &mut Report) {
    let mut begin = 0.0;
    let mut texts = Vec::new();
    for (tier, n) in curves.tiers.iter().zip(1..) {
        let end = tier.capacity.map_or(f64::INFINITY, |capacity| capacity.below);
        let within = |bytes: u64| bytes as f64 >= BEYOND * begin && bytes as f64 <= end;
        let trials: Vec<TrialEvents> = record
            .trials
            .iter()
            .filter(|run| within(run.trial.memory.bytes))
            .filter_map(TrialEvents::of)
            .collect();
        report.findings.extend(counted::rows(&EVENTS, n, &trials));
        texts.extend(contradiction(n, begin, &trials));
        begin = tier.capacity.map_or(begin, |capacity| capacity.above);
    }
    counted::warn(&texts, report);
}

/// Returns in which way the refills of the first level contradict a tier, which begins at a working set of `begin` bytes.
fn contradiction(tier: u64, begin: f64, trials: &[TrialEvents]) -> Option<String> {
    let (refills, _) = counted::interval(trials, CountedEvent::Refill(1))?;
    let refills = refills.value;
    match tier {
        1 if refills >= MOST => Some(format!(
            "{refills:.2} refills of the first level are counted per load in tier 1: a nearer level is too small to be seen in the times"
        )),
        2.. if refills < MOST => Some(format!(
            "loads take longer beyond {}, but {refills:.2} refills of the first level are counted per load there",
            size(begin)
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counted::counted_in;

    #[test]
    fn refills_contradict_tiers_or_do_not() {
        let of = |tier, refills| {
            contradiction(tier, 32_768.0, &[counted_in(1, &[(CountedEvent::Refill(1), refills)])])
        };
        assert_eq!((of(1, 0.0), of(2, 0.97), of(3, 1.0)), (None, None, None));
        assert!(of(1, 0.9).is_some_and(|text| text.contains("too small")));
        assert!(of(2, 0.1).is_some_and(|text| text.contains("beyond 32 KiB, but 0.10")));
        assert_eq!(contradiction(2, 1.0, &[]), None);
    }
}
