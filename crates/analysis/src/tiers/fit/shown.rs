//! Plateaus that the points alone show, whatever shape explains the rises between them.

use super::{Boundary, MAX_CAPACITIES, MIN_ONSET_RATIO, Search};
use crate::tiers::shape::Shape;
use crate::tiers::{Point, QUARTER_OCTAVE};

/// Largest relative difference of the points of a plateau: half of the smallest error of a point; of a shorter one of several points all of it,
/// because lines of some of them conflict by chance.
const LEVEL: f64 = 0.0025;
const LEVEL_OF_SHORT: f64 = 0.005;
/// Largest relative standard error of such a point that its neighbours do not share: two samples of 250 steps of a coarse clock have 0.0028.
const MAX_OWN_ERROR: f64 = 0.003;
/// Points of a plateau, and ratio of its ends, at least: many points over a quarter of an octave, or few over half of one;
/// two, between which no point of a rise would be as level; or points that are nearly level over a sixth of an octave.
const LONG_ENOUGH: [(usize, f64, f64); 5] = [
    (4, QUARTER_OCTAVE, LEVEL),
    (3, 1.41, LEVEL),
    (2, 1.08, LEVEL),
    (4, 1.12, LEVEL_OF_SHORT),
    (2, 1.15, LEVEL_OF_SHORT),
];
/// The same of a machine with other users, whose points are as level as those of a long one: there some points of a rise agree by chance.
const LONG_BESIDE_OTHERS: [(usize, f64); 2] = [(3, 1.15), (2, 1.25)];
/// The same of a plateau that has a capacity of its own, whatever the fit explains.
const SURE_BESIDE_OTHERS: (usize, f64) = (4, QUARTER_OCTAVE);
/// Largest relative fall of the time from one point of a tier to a larger one: more shows that the walk is not settled, or that the index is
/// hashed, and that what lies between two rises is no plateau.
const MAX_DIP: f64 = 0.15;
/// Relative distance before the end of a plateau at which its boundary may be fitted.
const BEFORE_END: f64 = 0.02;

/// Share of the loads that miss in a level where the plateau beyond it begins, at least. By [`LEVEL`] it is more, but the shapes that are tried
/// are only near the cache's own: 0.9 moved the end of a level of 48 KiB to 49.7 (wide generator, seed 570020).
pub(super) const COMPLETE: f64 = 0.5;

/// Ratio of successive capacities below which a plateau has to show that they are two.
const NEAR: f64 = 1.9;
/// Largest relative difference of the points of such a plateau, and smallest ratio of its ends: the smallest error of a point, or twice
/// that over more of an octave. Points nearer to each other are level on any rise.
const NEARLY_LEVEL: [(f64, f64); 2] = [(0.005, 1.015), (0.01, 1.06)];
/// The same of the ends of a plateau of a small cache, bytes: two lines.
const FEW_LINES: f64 = 128.0;

/// Working sets between two plateaus, where a capacity ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Between {
    pub(super) from: f64,
    pub(super) to: f64,
}

impl Between {
    fn holds(&self, boundaries: &[Boundary]) -> bool {
        let range = self.from * (1.0 - BEFORE_END)..=self.to;
        boundaries.iter().any(|b| range.contains(&b.onset))
    }

    /// Returns whether boundary `b` is the only one in the range.
    fn needs(&self, boundaries: &[Boundary], b: usize) -> bool {
        self.holds(&boundaries[b..=b]) && !self.holds(&boundaries[..b]) && !self.holds(&boundaries[b + 1..])
    }
}

/// Returns the ranges between successive plateaus whose levels differ by `min_ratio`: `plateau` tells the last working set of the one that begins at a
/// point, if one does, and the number of points up to its end.
fn between(
    points: &[Point],
    min_ratio: f64,
    plateau: impl Fn(usize) -> Option<(f64, usize)>,
) -> Vec<Between> {
    let mut between = Vec::new();
    let mut last: Option<(f64, f64)> = None;
    let mut first = 0;
    while first < points.len() {
        let Some((to, end)) = plateau(first) else {
            first += 1;
            continue;
        };
        let start = points[first];
        if let Some((from, _)) = last.filter(|(_, level)| start.y >= min_ratio * level) {
            between.push(Between { from, to: start.x });
        }
        (last, first) = (Some((to, start.y)), end);
    }
    between
}

/// Returns the last working set of the points from `first` up to `end`, if they are as many over such a ratio.
fn long(
    points: &[Point],
    (first, end): (usize, usize),
    (count, ratio): (usize, f64),
) -> Option<(f64, usize)> {
    let last = points[end - 1].x;
    (end - first >= count && last >= ratio * points[first].x).then_some((last, end))
}

