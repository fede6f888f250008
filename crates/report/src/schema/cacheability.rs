//! What `fathom cacheability` finds.

use super::{NamePattern, number, word};

/// Mappings and times by attribute.
pub(super) const NAMES: &[NamePattern] = &[
    number(
        "cacheability.study.BYTES",
        &["%"],
        "by how much cached read-modify-writes are faster than non-cacheable ones, in whole hundreds as study S0 put it",
    ),
    number("cacheability.ATTRIBUTE.va", &["address"], "virtual address of a mapping with the attribute"),
    number("cacheability.ATTRIBUTE.pa", &["address"], "its physical address"),
    number(
        "cacheability.ATTRIBUTE.mair",
        &["address"],
        "the byte of MAIR_EL1 in force there, read back by translating its address",
    ),
    word("cacheability.ATTRIBUTE.translated_as", "MEMORY", "what that byte says"),
    word("cacheability.ATTRIBUTE.behaves_as", "BEHAVIOUR", "what its times say, whatever the tables say"),
    word(
        "cacheability.ATTRIBUTE.alias",
        "ALIAS",
        "does a write-back mapping of the same memory see its stores, and it those",
    ),
    number(
        "cacheability.OPERATION.ATTRIBUTE.BYTES.time",
        &["ns"],
        "time of an operation on 8 bytes, round a working set of BYTES",
    ),
    number("cacheability.OPERATION.ATTRIBUTE.BYTES.cycles", &["cycles"], "the same in core cycles"),
    number(
        "cacheability.OPERATION.ATTRIBUTE.BYTES.total",
        &["ms"],
        "the same of so many rounds over the working set as were asked for",
    ),
    number(
        "cacheability.OPERATION.ATTRIBUTE.BYTES.ratio",
        &[""],
        "that time over the time of write-back memory",
    ),
    word("mair.BYTE.translated_as", "MEMORY", "what the byte of MAIR_EL1 says that was read back"),
    word("mair.BYTE.behaves_as", "BEHAVIOUR", "what the times say of memory with that byte"),
    number("mair.BYTE.read", &["ns"], "a load of such memory"),
    number("mair.BYTE.write", &["ns"], "a store to it, of neighbouring words"),
    number("mair.BYTE.write_apart", &["ns"], "a store to a line of its own"),
    number(
        "walk.TABLES.time",
        &["ns"],
        "what a page walk adds to a load when its descriptors are fetched so",
    ),
    number("walk.TABLES.cycles", &["cycles"], "the same in core cycles"),
    number("walk.ratio", &[""], "a walk past the caches over one through them"),
];
