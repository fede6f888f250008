//! Tiers of a latency curve: plateaus, and the capacities between them.
//!
//! Three steps, each checked by the next. [`segment`] splits the curve into plateaus and ramps, exactly (dynamic
//! programming over all splits). A capacity may end where a flatter piece is followed by a steeper one. [`fit`]
//! explains the whole curve as a stack of caches, each with its miss curve, and drops every candidate that explains
//! nothing. (A cyclic walk over more lines than fit misses in a way that depends on ways and replacement, see
//! [`shape`].) Last, each capacity is bracketed by measured points: the largest working set without a rise above the
//! fit without it, and the smallest with one.
//!
//! The curve may be latency over bytes or translation cost over pages; the code is the same for both.

mod bracket;
pub mod bursts;
mod doubt;
pub mod fit;
mod memo;
mod plateau;
pub mod ramps;
pub mod segment;
pub mod shape;

use crate::interval::Interval;
use bracket::bracket;
use fit::{Boundary, Fit};
use memo::Memo;

/// A measured point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Working set (bytes, or pages).
    pub x: f64,
    /// Latency, any unit, above 0.
    pub y: f64,
    /// Relative standard error.
    pub sigma: f64,
    /// The part of it that neighbouring points share, as of a translation or open rows that were subtracted: they differ by less.
    pub shared: f64,
}

impl Point {
    /// Returns the relative standard error that it does not share with its neighbours.
    fn own(&self) -> f64 {
        (self.sigma.powi(2) - self.shared.powi(2)).max(0.0).sqrt()
    }
}

/// Options of a reading. The defaults are those of a latency curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Smallest ratio between two successive tiers; below it they are one tier. 1.25: successive levels of the machines
    /// described here differ by at least 1.3, while noise and open rows cause up to 1.2.
    pub min_ratio: f64,
    /// Smallest relative error of every point, for deviations from the shapes. 0.5 %.
    pub floor: f64,
    /// Smallest relative rise; larger if the noise is larger. 0.25 %.
    pub rise: f64,
    /// Smallest rise as a share of the step, 0 to 1. 0 if only the walk uses the caches. On hardware the stack,
    /// interrupts and other software use lines too, so some lines of the walk miss long before the capacity is full.
    pub share: f64,
    /// The latency of a plateau is taken from its beginning up to this factor. Latency curve: up to the tier's end.
    /// Translation curve: only the nearest points, because page tables themselves leave the caches at larger sizes.
    pub span: f64,
    /// Working set from which on no load hits in any cache, because all of them are first loads of their lines; infinite if every lap was
    /// walked before.
    pub first_loads: f64,
}

impl Options {
    /// Returns whether they are of the latency curve of a machine without other users.
    fn is_exact(&self) -> bool {
        self.share == 0.0 && self.span.is_infinite()
    }

    /// Returns the working set that has as many misses after laps: an infinite one, if all loads are first loads.
    fn walked(&self, bytes: f64) -> f64 {
        if bytes >= self.first_loads { f64::INFINITY } else { bytes }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            min_ratio: 1.25,
            floor: 0.005,
            rise: 0.0025,
            share: 0.0,
            span: f64::INFINITY,
            first_loads: f64::INFINITY,
        }
    }
}

/// End of a tier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Onset of the rise, with its interval.
    pub onset: Interval,
    /// Largest measured working set without a rise.
    pub below: f64,
    /// Smallest measured working set with a rise.
    pub above: f64,
    /// Miss curve that fits the rise best.
    pub shape: shape::Shape,
    /// Whether the rise is that of a single cache, within the errors of its points.
    pub explained: bool,
    /// Whether the interval is that of a wide rise (see [`ramps`]): more points do not narrow it.
    pub wide_rise: bool,
    /// Number of trials beyond it that fitted because an entry of the TLB covered several pages (see [`bursts`]).
    pub covered: usize,
}

/// A range of working sets whose latency is statistically one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tier {
    /// Latency, with its interval.
    pub latency: Interval,
    /// End of the tier; `None` for the last one.
    pub capacity: Option<Capacity>,
    /// Number of points that determine its latency: those on its plateau or, if there are too few, on the rise to it.
    pub points: usize,
    /// Number of points on its plateau.
    pub on_plateau: usize,
    /// Smallest working set on its plateau; infinite if none was measured.
    pub begin: f64,
}

/// Tiers read from a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Tiers, nearest first; at least one.
    pub tiers: Vec<Tier>,
    /// Relative scatter of the points about the fit.
    pub scatter: f64,
    /// Whether the curve ends on a plateau. If not, the last tier's latency is a lower bound.
    pub flat_end: bool,
    /// Remarks, for instance on steps that were merged.
    pub notes: Vec<String>,
}

