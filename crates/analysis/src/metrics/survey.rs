//! What `fathom survey` finds.

use crate::findings::{Compared, Field, metrics};

/// The step need be no TLB.
pub const MAYBE_TABLES: Field =
    Field::new("maybe_tables", "true where the step may be page tables that leave a cache, and no TLB");

metrics! {
    TIER_LATENCY "tier.{level}.latency" ["ns"]
        "load-to-use time of the Nth tier, counted from the core"
        .less_is_better().timed();
    TIER_LATENCY_CYCLES "tier.{level}.latency_cycles" ["cycles"]
        "the same in core cycles"
        .less_is_better();
    TIER_CAPACITY "tier.{level}.capacity" ["bytes"]
        "largest working set before the rise; the last tier has none"
        .more_is_better();
    TLB_ENTRIES "tlb.{tlb}.entries" [""]
        "pages that the Nth TLB reaches"
        .more_is_better().detail(&[MAYBE_TABLES]);
    TLB_PENALTY "tlb.{tlb}.penalty" ["ns"]
        "what a load pays more when the Nth TLB misses and the next one answers"
        .less_is_better();
    TLB_WAYS "tlb.{tlb}.ways" [""]
        "its ways, from pages that conflict";
    TLB_SETS "tlb.{tlb}.sets" [""]
        "its sets; one where it is fully associative";
    TLB_HUGE_ENTRIES "tlb.huge.{tlb}.entries" [""]
        "huge pages that the Nth TLB for them reaches"
        .more_is_better().detail(&[MAYBE_TABLES]);
    TLB_HUGE_PENALTY "tlb.huge.{tlb}.penalty" ["ns"]
        "what a load pays more when it misses and the next one answers"
        .less_is_better();
    TLB_HUGE_PAGES "tlb.huge.pages" [""]
        "huge pages up to which no rise was seen; only where none was";
    WALK_LATENCY "walk.latency" ["ns"]
        "what a page walk adds to a load"
        .less_is_better().timed();
    WALK_SHARE "walk.share" [""]
        "part of the time of a random far load that is translation, 0 to 1"
        .share();
    PAGES_EXTRA "pages.{pages}.extra" ["ns"]
        "what a load pays more on N pages than on as many lines packed"
        .signed().compared(Compared::OnRequest);
    PREFETCH_ORDER_TIME "prefetch.{order}.time" ["ns"]
        "time a load when a large working set is read in this order"
        .less_is_better().timed();
    PREFETCH_GAIN "prefetch.gain" [""]
        "time in random order over that in ascending order";
    PREFETCH_REACH "prefetch.reach.{towards}" [""]
        "longest stride, in lines, up to which all are clearly faster than a random order inside pages";
    PREFETCH_TEMPORAL "prefetch.temporal" [""]
        "time in an order that never comes again over that in a random one that does";
}
