//! Reads the trials of chains side by side into findings.

use fathom_analysis::findings::{Basis, Finding, Metric, Refused, Report};
use fathom_analysis::interval::grouped_interval;
use fathom_analysis::metrics::survey::{MEMORY_CHAINS_TIME, MEMORY_OVERLAP};
use fathom_analysis::overlap::{self, Times};
use fathom_probe::machine::Pages;
use fathom_probe::machine::batch::together::CHAINS;
use fathom_probe::pattern::{PatternKind, SideBySide};
use fathom_units::size;

use super::{STILL_BEYOND, memory_from};
use crate::latency_curve::Curves;
use crate::reading::measured;
use crate::record::{Record, TrialRun};
use crate::scale::Scale;
use crate::second_thread;

/// Relative standard deviation of the number between sessions in a guest, whose host and its other guests use the same memory. Eight
/// sessions of 10 s on a Sapphire Rapids guest: 13.0 to 14.4, 3.5 %, while each one's own interval was within 1 to 5 %.
const GUEST_SESSION_SIGMA: f64 = 0.035;

/// Returns the times of a trial by numbers of chains; `None` if samples are missing: which number of chains a sample had is
/// known by its place only.
fn times(run: &TrialRun, tick_ns: f64) -> Option<Vec<Times>> {
    let pattern = run.trial.get::<SideBySide>()?;
    if run.unverified > 0 || run.samples.len() as u64 != run.trial.samples {
        return None;
    }
    let mut all: Vec<Times> = CHAINS.iter().map(|&chains| Times { chains, ns: Vec::new() }).collect();
    for (nth, ticks) in run.ticks_per_op().enumerate() {
        let chains = pattern.chains_of(nth);
        if let Some(times) = all.iter_mut().find(|times| times.chains == chains) {
            times.ns.push(ticks * tick_ns / chains as f64);
        }
    }
    all.retain(|times| !times.ns.is_empty());
    Some(all)
}

/// Adds the findings, or why there are none. Adds nothing for a described machine.
pub(crate) fn rows(record: &Record, scale: &Scale, curves: &Curves, report: &mut Report) {
    if record.is_modelled() || curves.reading.is_none() {
        return;
    }
    let from = match memory_from(record, curves, STILL_BEYOND, &MEMORY_OVERLAP) {
        Ok(from) => from,
        Err(refused) => return report.refusals.push(refused),
    };
    let runs: Vec<(&TrialRun, Vec<Times>)> = record
        .of(PatternKind::SideBySide)
        .filter(|run| run.trial.memory.bytes as f64 >= from)
        .filter_map(|run| Some((run, times(run, scale.tick_ns)?)))
        .collect();
    let trials: Vec<Vec<Times>> = runs.iter().map(|(_, times)| times.clone()).collect();
    let Some(found) = overlap::read(&trials) else {
        let what = ("chains side by side", &MEMORY_OVERLAP);
        report.refusals.push(why_not(record, from, PatternKind::SideBySide, what));
        return;
    };
    let ids: Vec<u64> = runs.iter().map(|(run, _)| run.trial.id).collect();
    for &chains in CHAINS {
        let of = |trial: &Vec<Times>| Some(trial.iter().find(|times| times.chains == chains)?.ns.clone());
        let groups: Vec<Vec<f64>> = trials.iter().filter_map(of).collect();
        if let Some(interval) = grouped_interval(&groups) {
            let count = groups.iter().map(Vec::len).sum();
            let key = MEMORY_CHAINS_TIME.at([chains.into()]);
            report.findings.push(measured(key, interval, "ns", count, &ids));
        }
    }
    let count = trials.iter().flatten().map(|times| times.ns.len()).sum();
    let number = match scale.others {
        true => found.number.with_sessions(GUEST_SESSION_SIGMA),
        false => found.number,
    };
    let mut row = measured(&MEMORY_OVERLAP, number, "", count, &ids);
    row.basis = Basis::Derived;
    if found.open {
        (row.basis, row.high) = (Basis::Bounds, None);
        row.notes.push(format!(
            "a lower bound: loads take less time with up to {} chains, the most that were walked",
            found.from
        ));
    } else {
        row.notes.push(format!("more than {} chains side by side do not help", found.from));
    }
    add_conditions(&mut row, runs[0].0, curves);
    second_thread::add(&mut row, record);
    report.findings.push(row);
}

/// Adds the memory in which the chains are, and what else is part of their loads.
pub(crate) fn add_conditions(row: &mut Finding, run: &TrialRun, curves: &Curves) {
    let memory = &run.trial.memory;
    let page = memory.page.token();
    row.notes.push(format!("random order over {} in {page} pages", size(memory.bytes as f64)));
    if memory.page != Pages::Huge || curves.splintered() {
        row.notes.push("page walks are part of these loads".to_owned());
    }
}

/// Returns why there is no finding of trials of this kind, although loads come from memory from a working set of `from` bytes on. `walked` is
/// what they walk.
pub(crate) fn why_not(
    record: &Record,
    from: f64,
    kind: PatternKind,
    (walked, finding): (&str, &Metric),
) -> Refused {
    let because = |reason: &str, remedy: &str| Refused {
        what: finding.pattern.to_owned(),
        reason: reason.to_owned(),
        remedy: remedy.to_owned(),
    };
    let mut tried = record.trials.iter().filter(|run| run.trial.kind() == kind);
    let Some(first) = tried.clone().next() else {
        return because(&format!("no {walked} were walked"), "give it a larger --budget");
    };
    if let Some((reason, remedy)) = tried.find_map(|run| run.refusal.as_ref()) {
        return because(reason, remedy);
    }
    let bytes = first.trial.memory.bytes as f64;
    if bytes < from {
        let reason = format!(
            "{walked} were walked over {}, and loads come from memory from {} on",
            size(bytes),
            size(from)
        );
        return because(&reason, "run it again");
    }
    because(&format!("samples of every trial of {walked} are missing"), "run it again")
}
