//! What `fathom conflict` finds: how each level is built, and what lines that compete for a set cost.

use super::{NamePattern, number, word};

/// Lines, ways, sets, replacement, pairs, rounds and page colours.
pub(super) const NAMES: &[NamePattern] = &[
    number("line", &["bytes"], "line of the nearest level: so far apart two addresses fall into two sets"),
    number(
        "tier.N.line",
        &["bytes"],
        "the same of a farther level, or how far a load of it spares the next one",
    ),
    number("tier.N.ways", &[""], "ways of the level behind the Nth tier, from who conflicts with whom"),
    number("tier.N.sets", &[""], "its sets"),
    word("tier.N.policies", "POLICIES", "replacement policies that what left its sets does not reject"),
    number(
        "evicted.N.N.share",
        &[""],
        "share of the laps in which the Nth tier's line loaded N loads ago was gone",
    ),
    number("pair.N.BYTES.time", &["ns"], "beyond the Nth tier: a load BYTES after another of the same pair"),
    number("pair.N.reach", &["bytes"], "how far a load brings its neighbours along, where beyond its line"),
    number(
        "conflict.N.misses_per_round",
        &[""],
        "of N reads 4 KiB apart, round and round, those that miss the nearest level",
    ),
    number("conflict.N.time_per_round", &["ns"], "time of such a round of independent reads"),
    number("conflict.N.base.misses_per_round", &[""], "the same in base pages"),
    number("conflict.N.base.time_per_round", &["ns"], "the same in base pages"),
    number(
        "conflict.N.expected.POLICY",
        &[""],
        "misses a round of N lines, one more than ways, under a policy",
    ),
    word(
        "tier.N.colour.help",
        "HELP",
        "can page colours spread conflicts in the Nth tier; why, or what it would take, is in the notes",
    ),
    number(
        "tier.N.colour.K.PAGES.misses_per_round",
        &[""],
        "misses of the Nth tier in a round of one load in each of PAGES different pages of K colours",
    ),
    number("tier.N.colour.K.PAGES.time_per_round", &["ns"], "time of that round"),
    number(
        "tier.N.colour.shared.PAGES.misses_per_round",
        &[""],
        "the same of PAGES pages that share one frame, as untouched memory shares the kernel's page of zeros",
    ),
    number("tier.N.colour.shared.PAGES.time_per_round", &["ns"], "time of that round"),
];
