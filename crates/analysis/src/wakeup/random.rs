//! Seeded random numbers for bootstraps, permutations and randomised orders.

use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// A seeded generator.
#[derive(Clone, Debug)]
pub(crate) struct SeededRng(rand_xoshiro::Xoshiro256PlusPlus);

impl SeededRng {
    pub fn new(seed: u64) -> SeededRng {
        SeededRng(rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Returns a uniform number above 0 and below 1.
    pub fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Returns an exponential number with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }

    /// Returns a number below `end`; 0 if `end` is 0. The bias over a few thousand out of 2^64 is below 1e-15.
    pub fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end.max(1) as u64) as usize
    }

    /// Shuffles the values (Fisher and Yates).
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for i in (1..values.len()).rev() {
            values.swap(i, self.below(i + 1));
        }
    }
}
