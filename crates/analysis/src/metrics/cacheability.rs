//! What `fathom cacheability` finds.

use crate::findings::{Field, metrics, words};

/// How many mappings were translated.
pub const MAPPINGS: Field = Field::new(
    "mappings",
    "number of mappings with the attribute that were translated; the value is of the first",
);
/// Who supplied the mapping.
pub const LENDER: Field =
    Field::new("lender", "what supplies mappings with the attribute, where the probe says so");
/// Exchanges between two mappings that failed.
pub const LOST: Field = Field::new("lost", "number of exchanges that lost what was stored");
/// The byte in force is another one.
pub const READ_BACK: Field =
    Field::new("read_back", "byte of MAIR_EL1 that was read back, where it is another one than was written");
/// What a total is of.
pub const ROUNDS: Field = Field::new("rounds", "number of rounds over the working set");
/// Total time of memory that is not cached.
pub const UNCACHED_MS: Field = Field::new("uncached_ms", "total of the non-cacheable accesses, ms");
/// Total time of cached memory.
pub const CACHED_MS: Field = Field::new("cached_ms", "total of the cached accesses, ms");
/// Number of pages in the walk.
pub const WALK_PAGES: Field = Field::new("pages", "number of pages, one load in each");

metrics! {
    CACHEABILITY_STUDY "cacheability.study.{size}" ["%"]
        "by how much cached read-modify-writes are faster than non-cacheable ones, in whole hundreds as study S0 put it"
        .signed().detail(&[ROUNDS, UNCACHED_MS, CACHED_MS]);
    CACHEABILITY_VA "cacheability.{attribute}.va" ["address"]
        "virtual address of a mapping with the attribute"
        .detail(&[MAPPINGS, LENDER]);
    CACHEABILITY_PA "cacheability.{attribute}.pa" ["address"]
        "its physical address"
        .detail(&[MAPPINGS, LENDER]);
    CACHEABILITY_MAIR "cacheability.{attribute}.mair" ["address"]
        "the byte of MAIR_EL1 in force there, read back by translating its address"
        .detail(&[MAPPINGS, LENDER]);
    CACHEABILITY_TRANSLATED_AS "cacheability.{attribute}.translated_as" [""]
        "what that byte says"
        .word(&words::MEMORY).detail(&[MAPPINGS]);
    CACHEABILITY_BEHAVES_AS "cacheability.{attribute}.behaves_as" [""]
        "what its times say, whatever the tables say"
        .word(&words::BEHAVIOUR);
    CACHEABILITY_ALIAS "cacheability.{attribute}.alias" [""]
        "does a write-back mapping of the same memory see its stores, and it those"
        .word(&words::ALIAS).detail(&[LOST]);
    CACHEABILITY_TIME "cacheability.{operation}.{attribute}.{size}.time" ["ns"]
        "time of an operation on 8 bytes, round a working set"
        .less_is_better().timed();
    CACHEABILITY_CYCLES "cacheability.{operation}.{attribute}.{size}.cycles" ["cycles"]
        "the same in core cycles"
        .less_is_better();
    CACHEABILITY_TOTAL "cacheability.{operation}.{attribute}.{size}.total" ["ms"]
        "the same of so many rounds over the working set as were asked for"
        .less_is_better().detail(&[ROUNDS]);
    CACHEABILITY_RATIO "cacheability.{operation}.{attribute}.{size}.ratio" [""]
        "that time over the time of write-back memory";
    MAIR_TRANSLATED_AS "mair.{mair}.translated_as" [""]
        "what the byte of MAIR_EL1 says that was read back"
        .word(&words::MEMORY).detail(&[READ_BACK]);
    MAIR_BEHAVES_AS "mair.{mair}.behaves_as" [""]
        "what the times say of memory with that byte"
        .word(&words::BEHAVIOUR);
    MAIR_READ "mair.{mair}.read" ["ns"]
        "a load of such memory"
        .less_is_better();
    MAIR_WRITE "mair.{mair}.write" ["ns"]
        "a store to it, of neighbouring words"
        .less_is_better();
    MAIR_WRITE_APART "mair.{mair}.write_apart" ["ns"]
        "a store to a line of its own"
        .less_is_better();
    WALK_TIME "walk.{tables}.time" ["ns"]
        "what a page walk adds to a load when its descriptors are fetched so"
        .less_is_better().timed().detail(&[WALK_PAGES]);
    WALK_CYCLES "walk.{tables}.cycles" ["cycles"]
        "the same in core cycles"
        .less_is_better();
    WALK_RATIO "walk.ratio" [""]
        "a walk past the caches over one through them";
}
