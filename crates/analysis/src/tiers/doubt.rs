//! What the points of a described machine leave open: plateaus that still rise, latencies without a plateau next to a rise
//! that no single cache explains, and capacities on such a rise.
//!
//! The fit assumes a stack of caches that hold copies of each other's lines. Exclusive levels, hashed levels and levels with
//! any number of sets rise differently. Their latencies and capacities are then bounded by measured points.

use fathom_units::size;

use super::bracket::hidden;
use super::fit::Fit;
use super::fit::shown::first_plateau;
use super::shape::Shape;
use super::{MIN_LEVEL_RATIO, Point, Tier, by_octave_thirds, has_round_size};
use crate::interval::Interval;

/// Relative rise along a plateau above which it is not level: the smallest error of a point.
const LEVEL: f64 = 0.005;
/// The replacement whose hits vanish most slowly, and the share of misses from which on they do.
const RANDOM: Shape = Shape::Random(16);
const MOST_MISS: f64 = 0.5;
/// Largest relative distance of a plateau of the last tier from its end: what is farther is part of the rise.
const MOST_OFF: f64 = 0.1;
/// Relative rise from each third of an octave of a plateau to the next above which it is none, but a part of the rises next to it.
const NO_PLATEAU: f64 = 0.05;
/// Relative error that all points beyond the last capacity share: their rows, refresh and place in memory differ from those
/// of other working sets by 0.4 to 0.8 % on described machines.
const SHARED_ERROR: f64 = 0.008;
/// Share of a step at which a capacity is exceeded, if it is of a round size.
const EXCEEDED: f64 = 0.01;
/// The same if no single cache explains the rise.
const EXCEEDED_UNEXPLAINED: f64 = 0.06;
/// The same of another size: a level whose number of sets is not a power of two, or whose index is hashed, misses before it is full, in
/// 4.3 % of the loads of a cyclic walk at 0.995 of the size, and in 6.8 % at 1.006 of it (hashed, six ways, 3 MiB); in 8 % at 0.993, and in
/// 14 % at 1.004 (hashed, five ways, 10 MiB).
const EXCEEDED_ODD: f64 = 0.15;
/// The same if a larger working set had fewer misses: the index is hashed, so that a range which does not begin at a multiple
/// of the level's size overfills some sets and leaves others empty. If one that just fits covers a share a of the sets once
/// more with its begin, and leaves out as many with its end, up to min(a, 1 - a) of them are overfull.
const EXCEEDED_HASHED: f64 = 0.5;
/// Share of a hashed level's size from which on such a range may overfill a set: one line less than each of four ways.
const MIN_OVERFILLED: f64 = 0.75;
/// Relative difference, beyond four standard errors, of a working set that misses less than a smaller one: under random
/// replacement, trials of several laps differ by up to 5 %.
const MIN_FALL: f64 = 0.1;
/// The same of a working set that is faster or slower than the plateau: points of levels in which all loads hit differ by up to 0.5 %, and
/// one beyond the end of a level of 80 MiB was 1 % faster.
const FASTER: f64 = 0.0075;
/// Points before another one with which it is compared: the parts of a plateau differ.
const PLATEAU_BEFORE: usize = 3;
/// Relative distance from the plateau beyond which a point has left it; surely, if it is four standard errors more.
const MAX_DEPARTURE: f64 = 0.02;

/// Largest relative overflow that a plateau may hide, in thousandths.
const MOST_HIDDEN: u16 = 20;

/// Smallest ratio of the latencies of successive tiers that are told apart, and of a rise in which one more may be.
const MIN_STEP: f64 = 1.25;
const MIN_HIDING_STEP: f64 = MIN_STEP * MIN_STEP;
/// Smallest ratio of the working sets at both ends of such a rise: a victim buffer has half of the nearer level or more.
const MIN_HIDING_WIDTH: f64 = 1.5;
/// Share of the step at its end.
const END_OF_RISE: f64 = 0.9;
/// Smallest ratio of the ends of a gap between working sets that hides a level: a plateau of half an octave has two points with smaller ones.
const MIN_GAP: f64 = 1.3;
/// Ratio of two working sets from which on a straight line between them says nothing; and below which a rise between them is that of a few
/// lines, in steps.
const FAR_APART: f64 = 1.5;
const FEW_LINES_APART: f64 = 1.005;
/// Points on a rise that show whether it is that of one level.
const KNOWN_RISE: usize = 3;

