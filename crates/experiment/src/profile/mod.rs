//! Sampled programs: an experiment without sessions. `fathom profile` runs a program once and writes where it executed to a
//! record, which is read, compared and reported like any other.

mod headline;
mod reading;
mod view;

use fathom_analysis::metrics;
use fathom_report::ReportKind;

use crate::experiment::Experiment;
use crate::reading::INVENTED;

pub use reading::read;

/// The experiment's name.
pub const NAME: &str = "profile";

/// The kernel's timer, by its name in perf-list(1): all its samples have the same weight.
const CPU_CLOCK: &str = "cpu-clock";
/// perf's own clock of a program.
const TASK_CLOCK: &str = "task-clock";
/// Accesses to pages that the kernel has to provide.
const PAGE_FAULTS: &str = "page-faults";
/// Cycles of the processor.
const CYCLES: &str = "cycles";

/// Returns an event's name without the modifiers that perf writes: `cycles:u`.
fn plain(event: &str) -> &str {
    event.split(':').next().unwrap_or(event)
}

/// Returns whether an event measures time, or cannot be without it.
fn is_of_time(event: &str) -> bool {
    [CPU_CLOCK, TASK_CLOCK].contains(&plain(event)) || INVENTED.contains(&plain(event))
}

/// Events that name the instruction itself: loads of PEBS and operations of IBS, as fathom and perf write them.
const PRECISE: [&str; 3] = ["mem-loads", "ibs_op", "ldlat-loads"];
/// Begin of the events of SPE, which do so too: `arm_spe`, `arm_spe_0/ts_enable=1/`.
const SPE: &str = "arm_spe";

/// Returns whether samples may name an instruction after the one that made the event: those of an interrupt do. A fault is of its own
/// instruction, and so is a precise event.
fn has_skid(event: &str) -> bool {
    plain(event) != PAGE_FAULTS && !is_precise(event)
}

/// Returns whether an event is one of PEBS, IBS or SPE. perf's names are as `cpu/mem-loads,ldlat=30/P` or `ibs_op//`.
fn is_precise(event: &str) -> bool {
    event.split(['/', ',', ':']).any(|part| PRECISE.contains(&part) || part.starts_with(SPE))
}

/// The kind of its reports.
pub static KIND: ReportKind = ReportKind {
    name: NAME,
    metrics: &[metrics::common::ALL, metrics::profile::ALL],
    headline: headline::headline,
    view: view::view,
    together: None,
};

/// The experiment. It plans no trials: the program is what runs.
pub static EXPERIMENT: Experiment = Experiment::of_a_program(
    &KIND,
    "Samples where a program executes: functions and lines of the source by share of time",
    read,
);
