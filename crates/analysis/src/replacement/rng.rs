//! Chance, repeatable: what random replacement draws from. The library's SplitMix64: two multiplications a draw, and
//! the same everywhere.

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

    /// A number below `end`; 0 where that is 0. The bias over a few ways out of 2^32 is below 1e-8.
    pub fn below(&mut self, end: usize) -> usize {
        (((self.next() >> 32) * end as u64) >> 32) as usize
    }

    /// True with this chance (0 to 1).
    #[cfg(test)]
    pub fn with_chance(&mut self, p: f64) -> bool {
        ((self.next() >> 11) as f64 / (1u64 << 53) as f64) < p
    }
}