/// Ratio of the ends of a bracket from which on it is halved: two octaves.
const VERY_WIDE: f64 = 4.0;
/// Multiple of the resolution to which a rise is searched for the point at which the capacity is surely exceeded.
const COARSE: f64 = 3.0;

impl Reading {
    /// Returns working sets that would give each plateau but the first enough points, `span` times its beginning long at
    /// most.
    #[must_use]
    pub fn plateau_points(&self, span: f64) -> Vec<f64> {
        let mut xs = Vec::new();
        for pair in self.tiers.windows(2) {
            let (Some(before), tier) = (pair[0].capacity, &pair[1]) else { continue };
            if tier.on_plateau >= MIN_PLATEAU_POINTS {
                continue;
            }
            let begin = if tier.begin.is_finite() { tier.begin } else { 1.5 * before.above };
            let end = tier.capacity.map_or(f64::INFINITY, |c| c.below);
            let steps = MIN_PLATEAU_POINTS + 1;
            let at = |i: usize| begin * span.powf((i as f64 - 0.5) / steps as f64);
            xs.extend((1..=steps).map(at).filter(|x| *x < end));
        }
        xs
    }

    /// Returns the working sets that would narrow the reading most: `each` points inside every capacity's bracket that
    /// is wider than `resolution` (relative), nearest tier first, and between its end and that of the interval. One point
    /// halves a very wide bracket first, because its larger working sets cost most.
    #[must_use]
    pub fn refinement_points(&self, resolution: f64, each: usize) -> Vec<f64> {
        let mut xs = Vec::new();
        let mut narrow = |from: f64, to: f64, resolution: f64| {
            let width = (to / from).ln();
            if width > (1.0 + resolution).ln() {
                let each = if width > VERY_WIDE.ln() { 1 } else { each };
                let step = width / (each + 1) as f64;
                xs.extend((1..=each).map(|i| from * (step * i as f64).exp()));
            }
        };
        for capacity in self.tiers.iter().filter_map(|t| t.capacity) {
            narrow(capacity.below, capacity.above, resolution);
            if !capacity.wide_rise {
                narrow(capacity.above, capacity.onset.high, COARSE * resolution);
            }
        }
        xs
    }
}

/// Smallest ratio of the sizes of successive levels of a cache that holds copies of the nearer one's lines.
pub const MIN_LEVEL_RATIO: f64 = 2.0;

pub use doubt::hiding_gaps;

/// Largest odd factor of the size of a cache whose sets are a power of two: its ways.
const MAX_ODD: u64 = 15;

/// Returns whether a power of two times a number of ways is in this interval, in bytes. Other sizes are those of levels whose number of
/// sets is no power of two.
#[must_use]
pub fn has_round_size(bytes: &Interval) -> bool {
    let odd = (1..=MAX_ODD).step_by(2);
    let powers = (0..48).map(|power| 1u64 << power);
    odd.flat_map(|odd| powers.clone().map(move |power| (power * odd) as f64))
        .any(|size| bytes.low <= size && size <= bytes.high)
}

/// Reads the tiers of a curve. Points may be in any order; the caller must have joined points with equal `x`. `None` if
/// there are fewer than three points.
#[must_use]
pub fn read(points: &[Point], options: &Options) -> Option<Reading> {
    // Values that no clock can measure (a damaged record) would overflow the arithmetic below.
    let measurable = |v: f64| v > 1e-9 && v < 1e18;
    let mut points: Vec<Point> =
        points.iter().copied().filter(|p| measurable(p.x) && measurable(p.y) && p.sigma >= 0.0).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    if points.len() < 3 {
        return None;
    }
    Some(
        KNOWN
            .with(|known| known.get((points, *options), |(points, options)| read_ascending(points, options))),
    )
}

thread_local! {
    static KNOWN: Memo<(Vec<Point>, Options), Reading> = const { Memo::new() };
}

/// Reads the tiers of three or more ascending points.
fn read_ascending(points: &[Point], options: &Options) -> Reading {
    let segments = segment::segment(points, options.floor);
    let mut candidates = segment::onsets(points, &segments, options.min_ratio);
    if options.span.is_finite() {
        candidates.extend(segment::slow_rises(points, &segments, options.min_ratio, fit::MIN_ONSET_RATIO));
        candidates.sort_by(f64::total_cmp);
        candidates.dedup();
    }
    read_from(points, &candidates, options, usize::MAX)
}

