//! Options of the latency histograms.

use super::ladder::Ladder;
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
    help: "The same loads in three orders, two page sizes, six placements, or with prefetchers off (bare metal) \
           too; from the same budget",
    default: "",
    many: Many::List(LIST),
    values: Values::Word(|| tokens(&Ladder::ALL, Ladder::token)),
    requires: None,
};

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
