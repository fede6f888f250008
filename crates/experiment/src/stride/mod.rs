//! Stride: what does an access take at a step, and what does a line touched?
//!
//! Independent accesses walk a buffer upwards and round again, as a program's loop over an array does; the
//! buffer is there before the clock runs, or, beside that, is touched for the first time while it does. Below the line's length several accesses share one; from there on
//! each brings its own, and the time stops growing. A working set beyond one level and inside the next tells
//! whether that next one is on (study S3, whose own check could not).

mod coarse_scan;
mod first_touch;
mod headline;
mod lines;
pub mod options;
mod plan;
mod point;
mod prefetch;
mod reading;
mod request;
mod view;

use fathom_analysis::metrics;
use fathom_report::ReportKind;

pub use plan::plan;
pub use reading::read;

use crate::experiment::{DefaultBudget, Experiment};

use fathom_probe::machine::Operation;

/// The experiment's name.
pub const NAME: &str = "stride";

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Time an access and time a line touched, by working set, stride and operation: independent accesses",
    help: "Examples:
  fathom stride                                    inside and beyond each tier
  fathom stride --bytes 16K,1M,64M --strides 8,64 --op rmw --budget 20s
  fathom stride --on am5728 --bytes 256K --json
  fathom stride --first-touch --prefetch --budget 30s  page faults, and prefetch

Below the line's length several accesses share a line; from there on each brings
its own. A size between two levels tells whether the farther one is on; without
--bytes a coarse scan of dependent loads finds such sizes, and a sentence at each says
what answers there. What the core overlaps and fetches ahead is in the times of
sweeps. Exit status: as of the survey.",
    options: options::ALL,
    default_budget: DefaultBudget::both(10_000),
    plan,
    read,
    report: &KIND,
    progress: None,
    resumes: false,
};

/// Working sets when none are asked for and nothing could be sketched, bytes: inside the first level, inside the second, beyond a small
/// second level, and beyond all but the last levels of servers.
pub const SIZES: [u64; 4] = [16 << 10, 256 << 10, 1 << 20, 16 << 20];

/// Steps when none are asked for, bytes: below, at and beyond every line, and a page.
pub const STRIDES: [u64; 8] = [8, 16, 32, 64, 128, 256, 1024, 4096];

/// The line that is reckoned with where nobody claims one, bytes: the commonest.
const ASSUMED_LINE: u64 = 64;

/// The step that the study compared with its smallest one: 16 integers of 4 bytes, the machine's line.
const STUDY_STRIDE: u64 = 64;

/// The operations of a record, all of them where none was asked for.
fn operations(requested: &[Operation]) -> &[Operation] {
    if requested.is_empty() { Operation::STRIDES } else { requested }
}

/// What its reports are.
pub static KIND: ReportKind = ReportKind {
    name: NAME,
    metrics: &[
        metrics::common::ALL,
        metrics::stride::ALL,
        crate::latency_curve::METRICS,
        crate::prefetch::METRICS,
        metrics::claims::ALL,
    ],
    headline: headline::headline,
    view: view::view,
};
