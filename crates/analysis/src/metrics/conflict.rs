//! Metrics of `fathom conflict`: geometry of each cache, and the cost of lines that compete for a set.

use crate::findings::{Field, metrics, tokens};

/// Misfit of the best policies to the observed evictions.
pub const DEVIANCE: Field = Field::new(
    "deviance",
    "the best policies, each with its mean deviance per tested line: about 1 or less is a fit",
);

metrics! {
    TIER_LINE "tier.{tier}.line" ["bytes"]
        "line size of a cache: the smallest distance at which two addresses map to different sets, or at which the second of two loads misses";
    TIER_WAYS "tier.{tier}.ways" [""]
        "associativity of the cache of a tier, from lines that conflict";
    TIER_SETS "tier.{tier}.sets" [""]
        "number of sets of the cache of a tier";
    TIER_POLICIES "tier.{tier}.policies" [""]
        "replacement policies that the observed evictions do not reject"
        .tokens(&tokens::POLICY).detail(&[DEVIANCE]);
    EVICTED_SHARE "evicted.{tier}.{loads_ago}.share" [""]
        "share of the laps in which a line had been evicted, by the number of loads since it was loaded"
        .share();
    PAIR_TIME "pair.{tier}.{distance}.time" ["ns"]
        "latency of the second load of a pair whose first load missed the tier"
        .less_is_better().timed();
    PAIR_FETCHED_BYTES "pair.{tier}.fetched_bytes" ["bytes"]
        "bytes that one miss fetches, if more than its line";
    CONFLICT_MISSES_PER_ROUND "conflict.{lines}.misses_per_round" [""]
        "misses of the nearest cache per round of cyclic reads of lines 4 KiB apart"
        .less_is_better();
    CONFLICT_TIME_PER_ROUND "conflict.{lines}.time_per_round" ["ns"]
        "time per round of independent cyclic reads of lines 4 KiB apart"
        .less_is_better().timed();
    CONFLICT_BASE_MISSES_PER_ROUND "conflict.{lines}.base.misses_per_round" [""]
        "misses of the nearest cache per round, in base pages"
        .less_is_better();
    CONFLICT_BASE_TIME_PER_ROUND "conflict.{lines}.base.time_per_round" ["ns"]
        "time per round, in base pages"
        .less_is_better().timed();
    CONFLICT_EXPECTED "conflict.{lines}.expected.{policy}" [""]
        "expected misses per round of one line more than ways, under a policy";
    TIER_COLOUR_USEFUL "tier.{tier}.colour.useful" [""]
        "whether page colours can spread the conflicts of a tier; the notes have the reason"
        .token(&tokens::USEFUL);
    TIER_COLOUR_MISSES_PER_ROUND "tier.{tier}.colour.{colours}.{pages}.misses_per_round" [""]
        "misses of a tier per round of one load in each page, pages of this number of colours"
        .less_is_better();
    TIER_COLOUR_TIME_PER_ROUND "tier.{tier}.colour.{colours}.{pages}.time_per_round" ["ns"]
        "time per round of one load in each page, pages of this number of colours"
        .less_is_better().timed();
    TIER_COLOUR_SHARED_MISSES_PER_ROUND "tier.{tier}.colour.shared.{pages}.misses_per_round" [""]
        "misses of a tier per round of one load in each page, all pages mapped to one frame, as untouched memory is to the zero page"
        .less_is_better();
    TIER_COLOUR_SHARED_TIME_PER_ROUND "tier.{tier}.colour.shared.{pages}.time_per_round" ["ns"]
        "time per round of one load in each page, all pages mapped to one frame"
        .less_is_better().timed();
}
