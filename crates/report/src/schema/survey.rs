//! What `fathom survey` finds.

use super::{NamePattern, number};

/// Tiers.
pub(super) const TIERS: &[NamePattern] = &[
    number("tier.N.latency", &["ns"], "load-to-use time of the Nth tier, counted from the core"),
    number("tier.N.latency_cycles", &["cycles"], "the same in core cycles"),
    number("tier.N.capacity", &["bytes"], "largest working set before the rise; the last tier has none"),
];

/// TLBs, page walks and prefetch.
pub(super) const TRANSLATION: &[NamePattern] = &[
    number("tlb.N.entries", &[""], "pages that the Nth TLB reaches"),
    number(
        "tlb.N.penalty",
        &["ns"],
        "what a load pays more when the Nth TLB misses and the next one answers",
    ),
    number("tlb.N.ways", &[""], "its ways, from pages that conflict"),
    number("tlb.N.sets", &[""], "its sets; one where it is fully associative"),
    number("tlb.huge.N.entries", &[""], "huge pages that the Nth TLB for them reaches; notes: their size"),
    number("tlb.huge.N.penalty", &["ns"], "what a load pays more when it misses and the next one answers"),
    number("tlb.huge.pages", &[""], "huge pages up to which no rise was seen; only where none was"),
    number("walk.latency", &["ns"], "what a page walk adds to a load"),
    number("walk.share", &[""], "part of the time of a random far load that is translation, 0 to 1"),
    number("pages.N.extra", &["ns"], "what a load pays more on N pages than on as many lines packed"),
    number("prefetch.ORDER.time", &["ns"], "time a load when a large working set is read in this order"),
    number("prefetch.worth", &[""], "time in random order over that in ascending order"),
    number(
        "prefetch.reach.WAY",
        &[""],
        "longest stride, in lines, up to which all are clearly faster than a random order inside pages",
    ),
    number(
        "prefetch.temporal",
        &[""],
        "time in an order that never comes again over that in a random one that does",
    ),
];
