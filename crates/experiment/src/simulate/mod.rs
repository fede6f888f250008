//! Simulated programs: an experiment without sessions. `fathom simulate` runs a program and writes its counts as a record,
//! which is read, compared and reported like any other.

mod headline;
pub mod limit;
mod reading;
mod view;

use fathom_analysis::metrics;
use fathom_probe::pattern::Trial;
use fathom_report::ReportKind;

use crate::experiment::{DefaultBudget, Experiment};
use crate::record::Record;

pub use reading::read;

/// The experiment's name.
pub const NAME: &str = "simulate";

/// The kind of its reports.
pub static KIND: ReportKind = ReportKind {
    name: NAME,
    metrics: &[metrics::common::ALL, metrics::simulate::ALL],
    headline: headline::headline,
    view: view::view,
};

/// The experiment. It plans no trials: the program makes the accesses.
pub static EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Runs a program on described machines: misses, walks and cycles by level, function and line",
    help: "",
    options: &[],
    default_budget: DefaultBudget::both(0),
    plan: no_trials,
    read,
    report: &KIND,
    compared: |_| None,
    progress: None,
    resumes: false,
};

fn no_trials(_: &Record, _: u64, _: u64) -> Vec<Trial> {
    Vec::new()
}
