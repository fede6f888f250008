//! What `fathom dma` finds.

use super::{NamePattern, number, word};

/// Parts of transfers, who is cheapest where, and what others lose by them.
pub(super) const NAMES: &[NamePattern] = &[
    number("dma.link", &["Mbit/s"], "rate of the link at which a CPU's load is told"),
    number(
        "dma.STRATEGY.DIRECTION.BYTES.cpu",
        &["ns"],
        "CPU time of a transfer of BYTES: use, copy, map, unmap, and setup where that is known",
    ),
    number("dma.STRATEGY.DIRECTION.BYTES.use", &["ns"], "of it: the packet written, or read, word by word"),
    number("dma.STRATEGY.DIRECTION.BYTES.copy", &["ns"], "of it: the copy between packet and buffer"),
    number(
        "dma.STRATEGY.DIRECTION.BYTES.map",
        &["ns"],
        "of it: what is done before the device may have the buffer",
    ),
    number(
        "dma.STRATEGY.DIRECTION.BYTES.unmap",
        &["ns"],
        "of it: what is done before the CPU may have it back",
    ),
    number("dma.STRATEGY.DIRECTION.BYTES.setup", &["ns"], "of it: starting the engine, and its interrupt"),
    number(
        "dma.STRATEGY.DIRECTION.BYTES.engine",
        &["ns"],
        "from the engine's start to its interrupt handled, setup included",
    ),
    number(
        "dma.STRATEGY.DIRECTION.BYTES.throughput",
        &["MB/s"],
        "bytes over all of that, one transfer after the other",
    ),
    number(
        "dma.STRATEGY.DIRECTION.BYTES.utilisation",
        &["%"],
        "CPU time over the time that the link takes for BYTES",
    ),
    word(
        "dma.STRATEGY.DIRECTION.attribute",
        "ATTRIBUTE",
        "attribute of the device's memory, as the tables have it",
    ),
    word("dma.STRATEGY.DIRECTION.engine", "ENGINE", "what moved the data"),
    number(
        "dma.STRATEGY.DIRECTION.wrong",
        &["bytes"],
        "bytes at the far end that are not those that were sent",
    ),
    word("dma.winner.DIRECTION.BYTES", "STRATEGY", "the strategy with the least CPU time"),
    number(
        "dma.crossover.DIRECTION.STRATEGY.STRATEGY",
        &["bytes"],
        "size below which the first takes less CPU time, and from which on the second does",
    ),
    number(
        "pollution.STRATEGY.DIRECTION.BYTES",
        &["ns"],
        "what a walk through the victim's working set takes longer after a transfer than before it",
    ),
    number("pollution.STRATEGY.BYTES", &["ns"], "the same of a transfer to the device and one from it"),
    number(
        "dma.study.saved",
        &["ns"],
        "CPU time that uncached-copy takes less than streaming-copy for a packet of study S2 that comes in",
    ),
    number("dma.study.needed", &["ns"], "what it takes less in study S2, by its two rates"),
    number("dma.study.gain", &["%"], "throughput of uncached-copy over streaming-copy for such a packet"),
    number("dma.study.points", &["%"], "points of a CPU that uncached-copy takes less at the link's rate"),
];
