//! Latency of single loads at given working sets.
//!
//! A chase with the n/2n method gives the mean, without any fixed cost. Single loads, timed one by one, give the
//! histogram (study S4); every sample includes the clock reading and an empty pipeline. The difference of the two in
//! the first level is the bias, which follows from the record alone.

mod events;
mod headline;
pub mod ladder;
mod measure;
pub mod options;
mod plan;
mod reading;
mod sizes;
mod view;

use crate::scale::STRIDE;
use fathom_analysis::metrics;
use fathom_report::ReportKind;

pub use plan::plan;
pub use reading::read;

use crate::experiment::{DefaultBudget, Experiment};

/// The experiment's name.
pub const NAME: &str = "latency";

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Access time load by load: histograms of single loads, their bias, tier and TLB of each size",
    help: "Examples:
  fathom latency                                  16K, 256K, 1M, 16M and 64M
  fathom latency --bytes 8K,48K,2M --budget 5s
  fathom latency --on bcm2835 --bytes 8K,64K,256K,1M --json
  fathom latency --bytes 64M --ladder order,page --budget 30s

Every sample times one load (or, if the clock is coarse, a few dependent ones, as reported). The time that the \
           measurement itself adds is bias.sample. It is subtracted from the peaks, not from the histograms. Exit \
           status: as for survey.",
    options: options::ALL,
    default_budget: DefaultBudget::both(10_000),
    plan,
    read,
    report: &KIND,
    compared: |_| None,
    progress: None,
    resumes: false,
};

/// Default working sets, bytes: first level, second level, and memory beyond most last levels.
pub const SIZES: [u64; 5] = [16 << 10, 256 << 10, 1 << 20, 16 << 20, 64 << 20];

/// Working set whose single loads give the bias, bytes: it fits in every first level.
const REFERENCE: u64 = 4 << 10;

/// The kind of its reports.
pub static KIND: ReportKind = ReportKind {
    name: NAME,
    metrics: &[metrics::common::ALL, metrics::latency::ALL, metrics::claims::ALL],
    headline: headline::headline,
    view: view::view,
    together: None,
};