/// Returns the ranges between successive plateaus of the points whose levels differ by `min_ratio`.
pub(super) fn between_plateaus(points: &[Point], min_ratio: f64) -> Vec<Between> {
    between(points, min_ratio, |first| {
        LONG_ENOUGH.into_iter().find_map(|(count, ratio, level)| {
            long(points, (first, level_until(points, first, level)), (count, ratio))
        })
    })
}

/// The same of TLB pairs, which are differences of two times: points, ratio of the ends, and smallest relative difference that is none.
const LONG_OF_PAIRS: (usize, f64, f64) = (4, 1.41, 0.005);

/// Returns the ranges between successive plateaus of the TLB pairs of a machine without other users.
pub(super) fn between_pairs(points: &[Point], min_ratio: f64) -> Vec<Between> {
    let (count, ratio, level) = LONG_OF_PAIRS;
    between(points, min_ratio, |first| {
        let start = points[first];
        let is_level = |p: &&Point| (p.y / start.y - 1.0).abs() <= level + 2.0 * start.sigma.hypot(p.sigma);
        let end = first + points[first..].iter().take_while(is_level).count();
        long(points, (first, end), (count, ratio))
    })
}

/// Returns the end of the points from `first` on that differ from it by no more than this.
fn level_until(points: &[Point], first: usize, level: f64) -> usize {
    let start = points[first];
    let is_level = |p: &Point| p.own() <= MAX_OWN_ERROR.max(level) && (p.y / start.y - 1.0).abs() <= level;
    first + points[first..].iter().take_while(|p| is_level(p)).count().max(1)
}

/// Returns whether points of a machine with other users that take `least` and more are level.
pub(in crate::tiers) fn has_plateau(points: &[Point], least: f64) -> bool {
    let runs =
        (0..points.len()).filter(|first| points[*first].y >= least).map(|first| Run::of(points, first));
    runs.into_iter().any(|run| LONG_BESIDE_OTHERS.into_iter().any(|long| run.is_long(long)))
}

/// Points of a machine with other users that are level with the first one. They only slow loads down, so a point that takes longer may be on the
/// plateau, too, and one that takes less shows that the first one is not.
struct Run {
    /// The first working set and the last one that are level.
    from: f64,
    to: f64,
    count: usize,
    /// Number of points up to the last one.
    end: usize,
}

impl Run {
    /// Returns those from `first` on.
    fn of(points: &[Point], first: usize) -> Run {
        let start = points[first];
        let mut run = Run { from: start.x, to: start.x, count: 0, end: first + 1 };
        if start.own() > MAX_OWN_ERROR {
            return run;
        }
        for (i, p) in points.iter().enumerate().skip(first) {
            let off = p.y / start.y - 1.0;
            if off < -LEVEL - 4.0 * p.own() {
                break;
            }
            if off.abs() <= LEVEL && p.own() <= MAX_OWN_ERROR {
                (run.to, run.end, run.count) = (p.x, i + 1, run.count + 1);
            }
        }
        run
    }

    fn is_long(&self, (count, ratio): (usize, f64)) -> bool {
        self.count >= count && self.to >= ratio * self.from
    }
}

/// Returns the ranges between successive plateaus of a machine with other users.
pub(super) fn between_beside_others(points: &[Point], min_ratio: f64) -> Vec<Between> {
    between(points, min_ratio, |first| {
        let run = Run::of(points, first);
        run.is_long(SURE_BESIDE_OTHERS).then_some((run.to, run.end))
    })
}

/// Returns the time of the first plateau of an octave among points that take `least` and more.
pub(in crate::tiers) fn first_plateau(points: &[Point], least: f64) -> Option<f64> {
    let runs = (0..points.len()).map(|first| &points[first..level_until(points, first, LEVEL)]);
    let is_long = |run: &&[Point]| run.len() >= LONG_ENOUGH[0].0 && run[run.len() - 1].x >= 2.0 * run[0].x;
    runs.filter(|run| run[0].y >= least).find(is_long).map(|run| run[0].y)
}

