//! Metrics of `fathom latency`, and the points of every latency curve.

use super::counted::EventMetrics;
use crate::findings::{Axis, Compared, Field, metrics, tokens};

/// The probe refused the trials of a ladder step.
pub const REFUSED: Field =
    Field::new("refused", "true if it was refused: the value is null, and the notes have the reason");

/// Events per load by working set.
pub static EVENTS: EventMetrics = EventMetrics {
    axis: Axis::Size,
    instructions: &LATENCY_INSTRUCTIONS,
    accesses: &LATENCY_ACCESSES,
    refills: &LATENCY_REFILLS,
    memory_reads: &LATENCY_MEMORY_READS,
    tlb_refills: &LATENCY_TLB_REFILLS,
    tlb_misses: &LATENCY_TLB_MISSES,
    walks: &LATENCY_WALKS,
    stalls: &LATENCY_STALLS,
};

metrics! {
    LATENCY_TIME "latency.{size}.time" ["ns"]
        "load-to-use latency of a working set, in an order that no prefetcher predicts"
        .less_is_better().timed().compared(Compared::In("latency"));
    LATENCY_CYCLES "latency.{size}.cycles" ["cycles"]
        "load-to-use latency of a working set, in core cycles"
        .less_is_better().compared(Compared::In("latency"));
    LATENCY_PEAK "latency.{size}.peak" ["cycles", "ns"]
        "median of the main peak of the histogram of single loads, less the bias"
        .less_is_better().compared(Compared::In("latency"));
    LATENCY_SINGLE "latency.{size}.single" ["cycles", "ns"]
        "histogram of single loads in a working set, bias included"
        .histogram();
    LATENCY_ORDER_TIME "latency.{size}.order.{order}.time" ["ns"]
        "load-to-use latency of a working set in this order"
        .less_is_better().detail(&[REFUSED]).timed().compared(Compared::In("latency"));
    LATENCY_ORDER_PEAK "latency.{size}.order.{order}.peak" ["cycles", "ns"]
        "main peak of the single loads in this order"
        .less_is_better().compared(Compared::In("latency"));
    LATENCY_PAGE_TIME "latency.{size}.page.{page}.time" ["ns"]
        "load-to-use latency of a working set in random order, in pages of this size; null if they were refused"
        .less_is_better().detail(&[REFUSED]).timed().compared(Compared::In("latency"));
    LATENCY_PAGE_PEAK "latency.{size}.page.{page}.peak" ["cycles", "ns"]
        "main peak of the single loads in pages of this size"
        .less_is_better().compared(Compared::In("latency"));
    LATENCY_PLACEMENT_TIME "latency.{size}.placement.{placement}.time" ["ns"]
        "load-to-use latency of a working set at one of several physical placements"
        .less_is_better().detail(&[REFUSED]).timed().compared(Compared::In("latency"));
    LATENCY_PREFETCH_TIME "latency.{size}.prefetch.{prefetch}.time" ["ns"]
        "load-to-use latency in ascending order, prefetchers on or off; null if refused"
        .less_is_better().detail(&[REFUSED]).timed().compared(Compared::In("latency"));
    LATENCY_PREFETCH_PEAK "latency.{size}.prefetch.{prefetch}.peak" ["cycles", "ns"]
        "main peak of the single loads, prefetchers on or off"
        .less_is_better().compared(Compared::In("latency"));
    LATENCY_INSTRUCTIONS "latency.{size}.instructions" ["1/load"]
        "executed instructions per load in random order, as counted"
        .compared(Compared::OnRequest);
    LATENCY_ACCESSES "latency.{size}.accesses" ["1/load"]
        "accesses of data per load in random order, as counted"
        .compared(Compared::OnRequest);
    LATENCY_REFILLS "latency.{size}.level.{level}.refills" ["1/load"]
        "refills of a cache on the path of data per load in random order, as counted"
        .less_is_better().compared(Compared::OnRequest);
    LATENCY_MEMORY_READS "latency.{size}.memory_reads" ["1/load"]
        "lines that are read from memory per load in random order, as counted"
        .compared(Compared::OnRequest);
    LATENCY_TLB_REFILLS "latency.{size}.tlb.{tlb}.refills" ["1/load"]
        "refills of a TLB per load in random order, as counted"
        .less_is_better().compared(Compared::OnRequest);
    LATENCY_TLB_MISSES "latency.{size}.tlb_misses" ["1/load"]
        "TLB misses per load in random order, as the kernel generalises them: refills of the first or last TLB, or walks"
        .less_is_better().compared(Compared::OnRequest);
    LATENCY_WALKS "latency.{size}.walks" ["1/load"]
        "walks of the page tables per load in random order, as counted"
        .less_is_better().compared(Compared::OnRequest);
    LATENCY_STALLS "latency.{size}.stalls" ["cycles"]
        "cycles per load in random order in which the core waits for a resource, as counted"
        .less_is_better().compared(Compared::OnRequest);
    LATENCY_WAIT "latency.{size}.wait" ["cycles"]
        "cycles per load in random order beyond those of a load that the first level serves"
        .signed().less_is_better().compared(Compared::OnRequest);
    LATENCY_TLB "latency.{size}.tlb" [""]
        "whether the loads in random order hit a TLB or cause page walks"
        .token(&tokens::TLB).compared(Compared::In("latency"));
}
