//! Options of `fathom survey`.

use crate::options::Opt;
use crate::record::Record;

/// `--replacement`: whether to determine replacement policies.
pub static REPLACEMENT: Opt = Opt::switch(
    "replacement",
    "Also determine the replacement policy of each tier. Uses two fifths of the budget for cache geometry instead of \
     one",
);

/// All options, in the order of help.
pub static ALL: &[&Opt] = &[&REPLACEMENT];

/// Options of a record.
pub(super) struct Options {
    /// Whether to determine replacement policies.
    pub replacement: bool,
}

impl Options {
    pub(super) fn of(record: &Record) -> Options {
        Options { replacement: record.asked().has(&REPLACEMENT) }
    }
}
