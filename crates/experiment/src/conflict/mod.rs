//! Conflict: geometry of each level, and the cost of lines that compete for a set.

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

/// The kind of its reports.
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
    together: None,
};

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Cache geometry by tier (ways, sets, line, replacement) and cost of lines that compete for a set",
    help: "Examples:
  fathom conflict                      this machine
  fathom conflict --on s1-8way --json  a described machine, for a script

Lines at a stride of 4 KiB map to the same set of most first-level caches. If there are more lines than ways, some \
           miss. Exit status: as for survey.",
    options: options::ALL,
    // On hardware the conflict trials take about a second in addition to the latency curve. A model counts accesses,
    // and the latency curve of a large machine with a coarse clock takes most of them.
    default_budget: DefaultBudget { hardware_ms: 5_000, modelled_ms: 10_000 },
    plan,
    read,
    report: &KIND,
    compared: study::compared,
    progress: None,
    resumes: false,
};
