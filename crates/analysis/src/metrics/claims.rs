//! Metrics of claims about a machine, and of the checks of claims and descriptions against a measurement.

use crate::findings::{Compared, Field, Metric, metrics, tokens};

/// The claimed property was not measured.
pub const UNMEASURED: Field =
    Field::new("unmeasured", "true if the claimed property was not measured: the claim stays undecided");
/// The claimed size.
pub const CLAIMED: Field = Field::new("claimed", "claimed size, bytes");
/// The tier that a claim is compared with.
pub const TIER: Field = Field::new("tier", "tier of the latency curve with which the claim is compared");

metrics! {
    CLAIM_LEVEL_SIZE "claim.{source}.level.{level}.{side}.size" ["bytes"]
        "size of a cache level, claimed by a source"
        .compared(Compared::OnRequest);
    CLAIM_LEVEL_LINE "claim.{source}.level.{level}.{side}.line" ["bytes"]
        "line size of a cache level, claimed by a source"
        .compared(Compared::OnRequest);
    CLAIM_LEVEL_WAYS "claim.{source}.level.{level}.{side}.ways" [""]
        "associativity of a cache level, claimed by a source"
        .compared(Compared::OnRequest);
    CLAIM_LEVEL_SETS "claim.{source}.level.{level}.{side}.sets" [""]
        "number of sets of a cache level, claimed by a source"
        .compared(Compared::OnRequest);
    VERDICT_LEVEL_SIZE "verdict.level.{level}.size" [""]
        "whether the claimed size agrees with the measurement; the notes have the reason"
        .token(&tokens::VERDICT).detail(&[CLAIMED, TIER]);
    VERDICT_LEVEL_LINE "verdict.level.{level}.line" [""]
        "whether the claimed line size agrees with the measurement"
        .token(&tokens::VERDICT).detail(&[UNMEASURED]);
    VERDICT_LEVEL_WAYS "verdict.level.{level}.ways" [""]
        "whether the claimed associativity agrees with the measurement"
        .token(&tokens::VERDICT).detail(&[UNMEASURED]);
    VERDICT_LEVEL_SETS "verdict.level.{level}.sets" [""]
        "whether the claimed number of sets agrees with the measurement"
        .token(&tokens::VERDICT).detail(&[UNMEASURED]);
    CHECK_CORE_CLOCK "check.core.clock" ["Hz"]
        "report --against: whether the described core clock agrees with the measurement"
        .token(&tokens::VERDICT);
    CHECK_TIERS "check.tiers" [""]
        "whether the number of tiers agrees with the levels of the description"
        .token(&tokens::VERDICT);
    CHECK_LEVEL_SIZE "check.level.{level}.size" ["bytes"]
        "whether the described size agrees; the interval is the measured one"
        .token(&tokens::VERDICT);
    CHECK_LEVEL_LATENCY "check.level.{level}.latency" ["cycles", "ns"]
        "whether the described latency agrees"
        .token(&tokens::VERDICT);
    CHECK_LEVEL_LINE "check.level.{level}.line" ["bytes"]
        "whether the described line size agrees, if it was measured"
        .token(&tokens::VERDICT);
    CHECK_LEVEL_WAYS "check.level.{level}.ways" [""]
        "whether the described associativity agrees, if it was measured"
        .token(&tokens::VERDICT);
    CHECK_LEVEL_SETS "check.level.{level}.sets" [""]
        "whether the described number of sets agrees, if it was measured"
        .token(&tokens::VERDICT);
    CHECK_LEVEL_REPLACEMENT "check.level.{level}.replacement" [""]
        "whether the described policy is among those that fit"
        .token(&tokens::VERDICT);
    CHECK_MEMORY_LATENCY "check.memory.latency" ["cycles", "ns"]
        "whether the described memory latency agrees"
        .token(&tokens::VERDICT);
    CHECK_OUTSTANDING "check.outstanding" [""]
        "whether the described number of misses under way agrees; fewer that were measured do not contradict it"
        .token(&tokens::VERDICT);
    CHECK_WINDOW "check.window" [""]
        "whether the described number of instructions in flight agrees"
        .token(&tokens::VERDICT);
    CHECK_SET_FILL "check.set_fill" ["cycles", "ns"]
        "whether the measured time of loads that fill one set of the nearest level agrees with the description"
        .token(&tokens::VERDICT);
    CHECK_STREAM "check.stream" ["cycles", "ns"]
        "whether the measured time of a load in the order of addresses agrees with the description"
        .token(&tokens::VERDICT);
    CHECK_TLBS "check.tlbs" [""]
        "whether the number of TLBs agrees with those of the description that are observable"
        .token(&tokens::VERDICT);
    CHECK_TLB_ENTRIES "check.tlb.{tlb}.entries" [""]
        "whether the described entries of a TLB agree"
        .token(&tokens::VERDICT);
    CHECK_TLB_PENALTY "check.tlb.{tlb}.penalty" ["cycles", "ns"]
        "whether the described miss penalty of a TLB agrees; of the last TLB, the page walk"
        .token(&tokens::VERDICT);
    CHECK_TLB_WAYS "check.tlb.{tlb}.ways" [""]
        "whether the described associativity of a TLB agrees, if it was measured"
        .token(&tokens::VERDICT);
    DESCRIBED_CORE_CLOCK "described.core.clock" ["Hz"]
        "report --against: described core clock";
    DESCRIBED_TIERS "described.tiers" [""]
        "number of levels before memory in the description";
    DESCRIBED_LEVEL_SIZE "described.level.{level}.size" ["bytes"]
        "working set at which latency should rise beyond a described level";
    DESCRIBED_LEVEL_LATENCY "described.level.{level}.latency" ["cycles", "ns"]
        "described latency of a level";
    DESCRIBED_LEVEL_LINE "described.level.{level}.line" ["bytes"]
        "described line size of a level";
    DESCRIBED_LEVEL_WAYS "described.level.{level}.ways" [""]
        "described associativity of a level";
    DESCRIBED_LEVEL_SETS "described.level.{level}.sets" [""]
        "described number of sets of a level";
    DESCRIBED_LEVEL_REPLACEMENT "described.level.{level}.replacement" [""]
        "described replacement policy of a level"
        .token(&tokens::POLICY);
    DESCRIBED_MEMORY_LATENCY "described.memory.latency" ["cycles", "ns"]
        "described memory latency";
    DESCRIBED_OUTSTANDING "described.outstanding" [""]
        "described number of misses of the nearest level that can be under way at the same time";
    DESCRIBED_WINDOW "described.window" [""]
        "described number of instructions that can be in flight at the same time";
    DESCRIBED_SET_FILL "described.set_fill" ["cycles", "ns"]
        "described least time between two accesses that fill one set of the nearest data level";
    DESCRIBED_STREAM "described.stream" ["cycles", "ns"]
        "described time of a line of a run of adjacent lines, which is prefetched";
    DESCRIBED_TLBS "described.tlbs" [""]
        "number of TLBs that a survey of the described machine should observe";
    DESCRIBED_TLB_ENTRIES "described.tlb.{tlb}.entries" [""]
        "described entries of a TLB";
    DESCRIBED_TLB_PENALTY "described.tlb.{tlb}.penalty" ["cycles", "ns"]
        "described miss penalty of a TLB";
    DESCRIBED_TLB_WAYS "described.tlb.{tlb}.ways" [""]
        "described associativity of a TLB";
}

