//! Time per access and time per line by stride, working set and operation.
//!
//! Independent accesses sweep a buffer upwards and repeatedly, like a loop over an array. The buffer is mapped before
//! the clock starts, or with `--first-touch` touched for the first time while it runs. At strides below the line size
//! several accesses share a line. At longer strides each access fetches its own line, and the time stops growing. A
//! working set larger than one level and smaller than the next shows whether that next level is enabled (study S3,
//! whose own check could not).

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
use fathom_units::facts::Study;

/// The experiment's name.
pub const NAME: &str = "stride";

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Time per access and per line touched, by working set, stride and operation: independent accesses",
    help: "Examples:
  fathom stride                                        sizes inside and beyond each tier
  fathom stride --bytes 16K,1M,64M --strides 8,64 --op rmw --budget 20s
  fathom stride --on am5728 --bytes 256K --json
  fathom stride --first-touch --prefetch --budget 30s  page faults and prefetch

At strides below the line size several accesses share a line; at larger ones each access fetches a line. A size \
           between two levels shows whether the farther one is on. Without --bytes, a coarse scan of dependent loads \
           finds such sizes and reports the level that serves each of them. The times of sweeps include overlap and \
           prefetch. Exit status: as for survey.",
    options: options::ALL,
    default_budget: DefaultBudget::both(10_000),
    plan,
    read,
    report: &KIND,
    compared: |key| (*key.metric == metrics::stride::STRIDE_LAPS_RATIO).then_some(Study::S3),
    progress: None,
    resumes: false,
};

/// Default working sets without a coarse scan, bytes: inside the first level, inside the second, beyond a small second
/// level, and beyond all but the last levels of servers.
pub const SIZES: [u64; 4] = [16 << 10, 256 << 10, 1 << 20, 16 << 20];

/// Default strides, bytes: below, at and beyond every line, and a page.
pub const STRIDES: [u64; 8] = [8, 16, 32, 64, 128, 256, 1024, 4096];

/// Line size if no source claims one, bytes: the most common one.
const ASSUMED_LINE: u64 = 64;

/// The stride that study S3 compared with its smallest one: 16 integers of 4 bytes, the machine's line.
const STUDY_STRIDE: u64 = 64;

/// Returns the operations of a record; all of them if none was requested.
fn operations(requested: &[Operation]) -> &[Operation] {
    if requested.is_empty() { Operation::STRIDES } else { requested }
}

/// The kind of its reports.
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
    together: None,
};
