//! What experiments share: clocks and pages, what a trial will cost, rounds.

pub(crate) mod cost;
pub(crate) mod round;
pub(crate) mod scale;

use fathom_analysis::interval::Interval;

/// Bytes from cell to cell where the line is not asked about. Smaller lines only leave sets unused, evenly; of
/// larger ones a chain's order keeps the cells half a lap apart.
pub(crate) const STRIDE: u64 = 64;

/// Pages in a window that any first-level TLB holds, also one of eight entries with random replacement: all
/// their lines are visited before the next window begins.
pub(crate) const WINDOW_PAGES: u64 = 4;

/// An interval with the error of times that may be off by half of `grain` either way.
pub(crate) fn grained(i: Interval, grain: f64) -> Interval {
    Interval {
        value: i.value,
        low: i.value - (i.value - i.low).hypot(grain / 2.0),
        high: i.value + (i.high - i.value).hypot(grain / 2.0),
    }
}

/// One time over another, each end's error by its own half of the intervals.
pub(crate) fn quotient(over: Interval, under: Interval) -> Option<Interval> {
    if over.value <= 0.0 || under.value <= 0.0 {
        return None;
    }
    let value = over.value / under.value;
    let share = |i: Interval| ((i.value - i.low) / i.value, (i.high - i.value) / i.value);
    let (over, under) = (share(over), share(under));
    let (down, up) = (over.0.hypot(under.1), over.1.hypot(under.0));
    Some(Interval { value, low: value * (1.0 - down), high: value * (1.0 + up) })
}
