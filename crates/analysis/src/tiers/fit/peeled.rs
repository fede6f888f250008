//! Rises that are that of one cache up to a bend: a further level begins there, whatever its own rise looks like.
//!
//! A stack of independent caches does not describe the rise of an exclusive level, or of a level behind one of random replacement. The fit of the
//! whole curve then bends the rise before it, too. Here each rise is read from the points before the bend alone: the miss curve of one cache
//! explains them if a single latency beyond it agrees with all of them.

use super::{Boundary, MAX_CAPACITIES, MIN_ONSET_RATIO, Search};
use crate::tiers::Point;
use crate::tiers::shape::{self, Shape};

/// Relative residual, in addition to three standard errors, of a point that one cache explains: a little more than the smallest error of a point.
const EXPLAINED: f64 = 0.0075;
/// Smallest number of points of a rise before its bend: the shape, the onset and the latency beyond it are three parameters.
const MIN_POINTS: usize = 6;
/// Smallest share of misses at the bend: before it a rise tells little of what it leads to.
const MIN_MISSES: f64 = 0.5;
/// Largest ratio of the latencies beyond a rise with which shapes explain it: of more it does not level out, as those of hashed levels.
const MAX_LEVELS: f64 = 1.5;
/// Relative rise above the explained curve that the two points beyond the bend have at least.
const MIN_BEND: [f64; 2] = [0.02, 0.05];
/// Smallest ratio of the slopes (latency over working set, logarithms) behind and before a bend.
const MIN_STEEPER: f64 = 1.5;
/// Ratio of the working sets at a bend and at the next capacity below which they are one.
const SAME: f64 = 1.9;
/// Onsets that are tried between the points around the beginning of a rise.
const ONSETS: usize = 12;

/// A tier beyond a rise that was read up to its bend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Peeled {
    /// Its number, from 0.
    pub(crate) tier: usize,
    /// Least and most of its latencies with which a cache of some shape explains the rise.
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// A rise up to its bend.
#[derive(Clone, Copy)]
struct Prefix {
    boundary: Boundary,
    /// Number of the curve's points before the bend.
    end: usize,
    /// Latencies of the level beyond the rise that agree with all its points, least and most.
    level: (f64, f64),
    /// The same of all shapes that explain as many points.
    levels: (f64, f64),
}

impl Prefix {
    fn middle(&self) -> f64 {
        f64::midpoint(self.level.0, self.level.1)
    }
}

/// The points of a curve from the end of a plateau on.
struct Rise<'a> {
    points: &'a [Point],
    /// Number of points before them.
    first: usize,
    /// What each point would be without the rise.
    ground: Vec<f64>,
    /// Latency of the tier that ends.
    here: f64,
}

impl Search<'_> {
    /// Returns the stack in which rises that one cache explains up to a bend are those of that cache, with one more capacity at the bend; and the
    /// tiers beyond these rises.
    pub(super) fn peeled(&self, boundaries: &[Boundary], min_ratio: f64) -> (Vec<Boundary>, Vec<Peeled>) {
        let mut found = boundaries.to_vec();
        let mut tiers = Vec::new();
        let mut b = 0;
        while self.exact && b < found.len() {
            if let Some((more, (low, high))) = self.bent_at_end(&found, b, min_ratio) {
                found = more;
                tiers.push(Peeled { tier: b + 1, low, high });
            }
            b += 1;
        }
        (found, tiers)
    }

    /// Returns the stack with a bend of the rise beyond boundary `b`, if its points are unexplained and one cache explains those before the bend.
    fn bent_at_end(
        &self,
        boundaries: &[Boundary],
        b: usize,
        min_ratio: f64,
    ) -> Option<(Vec<Boundary>, (f64, f64))> {
        let beyond = boundaries.get(b + 2).map_or(f64::INFINITY, |next| next.onset);
        let off = self.unexplained(boundaries);
        let is_near = |p: &Point| p.x > boundaries[b].onset / MIN_ONSET_RATIO && p.x < beyond;
        if !self.points.iter().zip(&off).any(|(p, off)| *off > 1.0 && is_near(p)) {
            return None;
        }
        let prefix = self.rise(boundaries, b)?.prefix(beyond)?;
        let bend = self.points[prefix.end - 1].x;
        let levels = self.solve(&self.columns(boundaries)).1;
        let last = levels[(b + 2).min(boundaries.len())].0;
        let far = boundaries[b + 1..].iter().copied().filter(|next| next.onset > SAME * bend);
        let far: Vec<Boundary> = far.collect();
        if b + 2 + far.len() > MAX_CAPACITIES || last < min_ratio * prefix.middle() {
            return None;
        }
        let best = shape::ALL.iter().map(|&shape| {
            let mut all = boundaries[..b].to_vec();
            all.extend([prefix.boundary, Boundary { onset: bend, shape }]);
            all.extend_from_slice(&far);
            (self.solve(&self.columns(&all)).0, all)
        });
        let (_, all) = best.min_by(|a, b| a.0.total_cmp(&b.0))?;
        self.superfluous(&all, min_ratio).is_none().then_some((all, prefix.levels))
    }

    /// Returns the rise beyond boundary `b`, from the last point of its plateau on.
    fn rise(&self, boundaries: &[Boundary], b: usize) -> Option<Rise<'_>> {
        let nearer = &boundaries[..b];
        let from = nearer.last().map_or(0.0, |a| a.onset);
        let at = |x: f64| self.points.partition_point(|p| p.x <= x);
        let tier = at(from)..at(boundaries[b].onset);
        let last = tier.start + end_of_longest_run(&self.points[tier])?;
        let before = Search::new(&self.points[..=last], &self.options);
        let levels = before.solve(&before.columns(nearer)).1;
        let points = &self.points[last..];
        let ground = |p: &Point| super::combine(&super::basis(nearer, self.options.walked(p.x)), &levels);
        Some(Rise { points, first: last, ground: points.iter().map(ground).collect(), here: levels[b].0 })
    }
}

