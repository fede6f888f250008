//! Sensitivity of a session on a described machine to the values of the description: the session is repeated with each
//! end of each value's plausible range.
//!
//! For some sessions on built-in machines this was done ahead: `machines/sensitivity.txt` has the results
//! (`scripts/sensitivity` writes it), by the digest of the description and the command.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use fathom_analysis::findings::Varied;
use fathom_analysis::sensitivity::{self, Sensitivity};
use fathom_experiment::Experiment;
use fathom_experiment::record::{Record, Run, sensitivity_lines};
use fathom_experiment::session::{InProcess, Session};
use fathom_model::Description;
use fathom_model::description::Variation;
use fathom_probe::wire::Line;
use fathom_units::facts;

use super::{Exchange, Outcome, Stop};
use crate::failure::{Failure, print_message};
use crate::subjects::{self, Subject};

/// Results that were computed ahead.
const AHEAD: &str = include_str!("../../../../machines/sensitivity.txt");

/// Checks that a subject's description can be varied.
pub(super) fn allowed(subject: &Subject) -> Result<(), Failure> {
    if subject.modelled {
        return Ok(());
    }
    let what = format!("--sensitivity: '{}' has no description whose values could be varied", subject.name);
    Err(Failure::usage(what, "give a described machine: --on NAME, or --on ./FILE.toml"))
}

/// Returns the description of a record's machine, with the name of the machine.
fn description(record: &Record) -> Option<Description> {
    let text = record.text(facts::DESCRIBED_FILE)?;
    let name = record.text(facts::MACHINE_NAME)?;
    Description::parse(name, text).ok()
}

/// Repeats the session of a record with varied values. Returns the lines for the record; `None` after a signal.
fn compute(
    experiment: &'static Experiment,
    record: &Record,
    stop: &Stop,
    quiet: bool,
) -> Result<Option<Vec<Line>>, Failure> {
    let (Some(description), Some(run)) = (description(record), &record.run) else {
        return Err(Failure::new("--sensitivity: the machine did not report its description", ""));
    };
    let judged = |record: &Record| {
        fathom_experiment::read(record).map_err(|why| Failure::new(format!("--sensitivity: {why}"), ""))
    };
    let here = judged(record)?;
    let variations = description.variations();
    if !quiet && std::io::stderr().is_terminal() {
        print_message(&format!("sensitivity: varying {} values, one at a time", variations.len()));
    }
    let ends = ends_of(&variations);
    let session = |nth: usize, end: &str| {
        let record = other(experiment, run, &description, &variations[nth], end);
        record.as_ref().map(judged).transpose()
    };
    let Some(reports) = in_parallel(&ends, stop, &session) else { return Ok(None) };
    let mut reports = ends.iter().zip(reports).collect::<Vec<_>>().into_iter().peekable();
    let mut all = Sensitivity::default();
    for (at, variation) in variations.iter().enumerate() {
        let mut of = Vec::new();
        let mut shown = variation.ends.clone().map(|end| Some(plain(&end)));
        while let Some((end, report)) = reports.next_if(|(end, _)| end.varied == at) {
            let report = report?;
            if report.is_none() {
                shown[end.nth] = None;
            }
            of.extend(report);
        }
        all.effects.extend(sensitivity::effects(at, &here, &of));
        let (value, class) = (variation.key.to_string(), variation.class);
        all.varied.push(Varied { value, class, ends: shown });
    }
    all.keep_strongest();
    Ok(Some(sensitivity_lines(&all)))
}

/// A session to run: one end of the range of one value.
struct End<'a> {
    /// Place of the value among those that are varied.
    varied: usize,
    /// Which of the two ends it is.
    nth: usize,
    value: &'a str,
}

/// Returns the ends at which a value is not what it is in the description anyway.
fn ends_of(variations: &[Variation]) -> Vec<End<'_>> {
    let ends = variations.iter().enumerate().flat_map(|(varied, variation)| {
        let ends = variation.ends.iter().enumerate().filter(|(_, end)| **end != variation.here);
        ends.map(move |(nth, value)| End { varied, nth, value })
    });
    ends.collect()
}

/// Runs the session of every end on all CPUs. Returns the results in the order of the ends; `None` after a signal.
fn in_parallel<T: Send>(
    ends: &[End],
    stop: &Stop,
    session: &(impl Fn(usize, &str) -> T + Sync),
) -> Option<Vec<T>> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<T>>> = Mutex::new(ends.iter().map(|_| None).collect());
    let worker = || {
        while stop.signal().is_none() {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(end) = ends.get(i) else { return };
            let result = session(end.varied, end.value);
            results.lock().unwrap_or_else(PoisonError::into_inner)[i] = Some(result);
        }
    };
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| (0..cpus.min(ends.len())).for_each(|_| drop(scope.spawn(worker))));
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect()
}

/// Returns a value without the quotes of the file.
fn plain(value: &str) -> String {
    value.trim_matches('"').to_owned()
}

/// Runs the session with one other value; `None` if that is not a possible machine, or there is no memory for it.
fn other(
    experiment: &'static Experiment,
    run: &Run,
    description: &Description,
    variation: &Variation,
    end: &str,
) -> Option<Record> {
    let other = description.with(&BTreeMap::from([(variation.key, end.to_owned())])).ok()?;
    let mut model = subjects::model_of(&run.subject, &other, run.seed).ok()?;
    let session = Session::new(experiment.plan, run.clone());
    Some(InProcess::new(session).run(&mut model).1)
}

/// Returns the lines that were computed ahead for a record's description and command; none if they were not.
fn ahead(record: &Record) -> Vec<Line> {
    let (Some(digest), Some(run)) = (record.text(facts::DESCRIBED_DIGEST), &record.run) else {
        return Vec::new();
    };
    let heading = Line::new("ahead").text("command", &run.command).text("digest", digest).render();
    let block = AHEAD.lines().skip_while(|line| *line != heading).skip(1);
    let block = block.take_while(|line| !line.starts_with("ahead "));
    block.filter_map(|line| Line::parse(line).ok()).collect()
}

impl Exchange {
    /// Runs the session, and adds to a complete one of a described machine what its findings depend on: computed now, if
    /// that is requested, or ahead for a built-in machine.
    pub(super) fn run_with_sensitivity(
        &mut self,
        experiment: &'static Experiment,
        requested: bool,
        quiet: bool,
    ) -> Outcome {
        let outcome = self.run();
        if !(matches!(outcome, Outcome::Complete) && allowed(&self.subject).is_ok()) {
            return outcome;
        }
        let record = &self.session.record;
        let lines = if requested {
            match compute(experiment, record, &self.stop, quiet) {
                Ok(Some(lines)) => lines,
                Ok(None) => return Outcome::Stopped(self.stop.signal().unwrap_or_default()),
                Err(failure) => return Outcome::Failed(failure),
            }
        } else {
            ahead(record)
        };
        self.session.add(&lines).iter().for_each(|line| self.writer.line(line));
        outcome
    }
}
