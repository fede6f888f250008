//! Seeded random streams for the random parts of a description.

use fathom_probe::splitmix::{SplitMix64, mix};

/// The use of a stream. With the seed and a number it determines the stream's seed. So uses share no draws, and an
/// added CPU or level does not change the draws of others.
#[derive(Clone, Copy)]
pub(crate) enum Use {
    /// Victims of a cache: number `level << 32 | cpu` (cpu 0 if it is shared).
    Level = 1,
    /// Victims of a TLB: number `tlb << 32 | cpu`.
    Tlb = 2,
    /// The spread of memory latency.
    Spread = 3,
    /// The timer's jitter.
    Jitter = 4,
    /// The order of a co-running stream: number `cpu`.
    Stream = 5,
    /// The frames of base pages: number 0 for mappings, 1 for co-running streams.
    Frames = 6,
    /// Placement of the lines of a wake-up: number 0 for code, 1 for data.
    Path = 7,
    /// Placement of a packet and the device's buffer: number 0.
    Transfer = 8,
    /// The order of a worker's chase: number of the worker.
    LoadOrder = 9,
    /// The frames of a load: number 0.
    LoadFrames = 10,
    /// The bursts of a neighbour: number of the neighbour.
    Neighbour = 11,
}

/// A random stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rng(SplitMix64);

impl Rng {
    pub fn new(seed: u64, for_use: Use, number: u64) -> Rng {
        Rng(SplitMix64::new(mix(seed ^ mix(((for_use as u64) << 56) ^ number))))
    }

    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// Returns a number uniform in `0..n`; the bias is below n / 2^64.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }
}
