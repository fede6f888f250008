//! Change-points: steps and ramps of a statistic (for instance p99.9) over size, and the sizes to measure next.
//!
//! Not for maxima: their largest jump is always somewhere. The repeats of all sizes are interleaved. Their logarithms
//! are corrected for effects on whole repeats, and their medians are split exactly into plateaus. Each change must be
//! significant (permutations, with the change chosen again in each) and large enough to be relevant. A rise over
//! several sizes is reported as a ramp.
//!
//! The activity of the load at each size, page faults per second, is such a curve too, with little noise. Its changes
//! are found on any machine, and the change of latency there is reported regardless of its size, because the place was
//! not chosen by it.

mod ramp;

use super::random::SeededRng;
use crate::interval::{Interval, median, median_interval, sorted};
use crate::tiers::Point;
use crate::tiers::segment::{Costs, partition};

/// Number of repeats per size that detects a step of 15 % at p99.9 of 4000 activations in at least 90 of 100 runs, by
/// the test `step_of_15_percent_is_found_at_its_size` in `crates/analysis/src/wakeup/tests/changepoint.rs`.
pub const REPEATS: usize = 8;

/// Measurements at a size.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Size, bytes.
    pub bytes: u64,
    /// Statistic of each repeat, above 0 (us), or a rate (1/s). The n-th values of all rows belong to the same repeat.
    pub repeats: Vec<f64>,
}

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Between two adjacent sizes.
    Step,
    /// Over several sizes.
    Ramp,
}

/// A change-point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// Step or ramp.
    pub kind: Kind,
    /// Last size before the change, bytes.
    pub from: u64,
    /// First size after the change, bytes.
    pub to: u64,
    /// Relative change of the statistic (0.15 is 15 % more), with its 95 % interval.
    pub effect: Interval,
    /// p-value of such a change at the best place, times the number of places.
    pub p: f64,
}

/// Reason why a curve is not analysed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Fewer than three sizes, or fewer than [`MIN_SIZES`] repeats at one of them.
    TooFew,
    /// Sizes do not ascend, values are not above 0, or rates are negative.
    NotMeasured,
}

/// Smallest number of repeats: with fewer than five, no permutation of two sizes has a p-value below 1 %. With only two
/// sizes not even seven repeats suffice for [`SIGNIFICANCE`].
pub const MIN_SIZES: usize = 5;
/// Significance level of a change (permutation test, Bonferroni over the places, because the partition chose the
/// place).
pub const SIGNIFICANCE: f64 = 0.01;
/// Smallest reported relative change: 5 %; smaller ones are irrelevant to any deadline.
pub const EFFECT: f64 = 0.05;
/// Smallest reported factor of a rate: it must at least double or halve, because the change of latency is only a part
/// of the cost of all events. The speed of a worker with a growing block changes by half without any change-point.
pub const FACTOR: f64 = 2.0;
/// Number of permutations: ten are expected beyond the limit at eleven sizes.
const PERMUTATIONS: usize = 10_000;
/// Cost of a change in the partition, times ln of the number of sizes. With 3, changes from noise alone are rare; the
/// permutations reject the rest.
const CHANGE_PENALTY: f64 = 3.0;

/// Limits for a kind of values.
#[derive(Clone, Copy)]
struct Scale {
    /// Smaller values are treated as equal to it.
    min: f64,
    /// Smallest reported effect.
    effect: f64,
    /// Smallest bound of the effect's interval.
    min_bound: f64,
    /// Smallest standard error of the logarithm of a median: values without spread may have changes, but none far below
    /// the reported ones.
    floor: f64,
}

impl Scale {
    /// A model's latencies, without noise, are split at a hundredth of the smallest reported effect.
    const LATENCY: Scale = Scale { min: 0.0, effect: EFFECT, min_bound: 0.0, floor: EFFECT / 100.0 };

    /// Half of a rate's curve may have no spread (no events), so the limit is coarser.
    fn rate(min: f64) -> Scale {
        Scale { min, effect: FACTOR - 1.0, min_bound: FACTOR - 1.0, floor: (FACTOR - 1.0) / 10.0 }
    }
}

/// Returns the change-points of a curve, in order of size.
///
/// # Errors
/// If there are too few values, or values without a logarithm.
pub fn read(rows: &[Row], seed: u64) -> Result<Vec<ChangePoint>, Refusal> {
    scaled(rows, Scale::LATENCY, |v| v > 0.0, seed)
}

/// Returns the changes of a rate by more than [`FACTOR`], in order of size. Rates below `min`, which is above 0, count
/// as `min`.
///
/// # Errors
/// If there are too few values, or negative ones.
pub fn rates(rows: &[Row], min: f64, seed: u64) -> Result<Vec<ChangePoint>, Refusal> {
    if !min.is_finite() || min <= 0.0 {
        return Err(Refusal::NotMeasured);
    }
    scaled(rows, Scale::rate(min), |v| v >= 0.0, seed)
}

