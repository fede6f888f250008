//! Numbers of pages at which one line per page may conflict in a cache.
//!
//! The packed half of a TLB pair fills every cache evenly. The spread half does not where the number of sets is no power of
//! two, the index is hashed or frames are random: some sets overflow before the cache is full, and these misses look like
//! translation.

use super::translation::{Pair, hit_time, pair_points, read_pairs, tlb_steps};
use crate::scale::{At, Scale};
use fathom_analysis::interval::Interval;
use fathom_analysis::tiers::{MIN_PLATEAU_POINTS, Point, Reading, Tier, has_round_size};
use fathom_units::size;

/// Largest ratio of the lines in a set to their mean. With 8 lines on average in sets of 16 ways, 0.4 % of the sets of a random
/// placement overflow (binomial); with 10 lines, 3 %.
const MAX_UNEVENNESS: f64 = 2.0;
/// Largest possible cost of conflicts, as a share of the cost of translation.
const MAX_SHARE: f64 = 0.1;
/// Smallest rise of the packed half, as a share of its time: noise is no rise.
const MIN_RISE: f64 = 0.25;
/// Part of a cache that page tables occupy at most beside one line of each page: descriptors of 8 bytes, lines of 64 bytes.
const TABLE_SHARE: f64 = 0.125;

/// Returns the number of pairs, from the smallest, up to the last whose spread lines surely stay in the cache that holds the
/// packed ones, or lose little by leaving it.
fn without_conflicts(pairs: &[Pair], curve: &[At]) -> usize {
    let is_sure = |pair: &Pair| cost(pair, curve) <= MAX_SHARE * pair.extra;
    pairs.iter().rposition(is_sure).map_or(0, |last| last + 1)
}

/// Returns the largest cost of conflicts of a pair's lines, ns: that of leaving the cache that holds the packed ones.
pub(super) fn cost(pair: &Pair, curve: &[At]) -> f64 {
    if pair.two_lines.is_some() {
        return 0.0;
    }
    spread_cost(pair, curve)
}

/// The same of one line per page.
pub(super) fn spread_cost(pair: &Pair, curve: &[At]) -> f64 {
    let bytes = pair.packed.bytes as f64;
    slowest(curve, bytes, MAX_UNEVENNESS * bytes).map_or(0.0, |time| (time - pair.packed.time()).max(0.0))
}

/// Returns the longest time of the curve's points between two working sets, and of the next one after them.
fn slowest(curve: &[At], from: f64, to: f64) -> Option<f64> {
    let first = curve.partition_point(|at| (at.bytes as f64) < from);
    let end = curve.partition_point(|at| (at.bytes as f64) < to);
    curve.get(first..(end + 1).min(curve.len()))?.iter().map(At::time).reduce(f64::max)
}

/// Part of a cache from which on lines one page apart may overfill some of its sets, if their number is no power of two: the layout
/// (`chain::spread`) is even over powers of two only, and takes every second line. Over 5508 sets of 4 ways, 2 % of the lines are in
/// overfull sets at an eighth of the cache, and 5 % at a sixth (counted for that layout).
const OVERFILLED_FROM: f64 = 1.0 / 8.0;

/// Returns a note on a TLB of that many pages, at most, if their lines are in a cache whose sets are no power of two, and could overfill some
/// of them.
pub(super) fn in_odd_sets(pages: &Interval, curves: &Reading, scale: &Scale) -> Option<String> {
    let bytes = pages.high * scale.pair_stride() as f64;
    let holds = |end: &&Interval| end.value >= bytes;
    let ends: Vec<Interval> = curves.tiers.iter().filter_map(|tier| Some(tier.capacity?.onset)).collect();
    let tier =
        ends.iter().find(holds).filter(|end| bytes > OVERFILLED_FROM * end.value && !has_round_size(end))?;
    Some(format!(
        "the {} tier has a number of sets that is no power of two: lines one page apart may overfill some of them, which may cause \
         this step, not a TLB",
        size(tier.value)
    ))
}

/// TLB pairs read as tiers.
pub(crate) struct Translated {
    /// The tiers; `None` with too few pairs.
    pub(crate) reading: Option<Reading>,
    /// Pages beyond which conflicts of the lines may explain a step; infinite if nowhere.
    pub(crate) sure_to: f64,
    /// Pages of the pairs that were left out because their lines conflict.
    pub(crate) left_out: Vec<u64>,
}

