//! Which tiers, TLBs and regions of two reports are the same ones.
//!
//! Tiers and TLBs are numbered from the nearest on. If one report has one more of them, the same number names different ones
//! from there on. So it does from the first TLB on that may be none: page tables that leave a cache look alike. Regions and events of
//! processors have names.

use std::collections::BTreeMap;

use crate::findings::{Axis, Field, Finding, Key, Metric, Report};
use crate::metrics::count::{EVENT_NAME, REGION};
use crate::metrics::survey::{MAYBE_TABLES, TIER_CAPACITY, TIER_LATENCY, TLB_ENTRIES, TLB_PENALTY};

/// Largest ratio of two sizes of one tier or TLB, if their intervals are apart.
const MAX_RATIO: f64 = 1.5;

/// Axes with numbers from the nearest on: the metric that each member of a report has, and the metric of its size.
const AXES: [(Axis, &Metric, &Metric); 2] =
    [(Axis::Tier, &TIER_LATENCY, &TIER_CAPACITY), (Axis::Tlb, &TLB_ENTRIES, &TLB_ENTRIES)];

/// Axes with numbers of what has a name, and the field that has it.
const NAMED: [(Axis, Field); 2] = [(Axis::Region, REGION), (Axis::Entry, EVENT_NAME)];

/// Numbers up to which two reports' tiers and TLBs are the same ones, and numbers along axes that have different names in both.
pub(super) struct Matched([(Axis, u64); 2], Vec<(Axis, u64)>);

impl Matched {
    pub(super) fn of(a: &Report, b: &Report) -> Matched {
        let same = AXES.map(|(axis, member, size)| (axis, last_same(a, b, axis, (member, size))));
        let [first, second] = [a, b].map(named);
        let differs = |(at, name): &((Axis, u64), &str)| second.get(at).is_some_and(|other| other != name);
        Matched(same, first.into_iter().filter(differs).map(|(at, _)| at).collect())
    }

    /// Returns whether a key names the same tier, TLB, region and event in both reports.
    pub(super) fn is_same(&self, key: &Key) -> bool {
        // The penalty of a TLB is the time that the next one takes.
        let next = u64::from(key.metric == &TLB_PENALTY);
        self.0.iter().all(|(axis, last)| key.number(*axis).is_none_or(|n| n + next <= *last))
            && NAMED.iter().all(|(axis, _)| key.number(*axis).is_none_or(|n| !self.1.contains(&(*axis, n))))
    }
}

/// Returns the names of what is numbered in a report.
fn named(report: &Report) -> BTreeMap<(Axis, u64), &str> {
    let mut all = BTreeMap::new();
    for f in &report.findings {
        for (axis, field) in NAMED {
            all.extend(f.key.number(axis).map(|number| (axis, number)).zip(f.detail.word(field)));
        }
    }
    all
}

fn last_same(a: &Report, b: &Report, axis: Axis, (member, size): (&Metric, &Metric)) -> u64 {
    let of = |report: &Report, metric: &Metric, n: u64| -> Option<Finding> {
        let is = |f: &&Finding| f.is(metric) && f.key.number(axis) == Some(n);
        report.findings.iter().find(is).cloned()
    };
    let is_sure =
        |n: &u64| [a, b].iter().all(|r| of(r, member, *n).is_none_or(|f| !f.detail.flag(MAYBE_TABLES)));
    let count = |report: &Report| (1..).take_while(|n| of(report, member, *n).is_some()).count() as u64;
    if count(a) == count(b) {
        return (1..=count(a)).find(|n| !is_sure(n)).map_or(u64::MAX, |n| n - 1);
    }
    let same = |n: &u64| match (of(a, size, *n), of(b, size, *n)) {
        (Some(x), Some(y)) => alike(&x, &y),
        _ => false,
    };
    (1..).take_while(|n| same(n) && is_sure(n)).count() as u64
}

/// Returns whether two sizes may be those of one tier.
fn alike(a: &Finding, b: &Finding) -> bool {
    let range = |f: &Finding| {
        let value = f.finite()?;
        Some((f.low.unwrap_or(value).min(value), f.high.unwrap_or(value).max(value), value))
    };
    let (Some(a), Some(b)) = (range(a), range(b)) else { return false };
    (a.0 <= b.1 && b.0 <= a.1) || (a.2.max(b.2) <= MAX_RATIO * a.2.min(b.2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Item;
    use crate::metrics::count::{ENTRY_COUNT, REGION_TIME};

    #[test]
    fn regions_are_the_same_by_their_names() {
        let report = |names: &[&str]| {
            let findings = names.iter().zip(1u64..).map(|(name, number)| {
                let mut finding = Finding::number(REGION_TIME.at([number.into()]), 1.0);
                finding.detail.set(REGION, Item::Token((*name).to_owned()));
                finding
            });
            Report { findings: findings.collect(), ..Report::default() }
        };
        let matched = Matched::of(&report(&["a", "b", "c"]), &report(&["a", "c"]));
        let same = [1u64, 2, 3].map(|number| matched.is_same(&REGION_TIME.at([number.into()])));
        assert_eq!(same, [true, false, true], "the third one is in the first report only");
    }

    /// The second TLB of one report may be page tables that leave a cache.
    #[test]
    fn step_that_may_be_no_tlb_is_no_other_one() {
        let report = |doubtful: bool| {
            let tlbs = [96.0, 2048.0].into_iter().zip(1u64..).map(|(entries, number)| {
                let mut finding = Finding::number(TLB_ENTRIES.at([number.into()]), entries);
                if doubtful && number == 2 {
                    finding.detail.set(MAYBE_TABLES, Item::Flag(true));
                }
                finding
            });
            Report { findings: tlbs.collect(), ..Report::default() }
        };
        let same = |a, b| {
            let matched = Matched::of(&report(a), &report(b));
            let keys =
                [TLB_ENTRIES.at([1u64.into()]), TLB_PENALTY.at([1u64.into()]), TLB_ENTRIES.at([2u64.into()])];
            keys.map(|key| matched.is_same(&key))
        };
        assert_eq!(same(false, false), [true; 3]);
        assert_eq!(same(true, false), [true, false, false]);
    }

    /// The event of one number is another one on another processor.
    #[test]
    fn events_are_the_same_by_their_names() {
        let report = |names: &[&str]| {
            let findings = names.iter().zip(1u64..).map(|(name, number)| {
                let mut finding = Finding::number(ENTRY_COUNT.at([number.into()]), 1.0);
                finding.detail.set(EVENT_NAME, Item::Token((*name).to_owned()));
                finding
            });
            Report { findings: findings.collect(), ..Report::default() }
        };
        let matched = Matched::of(
            &report(&["CPU_CYCLES", "ICACHE_MISS"]),
            &report(&["CPU_CYCLES", "L1I_CACHE_REFILL"]),
        );
        let same = [1u64, 2].map(|number| matched.is_same(&ENTRY_COUNT.at([number.into()])));
        assert_eq!(same, [true, false]);
    }
}