/// Reads the tiers of ascending points, starting from capacities near `candidates`. Of more than `most` none are merged afterwards: the fit found again
/// what was removed.
fn read_from(points: &[Point], candidates: &[f64], options: &Options, most: usize) -> Reading {
    let fit = Fit::new(points, candidates, options);
    let mut notes = Vec::new();
    if candidates.len() > fit.boundaries.len() {
        notes.push(format!(
            "{} of {} candidate tiers were not significant and were merged",
            candidates.len() - fit.boundaries.len(),
            candidates.len()
        ));
    }
    let mut tiers: Vec<Tier> = (0..=fit.boundaries.len()).map(|i| tier(points, &fit, i, options)).collect();
    let exact = options.is_exact();
    if exact {
        doubt::widen(&mut tiers, points);
    }
    for peeled in &fit.peeled {
        let latency = &mut tiers[peeled.tier].latency;
        (latency.low, latency.high) = (latency.low.min(peeled.low), latency.high.max(peeled.high));
    }
    notes.extend(doubt::notes(&tiers, &fit, points, exact));
    if let Some(indistinct) = indistinct_step(&tiers).filter(|_| fit.boundaries.len() <= most) {
        // The fit separated two capacities that the points do not separate: one is removed.
        let others = fit.boundaries.iter().enumerate().filter(|(b, _)| *b != indistinct);
        let rest: Vec<f64> = others.map(|(_, b)| b.onset).collect();
        let mut reading = read_from(points, &rest, options, rest.len());
        if reading.tiers.len() < tiers.len() {
            reading.notes.push(format!(
                "two steps near {} were merged into one",
                fathom_units::size(fit.boundaries[indistinct].onset)
            ));
            return reading;
        }
    }
    let flat_end = ends_flat(points, &fit, options);
    Reading { tiers, scatter: fit.scatter, flat_end, notes }
}

/// Returns the boundary to remove if two capacities are less than a quarter of an octave apart: the one with the
/// smaller step.
fn indistinct_step(tiers: &[Tier]) -> Option<usize> {
    let close = |pair: &[Tier]| match (pair[0].capacity, pair[1].capacity) {
        (Some(a), Some(b)) => b.onset.value < QUARTER_OCTAVE * a.onset.value,
        _ => false,
    };
    let first = tiers.windows(2).position(close)?;
    let step = |i: usize| tiers[i + 1].latency.value / tiers[i].latency.value;
    Some(if step(first) < step(first + 1) { first } else { first + 1 })
}

/// Ratio of working sets a quarter of an octave apart, which successive points may be: a little less than 2^(1/4).
const QUARTER_OCTAVE: f64 = 1.189;

/// Smallest share of misses of a point that counts as wholly beyond a capacity: the remaining hits change a latency by
/// less than the points' minimum error.
const MIN_BEYOND_MISSES: f64 = 0.995;

/// Smallest number of points of a short plateau: fewer give no interval.
pub const MIN_PLATEAU_POINTS: usize = 3;

/// The last tier is read from working sets within this factor of the largest: three octaves.
const LAST_TIER_RANGE: f64 = 8.5;

