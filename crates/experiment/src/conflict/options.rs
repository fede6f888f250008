//! Options of `fathom conflict`.

use crate::options::{Many, Opt, Values, number, within};
use crate::record::Record;

/// Maximum number of page colours: more than any known cache has.
const MAX_COLOURS: u64 = 1024;

/// `--colours`: numbers of page colours to test.
pub static COLOURS: Opt = Opt {
    name: "colours",
    value: "K",
    help: "Page colours, separated by commas, each a number from 1 to 1024: conflicts of pages of one \
           colour, of several colours, and of pages that share one frame",
    default: "",
    many: Many::List(64),
    values: Values::Number {
        read: number,
        check: |colours| within(colours, &(1..=MAX_COLOURS), "from 1 to 1024"),
    },
    requires: None,
};

/// All options, in the order of help.
pub static ALL: &[&Opt] = &[&COLOURS];

/// Options of a record.
pub(super) struct Options {
    /// Numbers of page colours to test; empty by default.
    pub colours: Vec<u64>,
}

impl Options {
    pub(super) fn of(record: &Record) -> Options {
        Options { colours: record.asked().numbers(&COLOURS) }
    }
}
