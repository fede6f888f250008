//! What `fathom latency` finds, and the points of every latency curve.

use crate::findings::{Compared, Field, metrics, words};

/// The probe refused the trials of a ladder step of a ladder.
pub const REFUSED: Field =
    Field::new("refused", "true where it was refused: the value is null, and the reason is in the notes");

metrics! {
    LATENCY_TIME "latency.{size}.time" ["ns"]
        "load-to-use time at a working set of BYTES, in an order that no prefetch foresees"
        .less_is_better().timed().compared(Compared::In("latency"));
    LATENCY_CYCLES "latency.{size}.cycles" ["cycles"]
        "the same in core cycles"
        .less_is_better().compared(Compared::In("latency"));
    LATENCY_PEAK "latency.{size}.peak" ["cycles", "ns"]
        "median of the largest group of single loads, a load, less the bias"
        .less_is_better().compared(Compared::In("latency"));
    LATENCY_SINGLE "latency.{size}.single" ["cycles", "ns"]
        "single loads at a working set of BYTES, with the bias"
        .histogram();
    LATENCY_ORDER_TIME "latency.{size}.order.{order}.time" ["ns"]
        "ladder of orders: load-to-use time at a working set of BYTES in this order"
        .less_is_better().detail(&[REFUSED]).timed().compared(Compared::In("latency"));
    LATENCY_ORDER_PEAK "latency.{size}.order.{order}.peak" ["cycles", "ns"]
        "the main peak of its single loads"
        .less_is_better().compared(Compared::In("latency"));
    LATENCY_PAGE_TIME "latency.{size}.page.{page}.time" ["ns"]
        "ladder of pages: the same in random order and pages of this kind; null where they were refused"
        .less_is_better().detail(&[REFUSED]).timed().compared(Compared::In("latency"));
    LATENCY_PAGE_PEAK "latency.{size}.page.{page}.peak" ["cycles", "ns"]
        "the main peak of its single loads"
        .less_is_better().compared(Compared::In("latency"));
    LATENCY_PLACEMENT_TIME "latency.{size}.placement.{placement}.time" ["ns"]
        "ladder of placements: the same at the Nth place"
        .less_is_better().detail(&[REFUSED]).timed().compared(Compared::In("latency"));
    LATENCY_PREFETCH_TIME "latency.{size}.prefetch.{prefetch}.time" ["ns"]
        "ladder of prefetch: load-to-use time in ascending order with prefetchers on or off; null where refused"
        .less_is_better().detail(&[REFUSED]).timed().compared(Compared::In("latency"));
    LATENCY_PREFETCH_PEAK "latency.{size}.prefetch.{prefetch}.peak" ["cycles", "ns"]
        "the main peak of its single loads"
        .less_is_better().compared(Compared::In("latency"));
    LATENCY_TLB "latency.{size}.tlb" [""]
        "do the loads of random order walk"
        .word(&words::TLB).compared(Compared::In("latency"));
}