fn tier(points: &[Point], fit: &Fit, i: usize, options: &Options) -> Tier {
    let capacity = (i < fit.boundaries.len()).then(|| bracket(points, fit, i, options));
    let end = capacity.map_or(f64::INFINITY, |c: Capacity| c.below);
    let begun = |x: f64| {
        i.checked_sub(1).is_none_or(|b| {
            let b = fit.boundaries[b];
            // If only the beginning of a plateau is used, it must not include the end of the rise.
            let margin = if options.span.is_finite() { 1.15 } else { 1.0 };
            b.shape.misses(options.walked(x) / b.onset / margin) > MIN_BEYOND_MISSES
        })
    };
    let begin = points.iter().find(|p| begun(p.x)).map_or(f64::INFINITY, |p| p.x);
    // The first tier begins where the curve does, so `span` does not apply. The last one, if read to its end, is read
    // far from its beginning, because open rows and the last hits of random replacement vanish only there.
    let top = points[points.len() - 1].x;
    let (begin, end) = match i {
        0 => (begin, end),
        _ if end > top && options.span.is_infinite() => (begin.max(top / LAST_TIER_RANGE), end),
        _ => (begin, end.min(begin * options.span)),
    };
    let on: Vec<Point> = points.iter().filter(|p| p.x >= begin && p.x <= end).copied().collect();
    if i > 0 && options.span.is_finite() {
        let nearly_on = || {
            less_hits(points, fit, i, (capacity?.onset.low, NEARLY_ALL_MISS))
                .filter(|points| are_level(points))
        };
        let (count, latency) = plateau::short(&on, options.floor)
            .or_else(|| plateau::short(&nearly_on()?, options.floor))
            .unwrap_or_else(|| {
                fitted(points, fit, (i, capacity.map_or(f64::INFINITY, |c| c.below)), options.floor)
            });
        let from = fit.boundaries[i - 1].onset;
        let latency = match capacity {
            _ if options.share > 0.0 => latency,
            Some(end) => plateau::with_flat_parts(latency, points, (from, end.below)),
            None => plateau::with_faster_parts(latency, points, PLATEAU_BY * from),
        };
        return Tier { latency, capacity, points: count, on_plateau: on.len(), begin };
    }
    let plateau = by_octave_thirds(on.iter());
    // A measured plateau is used directly. If the rise to a tier continues until the next one begins, there is none,
    // and the latency is extrapolated from the shape of the rise.
    let latency = match crate::interval::median_interval(&plateau) {
        Some(direct) if plateau.len() >= 2 => direct,
        _ => flat_run(points, fit, i, end)
            .or_else(|| under_way(points, fit, i, end))
            .unwrap_or_else(|| fit.latency(i)),
    };
    // Placements and windows differ by up to the points' smallest error; half of it is random.
    let latency = widened(latency, options.floor / 2.0, plateau.len());
    // Trials of equal length end at the same part of a step of a coarse clock: more of them do not reduce that error. One standard error, because it is
    // that of a whole step.
    let least = on.iter().map(|p| p.own()).fold(f64::INFINITY, f64::min);
    let latency =
        if options.is_exact() && least.is_finite() { widened(latency, least / 1.96, 1) } else { latency };
    Tier { latency, capacity, points: plateau.len(), on_plateau: plateau.len(), begin }
}

/// Returns an interval with the additional relative standard error `floor` of each of `points` points.
fn widened(i: Interval, floor: f64, points: usize) -> Interval {
    let more = 1.96 * floor * i.value / (points.max(1) as f64).sqrt();
    Interval {
        value: i.value,
        low: i.value - (i.value - i.low).hypot(more),
        high: i.value + (i.high - i.value).hypot(more),
    }
}

/// Returns the number of points between the onset of tier `i` and `end`, and the latency that the fit derives from them.
fn fitted(points: &[Point], fit: &Fit, (i, end): (usize, f64), floor: f64) -> (usize, Interval) {
    let onset = i.checked_sub(1).map_or(0.0, |b| fit.boundaries[b].onset);
    let inside = || points.iter().filter(|p| p.x > onset && p.x <= end);
    let count = inside().count();
    (count, widened(widened(fit.latency(i), floor, count), shared(inside()), 1))
}

/// Returns the median of the relative standard errors that points share: more of them do not reduce it.
fn shared<'a>(points: impl Iterator<Item = &'a Point>) -> f64 {
    crate::interval::median(&points.map(|p| p.shared).collect::<Vec<_>>()).unwrap_or(0.0)
}

/// Returns one value per third of an octave that has points. The search for an end puts many points there, and a
/// plateau should be weighted by its length, not by its points.
fn by_octave_thirds<'a>(points: impl Iterator<Item = &'a Point>) -> Vec<f64> {
    let mut thirds: Vec<(i64, Vec<f64>)> = Vec::new();
    for p in points {
        let third = (3.0 * p.x.log2()).round() as i64;
        match thirds.last_mut() {
            Some((last, values)) if *last == third => values.push(p.y),
            _ => thirds.push((third, vec![p.y])),
        }
    }
    thirds.iter().filter_map(|(_, values)| crate::interval::median(values)).collect()
}

/// Returns the latency of the longest flat run of measured points in tier `i`, with at least three points over a
/// quarter of an octave: it is a plateau regardless of the shape of the rise before it.
fn flat_run(points: &[Point], fit: &Fit, i: usize, end: f64) -> Option<Interval> {
    let from = fit.boundaries[i.checked_sub(1)?].onset;
    let inside: Vec<&Point> = points.iter().filter(|p| p.x > from && p.x <= end).collect();
    let flat = |run: &[&Point]| {
        let ys: Vec<f64> = run.iter().map(|p| p.y).collect();
        let level = crate::interval::median(&ys).unwrap_or(0.0);
        run.iter().all(|p| (p.y / level - 1.0).abs() <= 0.0025 + 2.0 * p.sigma)
    };
    let longest = (0..inside.len())
        .flat_map(|a| (a + 3..=inside.len()).map(move |b| (a, b)))
        .filter(|&(a, b)| inside[b - 1].x >= QUARTER_OCTAVE * inside[a].x && flat(&inside[a..b]))
        .max_by(|&(a, b), &(c, d)| {
            (inside[b - 1].x / inside[a].x).total_cmp(&(inside[d - 1].x / inside[c].x))
        })?;
    crate::interval::median_interval(&by_octave_thirds(inside[longest.0..longest.1].iter().copied()))
}