impl Search<'_> {
    /// Returns how many of these ranges have no boundary.
    pub(super) fn missing(&self, boundaries: &[Boundary]) -> usize {
        self.between.iter().filter(|between| !between.holds(boundaries)).count()
    }

    /// Returns whether boundary `b` is the only one between two plateaus.
    pub(super) fn separates(&self, boundaries: &[Boundary], b: usize) -> bool {
        self.between.iter().any(|between| between.needs(boundaries, b))
    }

    /// Returns the onsets between which a boundary is apart from its neighbours. One that alone separates two plateaus stays between them, whatever
    /// else it would explain better.
    pub(super) fn free_range(&self, boundaries: &[Boundary], b: usize) -> (f64, f64) {
        let apart_low = b.checked_sub(1).map_or(0.0, |a| boundaries[a].onset * MIN_ONSET_RATIO);
        let apart_high = boundaries.get(b + 1).map_or(f64::INFINITY, |n| n.onset / MIN_ONSET_RATIO);
        let needed = self.between.iter().filter(|between| between.needs(boundaries, b));
        needed.fold((apart_low, apart_high), |(low, high), between| {
            (low.max(between.from * (1.0 - BEFORE_END)), high.min(between.to))
        })
    }

    /// Returns the working set at which the rise of a boundary is complete: where the plateau beyond it begins if it alone separates two, else none.
    pub(super) fn complete_by(&self, boundaries: &[Boundary], b: usize) -> f64 {
        let needed = self.between.iter().filter(|between| between.needs(boundaries, b));
        needed.fold(f64::INFINITY, |end, between| end.min(between.to))
    }

    /// Returns the stack with one more boundary, between two plateaus that none separates.
    pub(super) fn separated(
        &self,
        boundaries: &[Boundary],
        chi: f64,
        min_ratio: f64,
    ) -> Option<(Vec<Boundary>, f64)> {
        if boundaries.len() >= MAX_CAPACITIES {
            return None;
        }
        let missing = self.between.iter().filter(|between| !between.holds(boundaries));
        let at_end = |between: &Between| Boundary { onset: between.from, shape: Shape::Lru(8) };
        let more = missing.map(|between| self.with(boundaries, at_end(between), 2));
        more.map(|(_, more, chi)| (more, chi))
            .filter(|(more, _)| {
                self.superfluous(more, min_ratio).is_none() && self.missing(more) < self.missing(boundaries)
            })
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .filter(|more| more.1 < chi)
    }

    /// Returns the stack without one of two capacities that are near each other, if no points between them are level, and the first one's rise does not
    /// explain all of them: the rise of one exclusive level bends within an octave.
    pub(super) fn joined(&self, boundaries: &[Boundary]) -> Option<Vec<Boundary>> {
        if !self.exact {
            return None;
        }
        let off = self.unexplained(boundaries);
        let near = boundaries.windows(2).position(|two| {
            let at = |x: f64| self.points.partition_point(|p| p.x <= x);
            let (first, end) = (at(two[0].onset), at(two[1].onset));
            if off[first..end.max(first)].iter().all(|off| *off <= 1.0) {
                return false;
            }
            two[1].onset < NEAR * two[0].onset && !has_level_run(&self.points[first..end.max(first)])
        })?;
        Some(self.without_one_of(boundaries, near))
    }

    /// Returns the stack without one of two successive capacities that are near each other, if the times fall between them.
    pub(super) fn without_dips(&self, boundaries: &[Boundary]) -> Option<Vec<Boundary>> {
        if !self.exact {
            return None;
        }
        let dips = |two: &[Boundary]| {
            if two[1].onset >= NEAR * two[0].onset {
                return false;
            }
            let between = self.points.iter().filter(|p| p.x > two[0].onset && p.x <= two[1].onset);
            let mut most = 0.0f64;
            between.into_iter().any(|p| {
                most = most.max(p.y * (1.0 - 2.0 * p.sigma));
                p.y * (1.0 + 2.0 * p.sigma) < (1.0 - MAX_DIP) * most
            })
        };
        boundaries.windows(2).position(dips).map(|first| self.without_one_of(boundaries, first))
    }

    /// Returns the stack without that one of two successive capacities that explains less.
    fn without_one_of(&self, boundaries: &[Boundary], first: usize) -> Vec<Boundary> {
        let without = [first, first + 1].map(|at| {
            let mut rest = super::without(boundaries, at);
            let chi = self.descend(&mut rest, super::around(at), 2);
            (rest, chi)
        });
        let [less, more] = without;
        if less.1 <= more.1 { less.0 } else { more.0 }
    }
}

/// Returns whether successive points are level over a small part of an octave.
fn has_level_run(points: &[Point]) -> bool {
    let is_run = |first: &Point, rest: &[Point], (difference, ratio): (f64, f64)| {
        let level = |p: &&Point| (p.y / first.y - 1.0).abs() <= difference;
        let is_long =
            |last: &Point| last.x >= ratio * first.x || last.x > first.x && last.x - first.x <= FEW_LINES;
        rest.iter().take_while(level).last().is_some_and(is_long)
    };
    let [short, long] = NEARLY_LEVEL;
    points.iter().enumerate().any(|(i, first)| {
        let rest = &points[i..];
        is_run(first, rest, short)
            || rest.len() > 1 && rest[1].x - first.x > FEW_LINES && is_run(first, rest, long)
    })
}

#[cfg(test)]
mod tests;
