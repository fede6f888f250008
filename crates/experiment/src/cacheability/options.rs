//! Options of cacheability.

use fathom_probe::machine::{Attribute, Operation};

use crate::options::{LIST, Many, Opt, Values, Word, number, size, substitute, tokens, within, working_set};
use crate::record::Record;

/// Working sets, bytes.
pub static BYTES: Opt = Opt {
    name: "bytes",
    value: "SIZES",
    help: "Working sets, separated by commas, multiples of 16 bytes from 128 on: bytes or K, M, G (binary)",
    default: "320,2560,16K,128K,1M",
    many: Many::List(LIST),
    values: Values::Number { read: size, check: pairs },
    requires: None,
};

/// Operations.
pub static OP: Opt = Opt {
    name: "op",
    value: "OP",
    help: "Operation on each 8 bytes",
    default: "all six",
    many: Many::List(LIST),
    values: Values::Word(|| tokens(Operation::ALL, Operation::token)),
    requires: None,
};

/// Attributes.
pub static ATTRIBUTES: Opt = Opt {
    name: "attributes",
    value: "ATTRIBUTES",
    help: "Attributes to compare with write-back. Aliases: wb, wt, nc (writecombine, wc), uc \
           (noncached, strongly-ordered)",
    default: "all that the subject supplies",
    many: Many::List(LIST),
    values: Values::Word(attributes),
    requires: None,
};

/// Rounds that totals are of.
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

/// A substitute for memory that is not cached.
pub static SUBSTITUTE: Opt = substitute::option(
    "Emulate uncached memory where none is available: flush cleans and invalidates the line after each access",
);

/// Every byte of MAIR_EL1.
pub static ALL_MAIR: Opt = Opt::switch(
    "all-mair",
    "Also test every byte of MAIR_EL1 (bare metal, models): memory type by translation and by times. Uses the same \
     budget",
);

/// Page walks.
pub static WALKS: Opt = Opt::switch(
    "page-walks",
    "Page walks beside, whose descriptors are cached or not (bare metal, models). From the same budget",
);

/// Every option, in the order of help.
pub static ALL: &[&Opt] = &[&BYTES, &OP, &ATTRIBUTES, &ROUNDS, &SUBSTITUTE, &ALL_MAIR, &WALKS];

/// A buffer of pairs of words.
fn pairs(bytes: u64) -> Result<(), String> {
    working_set(bytes)?;
    if bytes.is_multiple_of(16) { Ok(()) } else { Err("must be a multiple of 16 bytes".to_owned()) }
}

/// The attributes, and what they are called elsewhere.
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

/// The options of a record.
pub(super) struct Options {
    /// Working sets, bytes; empty where the experiment chooses them.
    pub bytes: Vec<u64>,
    /// Operations; empty for all.
    pub operations: Vec<Operation>,
    /// Attributes; empty for all.
    pub attributes: Vec<Attribute>,
    /// Rounds over a working set that totals are of.
    pub rounds: Option<u64>,
    /// Are flushes a substitute for memory that is not cached?
    pub flush: bool,
    /// Is every byte of MAIR_EL1 asked for too?
    pub all_mair: bool,
    /// Are page walks asked for too?
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
