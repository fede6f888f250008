//! Equal figures of different conditions on a described machine: the reason, by what their loads touched.

use fathom_analysis::findings::{Key, Report};
use fathom_analysis::metrics::wakeup as metrics;
use fathom_probe::load::LoadStats;
use fathom_probe::machine::ClockTrust;

use super::conditions::Case;
use super::series::{Place, Series};
use crate::record::Record;

/// The work of a condition's load, over all of its series.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Touched {
    lines: u64,
    /// Accesses in which a level that CPUs share, or memory, took part.
    shared: u64,
    faults: u64,
    bytes: u64,
}

impl Touched {
    fn of(series: &Series) -> Touched {
        let mut sum = Touched::default();
        for LoadStats { lines, shared, faults, bytes, .. } in
            series.runs.iter().flat_map(|run| &run.wakeups.load_stats)
        {
            sum.lines = sum.lines.saturating_add(*lines);
            sum.shared = sum.shared.saturating_add(shared.unwrap_or(0));
            sum.faults = sum.faults.saturating_add(*faults);
            sum.bytes = sum.bytes.saturating_add(*bytes);
        }
        sum
    }
}

/// Returns minimum, median and maximum of a condition in the task, as reported.
fn figures(report: &Report, case: &Case) -> Option<[f64; 3]> {
    let (place, condition) = (Place::User.token(), case.token.as_str());
    let value = |key: Key| report.findings.iter().find(|f| f.key == key)?.finite();
    Some([
        value(metrics::WAKEUP_MIN.at([place.into(), condition.into()]))?,
        value(metrics::WAKEUP_QUANTILE.at([place.into(), condition.into(), "p50".into()]))?,
        value(metrics::WAKEUP_MAX.at([place.into(), condition.into()]))?,
    ])
}

/// Adds to the minimum in the task of each condition of a described machine, if its minimum, median and maximum are those
/// of an earlier one, a note with that condition and the reason.
pub(super) fn notes(record: &Record, cases: &[&Case], traced: bool, report: &mut Report) {
    if record.trust != Some(ClockTrust::Modelled) {
        return;
    }
    let of = |case: &Case| Some((figures(report, case)?, Touched::of(&Series::of(record, case, traced))));
    let all: Vec<(&Case, [f64; 3], Touched)> = cases
        .iter()
        .filter_map(|case| of(case).map(|(figures, touched)| (*case, figures, touched)))
        .collect();
    for (nth, (case, seen, touched)) in all.iter().enumerate() {
        let Some((other, _, others)) = all[..nth].iter().find(|(_, earlier, _)| earlier == seen) else {
            continue;
        };
        let key = metrics::WAKEUP_MIN.at([Place::User.token().into(), case.token.as_str().into()]);
        let note = format!(
            "same minimum, median and maximum as {}: {}",
            other.token,
            reason((case, touched), (other, others))
        );
        report.findings.iter_mut().filter(|f| f.key == key).for_each(|f| f.notes.push(note.clone()));
    }
}

/// Returns why two conditions have the same latencies.
fn reason((case, touched): (&Case, &Touched), (other, others): (&Case, &Touched)) -> String {
    let what = |case: &Case, touched: &Touched| match (case.load.is_none(), touched.lines) {
        (true, _) => format!("{} has no load", case.token),
        (_, 0) => format!("the load of {} touches no memory", case.token),
        (_, lines) => format!(
            "{} accesses of the load of {}, which touches {lines} lines, reach a level that CPUs share",
            touched.shared, case.token
        ),
    };
    if touched == others && touched.lines > 0 {
        return "both loads make the same number of accesses at the same cost (in the model a store that misses takes \
                as long as a load, and write-backs take no time)"
            .to_owned();
    }
    format!("{}; {}", what(other, others), what(case, touched))
}
