//! Metrics of `fathom latency`, and the points of every latency curve.

use crate::findings::{Compared, Field, metrics, tokens};

/// The probe refused the trials of a ladder step.
pub const REFUSED: Field =
    Field::new("refused", "true if it was refused: the value is null, and the notes have the reason");

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
    LATENCY_TLB "latency.{size}.tlb" [""]
        "whether the loads in random order hit a TLB or cause page walks"
        .token(&tokens::TLB).compared(Compared::In("latency"));
}
