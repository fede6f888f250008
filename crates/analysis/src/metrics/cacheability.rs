//! Metrics of `fathom cacheability`.

use crate::findings::{Field, metrics, tokens};

/// Number of mappings that were translated.
pub const MAPPINGS: Field = Field::new(
    "mappings",
    "number of mappings with the attribute that were translated; the value is of the first",
);
/// Driver that provides the mapping.
pub const PROVIDER: Field =
    Field::new("provider", "driver that provides mappings with the attribute, if the probe reports it");
/// Exchanges between two mappings that lost data.
pub const LOST: Field = Field::new("lost", "number of exchanges that lost a store");
/// The byte in force differs from the one written.
pub const READ_BACK: Field =
    Field::new("read_back", "byte of MAIR_EL1 that was read back, if it differs from the one written");
/// Rounds that a total is of.
pub const ROUNDS: Field = Field::new("rounds", "number of rounds over the working set");
/// Total time of memory that is not cached.
pub const UNCACHED_MS: Field = Field::new("uncached_ms", "total of the non-cacheable accesses, ms");
/// Total time of cached memory.
pub const CACHED_MS: Field = Field::new("cached_ms", "total of the cached accesses, ms");
/// Number of pages in the walk.
pub const WALK_PAGES: Field = Field::new("pages", "number of pages, one load in each");

metrics! {
    CACHEABILITY_STUDY "cacheability.study.{size}" ["%"]
        "speed-up of cached over non-cacheable read-modify-writes, rounded to hundreds as in study S0"
        .signed().detail(&[ROUNDS, UNCACHED_MS, CACHED_MS]);
    CACHEABILITY_VA "cacheability.{attribute}.va" ["address"]
        "virtual address of a mapping with the attribute"
        .detail(&[MAPPINGS, PROVIDER]);
    CACHEABILITY_PA "cacheability.{attribute}.pa" ["address"]
        "physical address of a mapping with the attribute"
        .detail(&[MAPPINGS, PROVIDER]);
    CACHEABILITY_MAIR "cacheability.{attribute}.mair" ["hex"]
        "byte of MAIR_EL1 in force for the mapping, read back by translating its address"
        .detail(&[MAPPINGS, PROVIDER]);
    CACHEABILITY_TRANSLATED_AS "cacheability.{attribute}.translated_as" [""]
        "memory type that this byte encodes"
        .token(&tokens::MEMORY).detail(&[MAPPINGS]);
    CACHEABILITY_BEHAVES_AS "cacheability.{attribute}.behaves_as" [""]
        "memory type by its access times, independent of the page tables"
        .token(&tokens::BEHAVIOUR);
    CACHEABILITY_ALIAS "cacheability.{attribute}.alias" [""]
        "whether the mapping and a write-back mapping of the same memory see each other's stores"
        .token(&tokens::ALIAS).detail(&[LOST]);
    CACHEABILITY_TIME "cacheability.{operation}.{attribute}.{size}.time" ["ns"]
        "time of an operation on 8 bytes, cyclically over a working set"
        .less_is_better().timed();
    CACHEABILITY_CYCLES "cacheability.{operation}.{attribute}.{size}.cycles" ["cycles"]
        "time of an operation on 8 bytes, in core cycles"
        .less_is_better();
    CACHEABILITY_TOTAL "cacheability.{operation}.{attribute}.{size}.total" ["ms"]
        "time of the requested number of rounds over the working set"
        .less_is_better().detail(&[ROUNDS]);
    CACHEABILITY_RATIO "cacheability.{operation}.{attribute}.{size}.ratio" [""]
        "ratio of the time to that in write-back memory";
    MAIR_TRANSLATED_AS "mair.{mair}.translated_as" [""]
        "memory type that the byte of MAIR_EL1 read back encodes"
        .token(&tokens::MEMORY).detail(&[READ_BACK]);
    MAIR_BEHAVES_AS "mair.{mair}.behaves_as" [""]
        "memory type by the access times of memory with this byte"
        .token(&tokens::BEHAVIOUR);
    MAIR_READ "mair.{mair}.read" ["ns"]
        "time of a load from memory with this byte"
        .less_is_better();
    MAIR_WRITE "mair.{mair}.write" ["ns"]
        "time of a store to memory with this byte, neighbouring words"
        .less_is_better();
    MAIR_WRITE_APART "mair.{mair}.write_apart" ["ns"]
        "time of a store to memory with this byte, each to another line"
        .less_is_better();
    WALK_LATENCY "walk.{tables}.latency" ["ns"]
        "latency that a page walk adds to a load, by the memory type of its descriptor fetches"
        .less_is_better().timed().detail(&[WALK_PAGES]);
    WALK_CYCLES "walk.{tables}.cycles" ["cycles"]
        "latency that a page walk adds to a load, in core cycles"
        .less_is_better();
    WALK_RATIO "walk.ratio" [""]
        "ratio of the latency of an uncached walk to that of a cached one";
}
