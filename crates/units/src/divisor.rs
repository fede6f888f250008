//! The greatest common divisor.

/// Returns the greatest common divisor of two numbers (Euclid); if one of them is 0, the other one.
///
/// The clocks of all machines and the spacing of loads need it. A library (num-integer and num-traits in the
/// bare-metal image) would be two dependencies for this one line.
#[must_use]
pub fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisor_is_the_greatest_common_one() {
        assert_eq!((gcd(0, 6), gcd(12, 18), gcd(7, 0), gcd(0, 0)), (6, 6, 7, 0));
        assert_eq!((gcd(35, 64), gcd(u64::MAX, 5)), (1, 5));
    }
}
