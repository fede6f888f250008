//! What `fathom conflict` finds: how each level is built, and what lines that compete for a set cost.

use crate::findings::{Field, metrics, words};

/// How far each of the nearest policies is from what was seen.
pub const DEVIANCE: Field = Field::new(
    "deviance",
    "the nearest policies, each with its mean deviance a probed line: about 1 or less where it explains what was seen",
);

metrics! {
    TIER_LINE "tier.{level}.line" ["bytes"]
        "line of a level: so far apart two addresses fall into two sets; or how far a load of it spares the next one";
    TIER_WAYS "tier.{level}.ways" [""]
        "ways of the level behind the Nth tier, from who conflicts with whom";
    TIER_SETS "tier.{level}.sets" [""]
        "its sets";
    TIER_POLICIES "tier.{level}.policies" [""]
        "replacement policies that what left its sets does not reject"
        .words(&words::POLICY).detail(&[DEVIANCE]);
    EVICTED_SHARE "evicted.{level}.{distance}.share" [""]
        "share of the laps in which the Nth tier's line loaded N loads ago was gone"
        .share();
    PAIR_TIME "pair.{level}.{distance}.time" ["ns"]
        "beyond the Nth tier: a load BYTES after another of the same pair"
        .less_is_better().timed();
    PAIR_REACH "pair.{level}.reach" ["bytes"]
        "how far a load brings its neighbours along, where beyond its line";
    CONFLICT_MISSES_PER_ROUND "conflict.{lines}.misses_per_round" [""]
        "of N reads 4 KiB apart, round and round, those that miss the nearest level"
        .less_is_better();
    CONFLICT_TIME_PER_ROUND "conflict.{lines}.time_per_round" ["ns"]
        "time of such a round of independent reads"
        .less_is_better().timed();
    CONFLICT_BASE_MISSES_PER_ROUND "conflict.{lines}.base.misses_per_round" [""]
        "the same in base pages"
        .less_is_better();
    CONFLICT_BASE_TIME_PER_ROUND "conflict.{lines}.base.time_per_round" ["ns"]
        "the same in base pages"
        .less_is_better().timed();
    CONFLICT_EXPECTED "conflict.{lines}.expected.{policy}" [""]
        "misses a round of N lines, one more than ways, under a policy";
    TIER_COLOUR_HELP "tier.{level}.colour.help" [""]
        "can page colours spread conflicts in the Nth tier; why, or what it would take, is in the notes"
        .word(&words::HELP);
    TIER_COLOUR_MISSES_PER_ROUND "tier.{level}.colour.{colours}.{pages}.misses_per_round" [""]
        "misses of the Nth tier in a round of one load in each of PAGES different pages of K colours"
        .less_is_better();
    TIER_COLOUR_TIME_PER_ROUND "tier.{level}.colour.{colours}.{pages}.time_per_round" ["ns"]
        "time of that round"
        .less_is_better().timed();
    TIER_COLOUR_SHARED_MISSES_PER_ROUND "tier.{level}.colour.shared.{pages}.misses_per_round" [""]
        "the same of PAGES pages that share one frame, as untouched memory shares the kernel's page of zeros"
        .less_is_better();
    TIER_COLOUR_SHARED_TIME_PER_ROUND "tier.{level}.colour.shared.{pages}.time_per_round" ["ns"]
        "time of that round"
        .less_is_better().timed();
}
