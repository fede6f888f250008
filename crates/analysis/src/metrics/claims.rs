//! What is claimed of a machine, and what a measurement says of it.

use crate::findings::{Compared, Field, Metric, metrics, words};

/// The part of the level that a verdict is about was not measured.
pub const UNMEASURED: Field =
    Field::new("unmeasured", "true where what is claimed was not measured, so that the claim stays open");

metrics! {
    CLAIM_LEVEL_SIZE "claim.{source}.level.{level}.{side}.size" ["bytes"]
        "size of the Nth level, as the source says"
        .compared(Compared::OnRequest);
    CLAIM_LEVEL_LINE "claim.{source}.level.{level}.{side}.line" ["bytes"]
        "its line, as the source says"
        .compared(Compared::OnRequest);
    CLAIM_LEVEL_WAYS "claim.{source}.level.{level}.{side}.ways" [""]
        "its ways, as the source says"
        .compared(Compared::OnRequest);
    CLAIM_LEVEL_SETS "claim.{source}.level.{level}.{side}.sets" [""]
        "its sets, as the source says"
        .compared(Compared::OnRequest);
    VERDICT_LEVEL_SIZE "verdict.level.{level}.size" [""]
        "is the claimed size what was measured; the sentence is in the notes"
        .word(&words::VERDICT);
    VERDICT_LEVEL_LINE "verdict.level.{level}.line" [""]
        "is the claimed line what was measured"
        .word(&words::VERDICT).detail(&[UNMEASURED]);
    VERDICT_LEVEL_WAYS "verdict.level.{level}.ways" [""]
        "are the claimed ways what was measured"
        .word(&words::VERDICT).detail(&[UNMEASURED]);
    VERDICT_LEVEL_SETS "verdict.level.{level}.sets" [""]
        "are the claimed sets what was measured"
        .word(&words::VERDICT).detail(&[UNMEASURED]);
    AGAINST_CORE_CLOCK "against.core.clock" ["Hz"]
        "report --against: is the described core clock what was measured"
        .word(&words::VERDICT);
    AGAINST_TIERS "against.tiers" [""]
        "are there as many tiers as the description has levels"
        .word(&words::VERDICT);
    AGAINST_LEVEL_SIZE "against.level.{level}.size" ["bytes"]
        "is the described size; the interval is the measured one"
        .word(&words::VERDICT);
    AGAINST_LEVEL_LATENCY "against.level.{level}.latency" ["cycles", "ns"]
        "is the described latency"
        .word(&words::VERDICT);
    AGAINST_LEVEL_LINE "against.level.{level}.line" ["bytes"]
        "is the described line, where one was measured"
        .word(&words::VERDICT);
    AGAINST_LEVEL_WAYS "against.level.{level}.ways" [""]
        "are the described ways, where they were measured"
        .word(&words::VERDICT);
    AGAINST_LEVEL_SETS "against.level.{level}.sets" [""]
        "are the described sets, where they were measured"
        .word(&words::VERDICT);
    AGAINST_LEVEL_REPLACEMENT "against.level.{level}.replacement" [""]
        "is the described policy among those that fit"
        .word(&words::VERDICT);
    AGAINST_MEMORY_LATENCY "against.memory.latency" ["cycles", "ns"]
        "is the described latency of memory"
        .word(&words::VERDICT);
    AGAINST_TLBS "against.tlbs" [""]
        "are there as many TLBs as described and to be seen"
        .word(&words::VERDICT);
    AGAINST_TLB_ENTRIES "against.tlb.{tlb}.entries" [""]
        "are the described entries of the Nth TLB"
        .word(&words::VERDICT);
    AGAINST_TLB_PENALTY "against.tlb.{tlb}.penalty" ["cycles", "ns"]
        "is what its miss costs, of the last one the walk"
        .word(&words::VERDICT);
    AGAINST_TLB_WAYS "against.tlb.{tlb}.ways" [""]
        "are its described ways, where they were measured"
        .word(&words::VERDICT);
    EXPECTED_CORE_CLOCK "expected.core.clock" ["Hz"]
        "report --against: the described core clock";
    EXPECTED_TIERS "expected.tiers" [""]
        "levels that the description has before memory";
    EXPECTED_LEVEL_SIZE "expected.level.{level}.size" ["bytes"]
        "where the Nth level as described should end";
    EXPECTED_LEVEL_LATENCY "expected.level.{level}.latency" ["cycles", "ns"]
        "a load's time from it as described";
    EXPECTED_LEVEL_LINE "expected.level.{level}.line" ["bytes"]
        "its described line";
    EXPECTED_LEVEL_WAYS "expected.level.{level}.ways" [""]
        "its described ways";
    EXPECTED_LEVEL_SETS "expected.level.{level}.sets" [""]
        "its described sets";
    EXPECTED_LEVEL_REPLACEMENT "expected.level.{level}.replacement" [""]
        "its described replacement policy"
        .word(&words::POLICY);
    EXPECTED_MEMORY_LATENCY "expected.memory.latency" ["cycles", "ns"]
        "a load's time from memory as described";
    EXPECTED_TLBS "expected.tlbs" [""]
        "TLBs that a survey of the description should see";
    EXPECTED_TLB_ENTRIES "expected.tlb.{tlb}.entries" [""]
        "entries of the Nth TLB as described";
    EXPECTED_TLB_PENALTY "expected.tlb.{tlb}.penalty" ["cycles", "ns"]
        "what its miss should cost as described";
    EXPECTED_TLB_WAYS "expected.tlb.{tlb}.ways" [""]
        "its described ways";
}

