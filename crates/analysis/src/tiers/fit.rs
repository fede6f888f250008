//! Fit of a stack of caches to a curve.
//!
//! With boundaries at S1 < S2 < ... and miss curves m1, m2, ..., a walk over x bytes costs
//! `y(x) = l0 (1 - m1) + l1 (m1 - m2) + ... + lk mk`, every m taken at x/S. This is linear in the latencies, so for
//! given boundaries the best latencies are one small least-squares problem. Boundaries and shapes are found by
//! coordinate descent, from the segmentation's candidates.

mod linear;
mod missing;
mod peeled;
pub(super) mod shown;

use core::ops::RangeBounds;

use super::shape::{self, Shape};
use super::{Options, Point};
use crate::interval::Interval;
use linear::invert;
use peeled::Peeled;
use shown::Between;

/// A capacity of the stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Boundary {
    /// Working set at which its misses begin.
    pub onset: f64,
    /// Shape of its miss curve.
    pub shape: Shape,
}

/// A fitted stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Boundaries, ascending.
    pub boundaries: Vec<Boundary>,
    /// Latency of each tier and its standard error; one more than boundaries.
    levels: Vec<(f64, f64)>,
    /// Robust relative scatter of the points about the fit.
    pub scatter: f64,
    /// Tiers beyond rises that were read up to a bend.
    pub(super) peeled: Vec<Peeled>,
    options: Options,
}

/// Largest number of capacities of a curve: four cache levels and two spare ones.
const MAX_CAPACITIES: usize = 6;
/// Largest number of candidates that the search starts from; of more candidates on a noisy curve, those next to another one
/// are left out.
const MAX_CANDIDATES: usize = 9;
/// Largest number of tiers: the size of the fixed arrays of the search.
const TIERS: usize = MAX_CANDIDATES + 1;
type Row = [f64; TIERS];

impl Fit {
    /// Fits a stack to `points` (ascending in x), starting from capacities near `candidates`.
    #[must_use]
    pub fn new(points: &[Point], candidates: &[f64], options: &Options) -> Fit {
        let mut boundaries: Vec<Boundary> =
            apart(candidates).into_iter().map(|onset| Boundary { onset, shape: Shape::Lru(8) }).collect();
        let search = Search::new(points, options);
        let mut chi = search.descend(&mut boundaries, .., 2);
        loop {
            if let Some(drop) = search.superfluous(&boundaries, options.min_ratio) {
                boundaries.remove(drop);
                chi = search.descend(&mut boundaries, around(drop), 2);
            } else if let Some((rest, chi_rest)) = search.simpler(&boundaries, chi) {
                (boundaries, chi) = (rest, chi_rest);
            } else {
                break;
            }
        }
        while let Some((more, chi_more)) = search.extended(&boundaries, candidates, chi, options.min_ratio) {
            (boundaries, chi) = (more, chi_more);
        }
        while let Some((more, chi_more)) = search.separated(&boundaries, chi, options.min_ratio) {
            (boundaries, chi) = (more, chi_more);
        }
        if search.exact {
            // What no other shape or onset explains is a bend.
            chi = search.polish(&mut boundaries, chi);
        }
        while let Some((more, chi_more)) = search.bent(&boundaries, chi, options.min_ratio) {
            (boundaries, chi) = (more, chi_more);
        }
        while let Some(rest) = search.joined(&boundaries).or_else(|| search.without_dips(&boundaries)) {
            boundaries = rest;
        }
        chi = search.descend(&mut boundaries, .., 3);
        search.polish(&mut boundaries, chi);
        let (boundaries, peeled) = search.peeled(&boundaries, options.min_ratio);
        let (_, levels) = search.solve(&search.columns(&boundaries));
        let mut fit = Fit { boundaries, levels, scatter: 0.0, peeled, options: *options };
        let off: Vec<f64> = points.iter().map(|p| (p.y / fit.predict(p.x)).ln()).collect();
        fit.scatter = crate::interval::robust_sigma(&off);
        fit
    }

    /// Returns the curve at `x`.
    #[must_use]
    pub fn predict(&self, x: f64) -> f64 {
        combine(&basis(&self.boundaries, self.options.walked(x)), &self.levels)
    }

