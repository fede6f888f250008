//! DMA buffers: CPU cost of five strategies to pass data to a device and back.
//!
//! Each strategy is measured in both directions at sizes from a cache line to a mebibyte: CPU time in parts, throughput
//! of consecutive transfers, CPU utilisation at a link's rate, and slowdown of another working set. Study S2 compared
//! two of the strategies in one driver. The best strategy depends on size, direction and machine; the sizes at which it
//! changes are located.

mod crossings;
mod headline;
pub mod options;
mod plan;
mod points;
mod pollution;
mod reading;
mod study;
mod view;

use fathom_analysis::metrics;
use fathom_report::ReportKind;

pub use plan::plan;
pub use reading::read;

use fathom_probe::machine::dma::{Direction, Strategy};

use crate::experiment::{DefaultBudget, Experiment};

use crate::record::Record;
use options::Options;

/// The experiment's name.
pub const NAME: &str = "dma";

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "CPU cost of passing data to a device and back: five strategies, by size and direction",
    help: "Examples:
  fathom dma                                     this machine, with the driver
  fathom dma --on omap3-sdio --link 18.67Mbit    the study's board, described
  fathom dma --on omap3-sdio --maintenance whole-cache --bytes 1536
  fathom dma --on bcm2711 --driver-bug no-unmap  effect of this bug on the data
  fathom dma --substitute flush                  without the driver

streaming-copy maps a cached buffer for each transfer. uncached-copy copies through an uncached buffer. zero-copy \
           maps the packet itself. persistent-copy synchronises a buffer that stays mapped. coherent uses the \
           device's memory in place. The delivered data are verified; if they are wrong, no time is reported. Exit \
           status: as for survey.",
    options: options::ALL,
    // On a model: a mebibyte in both directions with five strategies, several rounds: 60 million accesses.
    default_budget: DefaultBudget { hardware_ms: 10_000, modelled_ms: 20_000 },
    plan,
    read,
    report: &KIND,
    compared: study::compared,
    progress: None,
    resumes: false,
};

/// Default transfer sizes, bytes: powers of two, and a full Ethernet frame in three SDIO blocks.
pub const SIZES: [u64; 14] = [
    64,
    128,
    256,
    512,
    1 << 10,
    STUDY_BYTES,
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
];

/// A packet of study S2: 1500 bytes and their headers, in blocks of 512.
pub(crate) const STUDY_BYTES: u64 = 1536;

/// Largest transfer for which cache pollution is measured: a typical unit of network and disk transfers. Larger ones
/// evict a whole first level with any strategy.
const MAX_POLLUTING_BYTES: u64 = 64 << 10;

/// Default working set for cache pollution, bytes: the first level of most cores.
pub const POLLUTION_SET: u64 = 32 << 10;

/// One strategy in one direction.
pub(crate) type Route = (Strategy, Direction);

/// The requested strategies, directions and sizes of a record, each list without duplicates and in order.
pub(crate) struct Request {
    pub(crate) routes: Vec<Route>,
    pub(crate) sizes: Vec<u64>,
    pub(crate) pollution_set: u64,
}

impl Request {
    pub(crate) fn of(record: &Record) -> Request {
        let asked = Options::of(record);
        let has = |s: &Strategy| asked.strategies.is_empty() || asked.strategies.contains(s);
        let has_direction = |d: &Direction| asked.directions.is_empty() || asked.directions.contains(d);
        let directions = Direction::ALL.iter().copied().filter(has_direction);
        let strategies = || Strategy::ALL.iter().copied().filter(has);
        let routes = directions.flat_map(|d| strategies().map(move |s| (s, d))).collect();
        let mut sizes = if asked.bytes.is_empty() { SIZES.to_vec() } else { asked.bytes };
        sizes.sort_unstable();
        sizes.dedup();
        Request { routes, sizes, pollution_set: asked.pollution_set.unwrap_or(POLLUTION_SET) }
    }

    /// Returns the sizes at which cache pollution is measured too.
    pub(crate) fn polluting(&self) -> impl Iterator<Item = u64> + '_ {
        let enabled = self.pollution_set > 0;
        self.sizes.iter().copied().filter(move |&bytes| enabled && bytes <= MAX_POLLUTING_BYTES)
    }
}

/// The kind of its reports.
pub static KIND: ReportKind = ReportKind {
    name: NAME,
    metrics: &[metrics::common::ALL, metrics::dma::ALL, metrics::claims::ALL],
    headline: headline::headline,
    view: view::view,
    together: None,
};
