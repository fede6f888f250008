//! Options of the conflicts.

use crate::options::{Many, Opt, Values, number, within};
use crate::record::Record;

/// Most page colours that may be asked for: more than any cache here has.
const MAX_COLOURS: u64 = 1024;

/// Page colours.
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

/// Every option, in the order of help.
pub static ALL: &[&Opt] = &[&COLOURS];

/// The options of a record.
pub(super) struct Options {
    /// Numbers of page colours that are asked for; mostly none.
    pub colours: Vec<u64>,
}

impl Options {
    pub(super) fn of(record: &Record) -> Options {
        Options { colours: record.asked().numbers(&COLOURS) }
    }
}
