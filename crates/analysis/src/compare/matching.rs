//! Which tiers and TLBs of two reports are the same ones.
//!
//! They are numbered from the nearest on. If one report has one more of them, the same number names different ones from
//! there on.

use crate::findings::{Axis, Finding, Key, Metric, Report};
use crate::metrics::survey::{TIER_CAPACITY, TIER_LATENCY, TLB_ENTRIES, TLB_PENALTY};

/// Largest ratio of two sizes of one tier or TLB, if their intervals are apart.
const MAX_RATIO: f64 = 1.5;

/// Axes with numbers from the nearest on: the metric that each member of a report has, and the metric of its size.
const AXES: [(Axis, &Metric, &Metric); 2] =
    [(Axis::Tier, &TIER_LATENCY, &TIER_CAPACITY), (Axis::Tlb, &TLB_ENTRIES, &TLB_ENTRIES)];

/// Numbers up to which two reports' tiers and TLBs are the same ones.
pub(super) struct Matched([(Axis, u64); 2]);

impl Matched {
    pub(super) fn of(a: &Report, b: &Report) -> Matched {
        Matched(AXES.map(|(axis, member, size)| (axis, last_same(a, b, axis, (member, size)))))
    }

    /// Returns whether a key names the same tier and TLB in both reports.
    pub(super) fn is_same(&self, key: &Key) -> bool {
        // The penalty of a TLB is the time that the next one takes.
        let next = u64::from(key.metric == &TLB_PENALTY);
        self.0.iter().all(|(axis, last)| key.number(*axis).is_none_or(|n| n + next <= *last))
    }
}

fn last_same(a: &Report, b: &Report, axis: Axis, (member, size): (&Metric, &Metric)) -> u64 {
    let of = |report: &Report, metric: &Metric, n: u64| -> Option<Finding> {
        let is = |f: &&Finding| f.is(metric) && f.key.number(axis) == Some(n);
        report.findings.iter().find(is).cloned()
    };
    let count = |report: &Report| (1..).take_while(|n| of(report, member, *n).is_some()).count() as u64;
    if count(a) == count(b) {
        return u64::MAX;
    }
    let same = |n: &u64| match (of(a, size, *n), of(b, size, *n)) {
        (Some(x), Some(y)) => alike(&x, &y),
        _ => false,
    };
    (1..).take_while(same).count() as u64
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