/// Returns the latency of a tier without a plateau: from the points in the last octave before its end, less the hits
/// that the previous boundary still has there according to its shape.
fn under_way(points: &[Point], fit: &Fit, i: usize, end: f64) -> Option<Interval> {
    let whole = less_hits(points, fit, i, (end, 0.5))?;
    crate::interval::median_interval(&whole.iter().map(|p| p.y).collect::<Vec<_>>())
}

/// Ratio of working sets from a capacity on which the points are on the plateau beyond it.
const PLATEAU_BY: f64 = 2.0;

/// Smallest share of misses of points that are nearly on a plateau. With random replacement it is reached at 2.6 capacities, and that of a
/// plateau at 5.3.
const NEARLY_ALL_MISS: f64 = 0.9;

/// Largest relative difference of such points: page tables that leave a cache add more and more. Those of a TLB of 72
/// entries with random replacement differ by 1.2 % (wide generator, seed 570414).
const NEARLY_LEVEL: f64 = 0.04;

/// Returns whether points take nearly as long.
fn are_level(points: &[Point]) -> bool {
    let (least, most) = points.iter().fold((f64::INFINITY, 0.0f64), |(a, b), p| (a.min(p.y), b.max(p.y)));
    most <= (1.0 + NEARLY_LEVEL) * least
}

/// Returns the points in the last octave before the end of tier `i` of whose loads more than that share miss according to the shape of the
/// previous boundary: if all of them did.
fn less_hits(points: &[Point], fit: &Fit, i: usize, (end, share): (f64, f64)) -> Option<Vec<Point>> {
    let before = fit.boundaries[i.checked_sub(1)?];
    let nearer = fit.latency(i - 1).value;
    let inside = points.iter().filter(|p| p.x <= end && p.x > before.onset && p.x >= end / 2.0);
    let of = |p: &Point| (before.shape.misses(p.x / before.onset), *p);
    let whole = inside.map(of).filter(|(misses, _)| *misses > share);
    Some(whole.map(|(misses, p)| Point { y: (p.y - (1.0 - misses) * nearer) / misses, ..p }).collect())
}

/// Returns whether the rise at this boundary does not look like that of a single cache: its best shape is a gradual
/// one, or points on the rise deviate from the fit by far more than the minimum error.
fn spread_out(points: &[Point], fit: &Fit, boundary: &Boundary) -> bool {
    let on_rise = |p: &&Point| p.x > boundary.onset && p.x < 2.0 * boundary.onset;
    let off = |p: &Point| (p.y / fit.predict(p.x)).ln().abs() > 0.02 + 4.0 * p.sigma;
    matches!(boundary.shape, shape::Shape::Gradual(_)) || points.iter().filter(on_rise).any(off)
}

/// Smallest number of measured points of a plateau at the end of a curve.
const MIN_END_POINTS: usize = 3;
/// Largest relative difference between the points of a plateau at the end, in addition to four of their standard
/// errors: open rows and refresh cause up to 2 %.
const MAX_END_DEVIATION: f64 = 0.02;

/// Returns whether the curve has stopped rising at its last points: at least three points beyond the last boundary
/// differ by no more than their errors, and by its shape nearly all of their loads miss.
fn ends_flat(points: &[Point], fit: &Fit, options: &Options) -> bool {
    let beyond = |p: &&Point| {
        fit.boundaries.last().is_none_or(|b| b.shape.misses(options.walked(p.x) / b.onset) > 0.98)
    };
    let last: Vec<&Point> = points.iter().rev().take(MIN_END_POINTS).collect();
    let level = crate::interval::median(&last.iter().map(|p| p.y).collect::<Vec<_>>()).unwrap_or(0.0);
    let flat = |p: &&Point| (p.y / level - 1.0).abs() <= MAX_END_DEVIATION + 4.0 * p.sigma;
    last.len() == MIN_END_POINTS && last.iter().all(|p| flat(p) && beyond(p))
}

#[cfg(test)]
mod tests;
