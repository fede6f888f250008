//! The seeded streams behind everything that a description calls random.

use fathom_probe::splitmix::{SplitMix64, mix};

/// What a stream is for; with the seed and a number it makes the stream's own seed, so that no two
/// uses ever share draws, and adding a CPU or a level leaves the others' draws as they were.
#[derive(Clone, Copy)]
pub(crate) enum Use {
    /// Victims of a cache: number `level << 32 | cpu` (cpu 0 where it is shared).
    Level = 1,
    /// Victims of a TLB: number `tlb << 32 | cpu`.
    Tlb = 2,
    /// The spread of memory's latency.
    Spread = 3,
    /// The timer's jitter.
    Jitter = 4,
    /// The order of a co-running stream: number `cpu`.
    Stream = 5,
    /// The frames of base pages: number 0 for mappings, 1 for co-running streams.
    Frames = 6,
    /// Where the lines of a wake-up lie: number 0 for code, 1 for data.
    Path = 7,
    /// Where a packet and the device's buffer lie: number 0.
    Transfer = 8,
}

/// The stream of one use.
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

    /// Uniform in `0..n`; the bias is below n / 2^64.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }
}
