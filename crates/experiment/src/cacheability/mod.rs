//! Cacheability: the same memory through different attributes, and what each operation on it then takes.
//!
//! Every operation on small working sets, through every attribute that the machine supplies: write-back, which every
//! program gets, write-through, non-cacheable and device. What the tables say is read back where the machine can tell
//! ("translated as"), and stands beside what the times say ("behaves as"): a core may treat an attribute as another
//! one, and a hypervisor may overrule it. Study S0 compared two of them, by one loop.

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

use crate::record::Record;
use options::Options;

/// The experiment's name.
pub const NAME: &str = "cacheability";

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "The same memory through different attributes: what each operation takes when it is not cached",
    help: "Examples:
  fathom cacheability --on bcm2837                 a described machine, all attributes
  fathom cacheability --on bcm2837 --op rmw --bytes 2560 --rounds 20000
  fathom cacheability --substitute flush             this machine, without a driver

CoRunning what the page tables say of each mapping (translated as) stands what its
times say (behaves as): a core may treat an attribute as another one, and a
hypervisor may overrule it; then there is no ratio. Where a subject supplies no
other attribute than write-back it says so, and what would. Exit status: as of
the survey.",
    options: options::ALL,
    default_budget: DefaultBudget::both(10_000),
    plan,
    read,
    report: &KIND,
    progress: None,
    resumes: false,
};

/// Working sets when none are asked for, bytes: the study's text, the study's code, and a sweep beyond first and
/// second levels.
pub const SIZES: [u64; 5] = [320, STUDY_BYTES, 16 << 10, 128 << 10, 1 << 20];

/// What the published code of study S0 really walked: 320 words of 8 bytes, which its text calls 5 lines.
const STUDY_BYTES: u64 = 2560;

/// Rounds over the working set that totals are of when none are asked for: the study's.
pub const ROUNDS: u64 = 20_000;

/// Bytes from a cell to the next: the study's words.
const STRIDE: u64 = 8;

/// A step of whole lines, of most machines: no two stores can gather.
const SEPARATE_LINES: u64 = 64;

/// How memory that is not cached was had: an attribute, or a flush after each access in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UncachedMethod {
    /// Mapped so.
    Attribute(Attribute),
    /// Write-back memory, each access followed by a clean and invalidate of its line.
    Flush,
    /// Mapped with this byte of MAIR_EL1, whatever it says.
    Byte(u8),
}

impl UncachedMethod {
    /// The word for it in findings.
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

/// Attributes, operations, working sets and rounds that a record asks for, each list once and in order.
struct Request {
    means: Vec<UncachedMethod>,
    operations: Vec<Operation>,
    sizes: Vec<u64>,
    rounds: u64,
}

impl Request {
    fn of(record: &Record) -> Request {
        let asked = Options::of(record);
        let has = |a: Attribute| asked.attributes.is_empty() || asked.attributes.contains(&a);
        // All others are compared with it.
        let kept = |&a: &Attribute| a == Attribute::WriteBack || has(a);
        let mut means: Vec<UncachedMethod> =
            Attribute::ALL.iter().copied().filter(kept).map(UncachedMethod::Attribute).collect();
        if asked.flush {
            means.push(UncachedMethod::Flush);
        }
        let wanted = |o: &Operation| asked.operations.is_empty() || asked.operations.contains(o);
        let operations = Operation::ALL.iter().copied().filter(wanted).collect();
        let mut sizes = if asked.bytes.is_empty() { SIZES.to_vec() } else { asked.bytes };
        sizes.sort_unstable();
        sizes.dedup();
        Request { means, operations, sizes, rounds: asked.rounds.unwrap_or(ROUNDS) }
    }

    /// Every point: means, operation, working set. Where each access is flushed nothing is copied, which has two lines to
    /// flush, and nothing set, whose accesses are of 16 bytes on one machine and of 8 on another.
    fn points(&self) -> Vec<(UncachedMethod, Operation, u64)> {
        let mut all = Vec::new();
        for &means in &self.means {
            let plain = |o: &&Operation| Operation::STRIDES.contains(o);
            for &operation in self.operations.iter().filter(|o| means != UncachedMethod::Flush || plain(o)) {
                all.extend(self.sizes.iter().map(|&bytes| (means, operation, bytes)));
            }
        }
        all
    }
}

/// What its reports are.
pub static KIND: ReportKind = ReportKind {
    name: NAME,
    metrics: &[metrics::common::ALL, metrics::cacheability::ALL, metrics::claims::ALL],
    headline: headline::headline,
    view: view::view,
};