    /// Returns the curve at `x` without the tiers beyond boundary `b`.
    #[must_use]
    pub fn predict_without(&self, x: f64, b: usize) -> f64 {
        combine(&basis(&self.boundaries[..b], self.options.walked(x)), &self.levels[..=b])
    }

    /// Returns the latency of tier `i` with its 95 % interval (1.96 standard errors of the least squares, inflated by
    /// the scatter of the points).
    #[must_use]
    pub fn latency(&self, i: usize) -> Interval {
        let (value, error) = self.levels[i];
        Interval { value, low: value - 1.96 * error, high: value + 1.96 * error }
    }

    /// Returns level and scatter, both relative to the fit without boundary `b`, of the six nearest points below
    /// `onset`: the ground for the detection of a rise. A shape that differs from the cache's own shifts the fit there,
    /// but must not shift the ground. Points within 2 % are excluded because they may have risen already.
    #[must_use]
    pub fn level_below(&self, points: &[Point], b: usize, onset: f64) -> (f64, f64) {
        let end = points.partition_point(|p| p.x <= onset / 1.02);
        let near: Vec<f64> =
            points[end.saturating_sub(6)..end].iter().map(|p| p.y / self.predict_without(p.x, b)).collect();
        match crate::interval::median(&near) {
            Some(level) if near.len() >= 3 => (level, crate::interval::robust_sigma(&near)),
            _ => (1.0, self.scatter),
        }
    }
}

/// Smallest ratio of two onsets. Below it there is no visible plateau between them, only the difference between a shape
/// and the cache's own miss curve.
pub(super) const MIN_ONSET_RATIO: f64 = 1.35;

/// Relative residual above which a point counts as unexplained, in addition to four of its standard errors.
const MAX_EXPLAINED_RESIDUAL: f64 = 0.02;

/// Ratio of two neighbouring working sets from which on an onset between them is found by bisection: any single point on the rise is then
/// explained.
const WIDE_GAP: f64 = 1.9;
/// Halvings of such a gap: to a thousandth of it.
const BISECTIONS: usize = 10;

fn combine(basis: &Row, levels: &[(f64, f64)]) -> f64 {
    basis.iter().zip(levels).map(|(b, l)| b * l.0).sum()
}

/// Returns the share of the loads that each tier serves at `x`.
fn basis(boundaries: &[Boundary], x: f64) -> Row {
    shares(boundaries.iter().map(|b| b.shape.misses(x / b.onset)))
}

/// Converts the misses of each boundary, nearest first, to shares of the loads.
fn shares(misses: impl Iterator<Item = f64>) -> Row {
    let mut row = [0.0; TIERS];
    each_share(misses, |tier, share| row[tier] = share);
    row
}

/// Calls `each` with every tier that serves some of the loads, and its share.
fn each_share(misses: impl Iterator<Item = f64>, mut each: impl FnMut(usize, f64)) {
    let mut beyond = 1.0f64;
    let mut last = 0;
    for (tier, missed) in misses.enumerate() {
        // A load that misses in a farther cache has missed in every nearer one.
        let missed = missed.min(beyond);
        if missed < beyond {
            each(tier, beyond - missed);
        }
        beyond = missed;
        last = tier + 1;
        if beyond == 0.0 {
            return;
        }
    }
    each(last, beyond);
}

struct Search<'a> {
    points: &'a [Point],
    /// Weight of each point: the inverse of its variance.
    weights: Vec<f64>,
    /// Ranges in which a capacity ends, because its plateau and the next one were measured; of the pairs of a machine with other users none.
    between: Vec<Between>,
    /// Whether the curve is the latency of a machine without other users.
    exact: bool,
    options: Options,
}

/// Misses of one boundary at every point.
type Column = Vec<f64>;

