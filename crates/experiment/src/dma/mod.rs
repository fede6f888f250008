//! DMA buffers: what a driver pays to give data to a device and to get it back, by five strategies.
//!
//! Every strategy in both directions at sizes from a cache line to a mebibyte: the CPU's time in parts, what one transfer
//! after the other moves a second, what of a CPU a link takes at its rate, and what the working set of somebody else
//! lost by a transfer. Study S2 compared two of the strategies, in one driver; which is ahead depends on size, direction
//! and machine, and where that changes is looked for.

mod crossings;
mod headline;
pub mod options;
mod plan;
mod points;
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
    about: "What a driver pays to give data to a device and to get it back: five strategies, by size and direction",
    help: "Examples:
  fathom dma                                       this machine, through the driver
  fathom dma --on omap3-sdio --link 18.67Mbit      the study's board, described
  fathom dma --on omap3-sdio --maintenance whole-cache --bytes 1536
  fathom dma --on bcm2711 --driver-bug no-unmap       what that bug does to the data
  fathom dma --substitute flush                      without the driver

streaming-copy maps a cached buffer for each transfer, uncached-copy copies
through one that is never mapped again, zero-copy maps the packet itself,
persistent-copy synchronises a buffer that stays mapped, coherent uses the
device's memory in place. Data are compared at the far end; where they differ
there is no time. Exit status: as of the survey.",
    options: options::ALL,
    // On a model a mebibyte in both directions by five strategies, some rounds: 60 million accesses.
    default_budget: DefaultBudget { hardware_ms: 10_000, modelled_ms: 20_000 },
    plan,
    read,
    report: &KIND,
    progress: None,
    resumes: false,
};

/// Bytes of a transfer when none are asked for: powers of two, and a full Ethernet frame in three SDIO blocks.
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

/// Largest transfer of which a victim is asked: what a network or a disk moves at once. Larger ones leave nothing of a
/// first level whatever the strategy.
const POLLUTING: u64 = 64 << 10;

/// The working set of the victim when none is asked for, bytes: the first level of most cores.
pub const POLLUTION_SET: u64 = 32 << 10;

/// One strategy in one direction.
pub(crate) type Route = (Strategy, Direction);

/// Strategies, directions and sizes that a record asks for, each list once and in order.
pub(crate) struct Wanted {
    pub(crate) routes: Vec<Route>,
    pub(crate) sizes: Vec<u64>,
    pub(crate) pollution_set: u64,
}

impl Wanted {
    pub(crate) fn of(record: &Record) -> Wanted {
        let asked = Options::of(record);
        let has = |s: &Strategy| asked.strategies.is_empty() || asked.strategies.contains(s);
        let goes = |d: &Direction| asked.directions.is_empty() || asked.directions.contains(d);
        let directions = Direction::ALL.iter().copied().filter(goes);
        let strategies = || Strategy::ALL.iter().copied().filter(has);
        let routes = directions.flat_map(|d| strategies().map(move |s| (s, d))).collect();
        let mut sizes = if asked.bytes.is_empty() { SIZES.to_vec() } else { asked.bytes };
        sizes.sort_unstable();
        sizes.dedup();
        Wanted { routes, sizes, pollution_set: asked.pollution_set.unwrap_or(POLLUTION_SET) }
    }

    /// Sizes at which the victim is asked too.
    pub(crate) fn polluting(&self) -> impl Iterator<Item = u64> + '_ {
        let some = self.pollution_set > 0;
        self.sizes.iter().copied().filter(move |&bytes| some && bytes <= POLLUTING)
    }
}

/// What its reports are.
pub static KIND: ReportKind = ReportKind {
    name: NAME,
    metrics: &[metrics::common::ALL, metrics::dma::ALL, metrics::claims::ALL],
    headline: headline::headline,
    view: view::view,
};