/// Returns whether the rise between two tiers is high and wide enough for one more level.
fn may_hide_a_level(tiers: &[Tier], points: &[Point]) -> bool {
    let [before, beyond] = tiers else { return false };
    let (here, next) = (before.latency.value, beyond.latency.value);
    let Some(onset) = before.capacity.map(|c| c.onset.value) else { return false };
    let end = here + END_OF_RISE * (next - here);
    let end = points.iter().find(|p| p.x > onset && p.y >= end).map_or(f64::INFINITY, |p| p.x);
    next >= MIN_HIDING_STEP * here && end >= MIN_HIDING_WIDTH * onset
}

/// Returns the gaps of a curve, (working set, time) ascending, in the rise between two tiers in which the plateau of one more level may be: it has
/// twice the size of the one before, or more. A gap begins at that size if it lies in it.
#[must_use]
pub fn hiding_gaps(tiers: &[Tier], curve: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let [before, beyond] = tiers else { return Vec::new() };
    let (here, next) = (before.latency.value, beyond.latency.value);
    let Some(onset) = before.capacity.map(|c| c.onset.low).filter(|_| next >= MIN_HIDING_STEP * here) else {
        return Vec::new();
    };
    let gap = |two: &[(f64, f64)]| {
        let (from, to) = (two[0].0.max(MIN_LEVEL_RATIO * onset), two[1].0);
        let hides = two[0].0 >= onset && to >= MIN_GAP * from && two[0].1 < next / MIN_STEP;
        hides.then_some((from, to))
    };
    curve.windows(2).filter_map(gap).collect()
}

/// Returns the first such gap, if too few points are on the rise to show that it is that of one level.
fn unmeasured(tiers: &[Tier], points: &[Point]) -> Option<(f64, f64)> {
    let [before, beyond] = tiers else { return None };
    let (here, next) = (before.latency.value, beyond.latency.value);
    let on_rise = points.iter().filter(|p| p.y > here * (1.0 + MIN_FALL) && p.y < next * (1.0 - MIN_FALL));
    let curve: Vec<(f64, f64)> = points.iter().map(|p| (p.x, p.y)).collect();
    hiding_gaps(tiers, &curve).first().copied().filter(|_| on_rise.count() < KNOWN_RISE)
}

/// Returns remarks on the rises between the tiers of a fit: those of no single cache, and of an exact curve those in which a level may be hidden.
pub(super) fn notes(tiers: &[Tier], fit: &Fit, points: &[Point], exact: bool) -> Vec<String> {
    let rises = || fit.boundaries.iter().zip(tiers.windows(2));
    let spread_out = rises().filter(|(b, _)| super::spread_out(points, fit, b)).map(|(b, tiers)| {
        let may_be = match exact && !may_hide_a_level(tiers, points) {
            true => "too narrow for another level",
            false => "there may be several, or the level is shared",
        };
        format!("the rise beyond {} does not fit one capacity: {may_be}", size(b.onset))
    });
    let gaps = rises().filter(|_| exact).filter_map(|(_, tiers)| unmeasured(tiers, points));
    let gaps = gaps.map(|(from, to)| {
        let (from, to) = (size(from), size(to));
        format!(
            "between {from} and {to} no working set was measured: a level of that size may be missing here"
        )
    });
    spread_out.chain(gaps).collect()
}

/// Widens the intervals of `tiers` to what their points (ascending in x) leave open.
pub(super) fn widen(tiers: &mut [Tier], points: &[Point]) {
    for i in 1..tiers.len() {
        if tiers[i].on_plateau >= 2 && !rises_throughout(&tiers[i], points) {
            extend_rising(&mut tiers[i], points);
        } else {
            bound(tiers, i, points);
        }
        extend_by_hits(tiers, i, points);
    }
    if let [.., before, last] = tiers {
        let latency = &mut last.latency;
        latency.low = latency.value - (latency.value - latency.low).hypot(SHARED_ERROR * latency.value);
        latency.high = latency.value + (latency.high - latency.value).hypot(SHARED_ERROR * latency.value);
        let end = before.capacity.map_or(0.0, |c| c.above);
        let beyond = &points[points.partition_point(|p| p.x <= end)..];
        if let Some(level) = first_plateau(beyond, latency.value * (1.0 - MOST_OFF)) {
            latency.low = latency.low.min(level * (1.0 - LEVEL));
        }
    }
    for i in 0..tiers.len() {
        extend_capacity(tiers, i, points);
    }
}

