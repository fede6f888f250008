//! A hashed index: every bit of a line's number affects its set.
//!
//! Sliced last-level caches select the slice by exclusive-ors of many bits of the physical address (Maurice, Le
//! Scouarnec, Neumann, Heen and Francillon, "Reverse Engineering Intel Last-Level Cache Complex Addressing Using
//! Performance Counters", RAID 2015). Those functions differ between parts. This one is the textbook member of the
//! family, the pseudo-random interleaving of Rau (ISCA 1991): the number is a polynomial over GF(2), and the set is its
//! remainder by a primitive polynomial whose degree is the number of set bits.
//!
//! So bit `j` of the number flips the set bits of `x^j`. The low bits flip one bit each, as in an index without a hash.
//! Each higher bit flips several, in a different pattern until all patterns have been used. Consecutive powers of `x`
//! are independent: at a stride of any power of two the first `sets` lines are in `sets` different sets.

/// The smallest primitive polynomial over GF(2) of each degree from 1 (OEIS A091250), as its bits.
const PRIMITIVE: [u32; 24] = [
    0x3, 0x7, 0xb, 0x13, 0x25, 0x43, 0x83, 0x11d, 0x211, 0x409, 0x805, 0x1053, 0x201b, 0x402b, 0x8003,
    0x1002d, 0x20009, 0x40027, 0x80027, 0x10_0009, 0x20_0005, 0x40_0003, 0x80_0021, 0x100_001b,
];

/// The remainders of every byte of a number at each position; the remainder of the number is their exclusive-or.
#[derive(Clone, Debug)]
pub(super) struct Hash(Box<[[u32; 256]; 4]>);

impl Hash {
    /// Creates the hash onto `sets` sets: a power of two up to 2^24.
    pub fn new(sets: u32) -> Hash {
        let mut bytes = Box::new([[0; 256]; 4]);
        let bits = sets.trailing_zeros();
        // The remainder by a polynomial of degree 0 is 0: one set.
        let Some(&polynomial) = (bits as usize).checked_sub(1).and_then(|n| PRIMITIVE.get(n)) else {
            return Hash(bytes);
        };
        let mut power = 1;
        for bit in 0..u32::BITS {
            if power >= sets {
                power ^= polynomial;
            }
            let (byte, mask) = ((bit / 8) as usize, 1 << (bit % 8));
            for (value, remainder) in bytes[byte].iter_mut().enumerate() {
                *remainder ^= if value & mask != 0 { power } else { 0 };
            }
            power <<= 1;
        }
        Hash(bytes)
    }

    /// Returns the set of a number.
    #[cold]
    #[inline(never)]
    pub fn of(&self, number: u32) -> u32 {
        let [a, b, c, d] = number.to_le_bytes();
        let [low, second, third, high] = &*self.0;
        low[usize::from(a)] ^ second[usize::from(b)] ^ third[usize::from(c)] ^ high[usize::from(d)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the multiplicative order of x modulo a polynomial.
    fn order(polynomial: u32, degree: usize) -> u32 {
        let (mut power, mut steps) = (1u32, 0);
        loop {
            power <<= 1;
            power ^= if power >> degree & 1 == 1 { polynomial } else { 0 };
            steps += 1;
            if power == 1 {
                return steps;
            }
        }
    }

    #[test]
    fn the_polynomials_are_the_smallest_primitive_ones() {
        for (n, &polynomial) in PRIMITIVE.iter().enumerate() {
            let degree = n + 1;
            let all = (1 << degree) - 1;
            assert_eq!(order(polynomial, degree), all, "{polynomial:#x}");
            // Only odd polynomials: without the constant term no power of x is 1.
            for smaller in ((1 << degree) + 1..polynomial).step_by(2) {
                assert!(order(smaller, degree) < all, "{smaller:#x} before {polynomial:#x}");
            }
        }
    }

    #[test]
    fn power_of_two_steps_spread_lines_over_two_sets() {
        for bits in 0..=12 {
            let sets = 1u32 << bits;
            let hash = Hash::new(sets);
            for step in 0..32 - bits {
                let mut seen = vec![false; sets as usize];
                for n in 0..sets {
                    let set = hash.of(n << step) as usize;
                    assert!(!std::mem::replace(&mut seen[set], true), "{sets} sets, step 2^{step}, line {n}");
                }
            }
        }
    }

    #[test]
    fn every_bit_of_a_block_number_changes_its_set() {
        let hash = Hash::new(1 << 10);
        for number in [0, 12345, u32::MAX] {
            let moved: Vec<u32> = (0..32).map(|bit| hash.of(number) ^ hash.of(number ^ 1 << bit)).collect();
            assert!(moved.iter().all(|&m| m != 0));
            assert!(moved[10..].iter().all(|m| m.count_ones() > 1), "{moved:?}");
        }
    }
}