/// Returns the relative change of another statistic across a change-point, and the number of repeats in which both
/// sizes have it. Each repeat is compared with itself. The place was not chosen by this statistic, so no correction and
/// no smallest effect apply. `None` below [`MIN_SIZES`] repeats.
#[must_use]
pub fn across(rows: &[Row], change: &ChangePoint) -> Option<(Interval, usize)> {
    let of = |bytes: u64| rows.iter().find(|r| r.bytes == bytes).map(|r| &r.repeats);
    let (before, after) = (of(change.from)?, of(change.to)?);
    let ratios = before.iter().zip(after).map(|(a, b)| (b / a).ln());
    let logs: Vec<f64> = ratios.filter(|log| log.is_finite()).collect();
    let d = median_interval(&logs).filter(|_| logs.len() >= MIN_SIZES)?;
    Some((Interval { value: d.value.exp_m1(), low: d.low.exp_m1(), high: d.high.exp_m1() }, logs.len()))
}

fn scaled(
    rows: &[Row],
    scale: Scale,
    measured: fn(f64) -> bool,
    seed: u64,
) -> Result<Vec<ChangePoint>, Refusal> {
    if rows.len() < 3 || rows.iter().any(|r| r.repeats.len() < MIN_SIZES) {
        return Err(Refusal::TooFew);
    }
    let measured = |v: &f64| v.is_finite() && measured(*v);
    let ascending = rows.windows(2).all(|w| w[0].bytes < w[1].bytes) && rows[0].bytes > 0;
    if !ascending || !rows.iter().all(|r| r.repeats.iter().all(measured)) {
        return Err(Refusal::NotMeasured);
    }
    let curve = Curve::new(rows, scale);
    let mut rng = SeededRng::new(seed);
    let mut found = Vec::new();
    for group in curve.groups() {
        match ramp::better(&curve, &group) {
            Some(r) => found.extend(curve.changepoint(Kind::Ramp, group.before, r, group.after, &mut rng)),
            None => {
                let ends = [&[group.before], &group.breaks[..], &[group.after]].concat();
                found.extend(
                    ends.windows(3).filter_map(|w| {
                        curve.changepoint(Kind::Step, w[0], (w[1] - 1, w[1]), w[2], &mut rng)
                    }),
                );
            }
        }
    }
    Ok(found)
}

/// Logarithms, corrected for effects on whole repeats.
struct Curve<'a> {
    rows: &'a [Row],
    scale: Scale,
    logs: Vec<Vec<f64>>,
    medians: Vec<f64>,
    /// Standard error of a median.
    sigma: f64,
}

/// Adjacent changes in one direction, and their surroundings: sizes from `before` up to, not including, `after`.
struct Group {
    before: usize,
    breaks: Vec<usize>,
    after: usize,
}

impl Curve<'_> {
    fn new(rows: &[Row], scale: Scale) -> Curve<'_> {
        let mut logs: Vec<Vec<f64>> =
            rows.iter().map(|r| r.repeats.iter().map(|v| v.max(scale.min).ln()).collect()).collect();
        let max_repeats = logs.iter().map(Vec::len).max().unwrap_or(0);
        let centre: Vec<f64> = logs.iter().map(|l| median(l).unwrap_or(0.0)).collect();
        for r in 0..max_repeats {
            // A repeat that is missing at some sizes is not centred, because its median would be that of other sizes.
            let off: Option<Vec<f64>> =
                logs.iter().zip(&centre).map(|(l, c)| l.get(r).map(|v| v - c)).collect();
            let Some(shift) = off.and_then(|off| median(&off)) else { continue };
            logs.iter_mut().for_each(|l| l[r] -= shift);
        }
        let medians: Vec<f64> = logs.iter().map(|l| median(l).unwrap_or(0.0)).collect();
        let sigma = error_of_median(&logs).max(scale.floor);
        Curve { rows, scale, logs, medians, sigma }
    }

    /// Returns the changes of the exact partition, grouped by direction.
    fn groups(&self) -> Vec<Group> {
        let point = |(row, y): (&Row, &f64)| Point {
            x: row.bytes as f64,
            y: y.exp(),
            sigma: self.sigma,
            shared: 0.0,
        };
        let points: Vec<Point> = self.rows.iter().zip(&self.medians).map(point).collect();
        let cost = CHANGE_PENALTY * (points.len() as f64).ln();
        let segments = partition(&points, 0.0, Costs { plateau: cost, ramp: None });
        let mut groups: Vec<(Group, bool)> = Vec::new();
        for pair in segments.windows(2) {
            let rises = pair[1].intercept > pair[0].intercept;
            match groups.last_mut() {
                Some((group, up)) if *up == rises => {
                    group.breaks.push(pair[1].first);
                    group.after = pair[1].last + 1;
                }
                _ => groups.push((
                    Group { before: pair[0].first, breaks: vec![pair[1].first], after: pair[1].last + 1 },
                    rises,
                )),
            }
        }
        groups.into_iter().map(|g| g.0).collect()
    }

    /// Returns the change from the sizes `before..=at.0` to the sizes `at.1..after`, if it is significant.
    fn changepoint(
        &self,
        kind: Kind,
        before: usize,
        at: (usize, usize),
        after: usize,
        rng: &mut SeededRng,
    ) -> Option<ChangePoint> {
        let first = median_interval(&self.logs[before..=at.0].concat())?;
        let second = median_interval(&self.logs[at.1..after].concat())?;
        let d = second.value - first.value;
        if d.abs() < self.scale.effect.ln_1p() {
            return None;
        }
        let places = (self.rows.len() - 1) as f64;
        let p = (permuted(&self.logs[before..after], SIGNIFICANCE / places, rng) * places).min(1.0);
        let (below, above) = (
            (second.value - second.low).hypot(first.high - first.value),
            (second.high - second.value).hypot(first.value - first.low),
        );
        let effect = Interval { value: d.exp_m1(), low: (d - below).exp_m1(), high: (d + above).exp_m1() };
        let (from, to) = (self.rows[at.0].bytes, self.rows[at.1].bytes);
        // Halving counts as much as doubling.
        let min_bound = self.scale.min_bound;
        let sure = effect.low > min_bound || effect.high < (-min_bound.ln_1p()).exp_m1();
        (p < SIGNIFICANCE && sure).then_some(ChangePoint { kind, from, to, effect, p })
    }
}

