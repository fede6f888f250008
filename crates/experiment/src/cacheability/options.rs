//! Options of `fathom cacheability`.

use fathom_probe::machine::{Attribute, Operation};

use crate::options::{LIST, Many, Opt, Values, Word, number, size, substitute, tokens, within, working_set};
use crate::record::Record;

/// `--bytes`: working sets, bytes.
pub static BYTES: Opt = Opt {
    name: "bytes",
    value: "SIZES",
    help: "Working sets, separated by commas, multiples of 16 bytes from 128 on: bytes or K, M, G (binary)",
    default: "320,2560,16K,128K,1M",
    many: Many::List(LIST),
    values: Values::Number { read: size, check: pairs },
    requires: None,
};

/// `--op`: operation on each 8 bytes.
pub static OP: Opt = Opt {
    name: "op",
    value: "OP",
    help: "Operation on each 8 bytes",
    default: "all six",
    many: Many::List(LIST),
    values: Values::Word(|| tokens(Operation::ALL, Operation::token)),
    requires: None,
};

/// `--attributes`: memory attributes to compare with write-back.
pub static ATTRIBUTES: Opt = Opt {
    name: "attributes",
    value: "ATTRIBUTES",
    help: "Attributes to compare with write-back. Aliases: wb, wt, nc (writecombine, wc), uc \
           (noncached, strongly-ordered)",
    default: "all that the subject provides",
    many: Many::List(LIST),
    values: Values::Word(attributes),
    requires: None,
};

/// `--rounds`: rounds over the working set for which totals are reported.
pub static ROUNDS: Opt = Opt {
    name: "rounds",
    value: "N",
    help: "Rounds over the working set for which totals are reported",
    default: "20000",
    many: Many::One,
    values: Values::Number {
        read: number,
        check: |rounds| within(rounds, &(1..=1_000_000_000), "from 1 to 1000000000"),
    },
    requires: None,
};

/// `--substitute`: flushes in place of uncached memory.
pub static SUBSTITUTE: Opt = substitute::option(
    "Emulate uncached memory where none is available: flush cleans and invalidates the line after each access",
);

/// `--all-mair`: whether to test every byte of MAIR_EL1.
pub static ALL_MAIR: Opt = Opt::switch(
    "all-mair",
    "Also test every byte of MAIR_EL1 (bare metal, models): memory type by translation and by times. Uses the same \
     budget",
);

/// `--page-walks`: whether to measure page walks.
pub static WALKS: Opt = Opt::switch(
    "page-walks",
    "Also measure page walks with cached and with uncached descriptors (bare metal, models). Uses the same budget",
);

/// All options, in the order of help.
pub static ALL: &[&Opt] = &[&BYTES, &OP, &ATTRIBUTES, &ROUNDS, &SUBSTITUTE, &ALL_MAIR, &WALKS];

/// Checks a working set: whole pairs of 8 bytes.
fn pairs(bytes: u64) -> Result<(), String> {
    working_set(bytes)?;
    if bytes.is_multiple_of(16) { Ok(()) } else { Err("must be a multiple of 16 bytes".to_owned()) }
}

/// Returns the attributes with their other names.
fn attributes() -> Vec<Word> {
    let aliases = |attribute: Attribute| -> &'static [&'static str] {
        match attribute {
            Attribute::WriteBack => &["wb"],
            Attribute::WriteThrough => &["wt"],
            Attribute::NormalNc => &["nc", "wc", "writecombine"],
            Attribute::Device => &["uc", "noncached", "strongly-ordered"],
        }
    };
    let word = |a: &Attribute| Word { token: a.token(), aliases: aliases(*a), help: "" };
    Attribute::ALL.iter().map(word).collect()
}

/// Options of a record.
pub(super) struct Options {
    /// Working sets, bytes; empty for the default.
    pub bytes: Vec<u64>,
    /// Operations; empty for all.
    pub operations: Vec<Operation>,
    /// Attributes; empty for all.
    pub attributes: Vec<Attribute>,
    /// Rounds over a working set for which totals are reported; default if `None`.
    pub rounds: Option<u64>,
    /// Whether flushes replace uncached memory.
    pub flush: bool,
    /// Whether to test every byte of MAIR_EL1.
    pub all_mair: bool,
    /// Whether to measure page walks.
    pub walks: bool,
}

impl Options {
    pub(super) fn of(record: &Record) -> Options {
        let asked = record.asked();
        Options {
            bytes: asked.numbers(&BYTES),
            operations: asked.values(&OP, Operation::from_token),
            attributes: asked.values(&ATTRIBUTES, Attribute::from_token),
            rounds: asked.number(&ROUNDS),
            flush: asked.has(&SUBSTITUTE),
            all_mair: asked.has(&ALL_MAIR),
            walks: asked.has(&WALKS),
        }
    }
}