/// A check of `report --against`: one property of a description.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// The checked property as text; `{}` is replaced by the number of the level or TLB.
    pub property: &'static str,
    /// The result of the check.
    pub verdict: &'static Metric,
    /// The value that a survey of the described machine should find.
    pub described: &'static Metric,
}

/// Every check of a description.
pub static CHECKS: &[Check] = &[
    Check { property: "core clock", verdict: &CHECK_CORE_CLOCK, described: &DESCRIBED_CORE_CLOCK },
    Check { property: "tiers", verdict: &CHECK_TIERS, described: &DESCRIBED_TIERS },
    Check { property: "level {} size", verdict: &CHECK_LEVEL_SIZE, described: &DESCRIBED_LEVEL_SIZE },
    Check {
        property: "level {} latency",
        verdict: &CHECK_LEVEL_LATENCY,
        described: &DESCRIBED_LEVEL_LATENCY,
    },
    Check { property: "level {} line", verdict: &CHECK_LEVEL_LINE, described: &DESCRIBED_LEVEL_LINE },
    Check { property: "level {} ways", verdict: &CHECK_LEVEL_WAYS, described: &DESCRIBED_LEVEL_WAYS },
    Check { property: "level {} sets", verdict: &CHECK_LEVEL_SETS, described: &DESCRIBED_LEVEL_SETS },
    Check {
        property: "level {} replacement",
        verdict: &CHECK_LEVEL_REPLACEMENT,
        described: &DESCRIBED_LEVEL_REPLACEMENT,
    },
    Check {
        property: "memory latency",
        verdict: &CHECK_MEMORY_LATENCY,
        described: &DESCRIBED_MEMORY_LATENCY,
    },
    Check { property: "misses under way", verdict: &CHECK_OUTSTANDING, described: &DESCRIBED_OUTSTANDING },
    Check { property: "instructions in flight", verdict: &CHECK_WINDOW, described: &DESCRIBED_WINDOW },
    Check { property: "fills of one set", verdict: &CHECK_SET_FILL, described: &DESCRIBED_SET_FILL },
    Check { property: "lines in order", verdict: &CHECK_STREAM, described: &DESCRIBED_STREAM },
    Check { property: "TLBs", verdict: &CHECK_TLBS, described: &DESCRIBED_TLBS },
    Check { property: "TLB {} entries", verdict: &CHECK_TLB_ENTRIES, described: &DESCRIBED_TLB_ENTRIES },
    Check { property: "TLB {} penalty", verdict: &CHECK_TLB_PENALTY, described: &DESCRIBED_TLB_PENALTY },
    Check { property: "TLB {} ways", verdict: &CHECK_TLB_WAYS, described: &DESCRIBED_TLB_WAYS },
];

/// Returns whether a metric belongs to `report --against`: a described value, or the result of a check.
#[must_use]
pub fn is_check(metric: &Metric) -> bool {
    CHECKS.iter().any(|check| check.verdict == metric || check.described == metric)
}
