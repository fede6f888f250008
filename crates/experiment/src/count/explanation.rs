//! What misses take: their counts, and the access times that a survey of the same machine has measured.

use fathom_analysis::explained::{AccessTimes, Explained, Misses};
use fathom_analysis::findings::{Finding, Item, Metric, Report};
use fathom_analysis::interval::Interval;
use fathom_analysis::metrics::count as metrics;

use crate::reading::measured;
use crate::record::{MAX_TIERS, ProgramRuns, ProgramTimes};

/// Adds it to a report that has the counts.
pub(super) fn add(program: &ProgramRuns, report: &mut Report) {
    let Some(times) = &program.times else { return };
    let count = |event: &str| {
        let f = report.find(metrics::COUNT.at([event.into()]))?;
        Some(Interval { value: f.finite()?, low: f.low?, high: f.high? })
    };
    let Some(nearest) = count("L1-dcache-load-misses") else { return };
    let misses = Misses { nearest, last: count("LLC-load-misses"), translations: count("dTLB-load-misses") };
    let Some(explained) = access_times(times).explain(&misses) else { return };
    let mut all = findings(&explained, count("cycles"), program.runs.len());
    let of_survey = |f: &&mut Finding| f.key.metric.detail.contains(&metrics::SURVEY);
    for finding in all.iter_mut().filter(of_survey) {
        finding.detail.set(metrics::SURVEY, Item::Token(times.survey.clone()));
    }
    report.findings.extend(all);
}

/// Returns what an explanation says, and what it leaves of all cycles, if they are counted.
pub(super) fn findings(explained: &Explained, cycles: Option<Interval>, runs: usize) -> Vec<Finding> {
    let rest = cycles.map(|cycles| Interval {
        value: cycles.value - explained.all.value,
        low: cycles.low - explained.all.high,
        high: cycles.high - explained.all.low,
    });
    let parts: [(&'static Metric, Option<Interval>); 6] = [
        (&metrics::EXPLAINED_CACHES, explained.caches),
        (&metrics::EXPLAINED_EITHER, explained.caches_or_memory),
        (&metrics::EXPLAINED_MEMORY, explained.memory),
        (&metrics::EXPLAINED_TRANSLATION, explained.translation),
        (&metrics::EXPLAINED, Some(explained.all)),
        (&metrics::UNEXPLAINED, rest),
    ];
    let finding = |(metric, interval): (&'static Metric, Option<Interval>)| {
        Some(measured(metric, interval?, "cycles", runs, &[]))
    };
    parts.into_iter().filter_map(finding).collect()
}

/// Returns times of a record in cycles.
fn access_times(times: &ProgramTimes) -> AccessTimes {
    AccessTimes {
        tiers: times.tiers.iter().map(in_cycles).collect(),
        translation: times.translation.as_ref().map(in_cycles),
    }
}

/// Returns an interval of a record, which has thousandths, in cycles.
pub(super) fn in_cycles(interval: &[u64; 3]) -> Interval {
    let [value, low, high] = interval.map(|thousandths| thousandths as f64 / 1000.0);
    Interval { value, low, high }
}

/// Returns times for a record: those that a survey has found; `None` if it has none with both ends, or doubts of its own.
#[must_use]
pub fn times_of_survey(survey: String, report: &Report) -> Option<ProgramTimes> {
    if report.warnings.iter().any(|warning| warning.kind.lowers_confidence()) {
        return None;
    }
    let times = AccessTimes::of_survey(report).filter(|times| times.tiers.len() <= MAX_TIERS)?;
    // A latency is some hundred cycles, and never negative.
    let thousandths = |i: &Interval| [i.value, i.low, i.high].map(|cycles| (cycles * 1000.0).round() as u64);
    Some(ProgramTimes {
        survey,
        tiers: times.tiers.iter().map(thousandths).collect(),
        translation: times.translation.as_ref().map(thousandths),
    })
}
