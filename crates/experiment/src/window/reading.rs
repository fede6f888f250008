//! Reads the trials of chains with instructions between their loads into a finding.

use fathom_analysis::findings::{Basis, Refused, Report};
use fathom_analysis::interval::{Interval, median};
use fathom_analysis::metrics::survey::MEMORY_WINDOW;
use fathom_analysis::window::{self, Times, Unclear};
use fathom_probe::machine::batch::spaced::FILLERS;
use fathom_probe::pattern::{PatternKind, SpacedChains};

use super::is_asked;
use crate::latency_curve::Curves;
use crate::overlap;
use crate::reading::measured;
use crate::record::{Record, TrialRun};
use crate::scale::Scale;
use crate::second_thread;

/// Time of two loads next to each other by the latency of one, from which on they may not overlap at all. The latency is that of the last tier,
/// whose loads need fewer page walks.
const ONE_BY_ONE: f64 = 1.5;
/// Distance of sessions on hardware, instructions. Seven of ten on a Zen 5 guest had the step: at 442 or 443, each with an interval of one
/// instruction at most. Of seven later ones, beside other work, six had it at 442 to 443 and one at 440.
const SESSIONS: f64 = 2.0;

/// Returns the times of a trial by instructions between the loads; `None` if samples are missing: how many a sample had is known by its place
/// only.
fn times(run: &TrialRun, tick_ns: f64) -> Option<Vec<Times>> {
    let pattern = run.trial.get::<SpacedChains>()?;
    if run.unverified > 0 || run.samples.len() as u64 != run.trial.samples {
        return None;
    }
    let mut all: Vec<Times> = Vec::new();
    for (nth, ticks) in run.ticks_per_op().enumerate() {
        let (fillers, ns) = (pattern.fillers_of(nth), ticks * tick_ns);
        match all.iter_mut().find(|times| times.fillers == fillers) {
            Some(times) => times.ns.push(ns),
            None => all.push(Times { fillers, ns: vec![ns] }),
        }
    }
    Some(all)
}

/// Returns the complete trials over `from` bytes at least, and their times.
pub(super) fn trials<'a>(
    record: &'a Record,
    scale: &Scale,
    from: f64,
) -> (Vec<&'a TrialRun>, Vec<Vec<Times>>) {
    record
        .of(PatternKind::SpacedChains)
        .filter(|run| run.trial.memory.bytes as f64 >= from)
        .filter_map(|run| Some((run, times(run, scale.tick_ns)?)))
        .unzip()
}

/// Adds the finding, or why there is none. Adds nothing for a described machine that is not asked.
pub(crate) fn rows(record: &Record, scale: &Scale, curves: &Curves, report: &mut Report) {
    let modelled = record.is_modelled();
    let Some(reading) = curves.reading.as_ref().filter(|_| is_asked(record, modelled)) else { return };
    let from = match overlap::memory_from(record, curves, overlap::STILL_BEYOND, &MEMORY_WINDOW) {
        Ok(from) => from,
        Err(refused) => return report.refusals.push(refused),
    };
    let (runs, trials) = trials(record, scale, from);
    let Some(first) = runs.first() else {
        let what = ("pairs of loads with instructions between them", &MEMORY_WINDOW);
        return report.refusals.push(overlap::why_not(record, from, PatternKind::SpacedChains, what));
    };
    let found = match window::read(&trials) {
        Ok(found) => found,
        Err(unclear) => {
            let latency = reading.tiers.last().map_or(f64::NAN, |tier| tier.latency.value);
            let (reason, remedy) = reason(unclear, nearest(&trials), latency);
            let what = MEMORY_WINDOW.pattern.to_owned();
            return report.refusals.push(Refused { what, reason, remedy: remedy.to_owned() });
        }
    };
    let ids: Vec<u64> = runs.iter().map(|run| run.trial.id).collect();
    let count = trials.iter().flatten().map(|times| times.ns.len()).sum();
    let apart = if record.is_exact() { 0.0 } else { SESSIONS };
    let number = Interval { low: found.number.low - apart, high: found.number.high + apart, ..found.number };
    let mut row = measured(&MEMORY_WINDOW, number, "", count, &ids);
    row.basis = Basis::Derived;
    let (last, first_apart) = found.between;
    row.notes.push(format!(
        "two loads overlap with {last} instructions between them and not with {first_apart}: that takes {:.1} times as long",
        found.ratio
    ));
    if found.left_out > 0 {
        row.notes.push(format!(
            "{} of {} trials are left out: their loads do not overlap with as many instructions between them as those of others, as beside a second thread of the core",
            found.left_out,
            runs.len()
        ));
    }
    second_thread::add(&mut row, record);
    overlap::add_conditions(&mut row, first, curves);
    report.findings.push(row);
}

/// Returns the time of two loads next to each other, ns.
fn nearest(trials: &[Vec<Times>]) -> f64 {
    let of = trials.iter().flatten().filter(|times| times.fillers == *FILLERS.start());
    median(&of.flat_map(|times| times.ns.iter().copied()).collect::<Vec<_>>()).unwrap_or(f64::NAN)
}

/// Returns why there is no clear step, and the remedy. Two loads next to each other take `nearest` ns, a load of memory alone `latency` ns.
fn reason(unclear: Unclear, nearest: f64, latency: f64) -> (String, &'static str) {
    let again = "run it again, on a machine without other work";
    match unclear {
        Unclear::NoStep(most) if nearest > ONE_BY_ONE * latency => (
            format!(
                "two loads next to each other take {nearest:.1} ns, as with {most} instructions between them, and one {latency:.1} ns: they do not overlap"
            ),
            "a core that waits for each miss has no such number",
        ),
        Unclear::Missing => ("samples are missing".to_owned(), "run it again"),
        Unclear::NoStep(most) => (
            format!(
                "two loads overlap with up to {most} instructions between them, the most that were tried"
            ),
            "the core has more in flight, or something else limits it",
        ),
        Unclear::Gradual(low, high) => (
            format!(
                "the time of two loads grows with the instructions between them, about {low} to {high}, and does not double at once"
            ),
            "the instructions themselves take as long as a load, or the core was disturbed: run it again",
        ),
        Unclear::NotDouble(ratio) => (
            format!(
                "two loads with many instructions between them take {ratio:.1} times as long as next to each other, and not twice"
            ),
            again,
        ),
        Unclear::Scattered(share) => {
            (format!("{:.0} % of the times are on the wrong side of any step", 100.0 * share), again)
        }
    }
}
