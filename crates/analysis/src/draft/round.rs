//! Rounding of values within their intervals.

use crate::interval::Interval;

/// Returns the whole number within the interval with the smallest odd factor; of several, the one nearest to the value.
/// `None` if the interval contains no whole number from 1.
#[must_use]
pub fn roundest(i: Interval) -> Option<u64> {
    let (low, high) = (i.low.max(1.0).ceil(), i.high.floor());
    // Beyond 2^53 an f64 does not hold every whole number, and no size is that large.
    if low > high || high > 9e15 {
        return None;
    }
    // An interval of an octave or more contains at least one power of two.
    let powers = (0..53).map(|shift| 1u64 << shift).filter(|p| low <= *p as f64 && *p as f64 <= high);
    let off = |p: &u64| (*p as f64 / i.value).ln().abs();
    powers.min_by(|a, b| off(a).total_cmp(&off(b))).or_else(|| {
        // The largest power of two with a multiple inside has no second multiple there: one of two adjacent multiples
        // would be even.
        (0..=high.log2() as u32).rev().find_map(|shift| {
            let unit = (1u64 << shift) as f64;
            let first = (low / unit).ceil();
            (first * unit <= high).then_some((first * unit) as u64)
        })
    })
}

/// Largest error of rounding, relative to the value or to the half-width of its interval, whichever is more. A survey of the
/// draft must give the machine's latencies within 1 %, and its own error takes up most of that.
const MAX_ROUNDING: (f64, f64) = (0.0025, 0.25);

/// Returns the number within the interval that has the fewest decimals, is nearest to the value and differs from it by at
/// most a quarter of a percent or a quarter of the half-width. Otherwise returns the value with six decimals, or with four
/// significant digits if the interval has no width.
#[must_use]
pub fn shortest(i: Interval) -> f64 {
    if i.low >= i.high {
        return significant(i.value).parse().unwrap_or(i.value);
    }
    let rounded = |digits: i32| {
        let scale = 10f64.powi(digits);
        (i.value * scale).round() / scale
    };
    let most = (MAX_ROUNDING.0 * i.value.abs()).max(MAX_ROUNDING.1 * (i.high - i.low) / 2.0);
    let is_near = |v: &f64| (v - i.value).abs() <= most && i.low <= *v && *v <= i.high;
    (0..=6).map(rounded).find(is_near).unwrap_or_else(|| rounded(6))
}

/// Returns the frequency with the fewest digits within the interval, Hz; the value in whole Hz if there is none.
pub(super) fn frequency(i: Interval) -> f64 {
    let rounded = |digits: i32| {
        let unit = 10f64.powi(digits);
        (i.value / unit).round() * unit
    };
    (0..=9).rev().map(rounded).find(|v| i.low <= *v && *v <= i.high).unwrap_or_else(|| rounded(0))
}

/// Formats a number with four significant digits and at most six decimals.
pub(crate) fn significant(v: f64) -> String {
    let digits = if v == 0.0 { 0 } else { (3 - v.abs().log10().floor() as i32).clamp(0, 6) };
    format!("{v:.0$}", digits.unsigned_abs() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn between(value: f64, low: f64, high: f64) -> Interval {
        Interval { value, low, high }
    }

    #[test]
    fn sizes_are_powers_of_two_times_small_odd_numbers() {
        assert_eq!(roundest(between(32768.0, 32669.9, 32896.0)), Some(32768));
        assert_eq!(roundest(between(49152.0, 48845.0, 49357.0)), Some(49152));
        assert_eq!(
            roundest(between(4.2 * 1_048_576.0, 4.17 * 1_048_576.0, 4.36 * 1_048_576.0)),
            Some(17 << 18)
        );
        assert_eq!(roundest(between(10.0, 9.0, 11.0)), Some(10));
        assert_eq!(roundest(between(1292.0, 1221.0, 1300.0)), Some(1280));
        assert_eq!(roundest(between(1000.4, 1000.2, 1000.6)), None);
        assert_eq!(roundest(between(130.0, 100.0, 600.0)), Some(128));
        assert_eq!(roundest(between(0.5, 0.2, 0.9)), None);
        assert_eq!(roundest(between(f64::NAN, f64::NAN, f64::NAN)), None);
        assert_eq!(roundest(between(1e300, 1e299, 1e301)), None);
    }

    #[test]
    fn times_and_frequencies_are_as_short_as_their_intervals_allow() {
        assert_eq!(shortest(between(3.059, 3.054, 3.064)), 3.06);
        assert_eq!(shortest(between(140.12, 140.07, 140.16)), 140.1);
        assert_eq!(shortest(between(5.0, 5.0, 5.0)), 5.0);
        assert_eq!(shortest(between(57.5, 57.0, 58.0)), 57.5);
        assert_eq!(shortest(between(57.1, 56.6, 57.6)), 57.0);
        assert_eq!(shortest(between(6.84, 6.5, 7.1)), 6.8);
        assert_eq!(shortest(between(7.968_853, 7.968_853, 7.968_853)), 7.969);
        assert_eq!(significant(12345.6), "12346");
        assert_eq!(frequency(between(600_007_724.0, 599_989_843.0, 600_007_724.5)), 6e8);
        assert_eq!(frequency(between(19_200_000.0, 19_200_000.0, 19_200_000.0)), 19_200_000.0);
    }

    proptest! {
        #[test]
        fn rounded_value_lies_inside_the_interval(value in 1.0f64..1e5, below in 0.0f64..0.3, above in 0.0f64..0.3) {
            let i = between(value, value * (1.0 - below), value * (1.0 + above));
            if let Some(n) = roundest(i) {
                prop_assert!(i.low <= n as f64 && n as f64 <= i.high, "{n} in {i:?}");
                // No number in the interval has a smaller odd part.
                let odd = n >> n.trailing_zeros();
                let mut smaller = (1..odd).step_by(2).flat_map(|m| (0..40).map(move |shift| (m << shift) as f64));
                let inside = smaller.find(|v| i.low <= *v && *v <= i.high);
                prop_assert_eq!(inside, None, "{} in {:?}", n, i);
            } else {
                prop_assert!(i.low.ceil() > i.high.floor());
            }
        }
    }
}
