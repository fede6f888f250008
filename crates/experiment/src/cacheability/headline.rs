//! Headline of `fathom cacheability`: the cost of uncached memory compared with write-back memory.

use fathom_analysis::findings::{Axis, Finding, Report};
use fathom_analysis::metrics::cacheability::{CACHEABILITY_ALIAS, CACHEABILITY_RATIO, CACHEABILITY_TIME};
use fathom_report::Headline;
use fathom_units::exact;

use crate::headline::{self as shared, figure, largest, none};

pub(crate) fn headline(report: &Report) -> Headline {
    // The worst case: the largest ratio, with both of its times.
    let Some(worst) = largest(report.of(&CACHEABILITY_RATIO)) else { return none(report) };
    let word = |f: &Finding, axis| f.key.word(axis).unwrap_or_default();
    let size = worst.key.number(Axis::Size).unwrap_or(0);
    let (operation, attribute) = (word(worst, Axis::Operation), word(worst, Axis::Attribute));
    let time = |attribute: &str| {
        report.of(&CACHEABILITY_TIME).find(|f| {
            word(f, Axis::Operation) == operation
                && word(f, Axis::Attribute) == attribute
                && f.key.number(Axis::Size) == Some(size)
        })
    };
    let ratio = worst.finite().unwrap_or(f64::NAN);
    let mut answer = format!(
        "{operation} in {} of {attribute} memory takes up to {ratio:.1} times as long as in write-back memory",
        exact(size)
    );
    if let (Some(slow), Some(fast)) = (time(&attribute), time("write-back")) {
        answer += &format!(": {} instead of {} for 8 bytes", figure(slow), figure(fast));
    }
    let broken = report.of(&CACHEABILITY_ALIAS).find(|f| f.word().is_some_and(|word| word == "unseen"));
    let action = match broken {
        Some(f) => format!(
            "maintain caches explicitly: a write-back mapping of {} memory loses stores",
            word(f, Axis::Attribute)
        ),
        None if ratio >= 2.0 => format!(
            "prefer write-back memory (with cache maintenance) over {attribute} memory for data that the CPU accesses often"
        ),
        None => String::new(),
    };
    shared::headline(report, &answer, &[worst], &action)
}
