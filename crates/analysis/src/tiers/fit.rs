//! The stack of caches that explains a curve best.
//!
//! With boundaries at S1 < S2 < ... and miss curves m1, m2, ..., a walk over x bytes costs
//! y(x) = l0 (1 - m1) + l1 (m1 - m2) + ... + lk mk, every m taken at x/S: linear in the latencies, so
//! for given boundaries the best latencies are one small least-squares problem. Boundaries and shapes
//! are found by descent, one at a time, from the segmentation's candidates.

use super::shape::{self, Shape};
use super::{Options, Point};
use crate::interval::Interval;

/// One capacity of the stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Boundary {
    /// Where its misses begin.
    pub onset: f64,
    /// How they grow.
    pub shape: Shape,
}

/// A fitted stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The boundaries, ascending.
    pub boundaries: Vec<Boundary>,
    /// Latency of each tier and its standard error, one more than boundaries.
    levels: Vec<(f64, f64)>,
    /// Robust relative scatter of the points round the fit.
    pub scatter: f64,
}

/// Most capacities that a curve is searched for: four cache levels and two that are none.
const MOST: usize = 6;
/// Most candidates that the search starts from; a noisy curve's surplus ones are dropped at once,
/// every second first.
const MOST_CANDIDATES: usize = 10;
/// Tiers that these can make: the size of the small fixed arrays that the search lives on.
const TIERS: usize = MOST_CANDIDATES + 1;
type Row = [f64; TIERS];

impl Fit {
    /// Fits a stack to `points` (ascending in x), starting from capacities near `candidates`.
    #[must_use]
    pub fn new(points: &[Point], candidates: &[f64], options: &Options) -> Fit {
        let skip = candidates.len().div_ceil(MOST_CANDIDATES).max(1);
        let mut boundaries: Vec<Boundary> =
            candidates.iter().step_by(skip).map(|&onset| Boundary { onset, shape: Shape::Lru(8) }).collect();
        let search = Search { points, floor: options.floor };
        let mut chi = search.descend(&mut boundaries);
        while let Some(drop) = search.superfluous(&boundaries, chi, options.min_ratio) {
            boundaries.remove(drop);
            chi = search.descend(&mut boundaries);
        }
        let (_, levels) = search.solve(&boundaries);
        let mut fit = Fit { boundaries, levels, scatter: 0.0 };
        let off: Vec<f64> = points.iter().map(|p| (p.y / fit.predict(p.x)).ln()).collect();
        fit.scatter = crate::interval::robust_sigma(&off);
        fit
    }

    /// The curve at `x`.
    #[must_use]
    pub fn predict(&self, x: f64) -> f64 {
        combine(&basis(&self.boundaries, x), &self.levels)
    }

    /// The curve at `x` if the tiers beyond boundary `b` did not exist.
    #[must_use]
    pub fn predict_without(&self, x: f64, b: usize) -> f64 {
        combine(&basis(&self.boundaries[..b], x), &self.levels[..=b])
    }

    /// Latency of tier `i` with its 95 % interval (1.96 standard errors of the least squares, no less
    /// than the scatter of the points says).
    #[must_use]
    pub fn latency(&self, i: usize) -> Interval {
        let (value, error) = self.levels[i];
        Interval { value, low: value - 1.96 * error, high: value + 1.96 * error }
    }

    /// Level and scatter, both relative to the fit without boundary `b`, of the six points next below
    /// its onset: the ground against which a rise is looked for. A shape that is not quite the cache's
    /// own shifts the fit there; it must not shift the ground. Points within 2 % may have risen already.
    #[must_use]
    pub fn level_below(&self, points: &[Point], b: usize) -> (f64, f64) {
        let onset = self.boundaries[b].onset;
        let end = points.partition_point(|p| p.x <= onset / 1.02);
        let near: Vec<f64> =
            points[end.saturating_sub(6)..end].iter().map(|p| p.y / self.predict_without(p.x, b)).collect();
        match crate::interval::median(&near) {
            Some(level) if near.len() >= 3 => (level, crate::interval::robust_sigma(&near)),
            _ => (1.0, self.scatter),
        }
    }
}

/// Two capacities closer than this are one: between them there is no plateau to see, only the
/// difference between a shape and the cache's own miss curve.
const CLOSEST: f64 = 1.35;

fn without(boundaries: &[Boundary], at: usize) -> Vec<Boundary> {
    let mut rest = boundaries.to_vec();
    rest.remove(at);
    rest
}

fn combine(basis: &Row, levels: &[(f64, f64)]) -> f64 {
    basis.iter().zip(levels).map(|(b, l)| b * l.0).sum()
}

/// Share of the loads that each tier answers at `x`.
fn basis(boundaries: &[Boundary], x: f64) -> Row {
    let mut beyond = 1.0;
    let mut shares = [0.0; TIERS];
    for (b, share) in boundaries.iter().zip(&mut shares) {
        // Whatever a farther cache misses, every nearer one has missed too.
        let missed = b.shape.misses(x / b.onset).min(beyond);
        *share = beyond - missed;
        beyond = missed;
    }
    shares[boundaries.len()] = beyond;
    shares
}

struct Search<'a> {
    points: &'a [Point],
    floor: f64,
}