/// Returns the times along a plateau, by thirds of an octave; none of the last tier, which has no end.
fn along(tier: &Tier, points: &[Point]) -> Vec<f64> {
    let end = tier.capacity.map_or(0.0, |c| c.below);
    by_octave_thirds(points.iter().filter(|p| p.x >= tier.begin && p.x <= end))
}

/// Returns whether a plateau rises from each third of an octave to the next, so that it is none.
fn rises_throughout(tier: &Tier, points: &[Point]) -> bool {
    let thirds = along(tier, points);
    thirds.len() >= 2 && thirds.windows(2).all(|two| two[1] > two[0] * (1.0 + NO_PLATEAU))
}

/// Extends the latency of a plateau that still rises where it ends: hits of the tier before have not vanished there. The
/// rise along the plateau is expected once more.
fn extend_rising(tier: &mut Tier, points: &[Point]) {
    let thirds = along(tier, points);
    let (Some(first), Some(last)) = (thirds.first(), thirds.last()) else { return };
    if thirds.is_sorted() && *last > *first * (1.0 + LEVEL) {
        tier.latency.high = tier.latency.high.max(2.0 * last - first);
    }
}

/// Extends the latency of a tier that still rises where it ends by the hits that the level before still has there if it replaces at
/// random: they vanish most slowly.
fn extend_by_hits(tiers: &mut [Tier], i: usize, points: &[Point]) {
    let (nearer, Some(before)) = (tiers[i - 1].latency.value, tiers[i - 1].capacity) else { return };
    let Some(end) = tiers[i].capacity.map(|c| c.below) else { return };
    let own: Vec<&Point> = points.iter().filter(|p| p.x >= before.above && p.x <= end).collect();
    let (thirds, last) = (by_octave_thirds(own.iter().copied()), own.last());
    let ([.., a, b], Some(last)) = (&thirds[..], last) else { return };
    let misses = RANDOM.misses(last.x / before.onset.value);
    if *b > a * (1.0 + LEVEL) && misses > MOST_MISS {
        let latency = &mut tiers[i].latency;
        let (all, error) = ((last.y - (1.0 - misses) * nearer) / misses, latency.high - latency.value);
        latency.high = latency.high.max(all + error);
    }
}

/// Extends a latency without a plateau to the slowest point of its own: some of its loads are hits of the tier before; and by twice as much to the
/// other side. Extends it to that of
/// the tier before, too, unless both rises next to it are those of single caches.
fn bound(tiers: &mut [Tier], i: usize, points: &[Point]) {
    let explained = |t: &Tier| t.capacity.is_none_or(|c| c.explained);
    let Some(before) = tiers[i - 1].capacity else { return };
    let nearer = tiers[i - 1].latency.value;
    let single = explained(&tiers[i - 1]) && explained(&tiers[i]);
    let tier = &mut tiers[i];
    // A working set that may not fit shows no time of the tier, unless there is no smaller one.
    let ends = tier.capacity.map_or([f64::INFINITY; 2], |c| [c.onset.low, c.below]);
    if !single {
        tier.latency.low = tier.latency.low.min(nearer);
    }
    let own = |end: f64| points.iter().filter(move |p| p.x >= before.above && p.x <= end).map(|p| p.y);
    let Some(slowest) = ends.into_iter().find_map(|end| own(end).reduce(f64::max)) else { return };
    // What the shape of the rise adds to it may be nothing, or three times as much: it added 0.36 cycles to 12.30 where 0.73 were missing.
    tier.latency.low = tier.latency.low.min(slowest);
    tier.latency.high = tier.latency.high.max(slowest).max(3.0 * tier.latency.value - 2.0 * slowest);
}