/// Reads the pairs, on an exact machine (`share` 0) without those on humps, unless too few are left for what all of them show.
pub(crate) fn read(pairs: &[Pair], curve: &[At], share: f64) -> Translated {
    // Neighbours raise pairs, too; there single trials decide.
    let kept = if share == 0.0 { without_humps(pairs) } else { pairs.to_vec() };
    let found = read_kept(&kept, curve, share);
    if kept.len() == pairs.len() {
        return found;
    }
    let all = read_kept(pairs, curve, share);
    let [of_kept, of_all] = [&found, &all].map(|found| found.reading.as_ref());
    if let (Some(of_kept), Some(of_all)) = (of_kept, of_all)
        && tlb_steps(of_kept).len() == tlb_steps(of_all).len()
        && all_measured(of_all)
        && !all_measured(of_kept)
    {
        return all;
    }
    let is_left_out = |pages: &u64| kept.iter().all(|pair| pair.pages != *pages);
    Translated { left_out: pairs.iter().map(|pair| pair.pages).filter(is_left_out).collect(), ..found }
}

/// Reads the pairs: those without conflicts, if they show the same TLBs as all do, or those outside the rises of the packed
/// halves, if they show more.
fn read_kept(pairs: &[Pair], curve: &[At], share: f64) -> Translated {
    let left_out = Vec::new();
    let all = read_pairs(pairs, share);
    let tlbs = |reading: &Reading| tlb_steps(reading).len();
    let in_all = all.as_ref().map_or(0, tlbs);
    let sure = without_conflicts(pairs, curve);
    if sure == pairs.len() {
        let flat = (0..pairs.len()).filter(|&i| !on_a_rise(pairs, i)).map(|i| pairs[i].clone());
        let more = read_pairs(&flat.collect::<Vec<_>>(), share);
        let more = more.filter(|more| all_measured(more) && tlbs(more) > in_all);
        return Translated { reading: more.or(all), sure_to: f64::INFINITY, left_out };
    }
    let sure_to = pairs[..sure].last().map_or(0.0, |pair| pair.pages as f64);
    let last_measured = |cut: &Reading| tlb_steps(cut).last().is_some_and(|(_, tier)| is_measured(tier));
    let cut = read_pairs(&pairs[..sure], share).filter(|cut| last_measured(cut) && tlbs(cut) == in_all);
    Translated { reading: cut.or(all), sure_to, left_out }
}

/// Returns whether enough pairs show the latency beyond each TLB.
fn all_measured(reading: &Reading) -> bool {
    tlb_steps(reading).iter().all(|(_, tier)| is_measured(tier))
}

/// Returns whether enough pairs show the latency of a tier.
fn is_measured(tier: &Tier) -> bool {
    tier.points >= MIN_PLATEAU_POINTS
}

/// Returns whether a pair's packed half is on a rise that costs more than the translation: page tables beside the lines make the
/// spread half leave the cache earlier, and the difference of the halves says nothing there.
fn on_a_rise(pairs: &[Pair], i: usize) -> bool {
    let pair = &pairs[i];
    if pair.two_lines.is_some() {
        return false;
    }
    let before = pairs[..i].iter().rfind(|p| p.pages as f64 * (1.0 + TABLE_SHARE) <= pair.pages as f64);
    let rise = before.map_or(0.0, |p| pair.packed.time() - p.packed.time());
    rise > pair.extra.max(MIN_RISE * pair.packed.time())
}

/// Smallest deviation of a pair from those that never fall for which it is left out, as a share of their cost.
const MIN_DEVIATION: f64 = 0.25;
/// Fall from one pair to the next that is none, as a share of the cost: the caches hold more or less of the page tables.
const MAX_WAVE: f64 = 0.1;
/// Weight of a pair of the same lines in two orders, which conflicts do not change, in pairs of one line per page.
const TWO_LINES_WEIGHT: f64 = 4.0;

/// Returns the pairs without those that conflicts of their lines raise or lower.
fn without_humps(pairs: &[Pair]) -> Vec<Pair> {
    let Some(hit) = hit_time(pairs) else { return pairs.to_vec() };
    let weight = |pair: &Pair| if pair.two_lines.is_some() { TWO_LINES_WEIGHT } else { 1.0 };
    let weights: Vec<f64> = pairs.iter().map(weight).collect();
    never_falling(&pair_points(pairs, hit), &weights, hit).into_iter().map(|i| pairs[i].clone()).collect()
}

/// Returns whether the cost of `b` is below that of `a` by more than their errors and a share of it.
fn falls(a: &Point, b: &Point, hit: f64, share: f64) -> bool {
    a.y - b.y > Z * (a.sigma * a.y).hypot(b.sigma * b.y) + share * (a.y.min(b.y) - hit)
}

