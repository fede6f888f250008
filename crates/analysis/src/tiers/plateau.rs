//! Plateaus of TLB pairs, which page tables and conflicts end early.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{MIN_PLATEAU_POINTS, Point, shared, widened};
use crate::interval::{Interval, median};

/// Largest relative difference between points of a short plateau and the first ones: half of the smallest step, 1.25.
const MAX_PLATEAU_DEVIATION: f64 = 0.12;

/// Errors of points, in those of the most precise one, beyond which they tell nothing about a plateau.
const PRECISE: f64 = 3.0;

/// Returns the precise points, if they are enough for a plateau, or else all.
fn precise(on: &[Point], floor: f64) -> Vec<Point> {
    let least = on.iter().map(|p| p.sigma).fold(f64::INFINITY, f64::min).max(floor);
    let precise: Vec<Point> = on.iter().filter(|p| p.sigma <= PRECISE * least).copied().collect();
    if precise.len() >= MIN_PLATEAU_POINTS { precise } else { on.to_vec() }
}

/// Returns number and latency of the points at the beginning of a plateau: their median, with an interval from their
/// scatter (Student's t) and from the smallest error of a point. Points that are not level with the first ones belong to
/// another effect. `None` if there are fewer than [`MIN_PLATEAU_POINTS`].
pub(super) fn short(on: &[Point], floor: f64) -> Option<(usize, Interval)> {
    let on = &precise(on, floor);
    let level = median(&on.iter().take(MIN_PLATEAU_POINTS).map(|p| p.y).collect::<Vec<_>>())?;
    let ys: Vec<f64> =
        on.iter().map(|p| p.y).filter(|y| (y / level - 1.0).abs() < MAX_PLATEAU_DEVIATION).collect();
    let n = ys.len() as f64;
    let t = StudentsT::new(0.0, 1.0, n - 1.0).ok().filter(|_| ys.len() >= MIN_PLATEAU_POINTS)?;
    let (mean, value) = (ys.iter().sum::<f64>() / n, median(&ys)?);
    let scatter = (ys.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    let half = t.inverse_cdf(0.975) * scatter / n.sqrt();
    let interval = Interval { value, low: value - half, high: value + half };
    Some((ys.len(), widened(widened(interval, floor, ys.len()), shared(on.iter()), 1)))
}

/// Smallest ratio of two working sets between which a curve is flat, and largest relative difference of their times.
const FLAT_PART: (f64, f64) = (1.2, 0.02);

/// Extends a latency to the times of all flat parts of its tier: under random replacement the plateau begins late, and conflicts or page tables
/// may end it early. Of the pairs of two described machines it was read from the rise before (wide generator, seed 570845) and from that beyond (570921).
pub(super) fn with_flat_parts(latency: Interval, points: &[Point], range: (f64, f64)) -> Interval {
    flat_parts(points, range).fold(latency, |held, p| Interval {
        low: held.low.min(p.y),
        high: held.high.max(p.y),
        ..held
    })
}

/// Extends the latency of the last tier to the times of the flat parts from `from` on that are faster. More pages never cost less translation, so it was read
/// from pairs whose lines conflict: those on two to three times the entries of a TLB took a quarter longer than those on more (wide generator, seed 570856).
pub(super) fn with_faster_parts(latency: Interval, points: &[Point], from: f64) -> Interval {
    let least = flat_parts(points, (from, f64::INFINITY)).map(|p| p.y).fold(latency.low, f64::min);
    Interval { low: least, ..latency }
}

/// Returns the ends of the flat parts of a curve between two working sets.
fn flat_parts(points: &[Point], (from, end): (f64, f64)) -> impl Iterator<Item = Point> {
    let inside: Vec<Point> = points.iter().filter(|p| p.x > from && p.x <= end).copied().collect();
    let next = |i: usize| inside[i..].iter().find(|p| p.x >= FLAT_PART.0 * inside[i].x);
    let flat = (0..inside.len()).filter_map(|i| Some([inside[i], *next(i)?]));
    let flat: Vec<_> = flat.filter(|[a, b]| (b.y / a.y - 1.0).abs() <= FLAT_PART.1).collect();
    flat.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extended(curve: &[(f64, f64)]) -> (f64, f64) {
        let points: Vec<Point> =
            curve.iter().map(|&(x, y)| Point { x, y, sigma: 0.001, shared: 0.0 }).collect();
        let read = Interval { value: 12.0, low: 11.5, high: 12.4 };
        let found = with_flat_parts(read, &points, (16.0, 300.0));
        (found.low, found.high)
    }

    #[test]
    fn plateau_behind_a_slow_rise_is_held() {
        let rise = [(17.0, 6.0), (22.0, 9.0), (32.0, 11.2), (41.0, 12.0), (45.0, 12.1)];
        assert_eq!(extended(&rise), (11.5, 12.4), "a rise throughout");
        assert_eq!(
            extended(&[&rise[..], &[(64.0, 12.5), (90.0, 12.53), (128.0, 12.51)]].concat()),
            (11.5, 12.53)
        );
        let beyond = [(64.0, 11.0), (90.0, 11.1), (117.0, 12.0), (140.0, 13.0)];
        assert_eq!(extended(&beyond), (11.0, 12.4), "a plateau before a rise");
        assert_eq!(extended(&[(320.0, 40.0), (400.0, 40.0)]), (11.5, 12.4), "another tier");
    }

    #[test]
    fn last_tier_is_no_slower_than_a_later_plateau() {
        let curve =
            [(128.0, 158.8), (149.0, 180.3), (183.0, 148.3), (256.0, 141.4), (362.0, 141.9), (512.0, 141.8)];
        let points: Vec<Point> =
            curve.iter().map(|&(x, y)| Point { x, y, sigma: 0.001, shared: 0.0 }).collect();
        let read = Interval { value: 173.9, low: 160.0, high: 188.0 };
        let found = with_faster_parts(read, &points, 128.0);
        assert_eq!((found.low, found.value, found.high), (141.4, 173.9, 188.0));
        assert_eq!(with_faster_parts(read, &points[..3], 128.0), read, "no part is flat");
        // Walks that grow are not those of this tier.
        let grown = Interval { value: 90.0, low: 89.0, high: 91.0 };
        assert_eq!(with_faster_parts(grown, &points, 128.0), grown);
    }
}
