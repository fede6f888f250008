//! What `fathom dma` finds.

use crate::findings::{Field, metrics, words};

/// Largest transfer of the engine, from which the rate of the link was calculated.
pub const LINK_SIZE: Field = Field::new(
    "transfer_bytes",
    "transfer over which the engine reached the rate, bytes; without it the rate was given",
);
/// Lines were flushed from user space.
pub const SUBSTITUTE: Field = Field::new(
    "stand_in",
    "true where lines were flushed from user space in place of the kernel's maintenance",
);
/// The device sees the caches.
pub const COHERENT: Field = Field::new("coherent", "true where caches see what the device does");
/// How the kernel maintains buffers.
pub const MAINTENANCE: Field =
    Field::new("maintenance", "when buffers are cleaned and invalidated, where caches do not see the device")
        .of(&words::MAINTENANCE);
/// Bytes that were compared.
pub const COMPARED: Field = Field::new("compared", "bytes that were compared at the far end");
/// Strategies that are as fast as the winner.
pub const TIES: Field =
    Field::new("ties", "strategies whose CPU time is not surely more than the winner's").of(&words::STRATEGY);
/// The difference may be none.
pub const UNSURE: Field =
    Field::new("unsure", "true where the interval has 0 in it, or the difference is below 1 % of the walk");
/// Size of the victim.
pub const VICTIM: Field = Field::new("victim", "working set of the victim, bytes");
/// Its walk before the transfer.
pub const BEFORE: Field = Field::new("before", "what a walk through it takes before a transfer, ns");

metrics! {
    DMA_LINK "dma.link" ["Mbit/s"]
        "rate of the link at which a CPU's load is told"
        .detail(&[LINK_SIZE]);
    DMA_CPU "dma.{strategy}.{direction}.{size}.cpu" ["ns"]
        "CPU time of a transfer: use, copy, map, unmap, and setup where that is known"
        .less_is_better().timed();
    DMA_USE "dma.{strategy}.{direction}.{size}.use" ["ns"]
        "of it: the packet written, or read, word by word"
        .less_is_better();
    DMA_COPY "dma.{strategy}.{direction}.{size}.copy" ["ns"]
        "of it: the copy between packet and buffer"
        .less_is_better();
    DMA_MAP "dma.{strategy}.{direction}.{size}.map" ["ns"]
        "of it: what is done before the device may have the buffer"
        .less_is_better();
    DMA_UNMAP "dma.{strategy}.{direction}.{size}.unmap" ["ns"]
        "of it: what is done before the CPU may have it back"
        .less_is_better();
    DMA_SETUP "dma.{strategy}.{direction}.{size}.setup" ["ns"]
        "of it: starting the engine, and its interrupt"
        .less_is_better();
    DMA_ENGINE "dma.{strategy}.{direction}.{size}.engine" ["ns"]
        "from the engine's start to its interrupt handled, setup included"
        .less_is_better();
    DMA_THROUGHPUT "dma.{strategy}.{direction}.{size}.throughput" ["MB/s"]
        "bytes over all of that, one transfer after the other"
        .more_is_better();
    DMA_UTILISATION "dma.{strategy}.{direction}.{size}.utilisation" ["%"]
        "CPU time over the time that the link takes for as many bytes"
        .less_is_better();
    DMA_ATTRIBUTE "dma.{strategy}.{direction}.attribute" [""]
        "attribute of the device's memory, as the tables have it"
        .word(&words::ATTRIBUTE);
    DMA_ENGINE_USED "dma.{strategy}.{direction}.engine" [""]
        "what moved the data"
        .word(&words::ENGINE).detail(&[SUBSTITUTE, COHERENT, MAINTENANCE]);
    DMA_WRONG "dma.{strategy}.{direction}.wrong" ["bytes"]
        "bytes at the far end that are not those that were sent"
        .detail(&[COMPARED]);
    DMA_WINNER "dma.winner.{direction}.{size}" [""]
        "the strategy with the least CPU time"
        .word(&words::STRATEGY).detail(&[TIES]);
    DMA_CROSSOVER "dma.crossover.{direction}.{strategy}.{versus}" ["bytes"]
        "size below which the first takes less CPU time, and from which on the second does";
    POLLUTION "pollution.{strategy}.{direction}.{size}" ["ns"]
        "what a walk through the victim's working set takes longer after a transfer than before it"
        .signed().detail(&[UNSURE, VICTIM, BEFORE]);
    POLLUTION_ROUND_TRIP "pollution.{strategy}.{size}.round_trip" ["ns"]
        "the same of a transfer to the device and one from it"
        .signed();
    DMA_STUDY_SAVED "dma.study.saved" ["ns"]
        "CPU time that uncached-copy takes less than streaming-copy for a packet of study S2 that comes in"
        .signed();
    DMA_STUDY_NEEDED "dma.study.needed" ["ns"]
        "what it takes less in study S2, by its two rates"
        .signed();
    DMA_STUDY_GAIN "dma.study.gain" ["%"]
        "throughput of uncached-copy over streaming-copy for such a packet"
        .signed();
    DMA_STUDY_POINTS "dma.study.points" ["%"]
        "points of a CPU that uncached-copy takes less at the link's rate"
        .signed();
}
