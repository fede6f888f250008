//! Counted programs: an experiment without sessions. `fathom count` runs a program several times and writes each run to a
//! record, which is read, compared and reported like any other.

mod explanation;
mod headline;
mod reading;
mod view;

use fathom_analysis::metrics;
use fathom_report::ReportKind;

use crate::experiment::Experiment;

pub use explanation::times_of_survey;
pub use reading::read;

/// The experiment's name.
pub const NAME: &str = "count";

/// CPU time, ns, among the events that the kernel counts.
const TASK_CLOCK: &str = "task-clock";
/// Events that the kernel counts.
const OF_THE_KERNEL: [&str; 3] = [TASK_CLOCK, "page-faults", "context-switches"];

/// The fact that names the table of a simulated program's events.
const EVENT_TABLE: &str = "events.table";

/// The kind of its reports.
pub static KIND: ReportKind = ReportKind {
    name: NAME,
    metrics: &[metrics::common::ALL, metrics::count::ALL],
    headline: headline::headline,
    view: view::view,
    together: None,
};

/// The experiment. It plans no trials: the program is what runs.
pub static EXPERIMENT: Experiment = Experiment::of_a_program(
    &KIND,
    "Runs a program and counts what it does: cycles, instructions, misses, stalls, faults",
    read,
);
