//! Metrics of `fathom dma`.

use crate::findings::{Field, metrics, tokens};

/// Largest transfer of the engine, from which the rate of the link was calculated.
pub const LINK_SIZE: Field = Field::new(
    "transfer_bytes",
    "transfer over which the engine reached the rate, bytes; without it the rate was given",
);
/// Lines were flushed from user space.
pub const SUBSTITUTE: Field = Field::new(
    "substitute",
    "true if lines were flushed from user space instead of the kernel's maintenance",
);
/// The device is coherent with the caches.
pub const COHERENT: Field =
    Field::new("coherent", "true if the device's accesses are coherent with the caches");
/// Cache maintenance of buffers.
pub const MAINTENANCE: Field =
    Field::new("maintenance", "when buffers are cleaned and invalidated, if the device is not coherent")
        .of(&tokens::MAINTENANCE);
/// Bytes that were compared.
pub const COMPARED: Field = Field::new("compared", "bytes that were compared at the far end");
/// Strategies that are not significantly slower than the winner.
pub const TIES: Field =
    Field::new("ties", "strategies whose CPU time is not significantly more than the winner's")
        .of(&tokens::STRATEGY);
/// The difference may be zero.
pub const UNSURE: Field =
    Field::new("unsure", "true if the interval includes 0, or the difference is below 1 % of the walk");
/// Size of the working set whose slowdown is measured.
pub const POLLUTION_SET: Field = Field::new("pollution_set", "working set whose slowdown is measured, bytes");
/// Time of a walk through it before the transfer.
pub const BEFORE: Field =
    Field::new("before", "time of a walk through that working set before a transfer, ns");

metrics! {
    DMA_LINK "dma.link" ["Mbit/s"]
        "link rate for which CPU utilisation is reported"
        .detail(&[LINK_SIZE]);
    DMA_CPU "dma.{strategy}.{direction}.{size}.cpu" ["ns"]
        "CPU time of a transfer: use, copy, map, unmap, and setup if known"
        .less_is_better().timed();
    DMA_USE "dma.{strategy}.{direction}.{size}.use" ["ns"]
        "part of the CPU time: writing or reading the packet, word by word"
        .less_is_better();
    DMA_COPY "dma.{strategy}.{direction}.{size}.copy" ["ns"]
        "part of the CPU time: the copy between packet and buffer"
        .less_is_better();
    DMA_MAP "dma.{strategy}.{direction}.{size}.map" ["ns"]
        "part of the CPU time: maintenance and mapping before the device may use the buffer"
        .less_is_better();
    DMA_UNMAP "dma.{strategy}.{direction}.{size}.unmap" ["ns"]
        "part of the CPU time: maintenance and unmapping before the CPU may use the buffer again"
        .less_is_better();
    DMA_SETUP "dma.{strategy}.{direction}.{size}.setup" ["ns"]
        "part of the CPU time: starting the engine and handling its interrupt"
        .less_is_better();
    DMA_TRANSFER_TIME "dma.{strategy}.{direction}.{size}.transfer_time" ["ns"]
        "time from the start of the engine until its interrupt is handled, setup included"
        .less_is_better();
    DMA_THROUGHPUT "dma.{strategy}.{direction}.{size}.throughput" ["MB/s"]
        "bytes per time of the whole transfer, one transfer after the other"
        .more_is_better();
    DMA_UTILISATION "dma.{strategy}.{direction}.{size}.utilisation" ["%"]
        "CPU time as a share of the link's time for the same bytes"
        .less_is_better();
    DMA_ATTRIBUTE "dma.{strategy}.{direction}.attribute" [""]
        "attribute of the device's memory, read back from the page tables"
        .token(&tokens::ATTRIBUTE);
    DMA_ENGINE "dma.{strategy}.{direction}.engine" [""]
        "DMA engine that moved the data"
        .token(&tokens::ENGINE).detail(&[SUBSTITUTE, COHERENT, MAINTENANCE]);
    DMA_WRONG_BYTES "dma.{strategy}.{direction}.wrong_bytes" ["bytes"]
        "number of bytes at the destination that differ from those sent"
        .detail(&[COMPARED]);
    DMA_WINNER "dma.winner.{direction}.{size}" [""]
        "the strategy with the least CPU time"
        .token(&tokens::STRATEGY).detail(&[TIES]);
    DMA_CROSSOVER "dma.crossover.{direction}.{strategy}.{versus}" ["bytes"]
        "size below which the first strategy takes less CPU time, and above which the second does";
    POLLUTION "pollution.{strategy}.{direction}.{size}.time" ["ns"]
        "time that a transfer adds to a walk through another working set (cache pollution)"
        .signed().detail(&[UNSURE, POLLUTION_SET, BEFORE]);
    POLLUTION_ROUND_TRIP "pollution.{strategy}.{size}.round_trip" ["ns"]
        "time that a transfer to the device and one from it add to a walk through another working set"
        .signed();
    DMA_STUDY_SAVED "dma.study.saved" ["ns"]
        "CPU time that uncached-copy saves over streaming-copy for a received packet of study S2"
        .signed();
    DMA_STUDY_PUBLISHED_SAVING "dma.study.published_saving" ["ns"]
        "CPU time that it saved in study S2, from the study's two rates"
        .signed();
    DMA_STUDY_GAIN "dma.study.gain" ["%"]
        "throughput gain of uncached-copy over streaming-copy for such a packet"
        .signed();
    DMA_STUDY_CPU_SAVED_PP "dma.study.cpu_saved_pp" ["%"]
        "CPU utilisation that uncached-copy saves at the link's rate, in percentage points"
        .signed();
}
