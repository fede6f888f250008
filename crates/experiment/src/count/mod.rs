//! Counted programs: an experiment without sessions. `fathom count` runs a program several times and writes each run to a
//! record, which is read, compared and reported like any other.

mod explanation;
mod headline;
mod reading;
mod view;

use fathom_analysis::metrics;
use fathom_report::ReportKind;

use crate::experiment::{DefaultBudget, Experiment};

pub use explanation::times_of_survey;
pub use reading::read;

/// The experiment's name.
pub const NAME: &str = "count";

/// The kind of its reports.
pub static KIND: ReportKind = ReportKind {
    name: NAME,
    metrics: &[metrics::common::ALL, metrics::count::ALL],
    headline: headline::headline,
    view: view::view,
};

/// The experiment. It plans no trials: the program is what runs.
pub static EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Runs a program and counts what it does: cycles, instructions, misses, stalls, faults",
    help: "",
    options: &[],
    default_budget: DefaultBudget::both(0),
    plan: |_, _, _| Vec::new(),
    read,
    report: &KIND,
    compared: |_| None,
    progress: None,
    resumes: false,
};
