//! Random numbers from a seed: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
//! OOPSLA 2014).
//!
//! Plans, chains and the model use it. Records and goldens depend on its values.

/// Increment of the state per draw: 2^64 divided by the golden ratio, odd.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the first draw of the generator seeded with `seed`.
#[inline]
#[must_use]
pub fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The generator: one addition and one [`mix`] per draw, with a period of 2^64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Creates a generator with this seed; any seed is valid.
    #[must_use]
    pub fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// Returns the next number, uniform in all 64 bits.
    #[expect(
        clippy::should_implement_trait,
        reason = "it never ends, and an iterator would wrap each number"
    )]
    #[inline]
    pub fn next(&mut self) -> u64 {
        let draw = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        draw
    }

    /// Returns a number uniform in `0..n`, from the high half of the product; the bias is below n / 2^64. 0 if `n` is
    /// 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with values of the reference implementation by the authors (prng.di.unimi.it/splitmix64.c) for this
    /// seed.
    #[test]
    fn values_equal_the_reference_implementation() {
        let mut random = SplitMix64::new(1_477_776_061_723_855_037);
        let drawn = [random.next(), random.next(), random.next(), random.next()];
        let expected = [
            1_985_237_415_132_408_290,
            2_979_275_885_539_914_483,
            13_511_426_838_097_143_398,
            8_488_337_342_461_049_707,
        ];
        assert_eq!(drawn, expected);
        assert_eq!(mix(1_477_776_061_723_855_037), expected[0]);
    }

    #[test]
    fn below_stays_below() {
        let mut random = SplitMix64::new(1);
        assert_eq!(random.below(0), 0);
        assert!((0..1000).all(|_| random.below(7) < 7));
    }
}
