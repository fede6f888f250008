//! Options of the survey.

use crate::options::Opt;
use crate::record::Record;

/// Asks for replacement policies.
pub static REPLACEMENT: Opt = Opt::switch(
    "replacement",
    "Also determine the replacement policy of each level. Uses two fifths of the budget for cache geometry instead of \
     one",
);

/// Every option, in the order of help.
pub static ALL: &[&Opt] = &[&REPLACEMENT];

/// The options of a record.
pub(super) struct Options {
    /// Are replacement policies asked for too?
    pub replacement: bool,
}

impl Options {
    pub(super) fn of(record: &Record) -> Options {
        Options { replacement: record.asked().has(&REPLACEMENT) }
    }
}
