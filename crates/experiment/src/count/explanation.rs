//! What misses take: their counts, and the access times that a survey of the same machine has measured.

use fathom_analysis::explained::{AccessTimes, Misses};
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
    let runs = program.runs.len();
    let parts: [(&'static Metric, Option<Interval>); 5] = [
        (&metrics::EXPLAINED_CACHES, explained.caches),
        (&metrics::EXPLAINED_EITHER, explained.caches_or_memory),
        (&metrics::EXPLAINED_MEMORY, explained.memory),
        (&metrics::EXPLAINED_TRANSLATION, explained.translation),
        (&metrics::EXPLAINED, Some(explained.all)),
    ];
    for (metric, interval) in parts {
        let finding = interval.map(|interval| measured(metric, interval, "cycles", runs, &[]));
        report.findings.extend(finding.map(|finding| of_survey(finding, metric, times)));
    }
}

fn of_survey(mut finding: Finding, metric: &'static Metric, times: &ProgramTimes) -> Finding {
    if metric.detail.contains(&metrics::SURVEY) {
        finding.detail.set(metrics::SURVEY, Item::Token(times.survey.clone()));
    }
    finding
}

/// Returns times of a record in cycles.
fn access_times(times: &ProgramTimes) -> AccessTimes {
    let cycles = |interval: &[u64; 3]| {
        let [value, low, high] = interval.map(|thousandths| thousandths as f64 / 1000.0);
        Interval { value, low, high }
    };
    AccessTimes {
        tiers: times.tiers.iter().map(cycles).collect(),
        translation: times.translation.as_ref().map(cycles),
    }
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
