//! Options of the survey.

use crate::options::Opt;
use crate::record::Record;

/// Asks for replacement policies.
pub static REPLACEMENT: Opt = Opt::switch(
    "replacement",
    "What each level replaces, too: two fifths of the budget then ask how levels are built, and not one",
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
