//! Sampled programs: an experiment without sessions. `fathom profile` runs a program once and writes where it executed to a
//! record, which is read, compared and reported like any other.

mod headline;
mod reading;
mod view;

use fathom_analysis::metrics;
use fathom_report::ReportKind;

use crate::experiment::Experiment;

pub use reading::read;

/// The experiment's name.
pub const NAME: &str = "profile";

/// Events that make samples, by their names in perf-list(1).
pub const EVENTS: [&str; 2] = [CPU_CLOCK, CYCLES];
/// The kernel's timer: all its samples have the same weight.
const CPU_CLOCK: &str = "cpu-clock";
/// Cycles of the processor.
const CYCLES: &str = "cycles";

/// The kind of its reports.
pub static KIND: ReportKind = ReportKind {
    name: NAME,
    metrics: &[metrics::common::ALL, metrics::profile::ALL],
    headline: headline::headline,
    view: view::view,
};

/// The experiment. It plans no trials: the program is what runs.
pub static EXPERIMENT: Experiment = Experiment::of_a_program(
    &KIND,
    "Samples where a program executes: functions and lines of the source by share of time",
    read,
);
