//! Latency: what does one load take at a given working set, load by load?
//!
//! The chase by the n/2n method gives the mean, free of every fixed cost; single loads, timed one by one,
//! give the histogram (study S4), with the clock's reading and the empty pipeline in every sample. The
//! difference of the two where the first level answers is the bias, and it comes from the record alone.

mod headline;
pub mod ladder;
mod plan;
mod reading;
mod view;

use crate::common::STRIDE;
use fathom_analysis::metrics;
use fathom_report::ReportKind;

pub use plan::plan;
pub use reading::read;

/// The experiment's name.
pub const NAME: &str = "latency";

/// Working sets when none are asked for, bytes: first level, second, and memory beyond most last levels.
pub const SIZES: [u64; 5] = [16 << 10, 256 << 10, 1 << 20, 16 << 20, 64 << 20];

/// Working set whose single loads tell the bias, bytes: it lies in every first level.
const REFERENCE: u64 = 4 << 10;

/// What reports of this experiment are.
pub static KIND: ReportKind = ReportKind {
    name: NAME,
    metrics: &[metrics::common::ALL, metrics::latency::ALL, metrics::claims::ALL],
    headline: headline::headline,
    view: view::view,
};
