//! Sampled programs: an experiment without sessions. `fathom profile` runs a program once and writes where it executed to a
//! record, which is read, compared and reported like any other.

mod headline;
mod reading;
mod view;

use fathom_analysis::metrics;
use fathom_report::ReportKind;

use crate::experiment::{DefaultBudget, Experiment};

pub use reading::read;

/// The experiment's name.
pub const NAME: &str = "profile";

/// The kind of its reports.
pub static KIND: ReportKind = ReportKind {
    name: NAME,
    metrics: &[metrics::common::ALL, metrics::profile::ALL],
    headline: headline::headline,
    view: view::view,
};

/// The experiment. It plans no trials: the program is what runs.
pub static EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Samples where a program executes: functions and lines of the source by share of time",
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
