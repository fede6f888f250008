//! Seeded random numbers for random replacement. Uses SplitMix64 of `rand_xoshiro`: two multiplications per number, and the
//! same results on every platform.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// A seeded generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rng(SplitMix64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(SplitMix64::seed_from_u64(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `end`; 0 if `end` is 0. The bias over a few ways out of 2^32 is below 1e-8.
    pub fn below(&mut self, end: usize) -> usize {
        (((self.next() >> 32) * end as u64) >> 32) as usize
    }

    /// Returns true with probability `p` (0 to 1).
    #[cfg(test)]
    pub fn with_probability(&mut self, p: f64) -> bool {
        ((self.next() >> 11) as f64 / (1u64 << 53) as f64) < p
    }
}
