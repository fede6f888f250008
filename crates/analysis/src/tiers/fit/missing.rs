//! Levels that the search removed although a plateau shows them.

use super::{Boundary, MAX_CAPACITIES, MIN_ONSET_RATIO, Search};
use crate::tiers::shape::Shape;
use crate::tiers::{Point, QUARTER_OCTAVE};

/// Points that show a plateau.
const PLATEAU_POINTS: usize = 3;
/// Ratio of working sets beyond a plateau in which a rise begins.
const OCTAVE: f64 = 2.0;
/// Largest relative difference of its points beside two of their standard errors, of which no more counts: points with large errors show no
/// plateau. Twice the smallest error of a point.
const LEVEL: f64 = 0.01;

/// Shapes with which a boundary is added: a steep one, and that of random replacement, which rises over three octaves.
const FIRST_SHAPES: [Shape; 2] = [Shape::Lru(8), Shape::Random(8)];

/// Largest number of bends that are tried at a time.
const MAX_BENDS: usize = 8;
/// Smallest ratio of the capacities on both sides of a bend: successive caches of known machines differ by a factor of 2 and more. The rise of
/// one exclusive level has bends within an octave.
const MIN_BENT_RATIO: f64 = 1.9;
/// Smallest number of points on each side of a bend: two boundaries have six parameters, which explain any few points.
const MIN_BENT: usize = 6;

/// Returns whether a boundary may be added there.
fn is_apart(boundaries: &[Boundary], x: f64) -> bool {
    boundaries.iter().all(|b| x > MIN_ONSET_RATIO * b.onset || b.onset > MIN_ONSET_RATIO * x)
}

