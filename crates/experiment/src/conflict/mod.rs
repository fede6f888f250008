//! Conflict: how is each level built, and what does it cost when lines compete for a set?

mod colours;
mod headline;
pub mod options;
mod plan;
mod reading;
mod study;
mod view;

use fathom_analysis::metrics;
use fathom_report::ReportKind;

use crate::experiment::{DefaultBudget, Experiment};

pub use plan::plan;
pub use reading::read;

/// The experiment's name.
pub const NAME: &str = "conflict";

/// What its reports are.
pub static KIND: ReportKind = ReportKind {
    name: NAME,
    metrics: &[
        metrics::common::ALL,
        crate::latency_curve::TIERS,
        metrics::conflict::ALL,
        metrics::claims::ALL,
    ],
    headline: headline::headline,
    view: view::view,
};

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "How each level is built: ways, sets, line, replacement; and what lines that compete for a set cost",
    help: "Examples:
  fathom conflict                                  this machine
  fathom conflict --on s1-8way --json              a described one, for a script

Lines at a stride of 4 KiB fall into the same sets of most first levels; with one
more of them than ways, some miss. Exit status: as of the survey.",
    options: options::ALL,
    // On hardware conflicts ask what takes a second beside their latency curve; on a model that is counted in accesses, and
    // the latency curve of a large machine with a coarse clock takes most of them.
    default_budget: DefaultBudget { hardware_ms: 5_000, modelled_ms: 10_000 },
    plan,
    read,
    report: &KIND,
    progress: None,
    resumes: false,
};
