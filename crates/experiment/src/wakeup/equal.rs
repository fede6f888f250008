//! Equal figures of different conditions on a described machine: the reason, by what their loads touched.

use fathom_analysis::findings::{Key, Report};
use fathom_analysis::metrics::wakeup as metrics;

use super::conditions::Case;
use super::series::{Place, Series};
use super::sweep;
use crate::record::{Record, TrialRun};

/// A condition, or a size of a curve of the sweep.
struct Compared {
    /// Its name in notes.
    name: String,
    /// The finding that gets the note.
    key: Key,
    figures: [f64; 3],
    /// What its load did; `None` without a load.
    touched: Option<Touched>,
}

/// The work of a load, over all of its series.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Touched {
    lines: u64,
    /// Accesses that reached a level that CPUs share, or memory.
    shared: u64,
    faults: u64,
    bytes: u64,
}

impl Touched {
    fn of(runs: &[&TrialRun]) -> Touched {
        let mut sum = Touched::default();
        for stats in runs.iter().flat_map(|run| &run.wakeups.load_stats) {
            sum.lines = sum.lines.saturating_add(stats.lines);
            sum.shared = sum.shared.saturating_add(stats.shared.unwrap_or(0));
            sum.faults = sum.faults.saturating_add(stats.faults);
            sum.bytes = sum.bytes.saturating_add(stats.bytes);
        }
        sum
    }
}

/// Adds a note to each condition of a described machine whose minimum, median and maximum in the task are those of an
/// earlier one: that condition, and the reason. Likewise to each size of a sweep, by median, tail and maximum.
pub(super) fn notes(record: &Record, cases: &[&Case], traced: bool, report: &mut Report) {
    if !record.is_modelled() {
        return;
    }
    let conditions = cases.iter().filter_map(|case| condition(record, case, traced, report)).collect();
    explain(conditions, report);
    for curve in sweep::curves(record) {
        let sizes = sizes(record, &curve, report);
        explain(sizes, report);
    }
}

/// Returns values by their keys, as reported.
fn figures(report: &Report, keys: &[Key; 3]) -> Option<[f64; 3]> {
    let value = |key: &Key| report.findings.iter().find(|f| f.key == *key)?.finite();
    Some([value(&keys[0])?, value(&keys[1])?, value(&keys[2])?])
}

fn condition(record: &Record, case: &Case, traced: bool, report: &Report) -> Option<Compared> {
    let (place, token) = (Place::User.token(), case.token.as_str());
    let keys = [
        metrics::WAKEUP_MIN.at([place.into(), token.into()]),
        metrics::WAKEUP_QUANTILE.at([place.into(), token.into(), "p50".into()]),
        metrics::WAKEUP_MAX.at([place.into(), token.into()]),
    ];
    let figures = figures(report, &keys)?;
    let touched = (!case.load.is_none()).then(|| Touched::of(&Series::of(record, case, traced).runs));
    let [key, ..] = keys;
    Some(Compared { name: case.token.clone(), key, figures, touched })
}

fn sizes(record: &Record, curve: &sweep::Curve, report: &Report) -> Vec<Compared> {
    let mut sizes: Vec<u64> = sweep::all_series(record)
        .filter_map(|run| sweep::of(&run.trial))
        .filter(|(other, _)| other == curve)
        .map(|(_, bytes)| bytes)
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let compared = |bytes: u64| {
        let keys = [&metrics::SWEEP_P50, &metrics::SWEEP_TAIL, &metrics::SWEEP_MAX];
        let keys = keys.map(|metric| curve.at(metric, bytes));
        let figures = figures(report, &keys)?;
        let here = |run: &&TrialRun| sweep::of(&run.trial) == Some((*curve, bytes));
        let runs: Vec<&TrialRun> = sweep::all_series(record).filter(here).collect();
        let [key, ..] = keys;
        let touched = Some(Touched::of(&runs));
        Some(Compared { name: fathom_units::exact(bytes), key, figures, touched })
    };
    sizes.into_iter().filter_map(compared).collect()
}

/// Adds the note to each that has the figures of an earlier one.
fn explain(all: Vec<Compared>, report: &mut Report) {
    for (nth, this) in all.iter().enumerate() {
        let Some(other) = all[..nth].iter().find(|other| other.figures == this.figures) else { continue };
        let note = format!("same figures as {}: {}", other.name, reason(this, other));
        report.findings.iter_mut().filter(|f| f.key == this.key).for_each(|f| f.notes.push(note.clone()));
    }
}

/// Returns why two have the same latencies.
fn reason(this: &Compared, other: &Compared) -> String {
    let what = |one: &Compared| match one.touched {
        None => format!("{} has no load", one.name),
        Some(Touched { lines: 0, .. }) => format!("the load of {} touches no memory", one.name),
        Some(Touched { lines, shared, .. }) => format!(
            "{shared} accesses of the load of {}, which touches {lines} lines, reach a level that CPUs share",
            one.name
        ),
    };
    if this.touched == other.touched && this.touched.is_some_and(|touched| touched.lines > 0) {
        return "both loads make the same number of accesses at the same cost (in the model a store that misses takes \
                as long as a load, and write-backs take no time)"
            .to_owned();
    }
    format!("{}; {}", what(other), what(this))
}
