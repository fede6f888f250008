//! What `fathom latency` finds, and the points of every staircase.

use super::{NamePattern, number, word};

/// Times by working set, and ladders.
pub(super) const NAMES: &[NamePattern] = &[
    number(
        "latency.BYTES.time",
        &["ns"],
        "load-to-use time at a working set of BYTES, in an order that no prefetch foresees",
    ),
    number("latency.BYTES.cycles", &["cycles"], "the same in core cycles"),
    number(
        "latency.BYTES.peak",
        &["cycles", "ns"],
        "median of the largest group of single loads, a load, less the bias",
    ),
    number(
        "latency.BYTES.order.ORDER.time",
        &["ns"],
        "ladder of orders: load-to-use time at a working set of BYTES in this order",
    ),
    number("latency.BYTES.order.ORDER.peak", &["cycles", "ns"], "the main peak of its single loads"),
    number(
        "latency.BYTES.page.PAGE.time",
        &["ns"],
        "ladder of pages: the same in random order and pages of this kind; null where they were refused",
    ),
    number("latency.BYTES.page.PAGE.peak", &["cycles", "ns"], "the main peak of its single loads"),
    number("latency.BYTES.placement.N.time", &["ns"], "ladder of placements: the same at the Nth place"),
    number(
        "latency.BYTES.prefetch.SWITCH.time",
        &["ns"],
        "ladder of prefetch: load-to-use time in ascending order with prefetchers on or off; null where refused",
    ),
    number("latency.BYTES.prefetch.SWITCH.peak", &["cycles", "ns"], "the main peak of its single loads"),
    word("latency.BYTES.tlb", "TLB", "do the loads of random order walk"),
];
