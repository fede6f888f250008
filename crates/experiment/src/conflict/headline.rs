//! Headline of `fathom conflict`: the geometry of the nearest level, and the cost of one line more than ways.

use fathom_analysis::findings::{Axis, Finding, Metric, Report};
use fathom_analysis::metrics::conflict::{
    CONFLICT_TIME_PER_ROUND, TIER_LINE, TIER_POLICIES, TIER_SETS, TIER_WAYS,
};
use fathom_report::Headline;
use fathom_units::exact;

use crate::headline::{self as shared, figure, none};

/// Distance of the reads of a round, bytes (study S1).
const STUDY_DISTANCE: u64 = 4096;

pub(crate) fn headline(report: &Report) -> Headline {
    let levels = report.of(&TIER_WAYS).filter_map(|f| f.key.number(Axis::Tier));
    let mut levels: Vec<u64> = levels.collect();
    levels.sort_unstable();
    let of =
        |metric: &'static Metric, level| report.of(metric).find(|f| f.key.number(Axis::Tier) == Some(level));
    let built: Vec<String> = levels.iter().filter_map(|level| described(*level, of)).collect();
    if built.is_empty() {
        return none(report);
    }
    let quoted: Vec<&Finding> = levels.iter().filter_map(|level| of(&TIER_WAYS, *level)).collect();
    let ways = levels.first().and_then(|level| of(&TIER_WAYS, *level)).and_then(Finding::finite);
    let cost = ways.and_then(|ways| overflow(report, ways as u64));
    let mut answer = built.join("; ");
    if let Some((within, beyond)) = cost {
        let lines = beyond.key.number(Axis::Lines).unwrap_or(0);
        answer += &format!(
            "; a round over {lines} lines {} apart takes {}, over {} lines {}",
            exact(STUDY_DISTANCE),
            figure(beyond),
            within.key.number(Axis::Lines).unwrap_or(0),
            figure(within)
        );
    }
    let action = ways.filter(|_| cost.is_some()).map(|ways| {
        format!(
            "use at most {ways:.0} lines at a distance of {} together, or pad rows and buffers",
            exact(STUDY_DISTANCE)
        )
    });
    shared::headline(report, &answer, &quoted, &action.unwrap_or_default())
}

/// Returns `the cache of tier 1 has 8 ways and 64 sets, lines of 64 B, replacement lru`, as far as known.
fn described<'a>(level: u64, of: impl Fn(&'static Metric, u64) -> Option<&'a Finding>) -> Option<String> {
    let ways = of(&TIER_WAYS, level).and_then(Finding::finite)?;
    let mut text = format!("the cache of tier {level} has {ways:.0} ways");
    if let Some(sets) = of(&TIER_SETS, level).and_then(Finding::finite) {
        text += &format!(" and {sets:.0} sets");
    }
    if let Some(line) = of(&TIER_LINE, level).filter(|f| f.finite().is_some()) {
        text += &format!(", lines of {}", figure(line));
    }
    if let Some(policies) = of(&TIER_POLICIES, level).and_then(Finding::word).filter(|word| *word != "none") {
        text += &format!(", replacement {}", policies.replace(',', " or "));
    }
    Some(text)
}

/// Returns the round with as many lines as ways, and the next larger one.
fn overflow(report: &Report, ways: u64) -> Option<(&Finding, &Finding)> {
    let lines = |f: &Finding| f.key.number(Axis::Lines).unwrap_or(0);
    let timed = || report.of(&CONFLICT_TIME_PER_ROUND).filter(|f| f.finite().is_some());
    let within = timed().filter(|f| lines(f) <= ways).max_by_key(|f| lines(f))?;
    let beyond = timed().filter(|f| lines(f) > ways).min_by_key(|f| lines(f))?;
    Some((within, beyond))
}
