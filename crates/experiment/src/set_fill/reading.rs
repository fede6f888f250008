//! Reads the trials on lines in one set and in two into findings.

use fathom_analysis::findings::{Finding, Metric, Refused, Report};
use fathom_analysis::interval::grouped_interval;
use fathom_analysis::metrics::survey::{FILL_ONE_SET_TIME, FILL_TWO_SETS_TIME};
use fathom_probe::pattern::{Memory, PatternKind};
use fathom_units::size;

use super::{Ways, ways, working_sets};
use crate::latency_curve::Curves;
use crate::reading::measured;
use crate::record::{Record, TrialRun};
use crate::scale::Scale;

/// Most that a load of lines in one set takes, by the latency of the second level: one after the other they take that latency. More
/// than it by a quarter shows that a farther level serves them.
const ONE_BY_ONE: f64 = 1.25;

/// Relative standard deviation of these times between sessions in a guest, whose core may have a second thread that belongs to another guest. Nine
/// sessions of 10 s on an idle guest of an EPYC server (family 25, model 1): 2.78 to 3.34 ns (5.8 %) and 2.10 to 2.77 ns (8.1 %). Forty on a Zen 5 guest had 2.3
/// and 2.4 %, while each one's own interval was mostly within 1 %.
const GUEST_SESSION_SIGMA: f64 = 0.08;

/// Adds the findings, or why there are none. Adds nothing for a described machine.
pub(crate) fn rows(record: &Record, scale: &Scale, curves: &Curves, report: &mut Report) {
    if record.is_modelled() || curves.reading.is_none() {
        return;
    }
    match findings(record, scale, curves) {
        Ok(found) => report.findings.extend(found),
        Err((reason, remedy)) => report.refusals.push(Refused {
            what: FILL_ONE_SET_TIME.pattern.to_owned(),
            reason,
            remedy: remedy.to_owned(),
        }),
    }
}

fn findings(record: &Record, scale: &Scale, curves: &Curves) -> Result<[Finding; 2], (String, &'static str)> {
    let more = "give it a larger --budget";
    let Some(ways) = ways(record, scale, curves) else {
        let reason = "the ways of the nearest cache are neither claimed nor measured, so no lines are known to be in one of its sets";
        return Err((reason.to_owned(), more));
    };
    if !ways.bytes.is_power_of_two() {
        let way = size(ways.bytes as f64);
        return Err((format!("its ways have {way}, and the probe's strides are powers of two"), ""));
    }
    let [one_set, two_sets] = working_sets(ways);
    let Some(second) = curves.steps().get(1).copied() else {
        return Err(("there is no second cache whose end was measured".to_owned(), more));
    };
    let needs = (ways.number * ways.bytes * super::LINES_PER_WAY) as f64;
    if second.capacity.low < needs {
        let reason = format!(
            "lines of one set that the nearest cache does not hold are {} apart: the second one, of {}, may not hold them in its own sets",
            size(ways.bytes as f64),
            size(second.capacity.value)
        );
        return Err((reason, ""));
    }
    let row = |metric: &'static Metric, memory: &Memory| row(record, scale, ways, metric, memory);
    let (Some(one), Some(two)) = (row(&FILL_ONE_SET_TIME, &one_set), row(&FILL_TWO_SETS_TIME, &two_sets))
    else {
        return Err(("no loads of lines in one set were measured".to_owned(), more));
    };
    let time = one.finite().unwrap_or(f64::INFINITY);
    if time > ONE_BY_ONE * second.here {
        let reason = format!(
            "loads of lines in one set take {time:.1} ns, longer than one of the second cache, {:.1} ns: it does not serve them all",
            second.here
        );
        return Err((reason, "run it again, on a machine without other work"));
    }
    Ok([one, two])
}

/// Returns the finding of the trials on a working set.
fn row(record: &Record, scale: &Scale, ways: Ways, metric: &'static Metric, of: &Memory) -> Option<Finding> {
    let is_of = |run: &&TrialRun| {
        (run.trial.memory.bytes, run.trial.memory.stride) == (of.bytes, of.stride) && run.unverified == 0
    };
    let runs: Vec<&TrialRun> = record.of(PatternKind::Stride).filter(is_of).collect();
    let groups: Vec<Vec<f64>> =
        runs.iter().map(|run| run.ticks_per_op().map(|ticks| ticks * scale.tick_ns).collect()).collect();
    let ids: Vec<u64> = runs.iter().map(|run| run.trial.id).collect();
    let count = groups.iter().map(Vec::len).sum();
    let own = grouped_interval(&groups)?;
    let time = match scale.others {
        true => own.with_sessions(GUEST_SESSION_SIGMA),
        false => own,
    };
    let mut row = measured(metric, time, "ns", count, &ids);
    let distance = size(of.stride as f64);
    row.notes.push(format!(
        "{} lines, {distance} apart; the nearest cache has {} ways",
        of.cells(),
        ways.number
    ));
    Some(row)
}
