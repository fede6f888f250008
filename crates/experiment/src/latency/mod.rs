//! Latency: what does one load take at a given working set, load by load?
//!
//! The chase by the n/2n method gives the mean, free of every fixed cost; single loads, timed one by one,
//! give the histogram (study S4), with the clock's reading and the empty pipeline in every sample. The
//! difference of the two where the first level serves is the bias, and it comes from the record alone.

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
  fathom latency                                   16K, 256K, 1M, 16M and 64M
  fathom latency --bytes 8K,48K,2M --budget 5s
  fathom latency --on bcm2835 --bytes 8K,64K,256K,1M --json
  fathom latency --bytes 64M --ladder order,page --budget 30s

Every sample times one load (or, where the clock is coarse, a few dependent
ones, which is said). What the timing itself adds is the row bias.sample; the
peaks are without it, the histograms with it. Exit status: as of the survey.",
    options: options::ALL,
    default_budget: DefaultBudget::both(10_000),
    plan,
    read,
    report: &KIND,
    progress: None,
    resumes: false,
};

/// Working sets when none are asked for, bytes: first level, second, and memory beyond most last levels.
pub const SIZES: [u64; 5] = [16 << 10, 256 << 10, 1 << 20, 16 << 20, 64 << 20];

/// Working set whose single loads tell the bias, bytes: it lies in every first level.
const REFERENCE: u64 = 4 << 10;

/// What its reports are.
pub static KIND: ReportKind = ReportKind {
    name: NAME,
    metrics: &[metrics::common::ALL, metrics::latency::ALL, metrics::claims::ALL],
    headline: headline::headline,
    view: view::view,
};
