//! Options of `fathom latency`.

use crate::options::{LIST, Many, Opt, Values, size, tokens, working_set};
use crate::record::Record;

/// `--bytes`: working sets, bytes.
pub static BYTES: Opt = Opt {
    name: "bytes",
    value: "SIZES",
    help: "Working sets, separated by commas: bytes or K, M, G (binary), as in 8K,64KiB,1M",
    default: "16K,256K,1M,16M,64M",
    many: Many::List(LIST),
    values: Values::Number { read: size, check: working_set },
    requires: None,
};

/// `--ladder`: ladders to measure in addition to the working sets.
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

/// Parameter that changes between the steps of a ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ladder {
    /// Order of the loads: random, window, sequential. Shows the gain by prefetch, lines and open rows.
    Order,
    /// Page size: base, huge. Shows the cost of translation.
    Page,
    /// Placement of the memory. Shows the cost of physical pages that conflict.
    Placement,
    /// Prefetchers on and off, in the order that they predict best. Shows their gain without that of another order.
    Prefetch,
}

impl Ladder {
    /// All ladders.
    pub const ALL: [Ladder; 4] = [Ladder::Order, Ladder::Page, Ladder::Placement, Ladder::Prefetch];

    /// Returns the token in findings and on the command line.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Ladder::Order => "order",
            Ladder::Page => "page",
            Ladder::Placement => "placement",
            Ladder::Prefetch => "prefetch",
        }
    }

    /// Returns the ladder of a token.
    #[must_use]
    pub fn from_token(word: &str) -> Option<Ladder> {
        Ladder::ALL.into_iter().find(|l| l.token() == word)
    }
}

/// All options, in the order of help.
pub static ALL: &[&Opt] = &[&BYTES, &LADDER];

/// Options of a record.
pub(super) struct Options {
    /// Working sets, bytes; empty for the default.
    pub bytes: Vec<u64>,
    /// Ladders to measure; empty by default.
    pub ladders: Vec<Ladder>,
}

impl Options {
    pub(super) fn of(record: &Record) -> Options {
        let asked = record.asked();
        Options { bytes: asked.numbers(&BYTES), ladders: asked.values(&LADDER, Ladder::from_token) }
    }
}