impl Search<'_> {
    /// Chi-square and (latency, standard error) of every tier, for given boundaries.
    fn solve(&self, boundaries: &[Boundary]) -> (f64, Vec<(f64, f64)>) {
        let k = boundaries.len() + 1;
        let mut normal = [[0.0; TIERS]; TIERS];
        let mut right = [0.0; TIERS];
        let mut rows = Vec::with_capacity(self.points.len());
        for p in self.points {
            let row = basis(boundaries, p.x);
            let w = 1.0 / (p.y * p.y * (p.sigma * p.sigma + self.floor * self.floor));
            for i in 0..k {
                for j in 0..k {
                    normal[i][j] += w * row[i] * row[j];
                }
                right[i] += w * row[i] * p.y;
            }
            rows.push((row, w, p.y));
        }
        let inverse = invert(&normal, k);
        let level = |i: usize| -> f64 { (0..k).map(|j| inverse[i][j] * right[j]).sum() };
        let mut levels: Vec<(f64, f64)> = (0..k).map(|i| (level(i), 0.0)).collect();
        let chi: f64 = rows.iter().map(|(row, w, y)| w * (y - combine(row, &levels)).powi(2)).sum();
        let freedom = self.points.len().saturating_sub(3 * k - 2).max(1) as f64;
        // Better than the errors say is no reason to claim less than half of them.
        let inflate = (chi / freedom).max(0.25).sqrt();
        for (i, l) in levels.iter_mut().enumerate() {
            l.1 = inverse[i][i].max(0.0).sqrt() * inflate;
        }
        (chi, levels)
    }

    /// Improves every boundary in turn until nothing moves; answers the chi-square reached.
    fn descend(&self, boundaries: &mut [Boundary]) -> f64 {
        let mut chi = self.solve(boundaries).0;
        for _ in 0..4 {
            let before = chi;
            for b in 0..boundaries.len() {
                chi = self.improve(boundaries, b, chi);
            }
            if before - chi < 1e-3 * before.max(1e-9) {
                break;
            }
        }
        chi
    }

    /// The best onset and shape of boundary `b`, the others held.
    fn improve(&self, boundaries: &mut [Boundary], b: usize, chi: f64) -> f64 {
        let mut best = (chi, boundaries[b]);
        let mut trial = boundaries.to_vec();
        for onset in self.onsets_near(boundaries, b) {
            for &shape in shape::ALL {
                trial[b] = Boundary { onset, shape };
                let got = self.solve(&trial).0;
                if got < best.0 - 1e-9 {
                    best = (got, trial[b]);
                }
            }
        }
        boundaries[b] = best.1;
        best.0
    }

    /// Onsets to try: the measured points round the present one, and steps between the two nearest.
    fn onsets_near(&self, boundaries: &[Boundary], b: usize) -> Vec<f64> {
        let low = b.checked_sub(1).map_or(0.0, |a| boundaries[a].onset * CLOSEST);
        let high = boundaries.get(b + 1).map_or(f64::INFINITY, |n| n.onset / CLOSEST);
        let here = self.points.partition_point(|p| p.x <= boundaries[b].onset);
        let mut onsets = Vec::new();
        for i in here.saturating_sub(5)..(here + 4).min(self.points.len()) {
            onsets.push(self.points[i].x);
            if let Some(next) = self.points.get(i + 1) {
                let width = next.x / self.points[i].x;
                let between = if width > 1.02 { 4 } else { 1 };
                onsets.extend(
                    (1..=between)
                        .map(|s| self.points[i].x * width.powf(f64::from(s) / f64::from(between + 1))),
                );
            }
        }
        onsets.retain(|x| *x > low && *x < high);
        onsets
    }

    /// The boundary to drop next, if one should be: one of two that are too close, one whose step is
    /// too small, one of too many, or one that explains less than its three parameters cost.
    fn superfluous(&self, boundaries: &[Boundary], chi: f64, min_ratio: f64) -> Option<usize> {
        let cost = |b: usize| self.solve(&without(boundaries, b)).0;
        let cheapest =
            |of: core::ops::Range<usize>| of.map(|b| (b, cost(b))).min_by(|a, b| a.1.total_cmp(&b.1));
        if let Some(pair) = boundaries.windows(2).position(|w| w[1].onset < CLOSEST * w[0].onset) {
            return cheapest(pair..pair + 2).map(|c| c.0);
        }
        let levels = self.solve(boundaries).1;
        if let Some(small) = levels.windows(2).position(|w| w[1].0 < w[0].0 * min_ratio) {
            return Some(small);
        }
        let penalty = 3.0 * 2.0 * (self.points.len().max(2) as f64).ln();
        let (weakest, chi_without) = cheapest(0..boundaries.len())?;
        (boundaries.len() > MOST || chi_without - chi < penalty).then_some(weakest)
    }
}

/// Inverse of the leading k x k part of a symmetric positive matrix by Gauss-Jordan with pivoting; a
/// direction that the points do not determine gets no weight instead of an infinite one.
fn invert(normal: &[Row; TIERS], k: usize) -> [Row; TIERS] {
    let mut m = *normal;
    let mut inverse = [[0.0; TIERS]; TIERS];
    for (i, row) in inverse.iter_mut().enumerate() {
        row[i] = 1.0;
    }
    let scale = (0..k).map(|i| m[i][i]).fold(0.0, f64::max);
    for column in 0..k {
        let pivot =
            (column..k).max_by(|&a, &b| m[a][column].abs().total_cmp(&m[b][column].abs())).unwrap_or(column);
        m.swap(column, pivot);
        inverse.swap(column, pivot);
        let p = m[column][column];
        if p.abs() <= 1e-12 * scale {
            m[column] = [0.0; TIERS];
            inverse[column] = [0.0; TIERS];
            continue;
        }
        let lead = m[column].map(|v| v / p);
        let lead_inverse = inverse[column].map(|v| v / p);
        (m[column], inverse[column]) = (lead, lead_inverse);
        for i in (0..k).filter(|&i| i != column) {
            let factor = m[i][column];
            for j in 0..k {
                m[i][j] -= factor * lead[j];
                inverse[i][j] -= factor * lead_inverse[j];
            }
        }
    }
    inverse
}