/// Extends the upper end of a capacity to where it is surely exceeded. Extends the lower end to where loads leave the plateau,
/// if they do so before.
fn extend_capacity(tiers: &mut [Tier], i: usize, points: &[Point]) {
    let Some(next) = tiers.get(i + 1).map(|t| t.latency.value) else { return };
    let Tier { latency, on_plateau, begin: plateau, .. } = tiers[i];
    // Without a plateau, points that take as long as the tier show what fits, if the rise beyond is not that of one cache.
    let nearer = i.checked_sub(1).and_then(|nearer| tiers[nearer].capacity).map(|c| c.above);
    let from = nearer.filter(|_| on_plateau < 2).unwrap_or(plateau);
    let Some(capacity) = tiers[i].capacity.as_mut() else { return };
    let at = |share: f64| latency.value + share * (next - latency.value);
    let rise = &points[points.partition_point(|p| p.x < capacity.below * MIN_OVERFILLED)..];
    let begin = rise.iter().take_while(|p| p.y < at(EXCEEDED_HASHED)).count();
    let exceeded = if overlaps(&rise[..begin]) {
        points.iter().find(|p| p.x >= capacity.above && p.y >= at(EXCEEDED_HASHED)).map(|p| p.x)
    } else {
        let measured = Interval { low: capacity.onset.low, high: capacity.above, ..capacity.onset };
        let share = match (has_round_size(&measured), capacity.explained) {
            (true, true) => EXCEEDED,
            (true, false) => EXCEEDED_UNEXPLAINED,
            (false, _) => EXCEEDED_ODD,
        };
        crossing(points, capacity.above, at(share))
    };
    if let Some(x) = exceeded {
        capacity.onset.high = capacity.onset.high.max(x);
    }
    // A point above the plateau does not show that its working set fits, even if its own error would explain it: a sample that
    // is shorter than a lap meets the overfull sets or not.
    let above = |p: &Point, errors: f64| p.y > latency.value * (1.0 + MAX_DEPARTURE + errors * p.sigma);
    let on: Vec<&Point> = points.iter().filter(|p| p.x >= from && p.x <= capacity.below).collect();
    // Nor does one that is faster than the plateau: that part of its lap was what the level had kept of a larger working set.
    let faster = |p: &Point| p.y < latency.value * (1.0 - FASTER - 4.0 * p.sigma);
    let limit = |p: &Point| (2.0 * p.sigma).clamp(FASTER, MAX_DEPARTURE);
    let level = |i: usize| {
        let before = on[i.saturating_sub(PLATEAU_BEFORE)..i].iter().map(|p| p.y);
        let here = latency.value.max(before.reduce(f64::min).unwrap_or(0.0));
        !above(on[i], 0.0) && on[i].y <= here * (1.0 + limit(on[i])) && !faster(on[i])
    };
    let shows = on_plateau >= 2 || !capacity.explained;
    let last = (0..on.len()).rfind(|i| level(*i)).filter(|last| last + 1 < on.len() && shows);
    if let (None, true) = (last, on_plateau < 2 && shows) {
        capacity.onset.low = capacity.onset.low.min(first_as_slow(&on, capacity.onset.value));
    }
    if let Some(last) = last {
        // What leaves a plateau by less than the limit may be misses under random replacement. Twice as much, and a part in a thousand, as of a bracket.
        let hides = hidden(RANDOM, limit(on[last]), next / latency.value - 1.0, MOST_HIDDEN);
        capacity.onset.low = capacity.onset.low.min(on[last].x / (1.001 + 2.0 * hides));
        capacity.explained &= !on[last..].iter().any(|p| above(p, 4.0));
    }
}

/// Returns the first of these working sets that takes as long as the last one up to a fitted end: if none of them shows the tier, the rise
/// beyond may begin there. Infinite if there is none.
fn first_as_slow(on: &[&Point], end: f64) -> f64 {
    let last = on.iter().rfind(|p| p.x <= end).map_or(f64::INFINITY, |p| p.y);
    on.iter().find(|p| p.y >= last * (1.0 - FASTER)).map_or(f64::INFINITY, |p| p.x)
}

/// Returns where the curve from `from` on reaches `level`: between the first point that does and the one before it, on a straight line; at that
/// point if they are far apart, or only a few lines.
fn crossing(points: &[Point], from: f64, level: f64) -> Option<f64> {
    let first = points.iter().position(|p| p.x >= from && p.y >= level)?;
    let (after, before) = (points[first], first.checked_sub(1).map(|before| points[before]));
    let between = |p: Point| p.x + (after.x - p.x) * (level - p.y) / (after.y - p.y);
    let near =
        |p: &Point| p.x >= from && p.y < level && (FEW_LINES_APART..FAR_APART).contains(&(after.x / p.x));
    Some(before.filter(near).map_or(after.x, between))
}

/// Returns whether a point of a rise is faster than a smaller one.
fn overlaps(rise: &[Point]) -> bool {
    let falls = |a: &Point, b: &Point| a.y > b.y * (1.0 + MIN_FALL + 4.0 * (a.sigma + b.sigma));
    rise.iter().enumerate().any(|(i, a)| rise[i..].iter().any(|b| falls(a, b)))
}

#[cfg(test)]
mod tests;