impl Search<'_> {
    /// Returns the number of an added boundary, and the stack with it and its chi-squared, after it and its neighbours were fitted.
    pub(super) fn with(
        &self,
        boundaries: &[Boundary],
        added: Boundary,
        sweeps: usize,
    ) -> (usize, Vec<Boundary>, f64) {
        let at = boundaries.partition_point(|b| b.onset < added.onset);
        let mut more = boundaries.to_vec();
        more.insert(at, added);
        let chi = self.descend(&mut more, at.saturating_sub(1)..=at + 1, sweeps);
        (at, more, chi)
    }

    /// Returns the stack with one more boundary near one of `candidates` that explains more than the penalty for its parameters. Only
    /// the end of a plateau is added near which points are unexplained: what was removed first may be missing once its neighbours are gone, too.
    pub(super) fn extended(
        &self,
        boundaries: &[Boundary],
        candidates: &[f64],
        chi: f64,
        min_ratio: f64,
    ) -> Option<(Vec<Boundary>, f64)> {
        // Each candidate is the end of one capacity.
        if boundaries.len() >= candidates.len().min(MAX_CAPACITIES) {
            return None;
        }
        let off = self.unexplained(boundaries);
        let missing =
            candidates.iter().filter(|x| is_apart(boundaries, **x) && self.is_end_of_plateau(**x, &off));
        let more =
            missing.flat_map(|&onset| FIRST_SHAPES.map(|shape| (onset, shape))).map(|(onset, shape)| {
                let at = boundaries.partition_point(|b| b.onset < onset);
                let mut more = boundaries.to_vec();
                more.insert(at, Boundary { onset, shape });
                // The one before had to explain both rises.
                if let Some(before) = at.checked_sub(1) {
                    more[before].shape = Shape::Lru(8);
                }
                let chi = self.descend(&mut more, at.saturating_sub(1)..=at + 1, 2);
                (more, chi)
            });
        more.filter(|(more, _)| self.superfluous(more, min_ratio).is_none())
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .filter(|more| chi - more.1 > self.penalty())
    }

    /// Returns the stack with one more boundary that explains a bend: a point that the stack does not explain, on a rise that goes on from
    /// one capacity to the next without a plateau. Only if it then explains the whole rise: those of hashed levels and of random frames
    /// stay unexplained with any number of boundaries.
    pub(super) fn bent(
        &self,
        boundaries: &[Boundary],
        chi: f64,
        min_ratio: f64,
    ) -> Option<(Vec<Boundary>, f64)> {
        if !self.exact || boundaries.len() >= MAX_CAPACITIES {
            return None;
        }
        let off = self.unexplained(boundaries);
        let bends = self.points.iter().zip(&off).filter(|(p, off)| **off > 1.0 && is_apart(boundaries, p.x));
        let bends: Vec<f64> = bends.map(|(p, _)| p.x).collect();
        let step = bends.len().div_ceil(MAX_BENDS).max(1);
        let more = bends.iter().step_by(step).flat_map(|&onset| FIRST_SHAPES.map(|shape| (onset, shape)));
        let more = more.map(|(onset, shape)| self.with(boundaries, Boundary { onset, shape }, 3));
        let explains = |(at, more, _): &(usize, Vec<Boundary>, f64)| {
            let from = at.checked_sub(1).map_or(0.0, |before| more[before].onset);
            let to = more.get(at + 1).map_or(f64::INFINITY, |next| next.onset);
            let is_apart = more[*at].onset >= MIN_BENT_RATIO * from && to >= MIN_BENT_RATIO * more[*at].onset;
            let between = |from: f64, to: f64| self.points.iter().filter(|p| p.x > from && p.x < to).count();
            let is_measured =
                between(from, more[*at].onset) >= MIN_BENT && between(more[*at].onset, to) >= MIN_BENT;
            let off = self.unexplained(more);
            let mut rise = self.points.iter().zip(&off).filter(|(p, _)| p.x > from && p.x < to);
            is_apart && is_measured && rise.all(|(_, off)| *off <= 1.0)
        };
        more.filter(|bent| self.superfluous(&bent.1, min_ratio).is_none() && explains(bent))
            .min_by(|a, b| a.2.total_cmp(&b.2))
            .filter(|bent| chi - bent.2 > self.penalty())
            .map(|(_, more, chi)| (more, chi))
    }

    /// Returns whether a plateau ends at `x`, and one of its points, or within an octave beyond it, is unexplained; `off` as of
    /// [`Search::unexplained`].
    fn is_end_of_plateau(&self, x: f64, off: &[f64]) -> bool {
        let end = self.points.partition_point(|p| p.x <= x);
        let Some(last) = end.checked_sub(1).map(|last| self.points[last]) else { return false };
        let level = |p: &Point| (p.y / last.y - 1.0).abs() < LEVEL + 2.0 * (p.sigma + last.sigma).min(LEVEL);
        let first = self.points[..end].iter().rposition(|p| !level(p)).map_or(0, |before| before + 1);
        let long = end - first >= PLATEAU_POINTS && last.x >= QUARTER_OCTAVE * self.points[first].x;
        let near = self.points.partition_point(|p| p.x <= OCTAVE * x);
        long && off[first..near].iter().any(|off| *off > 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiers::Options;

    /// Returns points at sixths of an octave of a stack of 8, 17, 32 and 300; the second level ends at 65536.
    fn curve(second: Shape) -> Vec<Point> {
        let misses = [(16384.0, Shape::Lru(2)), (65536.0, second), (1048576.0, Shape::Lru(3))];
        let at = |x: f64| {
            let misses = misses.map(|(onset, shape)| shape.misses(x / onset));
            8.0 + 9.0 * misses[0] + 15.0 * misses[1] + 268.0 * misses[2]
        };
        let sizes = (0..60).map(|i| 4096.0 * 2f64.powf(f64::from(i) / 6.0));
        sizes.map(|x| Point { x, y: at(x), sigma: 0.001, shared: 0.0 }).collect()
    }

    /// A gradual rise in place of two levels.
    const MERGED: [Boundary; 2] = [
        Boundary { onset: 16384.0, shape: Shape::Gradual(16) },
        Boundary { onset: 1048576.0, shape: Shape::Lru(3) },
    ];

    #[test]
    fn the_end_of_an_unexplained_plateau_is_added() {
        let candidates = [16384.0, 65536.0, 1048576.0];
        let points = curve(Shape::Random(8));
        let search = Search::new(&points, &Options::default());
        let chi = search.solve(&search.columns(&MERGED)).0;
        let (more, better) = search.extended(&MERGED, &candidates, chi, 1.25).expect("one more");
        assert!(better < chi / 10.0, "{better} of {chi}");
        let onsets: Vec<f64> = more.iter().map(|b| b.onset).collect();
        assert!(onsets.len() == 3 && (onsets[1] / 65536.0 - 1.0).abs() < 0.03, "{onsets:?}");
        // Each candidate is the end of one level.
        assert!(search.extended(&MERGED, &candidates[..2], chi, 1.25).is_none());
        assert!(search.extended(&more, &candidates, better, 1.25).is_none());
    }

    #[test]
    fn a_plateau_needs_three_points_over_a_quarter_of_an_octave() {
        let points = curve(Shape::Random(8));
        let search = Search::new(&points, &Options::default());
        let off = vec![2.0; points.len()];
        let ends = |x: f64| search.is_end_of_plateau(x, &off);
        assert!(ends(65536.0) && ends(1048576.0));
        // On the rise, before all points, and the first two of a plateau.
        assert!(!ends(30000.0) && !ends(1000.0) && !ends(5000.0));
        assert!(!search.is_end_of_plateau(65536.0, &vec![0.5; points.len()]), "it is explained");
    }

    /// Returns points at sixths of an octave of levels of 8, 17, 32 and 60: the second ends at 65536 with random replacement, and has
    /// hits where the third ends.
    fn bent_curve() -> Vec<Point> {
        let misses = [(16384.0, Shape::Lru(2)), (65536.0, Shape::Random(4)), (262_144.0, Shape::Lru(4))];
        let at = |x: f64| {
            let [first, second, third] = misses.map(|(onset, shape)| shape.misses(x / onset));
            8.0 + 9.0 * first + 15.0 * second + 28.0 * third.min(second)
        };
        let sizes = (0..60).map(|i| 4096.0 * 2f64.powf(f64::from(i) / 6.0));
        sizes.map(|x| Point { x, y: at(x), sigma: 0.001, shared: 0.0 }).collect()
    }

    #[test]
    fn a_bend_is_the_end_of_one_more_level() {
        let points = bent_curve();
        let search = Search::new(&points, &Options::default());
        let merged = [
            Boundary { onset: 16384.0, shape: Shape::Lru(2) },
            Boundary { onset: 65536.0, shape: Shape::Gradual(12) },
        ];
        let chi = search.solve(&search.columns(&merged)).0;
        let (more, better) = search.bent(&merged, chi, 1.25).expect("one more");
        assert!(better < chi / 10.0, "{better} of {chi}");
        let onsets: Vec<f64> = more.iter().map(|b| b.onset).collect();
        assert!(onsets.len() == 3 && (onsets[2] / 262_144.0 - 1.0).abs() < 0.06, "{onsets:?}");
        assert!(search.bent(&more, better, 1.25).is_none(), "all points are explained");
        // Other users of a machine bend rises, too.
        let disturbed = Search::new(&points, &Options { share: 0.04, ..Options::default() });
        assert!(disturbed.bent(&merged, chi, 1.25).is_none());
    }

    #[test]
    fn a_rise_that_no_stack_explains_gets_no_more_levels() {
        // As of a hashed index: some ranges overfill more sets than larger ones.
        let sizes = (0..60).map(|i| (i, 4096.0 * 2f64.powf(f64::from(i) / 6.0)));
        let at = |(i, x): (i32, f64)| {
            let wave = if (20..40).contains(&i) && i % 2 == 0 { 1.3 } else { 1.0 };
            Point { x, y: 8.0 * wave * (x / 32768.0).clamp(1.0, 8.0), sigma: 0.001, shared: 0.0 }
        };
        let points: Vec<Point> = sizes.map(at).collect();
        let search = Search::new(&points, &Options::default());
        let merged = [Boundary { onset: 32768.0, shape: Shape::Gradual(12) }];
        let chi = search.solve(&search.columns(&merged)).0;
        assert!(search.bent(&merged, chi, 1.25).is_none());
    }
}
