//! Sensitivity of a session on a described machine to the values of the description: the session is repeated with each
//! end of each value's plausible range.
//!
//! For some sessions on built-in machines this was done ahead: `machines/sensitivity.txt` has the results
//! (`scripts/sensitivity` writes it), by the digest of the description and the command.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use fathom_analysis::findings::Report;
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
    let mut all = Sensitivity::default();
    for variation in variations {
        let mut reports: [Option<Report>; 2] = [None, None];
        let mut ends = variation.ends.clone().map(|end| Some(plain(&end)));
        for ((report, shown), end) in reports.iter_mut().zip(&mut ends).zip(&variation.ends) {
            if stop.signal().is_some() {
                return Ok(None);
            }
            if *end == variation.here {
                continue;
            }
            match other(experiment, run, &description, &variation, end) {
                Some(record) => *report = Some(judged(&record)?),
                None => *shown = None,
            }
        }
        let at = all.varied.len();
        all.effects.extend(sensitivity::effects(at, &here, reports.each_ref().map(Option::as_ref)));
        let (value, class) = (variation.key.to_string(), variation.class);
        all.varied.push(Varied { value, class, ends });
    }
    all.keep_strongest();
    Ok(Some(sensitivity_lines(&all)))
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
