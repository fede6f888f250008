//! Metrics of `fathom survey`.

use super::counted::EventMetrics;
use crate::findings::{Axis, Compared, Field, metrics};
use crate::metrics::claims::CLAIMED;

/// The experiment's name.
pub const NAME: &str = "survey";

/// The rise may have another cause than a TLB.
pub const MAYBE_TABLES: Field = Field::new(
    "maybe_tables",
    "true if the rise may come from page tables that no longer fit a cache, not from a TLB",
);

/// Number of pages beyond which a walk costs more.
pub const GROWS_BEYOND: Field = Field::new(
    "grows_beyond",
    "number of pages beyond which walks get slower: page tables leave the caches, or a TLB ends there too",
);

/// Events per load by tier.
pub static EVENTS: EventMetrics = EventMetrics {
    axis: Axis::Tier,
    instructions: &TIER_INSTRUCTIONS,
    accesses: &TIER_ACCESSES,
    refills: &TIER_REFILLS,
    memory_reads: &TIER_MEMORY_READS,
    tlb_refills: &TIER_TLB_REFILLS,
    tlb_misses: &TIER_TLB_MISSES,
    walks: &TIER_WALKS,
    stalls: &TIER_STALLS,
};

metrics! {
    TIER_LATENCY "tier.{tier}.latency" ["ns"]
        "load-to-use latency of a tier"
        .less_is_better().timed().detail(&[CLAIMED]);
    TIER_LATENCY_CYCLES "tier.{tier}.latency_cycles" ["cycles"]
        "load-to-use latency of a tier, in core cycles"
        .less_is_better().detail(&[CLAIMED]);
    TIER_CAPACITY "tier.{tier}.capacity" ["bytes"]
        "largest working set before latency rises; the last tier has none"
        .more_is_better();
    TIER_INSTRUCTIONS "tier.{tier}.instructions" ["1/load"]
        "executed instructions per load, as counted at working sets of the tier"
        .compared(Compared::OnRequest);
    TIER_ACCESSES "tier.{tier}.accesses" ["1/load"]
        "accesses of data per load, as counted at working sets of the tier"
        .compared(Compared::OnRequest);
    TIER_REFILLS "tier.{tier}.level.{level}.refills" ["1/load"]
        "refills of a cache on the path of data per load, as counted at working sets of the tier"
        .less_is_better().compared(Compared::OnRequest);
    TIER_MEMORY_READS "tier.{tier}.memory_reads" ["1/load"]
        "lines that are read from memory per load, as counted at working sets of the tier"
        .compared(Compared::OnRequest);
    TIER_TLB_REFILLS "tier.{tier}.tlb.{tlb}.refills" ["1/load"]
        "refills of a TLB per load, as counted at working sets of the tier"
        .less_is_better().compared(Compared::OnRequest);
    TIER_TLB_MISSES "tier.{tier}.tlb_misses" ["1/load"]
        "TLB misses per load, as the kernel generalises them, as counted at working sets of the tier"
        .less_is_better().compared(Compared::OnRequest);
    TIER_WALKS "tier.{tier}.walks" ["1/load"]
        "walks of the page tables per load, as counted at working sets of the tier"
        .less_is_better().compared(Compared::OnRequest);
    TIER_STALLS "tier.{tier}.stalls" ["cycles"]
        "cycles per load in which the core waits for a resource, as counted at working sets of the tier"
        .less_is_better().compared(Compared::OnRequest);
    TLB_ENTRIES "tlb.{tlb}.entries" [""]
        "number of pages that a TLB covers"
        .more_is_better().detail(&[MAYBE_TABLES]);
    TLB_PENALTY "tlb.{tlb}.penalty" ["ns"]
        "added latency of a load when a TLB misses and the next one hits"
        .less_is_better();
    TLB_WAYS "tlb.{tlb}.ways" [""]
        "associativity of a TLB, from pages that conflict";
    TLB_SETS "tlb.{tlb}.sets" [""]
        "number of sets of a TLB; 1 if it is fully associative";
    TLB_HUGE_ENTRIES "tlb.huge.{tlb}.entries" [""]
        "number of huge pages that a TLB covers"
        .more_is_better().detail(&[MAYBE_TABLES]);
    TLB_HUGE_PENALTY "tlb.huge.{tlb}.penalty" ["ns"]
        "added latency of a load when a TLB for huge pages misses and the next one hits"
        .less_is_better();
    TLB_HUGE_PAGES "tlb.huge.pages" [""]
        "number of huge pages up to which latency does not rise; only if it does not rise at all";
    WALK_LATENCY "walk.latency" ["ns"]
        "latency that a page walk adds to a load"
        .less_is_better().timed().detail(&[GROWS_BEYOND]);
    WALK_SHARE "walk.share" [""]
        "share of a random far load's latency that is address translation, 0 to 1"
        .share();
    HUGE_SPLINTERED "huge.splintered" [""]
        "cost of TLB misses in huge pages as a share of that in base pages: 0 if huge pages are whole, 1 if they are translated in pieces of base pages"
        .share().less_is_better().compared(Compared::OnRequest);
    TRANSLATION_ADDED "translation.{pages}.added" ["ns"]
        "added latency of a load when its lines are on as many pages, compared with the same number of lines packed"
        .signed().compared(Compared::OnRequest);
    MEMORY_OVERLAP "memory.overlap" [""]
        "number of misses to memory that the core has under way at the same time: time of a load along one chain, by that along so many that more do not help"
        .more_is_better();
    MEMORY_WINDOW "memory.window" [""]
        "number of instructions that the core has in flight at the same time: two independent misses to memory overlap if there are fewer from the one to the other"
        .more_is_better();
    MEMORY_CHAINS_TIME "memory.chains.{chains}.time" ["ns"]
        "time per load of memory when so many chains are walked side by side"
        .less_is_better().timed().compared(Compared::OnRequest);
    FILL_ONE_SET_TIME "fill.one_set.time" ["ns"]
        "time per independent load that the second cache serves, of lines in one set of the nearest one"
        .less_is_better().timed();
    FILL_TWO_SETS_TIME "fill.two_sets.time" ["ns"]
        "the same, of lines in two sets of the nearest cache"
        .less_is_better().timed();
    PREFETCH_ORDER_TIME "prefetch.{order}.time" ["ns"]
        "time per load when a large working set is read in this order"
        .less_is_better().timed().compared(Compared::OnRequest);
    PREFETCH_GAIN "prefetch.gain" [""]
        "ratio of the time in random order to that in ascending order";
    PREFETCH_MAX_STRIDE_LINES "prefetch.max_stride_lines.{towards}" [""]
        "largest stride, in lines, up to which every stride is significantly faster than random order inside pages";
    PREFETCH_REPEAT_GAIN "prefetch.repeat_gain" [""]
        "ratio of the time in a random order that never repeats to that in one that does";
}