/// Returns the last of the most successive points that are level.
fn end_of_longest_run(points: &[Point]) -> Option<usize> {
    let run = |first: usize| {
        let level = |p: &&Point| (p.y / points[first].y - 1.0).abs() <= EXPLAINED + 3.0 * p.sigma;
        points[first..].iter().take_while(level).count()
    };
    // The first of equally long ones is at a lower latency.
    let longest = (0..points.len()).rev().max_by_key(|first| run(*first))?;
    let length = run(longest);
    (length > 1).then_some(longest + length - 1)
}

impl Rise<'_> {
    /// Returns the longest part before a working set of `to` that one cache explains, and that bends at its end.
    fn prefix(&self, to: f64) -> Option<Prefix> {
        let (low, high) = (self.points.first()?.x, self.points.get(1)?.x);
        let onsets = (0..=ONSETS).map(|i| low * (high / low).powf(i as f64 / ONSETS as f64));
        let each = onsets.flat_map(|onset| shape::ALL.iter().map(move |&shape| Boundary { onset, shape }));
        let each = each.filter(|boundary| !matches!(boundary.shape, Shape::Gradual(_)));
        let explained: Vec<Prefix> = each.filter_map(|boundary| self.explained(boundary, to)).collect();
        // Of two that are as long, that of the better agreement.
        let width = |prefix: &Prefix| prefix.level.1 - prefix.level.0;
        let best = explained.iter().max_by(|a, b| a.end.cmp(&b.end).then(width(a).total_cmp(&width(b))))?;
        let same = || explained.iter().filter(|prefix| prefix.end == best.end).map(|prefix| prefix.level);
        let low = same().map(|level| level.0).fold(f64::INFINITY, f64::min);
        let high = same().map(|level| level.1).fold(0.0, f64::max);
        let is_bent = high <= MAX_LEVELS * low && self.bends(best);
        is_bent.then_some(Prefix { levels: (low, high), ..*best })
    }

    /// Returns the part that this cache explains.
    fn explained(&self, boundary: Boundary, to: f64) -> Option<Prefix> {
        let curve = boundary.shape.curve();
        let (mut low, mut high) = (0.0f64, f64::INFINITY);
        let (mut end, mut risen, mut misses) = (0, 0, 0.0);
        for (p, ground) in self.points.iter().zip(&self.ground).take_while(|(p, _)| p.x < to) {
            misses = curve.at(p.x / boundary.onset);
            let error = (EXPLAINED + 3.0 * p.sigma) * p.y;
            let level = |y: f64| self.here + (y - ground) / misses;
            let (least, most) = if misses > 0.0 {
                (low.max(level(p.y - error)), high.min(level(p.y + error)))
            } else if (p.y - ground).abs() <= error {
                (low, high)
            } else {
                break;
            };
            if least > most {
                break;
            }
            (low, high, end) = (least, most, end + 1);
            risen += usize::from(misses > 0.0);
        }
        let prefix = Prefix { boundary, end: self.first + end, level: (low, high), levels: (low, high) };
        (risen >= MIN_POINTS && misses >= MIN_MISSES).then_some(prefix)
    }

    /// Returns whether the two points beyond the explained ones are above its curve, and rise more steeply than those before.
    fn bends(&self, prefix: &Prefix) -> bool {
        let end = prefix.end - self.first;
        let [.., a, b, c, d] = self.points[..(end + 2).min(self.points.len())] else { return false };
        if end + 2 > self.points.len() {
            return false;
        }
        let above = |i: usize, least: f64| {
            let (p, ground) = (self.points[i], self.ground[i]);
            let misses = prefix.boundary.shape.misses(p.x / prefix.boundary.onset);
            let explained = ground + misses * (prefix.level.1 - self.here);
            p.y * (1.0 - 3.0 * p.sigma) > explained * (1.0 + least)
        };
        let slope = |from: Point, to: Point| (to.y / from.y).ln() / (to.x / from.x).ln();
        let [first, second] = MIN_BEND;
        let is_steeper = slope(b, c) > MIN_STEEPER * slope(a, b).max(0.0);
        above(end, first) && above(end + 1, second) && d.y > c.y && is_steeper
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiers::Options;

    fn points(curve: &[(f64, f64)]) -> Vec<Point> {
        curve.iter().map(|&(x, y)| Point { x, y, sigma: 0.0005, shared: 0.0 }).collect()
    }

    /// Measured on a described machine: an exclusive level of 4 KiB in one set behind one of 6 KiB in three ways, then memory.
    const EXCLUSIVE: [(f64, f64); 24] = [
        (1024.0, 5.07),
        (2048.0, 5.07),
        (4096.0, 5.07),
        (5120.0, 5.07),
        (6144.0, 5.07),
        (6272.0, 5.46),
        (6336.0, 5.65),
        (6464.0, 6.05),
        (7232.0, 8.05),
        (7680.0, 9.01),
        (8192.0, 10.04),
        (9152.0, 9.99),
        (10304.0, 10.39),
        (10432.0, 11.69),
        (10624.0, 14.96),
        (10752.0, 16.43),
        (11520.0, 22.99),
        (12288.0, 26.19),
        (16384.0, 37.09),
        (20608.0, 42.49),
        (32768.0, 42.83),
        (65536.0, 42.79),
        (131_072.0, 42.85),
        (262_144.0, 42.85),
    ];

    #[test]
    fn rise_of_one_cache_ends_at_its_bend() {
        let points = points(&EXCLUSIVE);
        let search = Search::new(&points, &Options::default());
        let merged = [Boundary { onset: 6200.0, shape: Shape::Gradual(4) }];
        let (found, tiers) = search.peeled(&merged, 1.25);
        let onsets: Vec<f64> = found.iter().map(|b| b.onset).collect();
        assert!(matches!(onsets[..], [a, b] if (6144.0..6272.0).contains(&a) && b == 9152.0), "{onsets:?}");
        let [tier] = tiers[..] else { panic!("{tiers:?}") };
        assert!(tier.tier == 1 && tier.low > 9.9 && tier.high < 10.1, "{tier:?}");
        // Other users of a machine bend rises, too.
        let disturbed = Search::new(&points, &Options { share: 0.04, ..Options::default() });
        assert_eq!(disturbed.peeled(&merged, 1.25), (merged.to_vec(), Vec::new()));
    }

    #[test]
    fn latency_beyond_an_unfinished_rise_is_open_between_shapes() {
        // Two ways of random replacement, of 48 points up to half its size beyond it, where two thirds of the loads miss.
        let misses = Shape::Random(2).curve();
        let rise = |x: f64| if x < 48_000.0 { 3.0 + 3.0 * misses.at(x / 32_768.0) } else { 20.0 + x / 1e4 };
        let curve: Vec<(f64, f64)> = (8..80).map(|i| f64::from(i) * 1000.0).map(|x| (x, rise(x))).collect();
        let points = points(&curve);
        let search = Search::new(&points, &Options::default());
        let merged = [Boundary { onset: 33_000.0, shape: Shape::Gradual(8) }];
        let (_, tiers) = search.peeled(&merged, 1.25);
        let [tier] = tiers[..] else { panic!("{tiers:?}") };
        assert!(tier.low < 5.5 && tier.high > 6.0, "{tier:?}");
    }

    #[test]
    fn rise_that_does_not_bend_is_left() {
        // As of a hashed index: it begins slowly, and goes on for two octaves.
        let rise = |x: f64| 8.0 + 100.0 / (1.0 + (65_536.0 / x).powi(4));
        let curve: Vec<(f64, f64)> =
            (0..60).map(|i| 4096.0 * 2f64.powf(f64::from(i) / 6.0)).map(|x| (x, rise(x))).collect();
        let points = points(&curve);
        let search = Search::new(&points, &Options::default());
        let merged = [Boundary { onset: 40_000.0, shape: Shape::Gradual(8) }];
        assert_eq!(search.peeled(&merged, 1.25).0, merged);
    }
}