/// Returns which points of a translation curve to keep. More pages never cost less translation, so the largest number of points that
/// do not fall is right, and those far from them are wrong.
fn never_falling(points: &[Point], weights: &[f64], hit: f64) -> Vec<usize> {
    // The weight of the best sequence that ends at each point, and the point before it there.
    let mut best: Vec<(f64, Option<usize>)> = Vec::new();
    for (i, point) in points.iter().enumerate() {
        let before = (0..i).filter(|&j| !falls(&points[j], point, hit, MAX_WAVE));
        let before = before.max_by(|&a, &b| best[a].0.total_cmp(&best[b].0));
        best.push((weights[i] + before.map_or(0.0, |j| best[j].0), before));
    }
    let last = (0..points.len()).max_by(|&a, &b| best[a].0.total_cmp(&best[b].0));
    let mut chain: Vec<usize> = core::iter::successors(last, |&i| best[i].1).collect();
    chain.reverse();
    let fits = |i: &usize| {
        let at = chain.partition_point(|k| k < i);
        let far = |a: usize, b: usize| falls(&points[a], &points[b], hit, MIN_DEVIATION);
        let below = at.checked_sub(1).is_some_and(|at| far(chain[at], *i));
        let above = chain.get(at).is_some_and(|&next| far(*i, next));
        chain.get(at) == Some(i) || !(below || above)
    };
    (0..points.len()).filter(fits).collect()
}

/// Fall of the translation curve before a step, as a share of what the step adds, from which on the step may be none.
const MAX_FALL: f64 = 0.25;
/// Standard errors of both points by which they surely differ.
const Z: f64 = 3.0;

/// Returns a note on a TLB of that many pages if fewer pages take longer than some that are more: translation never does.
pub(super) fn after_a_fall(pairs: &[Pair], pages: f64, added: f64) -> Option<String> {
    let hit = hit_time(pairs)?;
    let points = pair_points(pairs, hit);
    let (high, low) = first_fall(points.iter().take_while(|p| p.x <= pages), MAX_FALL * added)?;
    Some(format!(
        "loads on {:.0} pages take {:.1} ns longer than those that hit, and on {:.0} pages {:.1} ns: lines one page apart conflict in a \
         cache, which may cause this step, not a TLB",
        high.x,
        high.y - hit,
        low.x,
        low.y - hit
    ))
}

/// Returns the ends of the first fall of more than `least` beyond the errors of both.
fn first_fall<'a>(points: impl Iterator<Item = &'a Point>, least: f64) -> Option<(&'a Point, &'a Point)> {
    let mut highest: Option<&Point> = None;
    for p in points {
        match highest {
            Some(high) if high.y > p.y => {
                let error = Z * (high.sigma * high.y).hypot(p.sigma * p.y);
                if high.y - p.y - error > least {
                    return Some((high, p));
                }
            }
            _ => highest = Some(p),
        }
    }
    None
}

/// Returns the note on a TLB whose reach ends beyond that number of pages.
pub(crate) fn note(sure_to: f64) -> String {
    format!(
        "beyond {sure_to:.0} pages, one line per page may overfill sets of the last cache: that may cause this step, not a TLB"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A TLB of 48 entries ends, at two ways; lines of 128 and 181 pages conflict in a cache, measured on a described machine.
    const HUMP: [(f64, f64); 14] = [
        (16.0, 3.0),
        (32.0, 3.0),
        (48.0, 3.0),
        (54.0, 5.3),
        (64.0, 10.2),
        (75.0, 16.1),
        (91.0, 16.1),
        (128.0, 45.3),
        (181.0, 3.0),
        (256.0, 10.4),
        (279.0, 16.1),
        (362.0, 16.1),
        (512.0, 16.0),
        (1024.0, 16.1),
    ];

    fn points(curve: &[(f64, f64)]) -> Vec<Point> {
        curve.iter().map(|&(x, y)| Point { x, y, sigma: 0.002, shared: 0.0 }).collect()
    }

    #[test]
    fn pairs_that_conflict_are_left_out() {
        let points = points(&HUMP);
        let kept = |weights: &[f64]| -> Vec<f64> {
            never_falling(&points, weights, 3.0).into_iter().map(|i| points[i].x).collect()
        };
        let conflict = [128.0, 181.0, 256.0];
        let others: Vec<f64> = HUMP.iter().map(|p| p.0).filter(|x| !conflict.contains(x)).collect();
        assert_eq!(kept(&[1.0; 14]), others);
        // What conflicts cannot change is right.
        let mut weights = [1.0; 14];
        weights[8] = 20.0;
        assert_eq!(kept(&weights), [16.0, 32.0, 48.0, 181.0, 256.0, 279.0, 362.0, 512.0, 1024.0]);
    }

    #[test]
    fn curves_that_do_not_fall_are_kept_whole() {
        let rising =
            points(&[(16.0, 3.0), (48.0, 3.0), (64.0, 10.0), (128.0, 16.0), (512.0, 15.4), (1024.0, 16.0)]);
        assert_eq!(never_falling(&rising, &[1.0; 6], 3.0).len(), 6, "a wave of a twentieth is none");
        assert_eq!(first_fall(rising.iter(), 0.25 * 13.0), None);
        let points = points(&HUMP);
        let fall = first_fall(points.iter(), 0.25 * 13.0).map(|(high, low)| (high.x, low.x));
        assert_eq!(fall, Some((128.0, 181.0)));
        assert_eq!(first_fall(points[..8].iter(), 0.25 * 13.0), None);
    }
}