/// What `report --against` checks of a description.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// What is claimed; `{}` stands for the number of the level or TLB.
    pub says: &'static str,
    /// What the measurement says of it.
    pub verdict: &'static Metric,
    /// What a survey of the described machine should find.
    pub expected: &'static Metric,
}

/// Every check of a description.
pub static CHECKS: &[Check] = &[
    Check { says: "core clock", verdict: &AGAINST_CORE_CLOCK, expected: &EXPECTED_CORE_CLOCK },
    Check { says: "tiers", verdict: &AGAINST_TIERS, expected: &EXPECTED_TIERS },
    Check { says: "level {} size", verdict: &AGAINST_LEVEL_SIZE, expected: &EXPECTED_LEVEL_SIZE },
    Check { says: "level {} latency", verdict: &AGAINST_LEVEL_LATENCY, expected: &EXPECTED_LEVEL_LATENCY },
    Check { says: "level {} line", verdict: &AGAINST_LEVEL_LINE, expected: &EXPECTED_LEVEL_LINE },
    Check { says: "level {} ways", verdict: &AGAINST_LEVEL_WAYS, expected: &EXPECTED_LEVEL_WAYS },
    Check { says: "level {} sets", verdict: &AGAINST_LEVEL_SETS, expected: &EXPECTED_LEVEL_SETS },
    Check {
        says: "level {} replacement",
        verdict: &AGAINST_LEVEL_REPLACEMENT,
        expected: &EXPECTED_LEVEL_REPLACEMENT,
    },
    Check { says: "memory latency", verdict: &AGAINST_MEMORY_LATENCY, expected: &EXPECTED_MEMORY_LATENCY },
    Check { says: "tlbs", verdict: &AGAINST_TLBS, expected: &EXPECTED_TLBS },
    Check { says: "tlb {} entries", verdict: &AGAINST_TLB_ENTRIES, expected: &EXPECTED_TLB_ENTRIES },
    Check { says: "tlb {} penalty", verdict: &AGAINST_TLB_PENALTY, expected: &EXPECTED_TLB_PENALTY },
    Check { says: "tlb {} ways", verdict: &AGAINST_TLB_WAYS, expected: &EXPECTED_TLB_WAYS },
];

/// Is it a row of `report --against`: what is expected, or what the measurement says of it?
#[must_use]
pub fn is_check(metric: &Metric) -> bool {
    CHECKS.iter().any(|check| check.verdict == metric || check.expected == metric)
}