impl<'a> Search<'a> {
    fn new(points: &'a [Point], options: &Options) -> Search<'a> {
        let floor = options.floor;
        let weight = |p: &Point| 1.0 / (p.y * p.y * (p.sigma * p.sigma + floor * floor));
        let exact = options.is_exact();
        let between = match exact {
            true => shown::between_plateaus(points, options.min_ratio),
            false if options.span.is_infinite() => shown::between_beside_others(points, options.min_ratio),
            false if options.share == 0.0 => shown::between_pairs(points, options.min_ratio),
            false => Vec::new(),
        };
        Search { points, weights: points.iter().map(weight).collect(), between, exact, options: *options }
    }

    fn column(&self, boundary: Boundary) -> Column {
        let misses = boundary.shape.curve();
        self.points.iter().map(|p| misses.at(self.options.walked(p.x) / boundary.onset)).collect()
    }

    fn columns(&self, boundaries: &[Boundary]) -> Vec<Column> {
        boundaries.iter().map(|b| self.column(*b)).collect()
    }

    /// Returns chi-squared, and (latency, standard error) of every tier, for given columns.
    fn solve(&self, columns: &[Column]) -> (f64, Vec<(f64, f64)>) {
        let k = columns.len() + 1;
        let mut normal = [[0.0; TIERS]; TIERS];
        let mut right = [0.0; TIERS];
        let mut square = 0.0;
        for (i, p) in self.points.iter().enumerate() {
            let w = self.weights[i];
            // A point is in few tiers.
            let mut filled = [(0, 0.0); TIERS];
            let mut count = 0;
            each_share(columns.iter().map(|c| c[i]), |tier, share| {
                filled[count] = (tier, share);
                count += 1;
            });
            for &(a, of_a) in &filled[..count] {
                for &(b, of_b) in &filled[..count] {
                    normal[a][b] += w * of_a * of_b;
                }
                right[a] += w * of_a * p.y;
            }
            square += w * p.y * p.y;
        }
        let inverse = invert(&normal, k);
        let level = |i: usize| -> f64 { (0..k).map(|j| inverse[i][j] * right[j]).sum() };
        let mut levels: Vec<(f64, f64)> = (0..k).map(|i| (level(i), 0.0)).collect();
        // At the least-squares solution the sum of squared residuals is y'Wy - l'X'Wy.
        let chi = (square - levels.iter().zip(&right).map(|(l, r)| l.0 * r).sum::<f64>()).max(0.0);
        let freedom = self.points.len().saturating_sub(3 * k - 2).max(1) as f64;
        // If the fit is better than the errors, they are reduced by at most half.
        let inflate = (chi / freedom).max(0.25).sqrt();
        for (i, l) in levels.iter_mut().enumerate() {
            l.1 = inverse[i][i].max(0.0).sqrt() * inflate;
        }
        (chi, levels)
    }

    /// Improves the boundaries numbered `which` in turn, `sweeps` times or until the gain is small. Returns the
    /// chi-squared reached.
    fn descend(&self, boundaries: &mut [Boundary], which: impl RangeBounds<usize>, sweeps: usize) -> f64 {
        let mut columns = self.columns(boundaries);
        let mut chi = self.solve(&columns).0;
        for _ in 0..sweeps {
            let before = chi;
            for b in (0..boundaries.len()).filter(|b| which.contains(b)) {
                chi = self.improve(boundaries, &mut columns, b, chi, &few(boundaries[b].shape));
            }
            if before - chi < 1e-2 * before.max(1e-9) {
                break;
            }
        }
        chi
    }

    /// Finds the best onset and shape of boundary `b` with the others fixed: onsets with the `shapes` given, then all
    /// shapes at the best onset, then onsets again with the best shape.
    fn improve(
        &self,
        boundaries: &mut [Boundary],
        columns: &mut [Column],
        b: usize,
        chi: f64,
        shapes: &[Shape],
    ) -> f64 {
        let mut best = (chi, boundaries[b], columns[b].clone());
        let complete = self.complete_by(boundaries, b);
        let mut attempt = |onset: f64, shape: Shape, best: &mut (f64, Boundary, Column)| {
            if shape.misses(self.options.walked(complete) / onset) < shown::COMPLETE {
                return;
            }
            let boundary = Boundary { onset, shape };
            columns[b] = self.column(boundary);
            let got = self.solve(columns).0;
            if got < best.0 - 1e-9 {
                *best = (got, boundary, columns[b].clone());
            }
        };
        let onsets = self.onsets_near(boundaries, b);
        let free = self.free_range(boundaries, b);
        let is_free = |onset: f64| onset > free.0 && onset < free.1;
        for &onset in &onsets {
            for &shape in shapes {
                attempt(onset, shape, &mut best);
            }
        }
        for &shape in shape::ALL {
            attempt(best.1.onset, shape, &mut best);
        }
        for &onset in &onsets {
            attempt(onset, best.1.shape, &mut best);
        }
        if let Some(mut gap) = self.wide_gap(best.1.onset) {
            let shape = best.1.shape;
            for _ in 0..BISECTIONS {
                let (here, width) = (best.1.onset, (gap.1 / gap.0).ln());
                let (less, more) = ((here.ln() - width / 4.0).exp(), (here.ln() + width / 4.0).exp());
                for onset in [less, more].into_iter().filter(|onset| is_free(*onset)) {
                    attempt(onset, shape, &mut best);
                }
                gap = (best.1.onset * (-width / 4.0).exp(), best.1.onset * (width / 4.0).exp());
            }
        }
        boundaries[b] = best.1;
        columns[b] = best.2;
        best.0
    }

    /// Tries all combinations of onset and shape for every boundary whose rise is not explained yet. The two are
    /// correlated (a later onset needs a steeper shape), so varying one at a time stops too early. Too expensive for
    /// all boundaries.
    fn polish(&self, boundaries: &mut [Boundary], mut chi: f64) -> f64 {
        for _ in 0..2 {
            let before = chi;
            let off = self.unexplained(boundaries);
            let mut columns = self.columns(boundaries);
            for b in 0..boundaries.len() {
                let end = boundaries.get(b + 1).map_or(f64::INFINITY, |n| n.onset);
                let from = boundaries[b].onset / MIN_ONSET_RATIO;
                if self.points.iter().zip(&off).any(|(p, off)| *off > 1.0 && p.x > from && p.x < end) {
                    chi = self.improve(boundaries, &mut columns, b, chi, shape::ALL);
                }
            }
            if before - chi < 1e-2 * before {
                break;
            }
            chi = self.descend(boundaries, .., 2);
        }
        chi
    }

    /// Returns the deviation of each point from the stack: relative residual divided by the largest explained one.
    fn unexplained(&self, boundaries: &[Boundary]) -> Vec<f64> {
        let (_, levels) = self.solve(&self.columns(boundaries));
        let off = |p: &Point| {
            let residual = (p.y / combine(&basis(boundaries, self.options.walked(p.x)), &levels)).ln().abs();
            residual / (MAX_EXPLAINED_RESIDUAL + 4.0 * p.sigma)
        };
        self.points.iter().map(off).collect()
    }

    /// Returns onsets to try: the measured points around the present one, and values between them if they are far
    /// apart.
    fn onsets_near(&self, boundaries: &[Boundary], b: usize) -> Vec<f64> {
        let (low, high) = self.free_range(boundaries, b);
        let here = self.points.partition_point(|p| p.x <= boundaries[b].onset);
        let mut onsets = Vec::new();
        for i in here.saturating_sub(5)..(here + 4).min(self.points.len()) {
            onsets.push(self.points[i].x);
            if let Some(next) = self.points.get(i + 1) {
                let width = next.x / self.points[i].x;
                let between = if width > 1.02 { 3 } else { 1 };
                onsets.extend(
                    (1..=between)
                        .map(|s| self.points[i].x * width.powf(f64::from(s) / f64::from(between + 1))),
                );
            }
        }
        onsets.retain(|x| *x > low && *x < high);
        onsets
    }

    /// Returns the measured points on both sides of an onset if they are so far apart that the values tried between them are coarse.
    fn wide_gap(&self, onset: f64) -> Option<(f64, f64)> {
        let after = self.points.partition_point(|p| p.x <= onset);
        let (before, after) = (self.points.get(after.checked_sub(1)?)?.x, self.points.get(after)?.x);
        (self.exact && after > WIDE_GAP * before).then_some((before, after))
    }

    /// Returns a boundary to remove: one of two that are too close, one with too small a step, or one of too many.
    fn superfluous(&self, boundaries: &[Boundary], min_ratio: f64) -> Option<usize> {
        let columns = self.columns(boundaries);
        let cost = |b: usize| {
            let mut rest = columns.clone();
            rest.remove(b);
            self.solve(&rest).0
        };
        let cheapest =
            |of: core::ops::Range<usize>| of.map(|b| (b, cost(b))).min_by(|a, b| a.1.total_cmp(&b.1));
        if let Some(pair) = boundaries.windows(2).position(|w| w[1].onset < MIN_ONSET_RATIO * w[0].onset) {
            return cheapest(pair..pair + 2).map(|c| c.0);
        }
        let levels = self.solve(&columns).1;
        if let Some(small) = levels.windows(2).position(|w| w[1].0 < w[0].0 * min_ratio) {
            if !self.separates(boundaries, small) {
                return Some(small);
            }
            // Plateaus show it, so the cheapest one next to it that none shows is removed instead, if there is one.
            let next = small.saturating_sub(1)..(small + 2).min(boundaries.len());
            let spare = next.filter(|b| !self.separates(boundaries, *b)).map(|b| (b, cost(b)));
            return spare.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(Some(small), |(b, _)| Some(b));
        }
        if boundaries.len() > MAX_CAPACITIES { cheapest(0..boundaries.len()).map(|c| c.0) } else { None }
    }

    /// Returns the penalty for the three parameters of a boundary.
    fn penalty(&self) -> f64 {
        3.0 * 2.0 * (self.points.len().max(2) as f64).ln()
    }

    /// Returns the stack without the boundary that explains least, its neighbours fitted again, if that costs less than
    /// the penalty for the three parameters of a boundary.
    fn simpler(&self, boundaries: &[Boundary], chi: f64) -> Option<(Vec<Boundary>, f64)> {
        let penalty = self.penalty();
        let mut costs: Vec<(usize, f64)> = (0..boundaries.len())
            .map(|b| (b, self.solve(&self.columns(&without(boundaries, b))).0))
            .collect();
        costs.sort_by(|a, b| a.1.total_cmp(&b.1));
        // The effect of a removal shows only after fitting the neighbours; the three cheapest removals are tried.
        costs
            .iter()
            .take(3)
            .map(|&(b, _)| {
                let mut rest = without(boundaries, b);
                let chi = self.descend(&mut rest, around(b), 2);
                (rest, chi)
            })
            .filter(|(rest, _)| self.missing(rest) <= self.missing(boundaries))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .filter(|simpler| simpler.1 - chi < penalty)
    }
}

/// Returns at most [`MAX_CANDIDATES`] of ascending candidates: of the two that are nearest to each other the larger one is left
/// out, because a rise begins at the smaller one.
fn apart(candidates: &[f64]) -> Vec<f64> {
    let mut rest = candidates.to_vec();
    while rest.len() > MAX_CANDIDATES {
        let ratio = |i: &usize| rest[*i] / rest[i - 1];
        let nearest = (1..rest.len()).min_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        rest.remove(nearest.unwrap_or(rest.len() - 1));
    }
    rest
}

/// Returns the neighbours of a removed boundary with this number.
fn around(dropped: usize) -> core::ops::RangeInclusive<usize> {
    dropped.saturating_sub(1)..=dropped
}

/// Returns the shapes that a descent tries at every onset.
fn few(present: Shape) -> [Shape; 3] {
    [present, Shape::Lru(8), Shape::Gradual(4)]
}

fn without(boundaries: &[Boundary], at: usize) -> Vec<Boundary> {
    let mut rest = boundaries.to_vec();
    rest.remove(at);
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_candidates_those_next_to_another_are_left_out() {
        let dense = [1.0, 1.01, 1.02, 1.03, 1.04];
        let far = [2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
        assert_eq!(apart(&far), far);
        let all = [&dense[..], &far[..]].concat();
        let rest = apart(&all);
        assert_eq!(rest.len(), MAX_CANDIDATES);
        assert!(rest.ends_with(&far) && rest[0] == 1.0, "{rest:?}");
    }
}
