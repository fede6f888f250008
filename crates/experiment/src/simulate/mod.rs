//! Simulated programs: an experiment without sessions. `fathom simulate` runs a program and writes its counts as a record,
//! which is read, compared and reported like any other.

mod headline;
pub mod limit;
pub mod quantity;
mod reading;
mod view;

use fathom_analysis::metrics;
use fathom_report::ReportKind;

use crate::experiment::Experiment;

pub use reading::read;
pub(crate) use reading::{UNITS_PER_CYCLE, doubts};
pub use view::{Candidate, best, machines};

/// The experiment's name.
pub const NAME: &str = "simulate";

/// The kind of its reports.
pub static KIND: ReportKind = ReportKind {
    name: NAME,
    metrics: &[metrics::common::ALL, metrics::simulate::ALL],
    headline: headline::headline,
    view: view::view,
    together: Some(view::records),
};

/// The experiment. It plans no trials: the program makes the accesses.
pub static EXPERIMENT: Experiment = Experiment::of_a_program(
    &KIND,
    "Runs a program on described machines: misses, walks and cycles by level, function and line",
    read,
);
