//! Cacheability: the times of operations on the same memory with different attributes.
//!
//! Measures every operation on small working sets, with every attribute that the machine supplies: write-back, the
//! default of every program, write-through, non-cacheable and device. The attribute in the tables is read back if the
//! machine can do so ("translated as"), and compared with the behaviour shown by the times ("behaves as"): a core may
//! treat an attribute as another one, and a hypervisor may override it. Study S0 compared two attributes with one loop.

mod behaviour;
mod headline;
mod mair_bytes;
pub mod options;
mod plan;
mod points;
mod reading;
mod trials;
mod view;
mod walks;

use fathom_analysis::metrics;
use fathom_report::ReportKind;

pub use plan::plan;
pub use reading::read;

use crate::experiment::{DefaultBudget, Experiment};

use fathom_probe::machine::{Attribute, Controls, Operation};
use fathom_probe::pattern::Trial;
use fathom_units::facts::Study;

use crate::record::Record;
use options::Options;

/// The experiment's name.
pub const NAME: &str = "cacheability";

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Time per operation on the same memory with different attributes, cached and uncached",
    help: "Examples:
  fathom cacheability --on bcm2837        a described machine, all attributes
  fathom cacheability --on bcm2837 --op rmw --bytes 2560 --rounds 20000
  fathom cacheability --substitute flush  this machine, without the driver

Each mapping is reported as its page tables define it (translated as) and as its times show it (behaves as). A core \
           may treat an attribute as another one, and a hypervisor may override it; then there is no ratio. If a \
           subject provides only write-back memory, that is reported with a remedy. Exit status: as for survey.",
    options: options::ALL,
    default_budget: DefaultBudget::both(10_000),
    plan,
    read,
    report: &KIND,
    compared: |key| (*key.metric == metrics::cacheability::CACHEABILITY_STUDY).then_some(Study::S0),
    progress: None,
    resumes: false,
};

/// Default working sets, bytes: those of the study's text and of its code, and sizes beyond first and second levels.
pub const SIZES: [u64; 5] = [320, STUDY_BYTES, 16 << 10, 128 << 10, 1 << 20];

/// Working set of the published code of study S0: 320 words of 8 bytes, which its text calls 5 lines.
const STUDY_BYTES: u64 = 2560;

/// Default number of rounds over the working set for totals: the study's.
pub const ROUNDS: u64 = 20_000;

/// Bytes between cells: the study's words.
const STRIDE: u64 = 8;

/// A stride of whole lines on most machines: stores cannot be combined.
const SEPARATE_LINES: u64 = 64;

/// How uncached memory is obtained: an attribute, or a flush after each access as a substitute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UncachedMethod {
    /// A mapping with this attribute.
    Attribute(Attribute),
    /// Write-back memory, each access followed by a clean and invalidate of its line.
    Flush,
    /// A mapping with this byte of MAIR_EL1, regardless of its meaning.
    Byte(u8),
}

impl UncachedMethod {
    /// Returns its word in findings.
    pub(crate) fn token(self) -> &'static str {
        match self {
            UncachedMethod::Attribute(attribute) => attribute.token(),
            UncachedMethod::Flush => "flush",
            UncachedMethod::Byte(_) => "mair",
        }
    }

    fn of(trial: &Trial) -> UncachedMethod {
        match trial.controls {
            Controls { mair: Some(byte), .. } => UncachedMethod::Byte(byte),
            Controls { flush: true, .. } => UncachedMethod::Flush,
            _ => UncachedMethod::Attribute(trial.memory.attribute),
        }
    }
}

/// The requested attributes, operations, working sets and rounds of a record, each list without duplicates and in
/// order.
struct Request {
    methods: Vec<UncachedMethod>,
    operations: Vec<Operation>,
    sizes: Vec<u64>,
    rounds: u64,
}

impl Request {
    fn of(record: &Record) -> Request {
        let asked = Options::of(record);
        let has = |a: Attribute| asked.attributes.is_empty() || asked.attributes.contains(&a);
        // Write-back memory is always measured: all others are compared with it.
        let kept = |&a: &Attribute| a == Attribute::WriteBack || has(a);
        let mut methods: Vec<UncachedMethod> =
            Attribute::ALL.iter().copied().filter(kept).map(UncachedMethod::Attribute).collect();
        if asked.flush {
            methods.push(UncachedMethod::Flush);
        }
        let has_operation = |o: &Operation| asked.operations.is_empty() || asked.operations.contains(o);
        let operations = Operation::ALL.iter().copied().filter(has_operation).collect();
        let mut sizes = if asked.bytes.is_empty() { SIZES.to_vec() } else { asked.bytes };
        sizes.sort_unstable();
        sizes.dedup();
        Request { methods, operations, sizes, rounds: asked.rounds.unwrap_or(ROUNDS) }
    }

    /// Returns every point: method, operation, working set. With flushes there are no copies, which would flush two
    /// lines per access, and no `set`, whose accesses are of 8 or 16 bytes depending on the machine.
    fn points(&self) -> Vec<(UncachedMethod, Operation, u64)> {
        let mut all = Vec::new();
        for &method in &self.methods {
            let plain = |o: &&Operation| Operation::STRIDES.contains(o);
            for &operation in self.operations.iter().filter(|o| method != UncachedMethod::Flush || plain(o)) {
                all.extend(self.sizes.iter().map(|&bytes| (method, operation, bytes)));
            }
        }
        all
    }
}

/// The kind of its reports.
pub static KIND: ReportKind = ReportKind {
    name: NAME,
    metrics: &[metrics::common::ALL, metrics::cacheability::ALL, metrics::claims::ALL],
    headline: headline::headline,
    view: view::view,
    together: None,
};
