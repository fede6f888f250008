//! The survey's answer: where each level ends and what a load from it costs.

use fathom_analysis::findings::{Axis, Finding, Report};
use fathom_analysis::metrics::survey::{TIER_CAPACITY, TIER_LATENCY, WALK_SHARE};
use fathom_report::Headline;

use crate::headline::{confidence, figure, none, sentence};

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
            None => format!("{} beyond", figure(f)),
        })
        .collect();
    let share = report.find(&WALK_SHARE).and_then(Finding::finite).filter(|share| share.is_finite());
    let mut answer = format!("a load takes {}", parts.join(", "));
    if let Some(share) = share {
        answer += &format!("; {:.0} % of a far random load is address translation", 100.0 * share);
    }
    let quoted: Vec<&Finding> = tiers.iter().copied().chain(ends.iter().copied()).collect();
    Headline {
        answer: sentence(&answer),
        confidence: confidence(report, &quoted),
        action: action(last, &ends, share),
    }
}

/// What to do: for random access, and for sizes.
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
    sentence(&advice.join("; "))
}
