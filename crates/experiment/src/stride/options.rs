//! Options of `fathom stride`.

use fathom_probe::machine::Operation;

use crate::options::{LIST, Many, Opt, Values, size, tokens, working_set};
use crate::record::Record;

/// `--bytes`: working sets, bytes.
pub static BYTES: Opt = Opt {
    name: "bytes",
    value: "SIZES",
    help: "Working sets, separated by commas: bytes or K, M, G (binary), as in 16K,1M",
    default: "inside and beyond each tier of a coarse scan",
    many: Many::List(LIST),
    values: Values::Number { read: size, check: working_set },
    requires: None,
};

/// `--strides`: strides, bytes.
pub static STRIDES: Opt = Opt {
    name: "strides",
    value: "STRIDES",
    help: "Strides, bytes from access to access: powers of two from 8 to 1M",
    default: "8,16,32,64,128,256,1K,4K",
    many: Many::List(LIST),
    values: Values::Number { read: size, check: access_stride },
    requires: None,
};

/// `--op`: operation on each element.
pub static OP: Opt = Opt {
    name: "op",
    value: "OP",
    help: "Operation on each element",
    default: "all three",
    many: Many::List(LIST),
    values: Values::Word(|| tokens(Operation::STRIDES, Operation::token)),
    requires: None,
};

/// `--first-touch`: whether to measure sweeps over untouched memory.
pub static FIRST_TOUCH: Opt = Opt::switch(
    "first-touch",
    "Also measure memory that is touched for the first time: cost of page faults. Uses the same budget",
);

/// `--prefetch`: whether to measure prefetching.
pub static PREFETCH: Opt = Opt::switch(
    "prefetch",
    "Also measure dependent loads over the largest size in orders from ascending to random: gain and maximum stride of \
     prefetching. Uses the same budget",
);

/// All options, in the order of help.
pub static ALL: &[&Opt] = &[&BYTES, &STRIDES, &OP, &FIRST_TOUCH, &PREFETCH];

/// Checks a stride: the limits of the wire format.
fn access_stride(bytes: u64) -> Result<(), String> {
    if (8..=1 << 20).contains(&bytes) && bytes.is_power_of_two() {
        Ok(())
    } else {
        Err("must be a power of two from 8 bytes to 1M".to_owned())
    }
}

/// Options of a record.
pub(super) struct Options {
    /// Working sets, bytes; empty for the default.
    pub bytes: Vec<u64>,
    /// Strides, bytes; empty for the default.
    pub strides: Vec<u64>,
    /// Operations; empty for all.
    pub operations: Vec<Operation>,
    /// Whether to measure sweeps over untouched memory.
    pub first_touch: bool,
    /// Whether to measure prefetching.
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
