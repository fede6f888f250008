//! What is claimed of a machine, and what a measurement says of it.

use super::{NamePattern, number, verdict, word};

/// Claims, verdicts, and the check of a description.
pub(super) const NAMES: &[NamePattern] = &[
    number(
        "claim.SOURCE.level.N.size",
        &["bytes"],
        "size of the Nth level, as SOURCE says; notes: what it holds",
    ),
    number("claim.SOURCE.level.N.line", &["bytes"], "its line, as SOURCE says"),
    number("claim.SOURCE.level.N.ways", &[""], "its ways, as SOURCE says"),
    number("claim.SOURCE.level.N.sets", &[""], "its sets, as SOURCE says"),
    word(
        "verdict.level.N.size",
        "VERDICT",
        "is the claimed size what was measured; the sentence is in the notes",
    ),
    verdict("verdict.level.N.line", &[""], "is the claimed line what was measured"),
    verdict("verdict.level.N.ways", &[""], "are the claimed ways what was measured"),
    verdict("verdict.level.N.sets", &[""], "are the claimed sets what was measured"),
    verdict("against.core.clock", &["Hz"], "report --against: is the described core clock what was measured"),
    verdict("against.tiers", &[""], "are there as many tiers as the description has levels"),
    verdict("against.level.N.size", &["bytes"], "is the described size; the interval is the measured one"),
    verdict("against.level.N.latency", &["cycles", "ns"], "is the described latency"),
    verdict("against.level.N.line", &["bytes"], "is the described line, where one was measured"),
    verdict("against.level.N.ways", &[""], "are the described ways, where they were measured"),
    verdict("against.level.N.sets", &[""], "are the described sets, where they were measured"),
    verdict("against.level.N.replacement", &[""], "is the described policy among those that fit"),
    verdict("against.memory.latency", &["cycles", "ns"], "is the described latency of memory"),
    verdict("against.tlbs", &[""], "are there as many TLBs as described and to be seen"),
    verdict("against.tlb.N.entries", &[""], "are the described entries of the Nth TLB"),
    verdict("against.tlb.N.penalty", &["cycles", "ns"], "is what its miss costs, of the last one the walk"),
    verdict("against.tlb.N.ways", &[""], "are its described ways, where they were measured"),
    number("expected.core.clock", &["Hz"], "report --against: the described core clock"),
    number("expected.tiers", &[""], "levels that the description has before memory"),
    number("expected.level.N.size", &["bytes"], "where the Nth level as described should end"),
    number("expected.level.N.latency", &["cycles", "ns"], "a load's time from it as described"),
    number("expected.level.N.line", &["bytes"], "its described line"),
    number("expected.level.N.ways", &[""], "its described ways"),
    number("expected.level.N.sets", &[""], "its described sets"),
    word("expected.level.N.replacement", "POLICY", "its described replacement policy"),
    number("expected.memory.latency", &["cycles", "ns"], "a load's time from memory as described"),
    number("expected.tlbs", &[""], "TLBs that a survey of the description should see"),
    number("expected.tlb.N.entries", &[""], "entries of the Nth TLB as described"),
    number("expected.tlb.N.penalty", &["cycles", "ns"], "what its miss should cost as described"),
    number("expected.tlb.N.ways", &[""], "its described ways"),
];
