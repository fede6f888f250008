//! Options of the latency histograms.

use crate::options::{LIST, Many, Opt, Values, size, tokens, working_set};
use crate::record::Record;

/// Working sets, bytes.
pub static BYTES: Opt = Opt {
    name: "bytes",
    value: "SIZES",
    help: "Working sets, separated by commas: bytes or K, M, G (binary), as in 8K,64KiB,1M",
    default: "16K,256K,1M,16M,64M",
    many: Many::List(LIST),
    values: Values::Number { read: size, check: working_set },
    requires: None,
};

/// Ladders beside the working sets' own loads.
pub static LADDER: Opt = Opt {
    name: "ladder",
    value: "LADDER",
    help: "Also measure the same loads in three orders, two page sizes, six placements, or with prefetchers off (bare \
           metal). Uses the same budget",
    default: "",
    many: Many::List(LIST),
    values: Values::Word(|| tokens(&Ladder::ALL, Ladder::token)),
    requires: None,
};

/// What is changed from ladder step to ladder step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ladder {
    /// The order of the loads: random, window, sequential. What prefetch, lines and rows are worth.
    Order,
    /// The page size: base, huge. What translation costs.
    Page,
    /// Where the memory lies, some places: what colliding physical pages cost.
    Placement,
    /// Prefetchers on and off, in the order that they foresee best: what they are worth, and not what another order
    /// is worth besides.
    Prefetch,
}

impl Ladder {
    /// Every ladder.
    pub const ALL: [Ladder; 4] = [Ladder::Order, Ladder::Page, Ladder::Placement, Ladder::Prefetch];

    /// The word for it, in findings and on the command line.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Ladder::Order => "order",
            Ladder::Page => "page",
            Ladder::Placement => "placement",
            Ladder::Prefetch => "prefetch",
        }
    }

    /// The ladder that a word stands for.
    #[must_use]
    pub fn from_token(word: &str) -> Option<Ladder> {
        Ladder::ALL.into_iter().find(|l| l.token() == word)
    }
}

/// Every option, in the order of help.
pub static ALL: &[&Opt] = &[&BYTES, &LADDER];

/// The options of a record.
pub(super) struct Options {
    /// Working sets, bytes; empty where the experiment chooses them.
    pub bytes: Vec<u64>,
    /// Ladders that are asked for; mostly none.
    pub ladders: Vec<Ladder>,
}

impl Options {
    pub(super) fn of(record: &Record) -> Options {
        let asked = record.asked();
        Options { bytes: asked.numbers(&BYTES), ladders: asked.values(&LADDER, Ladder::from_token) }
    }
}
