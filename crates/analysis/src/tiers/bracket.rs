//! The end of a tier between measured points: the largest working set without a rise, and the smallest with one.

use super::fit::{Boundary, Fit};
use super::shape::Shape;
use super::{Capacity, Options, Point, spread_out};
use crate::interval::Interval;

/// Smallest share of the step beyond the end of a TLB that a rise of its pairs has to reach: a set of four ways of 1024 entries that is
/// overfull once causes half a percent, twenty such sets 10 %.
const MIN_TLB_SHARE: f64 = 0.1;
/// Ratio of numbers of pages over which it has to last.
const LASTING: f64 = 1.5;

/// Twice the relative error of a point of a machine without other users, beyond which it does not show that a working set fits: its
/// samples differ because some laps hit and others miss.
const MAX_UNSURE: f64 = 0.05;

/// Points on each side of one whose errors are joined with its own.
const NEAR: usize = 2;

/// Returns the bracket of boundary `b` by measured points, and the onset in it.
pub(super) fn bracket(points: &[Point], fit: &Fit, b: usize, options: &Options) -> Capacity {
    let Boundary { onset, shape } = fit.boundaries[b];
    let from = b.checked_sub(1).map_or(0.0, |a| fit.boundaries[a].onset);
    let to = fit.boundaries.get(b + 1).map_or(f64::INFINITY, |n| n.onset);
    let inside: Vec<&Point> = points.iter().filter(|p| p.x > from && p.x <= to).collect();
    // If the fitted onset is too high, risen points count as ground; each bracket gives a better onset for the next
    // iteration.
    let mut ground = onset;
    let step = fit.latency(b + 1).value / fit.predict_without(onset, b).max(f64::MIN_POSITIVE) - 1.0;
    let min_rise = options.rise.max(options.share * step);
    let (mut below, mut above, mut clear, mut threshold);
    loop {
        let (level, noise) = fit.level_below(points, b, ground);
        // The error of a point is estimated from the neighbours' scatter, because its own few samples estimate it badly. In
        // TLB pairs, differences of two times, it changes along the curve: beside a slow cache it is larger.
        let own =
            |p: &Point| if options.span.is_finite() { 3.0 * error_near(&inside, p.x) } else { 2.0 * p.sigma };
        let needed = |p: &Point| min_rise.max(4.0 * noise).max(own(p));
        let rise = |p: &Point| p.y / (level * fit.predict_without(p.x, b)) - 1.0;
        let risen = |p: &Point| rise(p) > needed(p);
        let first = edge(&inside, onset, risen);
        // Without a measured point on one side, the bracket ends at the neighbouring capacity or the end of the curve. A sample of part of a
        // lap is the difference of two parts: it may be too short where only some of the lines miss.
        let is_certain = |p: &&&Point| !options.is_exact() || own(p) <= MAX_UNSURE && rise(p) >= -needed(p);
        below = inside[..first].iter().rfind(is_certain).map_or(from.max(points[0].x), |p| p.x);
        let end = if to.is_finite() { to } else { points[points.len() - 1].x };
        above = inside.get(first).map_or(end, |p| p.x).max(below);
        let lasting = || first_lasting(&inside[first..], MIN_TLB_SHARE * step, rise).map_or(end, |p| p.x);
        clear = if options.span.is_finite() { lasting().max(above) } else { above };
        threshold = first.checked_sub(1).map_or(4.0 * noise, |i| needed(inside[i]));
        let lost = first == inside.len() && to.is_infinite() && ground > onset / 4.0;
        if lost {
            // Nothing rises above a ground with this much noise: it lies on the rise itself. Search at smaller sizes.
            ground /= 1.3;
        } else if below < ground {
            ground = below;
        } else {
            break;
        }
    }
    // A rise below the threshold may hide an overflow: the working set by which a cache can overflow before its misses
    // show, from the fitted miss curve, at most 2 %, or 10 % in TLB pairs, whose errors are larger. Twice that and a part in a
    // thousand are subtracted, because the shape is itself a fit; of caches at least what random replacement would hide.
    let (most, least) = if options.span.is_finite() { (100, shape) } else { (20, Shape::Random(8)) };
    let hides = |shape| hidden(shape, threshold, step, most);
    let low = below / (1.001 + (2.0 * hides(shape)).max(hides(least)));
    // Pairs of an exact machine that do not rise fit, whatever the shape of the rise beyond them.
    let fits = if options.span.is_finite() && options.share == 0.0 { below } else { low };
    let value = onset.max(fits).min(clear);
    Capacity {
        onset: Interval { value, low, high: clear },
        below,
        above,
        shape,
        explained: !spread_out(points, fit, &fit.boundaries[b]),
        wide_rise: false,
        covered: 0,
    }
}

/// Returns the first of these points whose rise is more than `least` and lasts. In TLB pairs page tables that leave a cache cause small rises, and
/// conflicts some that do not last.
fn first_lasting<'a>(points: &[&'a Point], least: f64, rise: impl Fn(&Point) -> f64) -> Option<&'a Point> {
    let lasts = |i: &usize| {
        let mut near = points[*i..].iter().take_while(|p| p.x < LASTING * points[*i].x);
        rise(points[*i]) > least && near.all(|p| rise(p) > least / 2.0)
    };
    (0..points.len()).find(lasts).map(|i| points[i])
}

/// Returns the relative standard error of the points near `x`: the root of the mean square.
fn error_near(points: &[&Point], x: f64) -> f64 {
    let i = points.partition_point(|p| p.x < x);
    let near = &points[i.saturating_sub(NEAR)..(i + NEAR + 1).min(points.len())];
    (near.iter().map(|p| p.sigma.powi(2)).sum::<f64>() / near.len().max(1) as f64).sqrt()
}

/// Searches from the fitted onset: down to the last point without a rise, then up to the first with one. At smaller
/// sizes, where the curve still rises to this tier, the fit is not accurate enough.
fn edge(inside: &[&Point], onset: f64, risen: impl Fn(&Point) -> bool) -> usize {
    let mut first = inside.partition_point(|p| p.x <= onset);
    while first > 0 && risen(inside[first - 1]) {
        first -= 1;
    }
    while first < inside.len() && !risen(inside[first]) {
        first += 1;
    }
    first
}

/// Returns the largest relative overflow, up to `most` thousandths, whose rise stays below `threshold`, for a step of relative
/// height `step`.
pub(super) fn hidden(shape: Shape, threshold: f64, step: f64, most: u16) -> f64 {
    let part = |i: u16| f64::from(i) * 1e-3;
    (1..=most).map(part).find(|d| shape.misses(1.0 + d) * step > threshold).unwrap_or(part(most))
}
