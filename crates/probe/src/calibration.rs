//! Calibration of a clock: its rate against a reference, and its resolution.

use fathom_units::divisor::gcd;

/// A clock's rate and its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Ticks per second.
    pub hz: u64,
    /// Half-width of the calibration's interval, parts per million, rounded up; 0 if the rate is exact by definition.
    pub ppm: u64,
}

/// The clock that another one is calibrated against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Ticks per second.
    pub hz: u64,
    /// How many ticks a reading may be early: 1 for a counter, which shows whole ticks only; 0 if a tick is much
    /// shorter than a reading takes.
    pub max_early_ticks: u64,
}

/// Readings at either end, of which the shortest bracket is used.
const TRIES: u32 = 48;

/// A clock read between two readings of its reference.
#[derive(Clone, Copy, Debug)]
pub struct Bracket {
    before: u64,
    ticks: u64,
    after: u64,
}

impl Bracket {
    /// Takes the narrowest of several brackets: an interrupted one is wide and is discarded.
    #[must_use]
    pub fn take(reference: impl Fn() -> u64, clock: impl Fn() -> u64) -> Bracket {
        let once = || {
            let before = reference();
            let ticks = clock();
            Bracket { before, ticks, after: reference() }
        };
        let mut best = once();
        for _ in 1..TRIES {
            let next = once();
            if next.width() < best.width() {
                best = next;
            }
        }
        best
    }

    fn width(&self) -> u64 {
        self.after.saturating_sub(self.before)
    }

    /// Returns the rate of the clock between two brackets. The true times may be anywhere inside them.
    #[must_use]
    pub fn rate(begin: &Bracket, end: &Bracket, reference: Reference) -> Rate {
        let middle = |b: &Bracket| u128::from(b.before) * 2 + u128::from(b.width());
        let span2 = middle(end).saturating_sub(middle(begin)).max(1);
        let ticks = u128::from(end.ticks.wrapping_sub(begin.ticks));
        let hz = (ticks * 2 * u128::from(reference.hz) + span2 / 2) / span2;
        let uncertainty = u128::from(begin.width() + end.width() + 2 * reference.max_early_ticks) * 1_000_000;
        // The resolution of either reading adds one tick.
        let coarse = 2_000_000_u128.div_ceil(ticks.max(1));
        let ppm = uncertainty.div_ceil(span2) + coarse;
        Rate { hz: u64::try_from(hz).unwrap_or(u64::MAX), ppm: u64::try_from(ppm).unwrap_or(u64::MAX) }
    }
}

/// Returns the smallest interval between two readings of a clock and the greatest common divisor of all intervals, in
/// ticks; 0 if all readings are the same. This is an estimate for the record: the survey measures its own bias in
/// trials.
pub fn resolution(mut now: impl FnMut() -> u64) -> (u64, u64) {
    let (mut least, mut divisor) = (u64::MAX, 0);
    let mut last = now();
    for _ in 0..2000 {
        let next = now();
        let passed = next.wrapping_sub(last);
        least = least.min(passed);
        divisor = gcd(passed, divisor);
        last = next;
    }
    (least, divisor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    const NS: Reference = Reference { hz: 1_000_000_000, max_early_ticks: 0 };

    fn bracket(before: u64, ticks: u64, after: u64) -> Bracket {
        Bracket { before, ticks, after }
    }

    #[test]
    fn rate_is_ticks_per_time_with_uncertainty() {
        // 25 ms at 2 GHz with 50 ns of uncertainty at each end: 100 ns of uncertainty in twice 25 ms.
        let rate = Bracket::rate(&bracket(0, 0, 50), &bracket(25_000_000, 50_000_000, 25_000_050), NS);
        assert_eq!(rate.hz, 2_000_000_000);
        assert_eq!(rate.ppm, 3, "2 of the brackets, 1 of the ticks");
        // The true rate is within the extremes of both brackets.
        let (slow, fast) = (50_000_000.0 / 25_000_050e-9, 50_000_000.0 / 24_999_950e-9);
        assert!((slow - 2e9_f64).abs() / 2e9 * 1e6 <= rate.ppm as f64);
        assert!((fast - 2e9_f64).abs() / 2e9 * 1e6 <= rate.ppm as f64);
    }

    #[test]
    fn reference_of_whole_ticks_adds_one_tick_of_uncertainty_at_each_end() {
        // 10 ms of a counter at 19.2 MHz whose readings took no tick, and a clock of 600 MHz.
        let counter = Reference { hz: 19_200_000, max_early_ticks: 1 };
        let rate = Bracket::rate(&bracket(7, 0, 7), &bracket(192_007, 6_000_000, 192_007), counter);
        assert_eq!(
            rate,
            Rate { hz: 600_000_000, ppm: 7 },
            "5.2 of the counter, 1 of the ticks, each rounded up"
        );
        // The true rate is inside: a reading may be a tick early at one end and exact at the other.
        for ticks in [191_999.0, 192_001.0] {
            let true_hz = 6_000_000.0 * 19.2e6 / ticks;
            assert!((true_hz - 6e8_f64).abs() / 6e8 * 1e6 <= rate.ppm as f64);
        }
    }

    #[test]
    fn coarse_and_broken_clocks_have_large_uncertainty_and_no_panic() {
        // 32 kHz over 25 ms: 819 ticks, 1200 parts per million each.
        let rate = Bracket::rate(&bracket(0, 0, 100), &bracket(25_000_000, 819, 25_000_100), NS);
        assert!((32_000..33_500).contains(&rate.hz) && rate.ppm > 2000, "{rate:?}");
        let stopped = Bracket::rate(&bracket(0, 5, 1), &bracket(1_000_000, 5, 1_000_001), NS);
        assert_eq!(stopped.hz, 0);
        let backwards = Bracket::rate(&bracket(10, 5, 11), &bracket(0, 4, 1), NS);
        assert!(backwards.ppm > 0);
    }

    #[test]
    fn the_tightest_bracket_is_taken() {
        // Each reading of the reference takes less time until the tenth, and then more again.
        let (time, count) = (Cell::new(0u64), Cell::new(0u64));
        let reference = || {
            count.set(count.get() + 1);
            time.set(time.get() + 1 + count.get().abs_diff(20));
            time.get()
        };
        let best = Bracket::take(reference, || 0);
        assert_eq!(best.width(), 1);
    }

    #[test]
    fn resolution_is_the_least_interval_and_the_common_divisor() {
        let mut passed = [6u64, 9, 15].into_iter().cycle();
        let mut time = u64::MAX - 20;
        let clock = || {
            time = time.wrapping_add(passed.next().unwrap_or_default());
            time
        };
        assert_eq!(resolution(clock), (6, 3), "across the wrap");
        assert_eq!(resolution(|| 5), (0, 0), "a clock that stands still");
    }
}
