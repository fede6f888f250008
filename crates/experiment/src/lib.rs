//! Memory experiments: one module per experiment (options, plan, reading, view), and the shared parts: record, session,
//! budgets, disturbance.
//!
//! A plan is a pure function of the record so far, a seed and a budget. A reading is a pure function of the record. So
//! a record can be judged again years later, from the file alone.
#![forbid(unsafe_code)]

pub mod budget;
pub mod cacheability;
mod calls;
mod claims;
mod clock;
pub mod conflict;
mod cost;
pub mod count;
mod counted;
pub mod disturbance;
pub mod dma;
pub mod doctor;
mod environment;
mod experiment;
mod geometry;
mod headline;
pub mod latency;
mod latency_curve;
mod machine_row;
pub mod options;
mod overlap;
#[cfg(test)]
mod planted_curve;
mod plausibility;
mod prefetch;
pub mod profile;
mod reading;
pub mod record;
pub mod report_kinds;
mod round;
mod scale;
mod second_thread;
pub mod session;
mod set_fill;
pub mod simulate;
pub mod stride;
pub mod survey;
mod trial_name;
pub mod wakeup;
mod window;

use fathom_analysis::findings::{Basis, Report};
use fathom_analysis::sensitivity;
use fathom_probe::machine::ClockTrust;
use fathom_units::facts::{self, Study, ValueClass};

pub use experiment::{DefaultBudget, Experiment, ProgressLine};
pub use machine_row::MACHINE_COLUMNS;

/// Every experiment, in the order of help.
pub static EXPERIMENTS: &[&Experiment] = &[
    &survey::EXPERIMENT,
    &latency::EXPERIMENT,
    &stride::EXPERIMENT,
    &conflict::EXPERIMENT,
    &cacheability::EXPERIMENT,
    &dma::EXPERIMENT,
    &wakeup::EXPERIMENT,
];

/// Experiments with the user's own programs. They have no sessions.
pub static OF_PROGRAMS: &[&Experiment] = &[&count::EXPERIMENT, &profile::EXPERIMENT, &simulate::EXPERIMENT];

/// Returns the experiment with this name.
#[must_use]
pub fn experiment(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().copied().chain(OF_PROGRAMS.iter().copied()).find(|experiment| experiment.name == name)
}

/// Checks that the record's experiment and options are known to this version. A record without a `run` line, which may
/// have been lost, is read as a survey: a survey accepts any trials.
///
/// # Errors
/// Names the line and the known experiments, keys or values.
pub fn check(record: &record::Record) -> Result<&'static Experiment, String> {
    let Some(run) = &record.run else { return Ok(&survey::EXPERIMENT) };
    let Some(experiment) = experiment(&run.experiment) else {
        let known: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        return Err(format!(
            "line {}: experiment '{}' is not one of: {}",
            record.run_line(),
            run.experiment,
            known.join(" ")
        ));
    };
    experiment.check(record).map(|()| experiment)
}

/// Describes the options in which two records of one experiment differ, one sentence each. Seeds are not compared:
/// another seed is a repetition.
#[must_use]
pub fn option_differences(a: &record::Record, b: &record::Record) -> Vec<String> {
    let budget_ms = |record: &record::Record| record.run.as_ref().map_or(0, |run| run.budget_ms);
    let (of_a, of_b) = (budget_ms(a), budget_ms(b));
    let budget = (of_a != of_b).then(|| format!("budget: {of_a} ms against {of_b} ms"));
    let options = check(a).map_or(&[][..], |experiment| experiment.options);
    budget.into_iter().chain(options::differences(options, a.asked(), b.asked())).collect()
}

/// Reads a record with the experiment that made it. Implausible findings are refused, doubtful ones marked.
///
/// # Errors
/// As [`check`].
pub fn read(record: &record::Record) -> Result<Report, String> {
    let experiment = check(record)?;
    let mut report = (experiment.read)(record);
    plausibility::refuse(record, &mut report);
    disturbance::mark(record, experiment.report, &mut report);
    if record.is_exact() {
        mark_exact(&mut report);
    }
    mark_fitted(experiment, &mut report);
    if let Some(sensitivity) = &record.sensitivity {
        sensitivity::attach(&mut report, sensitivity);
    }
    Ok(report)
}

/// Marks the measured values of a described machine without neighbours: they are exact for the description.
fn mark_exact(report: &mut Report) {
    for finding in report.findings.iter_mut().filter(|finding| finding.basis == Basis::Measured) {
        finding.basis = Basis::Exact;
    }
}

/// Marks the findings that are compared with a study of which the description of the machine has values.
fn mark_fitted(experiment: &Experiment, report: &mut Report) {
    if report.trust != ClockTrust::Modelled.token() {
        return;
    }
    let has_values = |study: &Study| {
        let name = facts::described_values(ValueClass::Study(*study));
        report.facts.iter().any(|(known, count)| *known == name && count != "0")
    };
    let studies: Vec<Study> = Study::ALL.iter().copied().filter(has_values).collect();
    for finding in &mut report.findings {
        finding.fitted = (experiment.compared)(&finding.key).filter(|study| studies.contains(study));
    }
}
