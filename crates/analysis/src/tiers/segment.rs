//! Exact segmentation of log latency over log working set into plateaus and ramps.

use super::Point;

/// Kind of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Constant value.
    Plateau,
    /// Rising straight line in log-log.
    Ramp,
}

/// Consecutive points explained by one plateau or one ramp.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Plateau or ramp.
    pub kind: Kind,
    /// Index of the first point.
    pub first: usize,
    /// Index of the last point, inclusive.
    pub last: usize,
    /// ln y at ln x = 0.
    pub intercept: f64,
    /// d ln y / d ln x; 0 for a plateau.
    pub slope: f64,
}

impl Segment {
    /// Returns the segment's line, extended to `x`.
    #[must_use]
    pub fn at(&self, x: f64) -> f64 {
        (self.intercept + self.slope * x.ln()).exp()
    }
}

/// Running sums of weight, wx, wy, wxx, wxy, wyy; they give any segment's least squares in O(1).
struct Sums(Vec<[f64; 6]>);

impl Sums {
    fn new(points: &[Point], floor: f64) -> Sums {
        let mut sums = vec![[0.0; 6]];
        for p in points {
            let (x, y) = (p.x.ln(), p.y.ln());
            let w = 1.0 / (p.sigma * p.sigma + floor * floor);
            let mut s = sums[sums.len() - 1];
            for (total, add) in s.iter_mut().zip([w, w * x, w * y, w * x * x, w * x * y, w * y * y]) {
                *total += add;
            }
            sums.push(s);
        }
        Sums(sums)
    }

    /// Returns chi-squared, intercept and slope of points `first..=last`.
    fn explain(&self, first: usize, last: usize, kind: Kind) -> (f64, f64, f64) {
        let (a, b) = (&self.0[first], &self.0[last + 1]);
        let [w, x, y, xx, xy, yy] = core::array::from_fn(|i| b[i] - a[i]);
        let flat = (yy - y * y / w, y / w, 0.0);
        let spread = w * xx - x * x;
        if kind == Kind::Plateau || spread <= 1e-12 * w * xx.abs() {
            return flat;
        }
        let slope = (w * xy - x * y) / spread;
        if slope <= 0.0 {
            return flat;
        }
        let intercept = (y - slope * x) / w;
        (flat.0 - slope * slope * spread / w, intercept, slope)
    }
}

/// Cost of each segment, so that noise is not explained by more segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Cost of a plateau.
    pub plateau: f64,
    /// Cost of a ramp; `None` if ramps are not allowed.
    pub ramp: Option<f64>,
}

/// Splits `points` (ascending in x) into plateaus and ramps with the least penalised chi-squared.
///
/// The penalty per parameter is twice ln n (the Bayesian criterion): under noise alone it yields one plateau in all
/// cases of the property test. A plateau has two parameters (its end and its value), a ramp three.
#[must_use]
pub fn segment(points: &[Point], floor: f64) -> Vec<Segment> {
    let penalty = 2.0 * (points.len().max(2) as f64).ln();
    partition(points, floor, Costs { plateau: 2.0 * penalty, ramp: Some(3.0 * penalty) })
}

/// Finds the split of `points` (ascending in x) with the least chi-squared plus costs over ALL splits: Bellman's
/// recursion, O(n^2) pieces of O(1) each.
#[must_use]
pub fn partition(points: &[Point], floor: f64, costs: Costs) -> Vec<Segment> {
    let n = points.len();
    let sums = Sums::new(points, floor);
    // best[j]: (cost, start and kind of the last segment) of the first j points.
    let mut best: Vec<(f64, usize, Kind)> = vec![(0.0, 0, Kind::Plateau)];
    for j in 1..=n {
        let mut choice = (f64::INFINITY, 0, Kind::Plateau);
        for (i, before) in best.iter().enumerate() {
            for (kind, cost) in [(Kind::Plateau, Some(costs.plateau)), (Kind::Ramp, costs.ramp)] {
                let Some(cost) = cost.filter(|_| kind == Kind::Plateau || j - i >= 3) else { continue };
                let cost = before.0 + sums.explain(i, j - 1, kind).0.max(0.0) + cost;
                if cost < choice.0 {
                    choice = (cost, i, kind);
                }
            }
        }
        best.push(choice);
    }
    let mut segments = Vec::new();
    let mut end = n;
    while end > 0 {
        let (_, first, kind) = best[end];
        let (_, intercept, slope) = sums.explain(first, end - 1, kind);
        segments.push(Segment { kind, first, last: end - 1, intercept, slope });
        end = first;
    }
    segments.reverse();
    segments
}

/// Returns candidates for the ends of capacities: the x after which the curve rises above the line of the preceding
/// segment by at least `min_ratio` within two octaves. They may be too many; the fit decides.
#[must_use]
pub fn onsets(points: &[Point], segments: &[Segment], min_ratio: f64) -> Vec<f64> {
    segments
        .windows(2)
        .filter(|pair| {
            // From the first point beyond: nothing may have been measured for some octaves.
            let (before, from) = (pair[0], points[pair[1].first].x);
            points[pair[1].first..]
                .iter()
                .take_while(|p| p.x <= 4.0 * from)
                .any(|p| p.y / before.at(p.x) >= min_ratio)
        })
        .map(|pair| points[pair[0].last].x)
        .collect()
}
/// Returns further candidates, where a ramp follows a jump and rises by `min_ratio`, too: the end of one capacity, and a slow rise beyond
/// it that no capacity explains, as of page tables that leave the caches. It begins somewhere; the candidate is the first point beyond
/// `apart` times the jump.
#[must_use]
pub fn slow_rises(points: &[Point], segments: &[Segment], min_ratio: f64, apart: f64) -> Vec<f64> {
    let of = |pair: &[Segment]| {
        let (before, ramp) = (pair[0], pair[1]);
        let (from, to) = (points[ramp.first].x, points[ramp.last].x);
        let jumps = ramp.at(from) >= min_ratio * before.at(from);
        let rises = ramp.at(to) >= min_ratio * ramp.at(from);
        let begin = points[ramp.first..=ramp.last].iter().find(|p| p.x > apart * from)?;
        (ramp.kind == Kind::Ramp && jumps && rises).then_some(begin.x)
    };
    segments.windows(2).filter_map(of).collect()
}