/// Returns the standard error of the median of one size's logarithms, from the spread within sizes: the median over
/// sizes, so that a size with a spike does not count. A median's variance is pi / 2 times that of a mean.
fn error_of_median(logs: &[Vec<f64>]) -> f64 {
    let variance = |l: &Vec<f64>| {
        let n = l.len() as f64;
        let mean = l.iter().sum::<f64>() / n;
        l.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)
    };
    let variances: Vec<f64> = logs.iter().map(variance).collect();
    let n = median(&logs.iter().map(|l| l.len() as f64).collect::<Vec<_>>()).unwrap_or(1.0);
    // Median of chi-squared over its degrees of freedom (Wilson and Hilferty).
    let typical = (1.0 - 2.0 / (9.0 * (n - 1.0))).powi(3);
    let variance = median(&variances).unwrap_or(0.0) / typical * core::f64::consts::FRAC_PI_2 / n;
    variance.sqrt()
}

/// Returns the p-value of the most significant change among these sizes. The statistic is the largest standardised rank
/// sum over all places, compared with that of permutations; stops early if the p-value is clearly above `limit`.
fn permuted(logs: &[Vec<f64>], limit: f64, rng: &mut SeededRng) -> f64 {
    let mut ranks = ranks(&logs.concat());
    let ends: Vec<usize> = logs
        .iter()
        .scan(0, |sum, l| {
            *sum += l.len();
            Some(*sum)
        })
        .collect();
    let n = ranks.len() as f64;
    let clearest = |ranks: &[f64]| {
        let (mut sum, mut from, mut max) = (0.0, 0, 0.0f64);
        for &end in &ends[..ends.len() - 1] {
            sum += ranks[from..end].iter().sum::<f64>();
            from = end;
            let m = end as f64;
            let spread = (m * (n - m) * (n + 1.0) / 12.0).sqrt();
            max = max.max((sum - m * (n + 1.0) / 2.0).abs() / spread);
        }
        max
    };
    let ours = clearest(&ranks) - 1e-9;
    let mut as_clear = 0;
    for done in 1..=PERMUTATIONS {
        rng.shuffle(&mut ranks);
        as_clear += usize::from(clearest(&ranks) >= ours);
        if as_clear as f64 >= 2.0 * limit * PERMUTATIONS as f64 {
            return as_clear as f64 / done as f64;
        }
    }
    (as_clear + 1) as f64 / (PERMUTATIONS + 1) as f64
}

/// Returns the rank of each value from 1; equal values share theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let ascending = sorted(values);
    let rank = |v: &f64| {
        let (below, up_to) = (ascending.partition_point(|a| a < v), ascending.partition_point(|a| a <= v));
        (below + up_to + 1) as f64 / 2.0
    };
    values.iter().map(rank).collect()
}

/// Returns the sizes to measure next, so that each step is located within `factor` (for instance 1.1): the geometric
/// mean of the sizes around it, rounded to `granule` (for instance a page). Ramps over two adjacent gaps are refined
/// too, because they may be a step inside one of them.
#[must_use]
pub fn next_sizes(rows: &[Row], found: &[ChangePoint], factor: f64, granule: u64) -> Vec<u64> {
    let granule = granule.max(1);
    let mut next: Vec<u64> = Vec::new();
    for change in found {
        let inside = rows.iter().filter(|r| r.bytes > change.from && r.bytes < change.to);
        let mut ends = vec![change.from];
        ends.extend(inside.map(|r| r.bytes));
        ends.push(change.to);
        if change.kind == Kind::Ramp && ends.len() > 3 {
            continue;
        }
        for gap in ends.windows(2).filter(|g| g[1] as f64 > g[0] as f64 * factor.max(1.0)) {
            let middle = (gap[0] as f64 * gap[1] as f64).sqrt();
            let bytes = (middle / granule as f64).round() as u64 * granule;
            if bytes > gap[0] && bytes < gap[1] {
                next.push(bytes);
            }
        }
    }
    next.sort_unstable();
    next.dedup();
    next
}
