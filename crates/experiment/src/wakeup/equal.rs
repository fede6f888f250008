//! Equal figures of different conditions on a described machine: the reason, by what their loads touched.

use fathom_analysis::findings::Report;
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

/// Returns the latencies of a condition at all places; equal ones have equal figures.
fn latencies(series: &Series) -> Vec<Vec<u64>> {
    let at = |place: Place| {
        let mut all: Vec<u64> = series.at(place).iter().map(|activation| activation.us.to_bits()).collect();
        all.sort_unstable();
        all
    };
    [Place::Irq, Place::Wake, Place::Switch, Place::User].map(at).to_vec()
}

/// Adds to the minimum in the task of each condition of a described machine, if all its latencies are those of an
/// earlier one, a note with that condition and the reason.
pub(super) fn notes(record: &Record, cases: &[&Case], traced: bool, report: &mut Report) {
    if record.trust != Some(ClockTrust::Modelled) {
        return;
    }
    let all: Vec<(&Case, Vec<Vec<u64>>, Touched)> = cases
        .iter()
        .map(|case| {
            let series = Series::of(record, case, traced);
            (*case, latencies(&series), Touched::of(&series))
        })
        .collect();
    for (nth, (case, seen, touched)) in all.iter().enumerate() {
        let Some((other, _, others)) = all[..nth].iter().find(|(_, earlier, _)| is_same(earlier, seen))
        else {
            continue;
        };
        let key = metrics::WAKEUP_MIN.at([Place::User.token().into(), case.token.as_str().into()]);
        let note = format!("same latencies as {}: {}", other.token, reason((case, touched), (other, others)));
        report.findings.iter_mut().filter(|f| f.key == key).for_each(|f| f.notes.push(note.clone()));
    }
}

/// Returns whether two conditions have the same distributions: the shorter one has the values of the longer one, in the
/// same shares.
fn is_same(one: &[Vec<u64>], other: &[Vec<u64>]) -> bool {
    let ends =
        |all: &Vec<u64>| [0, all.len() / 2, all.len().saturating_sub(1)].map(|at| all.get(at).copied());
    one.iter().zip(other).all(|(a, b)| ends(a) == ends(b))
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
