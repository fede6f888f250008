//! Rises that are wider than one cache causes, on hardware.
//!
//! Scattered frames, hashed or shared levels and other users of a cache spread the end of a tier over half an octave and
//! more. Where loads begin to slow down is then a property of the session; the capacity is somewhere on the rise. Two
//! capacities that may be the same one are reported as one.

use super::fit::shown::has_plateau;
use super::{Point, Reading};

/// Share of a step at which a capacity is surely exceeded. A cyclic walk over scattered frames that just fit misses in 0.53
/// of its loads with 16 ways (the share of pages whose colour has more than 16 of them, Poisson), with a standard deviation
/// of 0.09 for 32 colours.
const EXCEEDED: f64 = 0.75;
/// Ratio of the size at which a capacity is exceeded to the onset, up to which a rise is steep. With LRU and four ways it is
/// 1.2; a first level of 12 ways on a loaded Sapphire Rapids guest had 1.33.
const STEEP: f64 = 1.35;

/// Smallest ratios between two successive tiers; below them they are one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MinRatios {
    /// Of their latencies.
    pub latency: f64,
    /// Of their capacities.
    pub capacity: f64,
}

/// Extends the capacities whose rise is wide, and removes tiers that are not separate from the one before. `scattered` says
/// for a capacity whether its level is indexed by scattered frames. Points ascend.
pub fn widen(reading: &mut Reading, points: &[Point], min: MinRatios, scattered: impl Fn(usize) -> bool) {
    let mut i = 0;
    while i + 1 < reading.tiers.len() {
        widen_one(reading, points, i, scattered(i));
        // Beyond a level that is indexed by scattered frames, a tier without a plateau is a bend of its rise.
        let next = &reading.tiers[i + 1];
        let bend =
            scattered(i) && next.points < 2 && next.capacity.is_some() && !is_shown(reading, points, i, min);
        if bend || inseparable(reading, points, i, min) {
            let merged = reading.tiers.remove(i + 1);
            // The rise is now one to the next tier.
            if let Some(capacity) = &mut reading.tiers[i].capacity {
                capacity.explained = false;
            }
            let at = merged.capacity.map_or(0.0, |c| c.onset.value);
            reading.notes.push(format!(
                "a step near {} is not separate from the one before and was merged with it",
                fathom_units::size(at)
            ));
        } else {
            i += 1;
        }
    }
    merge_last(reading, min);
    for i in 1..reading.tiers.len() {
        extend_latency(reading, points, i);
    }
}

/// Removes the tier before the last one if the last one takes as long: a bend of the rise to it, or a burst of noise beyond.
fn merge_last(reading: &mut Reading, min: MinRatios) {
    let [.., before, last] = &reading.tiers[..] else { return };
    if reading.tiers.len() < 3 || last.latency.value >= min.latency * before.latency.value {
        return;
    }
    let at = before.capacity.map_or(0.0, |c| c.onset.value);
    reading.tiers.remove(reading.tiers.len() - 2);
    reading.notes.push(format!(
        "a step near {} is not separate from the last tier and was merged with it",
        fathom_units::size(at)
    ));
}

/// Extends the interval of a latency without a plateau to all points of the tier: a fit is no measurement.
fn extend_latency(reading: &mut Reading, points: &[Point], i: usize) {
    let from = reading.tiers[i - 1].capacity.map_or(0.0, |c| c.onset.high);
    let tier = &mut reading.tiers[i];
    let Some(end) = tier.capacity.map(|c| c.below).filter(|_| tier.points < 2) else { return };
    for p in points.iter().filter(|p| p.x >= from && p.x <= end) {
        tier.latency.low = tier.latency.low.min(p.y);
        tier.latency.high = tier.latency.high.max(p.y);
    }
}

fn widen_one(reading: &mut Reading, points: &[Point], i: usize, scattered: bool) {
    let (here, next) = (reading.tiers[i].latency.value, reading.tiers[i + 1].latency.value);
    let limit = reading.tiers[i + 1].capacity.map_or(f64::INFINITY, |c| c.above);
    let Some(capacity) = reading.tiers[i].capacity.as_mut().filter(|c| scattered || !c.explained) else {
        return;
    };
    let level = here + EXCEEDED * (next - here);
    let beyond: Vec<&Point> = points.iter().filter(|p| p.x > capacity.onset.value && p.x <= limit).collect();
    // Noise lifts single points.
    let exceeded = beyond.windows(2).find(|w| w.iter().all(|p| p.y >= level)).map(|w| w[0].x);
    let Some(end) = exceeded.or(beyond.last().map(|p| p.x)) else { return };
    if end > STEEP * capacity.onset.value {
        capacity.onset.high = capacity.onset.high.max(end);
        capacity.wide_rise = true;
    }
}

