//! Options of the strides.

use fathom_probe::machine::Operation;

use crate::options::{LIST, Many, Opt, Values, size, tokens, working_set};
use crate::record::Record;

/// Working sets, bytes.
pub static BYTES: Opt = Opt {
    name: "bytes",
    value: "SIZES",
    help: "Working sets, separated by commas: bytes or K, M, G (binary), as in 16K,1M",
    default: "inside and beyond each tier of a coarse scan",
    many: Many::List(LIST),
    values: Values::Number { read: size, check: working_set },
    requires: None,
};

/// Strides, bytes.
pub static STRIDES: Opt = Opt {
    name: "strides",
    value: "STRIDES",
    help: "Strides, bytes from access to access: powers of two from 8 to 1M",
    default: "8,16,32,64,128,256,1K,4K",
    many: Many::List(LIST),
    values: Values::Number { read: size, check: access_stride },
    requires: None,
};

/// Operations.
pub static OP: Opt = Opt {
    name: "op",
    value: "OP",
    help: "Operation on each element",
    default: "all three",
    many: Many::List(LIST),
    values: Values::Word(|| tokens(Operation::STRIDES, Operation::token)),
    requires: None,
};

/// Sweeps over memory that nobody has touched.
pub static FIRST_TOUCH: Opt = Opt::switch(
    "first-touch",
    "Also measure memory that is touched for the first time: cost of page faults. Uses the same budget",
);

/// The ladder of prefetch.
pub static PREFETCH: Opt = Opt::switch(
    "prefetch",
    "Also measure dependent loads over the largest size in orders from ascending to random: gain and maximum stride of \
     prefetching. Uses the same budget",
);

/// Every option, in the order of help.
pub static ALL: &[&Opt] = &[&BYTES, &STRIDES, &OP, &FIRST_TOUCH, &PREFETCH];

/// A stride that the wire takes.
fn access_stride(bytes: u64) -> Result<(), String> {
    if (8..=1 << 20).contains(&bytes) && bytes.is_power_of_two() {
        Ok(())
    } else {
        Err("must be a power of two from 8 bytes to 1M".to_owned())
    }
}

/// The options of a record.
pub(super) struct Options {
    /// Working sets, bytes; empty where the experiment chooses them.
    pub bytes: Vec<u64>,
    /// Strides, bytes; empty where the experiment chooses them.
    pub strides: Vec<u64>,
    /// Operations; empty for all.
    pub operations: Vec<Operation>,
    /// Are sweeps over untouched memory asked for too?
    pub first_touch: bool,
    /// Is the ladder of prefetch asked for too?
    pub prefetch: bool,
}

impl Options {
    pub(super) fn of(record: &Record) -> Options {
        let asked = record.asked();
        Options {
            bytes: asked.numbers(&BYTES),
            strides: asked.numbers(&STRIDES),
            operations: asked.values(&OP, Operation::from_token),
            first_touch: asked.has(&FIRST_TOUCH),
            prefetch: asked.has(&PREFETCH),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_are_powers_of_two() {
        assert_eq!(STRIDES.values.read("8"), Ok("8".to_owned()));
        assert_eq!(STRIDES.values.read("4K"), Ok("4096".to_owned()));
        for bad in ["4", "48", "2M", "0"] {
            assert!(STRIDES.values.read(bad).unwrap_err().contains("power of two"), "{bad}");
        }
    }
}
