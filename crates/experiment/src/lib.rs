//! Experiments: one folder a question, with its options, its plan and its reading; and what they share: the record,
//! the session, budgets, disturbance.
//!
//! An experiment's plan is a pure function of the record so far, a seed and a budget; its reading is a
//! pure function of the record. So anything can be judged again years later, from the file alone.
#![forbid(unsafe_code)]

mod bounds;
pub mod budget;
pub mod cacheability;
mod claims;
mod clock;
pub mod conflict;
mod cost;
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
mod prefetch;
mod reading;
pub mod record;
pub mod report_kinds;
mod round;
mod scale;
pub mod session;
pub mod stride;
pub mod survey;
pub mod wakeup;

pub use experiment::{DefaultBudget, Experiment, ProgressLine};
pub use machine_row::MACHINE_COLUMNS;
pub use reading::WARNINGS;

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

/// The experiment of a name.
#[must_use]
pub fn experiment(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().copied().find(|experiment| experiment.name == name)
}

/// Checks that a record is one of an experiment of this version, and was asked what that experiment can be asked. A record
/// without a `run` line, which may have been lost, is read as a survey: that reads whatever loads there are.
///
/// # Errors
/// The line, and the experiments, keys or values that there are.
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

/// What two records of one experiment were asked differently, a sentence each. Seeds may differ: that is a repetition.
#[must_use]
pub fn option_differences(a: &record::Record, b: &record::Record) -> Vec<String> {
    let budget_ms = |record: &record::Record| record.run.as_ref().map_or(0, |run| run.budget_ms);
    let (of_a, of_b) = (budget_ms(a), budget_ms(b));
    let budget = (of_a != of_b).then(|| format!("budget: {of_a} ms against {of_b} ms"));
    let options = check(a).map_or(&[][..], |experiment| experiment.options);
    budget.into_iter().chain(options::differences(options, a.asked(), b.asked())).collect()
}

/// Reads a record by the experiment that made it. A time below zero and a share outside of 0 to 1 are refused.
///
/// # Errors
/// As of [`check`].
pub fn read(record: &record::Record) -> Result<fathom_analysis::findings::Report, String> {
    let mut report = (check(record)?.read)(record);
    bounds::refuse_impossible(&mut report);
    Ok(report)
}