/// Returns whether the tier after `i` ends where `i` itself may end and no points between them show its plateau, or takes as long.
fn inseparable(reading: &Reading, points: &[Point], i: usize, min: MinRatios) -> bool {
    let (tier, next) = (&reading.tiers[i], &reading.tiers[i + 1]);
    let (Some(a), Some(b)) = (tier.capacity, next.capacity) else { return false };
    let are_near = b.onset.low <= a.onset.high || b.onset.value < min.capacity * a.onset.value;
    are_near && !is_shown(reading, points, i, min) || next.latency.value < min.latency * tier.latency.value
}

/// Returns whether points between the ends of tier `i` and of the next one show the plateau of that.
fn is_shown(reading: &Reading, points: &[Point], i: usize, min: MinRatios) -> bool {
    let [Some(a), Some(b)] = [i, i + 1].map(|i| reading.tiers[i].capacity) else { return false };
    let at = |x: f64| points.partition_point(|p| p.x <= x);
    let (from, to) = (at(a.onset.value), at(b.onset.value));
    has_plateau(&points[from..to.max(from)], min.latency * reading.tiers[i].latency.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Interval;
    use crate::tiers::shape::Shape;
    use crate::tiers::{Capacity, Options, Tier, read};

    /// Returns a curve of 4 to 20 with the share of misses at each size.
    fn curve(misses: impl Fn(f64) -> f64) -> Vec<Point> {
        let sizes = (0..60).map(|i| 256.0 * 2f64.powf(f64::from(i) / 8.0));
        sizes.map(|x| Point { x, y: 4.0 + 16.0 * misses(x), sigma: 0.001, shared: 0.0 }).collect()
    }

    fn capacity(onset: Interval) -> Capacity {
        let Interval { value, high, .. } = onset;
        let shape = Shape::Lru(8);
        Capacity { onset, below: value, above: high, shape, explained: true, wide_rise: false, covered: 0 }
    }

    /// Returns a tier with so many points, whose latency and capacity have intervals of these ends, relative to their values.
    fn tier(latency: f64, ends: (f64, f64), points: usize, end: Option<f64>) -> Tier {
        let around = |value: f64| Interval { value, low: ends.0 * value, high: ends.1 * value };
        let capacity = end.map(|value| capacity(around(value)));
        Tier { latency: around(latency), capacity, points, on_plateau: points, begin: 64.0 }
    }

    fn widened(points: &[Point], scattered: bool) -> Reading {
        let options = Options { share: 0.04, ..Options::default() };
        let mut reading = read(points, &options).unwrap();
        let min = MinRatios { latency: options.min_ratio, capacity: 1.35 };
        widen(&mut reading, points, min, |_| scattered);
        reading
    }

    #[test]
    fn steep_rise_keeps_its_interval() {
        let points = curve(|x| ((x / 2048.0 - 1.0) * 16.0).clamp(0.0, 1.0));
        for scattered in [false, true] {
            let capacity = widened(&points, scattered).tiers[0].capacity.unwrap().onset;
            assert!(capacity.low <= 2048.0 && capacity.high < 1.15 * 2048.0, "{capacity:?}");
        }
    }

    #[test]
    fn capacity_is_somewhere_on_a_wide_rise() {
        // Colours overflow from 0.6 of the capacity on; half of the loads miss at the capacity.
        let points = curve(|x| ((x / 2048.0 - 0.6) / 0.8).clamp(0.0, 1.0));
        let reading = widened(&points, true);
        let capacity = reading.tiers[0].capacity.unwrap().onset;
        assert!(capacity.low < 0.7 * 2048.0 && capacity.high > 2048.0, "{capacity:?}");
        assert!(capacity.high < 1.4 * 2048.0, "{capacity:?}");
        assert_eq!(reading.tiers.len(), 2, "{reading:?}");
    }

    #[test]
    fn bend_of_a_rise_is_no_tier() {
        // A fifth of the step over one octave, the rest over the next half.
        let misses =
            |x: f64| (0.2 * (x / 1024.0 - 1.0)).clamp(0.0, 0.2) + (1.6 * (x / 2048.0 - 1.0)).clamp(0.0, 0.8);
        let reading = widened(&curve(misses), true);
        assert_eq!(reading.tiers.len(), 2, "{reading:?}");
        let capacity = reading.tiers[0].capacity.unwrap().onset;
        assert!(capacity.low < 1200.0 && capacity.high > 2500.0, "{capacity:?}");
    }

    /// Measured on a described machine whose neighbours slow its memory down: a victim cache of 512 B behind one of 1 KiB.
    #[test]
    fn plateau_that_points_show_is_a_tier_beside_other_users() {
        let sizes = [256.0, 512.0, 768.0, 1024.0, 1152.0, 1280.0, 1408.0, 1536.0, 1664.0, 2048.0];
        let times = [3.06, 3.06, 3.06, 3.06, 4.73, 6.06, 6.066, 6.06, 9.76, 14.06];
        let tier = |latency: f64, end: Option<f64>| tier(latency, (0.99, 1.05), 3, end);
        let number = |times: &[f64]| {
            let points: Vec<Point> =
                sizes.iter().zip(times).map(|(&x, &y)| Point { x, y, sigma: 0.0005, shared: 0.0 }).collect();
            let tiers = vec![tier(3.06, Some(1024.0)), tier(6.06, Some(1536.0)), tier(14.06, None)];
            let mut reading = Reading { tiers, scatter: 0.0, flat_end: true, notes: Vec::new() };
            widen(&mut reading, &points, MinRatios { latency: 1.25, capacity: 1.9 }, |_| false);
            reading.tiers.len()
        };
        assert_eq!(number(&times), 3);
        let bent = [3.06, 3.06, 3.06, 3.06, 4.73, 6.0, 6.6, 7.3, 9.76, 14.06];
        assert_eq!(number(&bent), 2);
    }

    /// Memory takes 149 ns up to 8 MiB and 152 beyond: measured on an EPYC guest beside a copy of memory.
    #[test]
    fn last_tier_that_takes_as_long_is_none() {
        let tier = |latency: f64, end: Option<f64>| tier(latency, (0.9, 1.1), 9, end);
        let of = |last: f64| {
            let tiers = vec![tier(3.3, Some(1e6)), tier(149.0, Some(8e6)), tier(last, None)];
            let mut reading = Reading { tiers, scatter: 0.0, flat_end: true, notes: Vec::new() };
            widen(&mut reading, &[], MinRatios { latency: 1.25, capacity: 1.9 }, |_| false);
            reading.tiers.iter().map(|t| t.latency.value).collect::<Vec<_>>()
        };
        assert_eq!(of(152.0), [3.3, 152.0]);
        assert_eq!(of(200.0), [3.3, 149.0, 200.0]);
    }

    /// Loads begin to miss at 0.6 of 1 MiB, a fifth of them at its end, and the rest far beyond: measured on an EPYC guest.
    #[test]
    fn tier_without_a_plateau_is_a_bend_of_a_scattered_rise() {
        let misses = |x: f64| {
            (0.2 * (x / 600.0 - 1.0) / 0.7).clamp(0.0, 0.2) + (0.8 * (x / 1020.0 - 1.0)).clamp(0.0, 0.8)
        };
        let points: Vec<Point> = curve(misses).into_iter().filter(|p| p.x > 64.0).collect();
        let tier = |latency: f64, points: usize, end: Option<f64>| tier(latency, (0.99, 1.05), points, end);
        let of = |scattered: bool| {
            let tiers = vec![tier(4.0, 9, Some(604.0)), tier(7.0, 1, Some(1200.0)), tier(20.0, 9, None)];
            let mut reading = Reading { tiers, scatter: 0.0, flat_end: true, notes: Vec::new() };
            widen(&mut reading, &points, MinRatios { latency: 1.25, capacity: 1.9 }, |i| scattered && i == 0);
            reading
        };
        let reading = of(true);
        assert_eq!(reading.tiers.len(), 2, "{reading:?}");
        let onset = reading.tiers[0].capacity.unwrap().onset;
        assert!(onset.low < 610.0 && onset.high > 1024.0, "{onset:?}");
    }
}
