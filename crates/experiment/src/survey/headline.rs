//! Headline of the survey: capacity and load latency of each tier, translation, reported levels that do not agree.

use fathom_analysis::findings::{Axis, Finding, Report};
use fathom_analysis::metrics::claims::{CLAIMED, TIER, VERDICT_LEVEL_SIZE};
use fathom_analysis::metrics::survey::{TIER_CAPACITY, TIER_LATENCY, WALK_SHARE};
use fathom_report::Headline;

use crate::headline::{self as shared, figure, none, size};

/// Share of a far random load from which on translation is worth avoiding: below it huge pages gain less than a tenth.
const TRANSLATION: f64 = 0.1;

pub(crate) fn headline(report: &Report) -> Headline {
    let tiers: Vec<&Finding> = report.of(&TIER_LATENCY).filter(|f| f.finite().is_some()).collect();
    let Some(last) = tiers.last() else { return none(report) };
    let end = |f: &Finding| {
        let level = f.key.number(Axis::Tier)?;
        report.of(&TIER_CAPACITY).find(|c| c.key.number(Axis::Tier) == Some(level))
    };
    let ends: Vec<&Finding> = tiers.iter().filter_map(|f| end(f)).collect();
    let parts: Vec<String> = tiers
        .iter()
        .map(|f| match end(f) {
            Some(capacity) => format!("{} up to {}", figure(f), figure(capacity)),
            None => match f.detail.number(CLAIMED) {
                Some(claimed) => {
                    format!("{} beyond (the reported cache of {} was not exceeded)", figure(f), size(claimed))
                }
                None => format!("{} beyond", figure(f)),
            },
        })
        .collect();
    let share = report.find(&WALK_SHARE).and_then(Finding::finite).filter(|share| share.is_finite());
    let mut answer = format!("a load takes {}", parts.join(", "));
    if let Some(share) = share {
        answer += &format!("; {:.0} % of a far random load is address translation", 100.0 * share);
    }
    for text in contradicted(report) {
        answer += &format!("; {text}");
    }
    let quoted: Vec<&Finding> = tiers.iter().copied().chain(ends.iter().copied()).collect();
    shared::headline(report, &answer, &quoted, &action(last, &ends, share))
}

/// The reported level sizes that the measurement contradicts, each with the size beyond which loads are slower.
fn contradicted(report: &Report) -> Vec<String> {
    let verdicts = report.of(&VERDICT_LEVEL_SIZE).filter(|f| f.word() == Some("disagrees"));
    let text = |f: &Finding| {
        let (claimed, tier) = (f.detail.number(CLAIMED)?, f.detail.number(TIER)?);
        let is_end = |c: &&Finding| c.key.number(Axis::Tier).is_some_and(|n| n as f64 == tier);
        let end = report.of(&TIER_CAPACITY).find(is_end)?;
        let level = f.key.number(Axis::Level)?;
        Some(format!("{} of L{level} reported, slower beyond {}", size(claimed), figure(end)))
    };
    verdicts.filter_map(text).collect()
}

/// Returns the advice on sizes and random access.
fn action(last: &Finding, ends: &[&Finding], share: Option<f64>) -> String {
    let mut advice = Vec::new();
    if let Some(nearest) = ends.first() {
        let most = ends.last().filter(|far| far.key != nearest.key);
        let most = most.map(|far| format!(", or at least within {}", figure(far))).unwrap_or_default();
        advice.push(format!(
            "keep the hot working set within {}{most}; beyond, a load takes {}",
            figure(nearest),
            figure(last)
        ));
    }
    if share.is_some_and(|share| share >= TRANSLATION) {
        advice.push("use huge pages for random access to large memory".to_owned());
    }
    advice.join("; ")
}
