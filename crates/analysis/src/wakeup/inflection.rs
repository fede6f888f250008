//! At which size a statistic changes: steps and ramps of p99.9 (or any other statistic) over size, and where to
//! measure next.
//!
//! Never on maxima: the largest jump of those is always somewhere. The logarithms of some repeats a size, which were
//! interleaved, lose what moved a whole repeat; their medians are split exactly into plateaus; each break has to be
//! one that chance does not make (permutations, with the break chosen again in each) and large enough to matter; and
//! what rises over several sizes is reported as a ramp.
//!
//! What the load does at each size, page faults in a second, is such a curve too, and hardly a noisy one. Where it
//! changes is known on any machine, and what latencies do there is reported whatever its size: nothing was chosen by them.

mod ramp;

use super::random::SeededRng;
use crate::interval::{Interval, median, median_interval, sorted};
use crate::tiers::Point;
use crate::tiers::segment::{Costs, partition};

/// Repeats a size that find a step of 15 % at p99.9 of 4000 activations in at least 90 of 100, by the test
/// `a_step_of_15_percent_is_found_where_it_is` in `crates/analysis/src/wakeup/tests/inflection.rs`.
pub const REPEATS: usize = 8;

/// What was measured at a size.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The size.
    pub bytes: u64,
    /// The statistic of each repeat, above 0 (us), or a rate (1/s). The n-th of each row are one repeat: of one time.
    pub repeats: Vec<f64>,
}

/// How a curve changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// At once: between two sizes next to each other.
    Step,
    /// Over several sizes.
    Ramp,
}

/// A change of the curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inflection {
    /// At once or over several sizes.
    pub kind: Kind,
    /// The last size before it, bytes.
    pub from: u64,
    /// The first size behind it, bytes.
    pub to: u64,
    /// What the statistic is behind it, relative to before (0.15 is 15 % more), with its 95 % interval.
    pub effect: Interval,
    /// Chance of such a change in the best place of as many sizes that are all alike, times the number of places.
    pub p: f64,
}

/// Why a curve is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Fewer than three sizes, or fewer than [`MIN_SIZES`] repeats at one of them.
    TooFew,
    /// Sizes that do not ascend, values that are not above 0, or rates below it.
    NotMeasured,
}

/// Below five repeats, no permutation of two sizes has a chance of less than 1 %. Of two sizes alone not even seven
/// say enough for [`SIGNIFICANCE`].
pub const MIN_SIZES: usize = 5;
/// A break is reported where chance makes one as clear, at any of the places where one could be, in fewer than 1 % of the
/// permutations (Bonferroni: the partition chose what is compared),
pub const SIGNIFICANCE: f64 = 0.01;
/// and where it is larger than 5 %: smaller ones exist and matter to nobody's deadline.
pub const EFFECT: f64 = 0.05;
/// A rate's break is reported where it surely doubles or halves: what comes with it is a part of what all the events cost,
/// and half of them are a small part. A worker whose block grows speeds up or slows down by half without a break anywhere.
pub const FACTOR: f64 = 2.0;
/// Permutations: ten expected beyond the limit at eleven sizes.
const PERMUTATIONS: usize = 10_000;
/// A break costs this times ln of the number of sizes. 3: under noise alone it is rare, and the permutations see to
/// the rest.
const PENALTY: f64 = 3.0;

/// What matters of a kind of values.
#[derive(Clone, Copy)]
struct Scale {
    /// Values below it are all alike.
    least: f64,
    /// The smallest effect that is reported,
    effect: f64,
    /// and what it has to be surely beyond.
    surely: f64,
    /// Least standard error of the logarithm of a median: values without any spread still have breaks, but none that
    /// are far below what is reported.
    floor: f64,
}

impl Scale {
    /// A model's latencies break where they differ by a hundredth of the effect told.
    const LATENCY: Scale = Scale { least: 0.0, effect: EFFECT, surely: 0.0, floor: EFFECT / 100.0 };

    /// Half of a rate's curve may have no spread (no events), while the other half has; so this one is coarser.
    fn rate(least: f64) -> Scale {
        Scale { least, effect: FACTOR - 1.0, surely: FACTOR - 1.0, floor: (FACTOR - 1.0) / 10.0 }
    }
}

/// The inflections of a curve, in order of size.
///
/// # Errors
/// Where there is too little, or what no logarithm can be taken of.
pub fn read(rows: &[Row], seed: u64) -> Result<Vec<Inflection>, Refusal> {
    scaled(rows, Scale::LATENCY, |v| v > 0.0, seed)
}

/// Where a rate surely changes by more than [`FACTOR`], in order of size. Rates below `least`, which is above 0, are as
/// good as none, and count as `least` in an inflection's `effect`.
///
/// # Errors
/// Where there is too little, or what is no rate.
pub fn rates(rows: &[Row], least: f64, seed: u64) -> Result<Vec<Inflection>, Refusal> {
    if !least.is_finite() || least <= 0.0 {
        return Err(Refusal::NotMeasured);
    }
    scaled(rows, Scale::rate(least), |v| v >= 0.0, seed)
}

/// By how much another statistic of the same repeats differs across an inflection, relative to before it, and in how
/// many repeats both sizes have it. Each repeat is compared with itself. The place was not chosen by this statistic, so
/// the interval says all that there is to say, and there is no least effect. `None` below [`MIN_SIZES`] repeats.
#[must_use]
pub fn across(rows: &[Row], change: &Inflection) -> Option<(Interval, usize)> {
    let of = |bytes: u64| rows.iter().find(|r| r.bytes == bytes).map(|r| &r.repeats);
    let (before, behind) = (of(change.from)?, of(change.to)?);
    let ratios = before.iter().zip(behind).map(|(a, b)| (b / a).ln());
    let logs: Vec<f64> = ratios.filter(|log| log.is_finite()).collect();
    let d = median_interval(&logs).filter(|_| logs.len() >= MIN_SIZES)?;
    Some((Interval { value: d.value.exp_m1(), low: d.low.exp_m1(), high: d.high.exp_m1() }, logs.len()))
}

fn scaled(
    rows: &[Row],
    scale: Scale,
    measured: fn(f64) -> bool,
    seed: u64,
) -> Result<Vec<Inflection>, Refusal> {
    if rows.len() < 3 || rows.iter().any(|r| r.repeats.len() < MIN_SIZES) {
        return Err(Refusal::TooFew);
    }
    let measured = |v: &f64| v.is_finite() && measured(*v);
    let ascending = rows.windows(2).all(|w| w[0].bytes < w[1].bytes) && rows[0].bytes > 0;
    if !ascending || !rows.iter().all(|r| r.repeats.iter().all(measured)) {
        return Err(Refusal::NotMeasured);
    }
    let curve = Curve::new(rows, scale);
    let mut chance = SeededRng::new(seed);
    let mut found = Vec::new();
    for group in curve.groups() {
        match ramp::better(&curve, &group) {
            Some(r) => found.extend(curve.inflection(Kind::Ramp, group.before, r, group.behind, &mut chance)),
            None => {
                let ends = [&[group.before], &group.breaks[..], &[group.behind]].concat();
                found.extend(
                    ends.windows(3).filter_map(|w| {
                        curve.inflection(Kind::Step, w[0], (w[1] - 1, w[1]), w[2], &mut chance)
                    }),
                );
            }
        }
    }
    Ok(found)
}

/// The logarithms, without what moved whole repeats.
struct Curve<'a> {
    rows: &'a [Row],
    scale: Scale,
    logs: Vec<Vec<f64>>,
    medians: Vec<f64>,
    /// Standard error of such a median.
    sigma: f64,
}

/// Breaks next to each other in one direction, and what lies round them: sizes from `before` up to, not including,
/// `behind`.
struct Group {
    before: usize,
    breaks: Vec<usize>,
    behind: usize,
}

impl Curve<'_> {
    fn new(rows: &[Row], scale: Scale) -> Curve<'_> {
        let mut logs: Vec<Vec<f64>> =
            rows.iter().map(|r| r.repeats.iter().map(|v| v.max(scale.least).ln()).collect()).collect();
        let most = logs.iter().map(Vec::len).max().unwrap_or(0);
        let centre: Vec<f64> = logs.iter().map(|l| median(l).unwrap_or(0.0)).collect();
        for r in 0..most {
            // A repeat that not all sizes have is not centred: its median would be one of other sizes.
            let off: Option<Vec<f64>> =
                logs.iter().zip(&centre).map(|(l, c)| l.get(r).map(|v| v - c)).collect();
            let Some(shift) = off.and_then(|off| median(&off)) else { continue };
            logs.iter_mut().for_each(|l| l[r] -= shift);
        }
        let medians: Vec<f64> = logs.iter().map(|l| median(l).unwrap_or(0.0)).collect();
        let sigma = error_of_median(&logs).max(scale.floor);
        Curve { rows, scale, logs, medians, sigma }
    }

    /// The breaks of the exact partition.
    fn groups(&self) -> Vec<Group> {
        let point = |(row, y): (&Row, &f64)| Point { x: row.bytes as f64, y: y.exp(), sigma: self.sigma };
        let points: Vec<Point> = self.rows.iter().zip(&self.medians).map(point).collect();
        let cost = PENALTY * (points.len() as f64).ln();
        let segments = partition(&points, 0.0, Costs { plateau: cost, ramp: None });
        let mut groups: Vec<(Group, bool)> = Vec::new();
        for pair in segments.windows(2) {
            let rises = pair[1].intercept > pair[0].intercept;
            match groups.last_mut() {
                Some((group, up)) if *up == rises => {
                    group.breaks.push(pair[1].first);
                    group.behind = pair[1].last + 1;
                }
                _ => groups.push((
                    Group { before: pair[0].first, breaks: vec![pair[1].first], behind: pair[1].last + 1 },
                    rises,
                )),
            }
        }
        groups.into_iter().map(|g| g.0).collect()
    }

    /// A change from the sizes `before..=at.0` to the sizes `at.1..behind`, if it is one.
    fn inflection(
        &self,
        kind: Kind,
        before: usize,
        at: (usize, usize),
        behind: usize,
        chance: &mut SeededRng,
    ) -> Option<Inflection> {
        let first = median_interval(&self.logs[before..=at.0].concat())?;
        let second = median_interval(&self.logs[at.1..behind].concat())?;
        let d = second.value - first.value;
        if d.abs() < self.scale.effect.ln_1p() {
            return None;
        }
        let places = (self.rows.len() - 1) as f64;
        let p = (permuted(&self.logs[before..behind], SIGNIFICANCE / places, chance) * places).min(1.0);
        let (below, above) = (
            (second.value - second.low).hypot(first.high - first.value),
            (second.high - second.value).hypot(first.value - first.low),
        );
        let effect = Interval { value: d.exp_m1(), low: (d - below).exp_m1(), high: (d + above).exp_m1() };
        let (from, to) = (self.rows[at.0].bytes, self.rows[at.1].bytes);
        // A fall to a half is as much as a doubling.
        let surely = self.scale.surely;
        let sure = effect.low > surely || effect.high < (-surely.ln_1p()).exp_m1();
        (p < SIGNIFICANCE && sure).then_some(Inflection { kind, from, to, effect, p })
    }
}

/// Standard error of the median of one size's logarithms, from the spread within sizes: the median over sizes, so
/// that a size with a spike in it does not count. A median's variance is pi / 2 times that of a mean.
fn error_of_median(logs: &[Vec<f64>]) -> f64 {
    let variance = |l: &Vec<f64>| {
        let n = l.len() as f64;
        let mean = l.iter().sum::<f64>() / n;
        l.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)
    };
    let variances: Vec<f64> = logs.iter().map(variance).collect();
    let n = median(&logs.iter().map(|l| l.len() as f64).collect::<Vec<_>>()).unwrap_or(1.0);
    // The median of chi-square over its degrees of freedom (Wilson and Hilferty).
    let typical = (1.0 - 2.0 / (9.0 * (n - 1.0))).powi(3);
    let variance = median(&variances).unwrap_or(0.0) / typical * core::f64::consts::FRAC_PI_2 / n;
    variance.sqrt()
}

/// The chance of a break as clear as the best one among these sizes, were they all alike: rank sums on both sides of
/// every place, as standard deviations from what chance expects, the largest of them; against the same of permutations,
/// as long as it may still be below `limit`.
fn permuted(logs: &[Vec<f64>], limit: f64, chance: &mut SeededRng) -> f64 {
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
        let (mut sum, mut from, mut most) = (0.0, 0, 0.0f64);
        for &end in &ends[..ends.len() - 1] {
            sum += ranks[from..end].iter().sum::<f64>();
            from = end;
            let m = end as f64;
            let spread = (m * (n - m) * (n + 1.0) / 12.0).sqrt();
            most = most.max((sum - m * (n + 1.0) / 2.0).abs() / spread);
        }
        most
    };
    let ours = clearest(&ranks) - 1e-9;
    let mut as_clear = 0;
    for done in 1..=PERMUTATIONS {
        chance.shuffle(&mut ranks);
        as_clear += usize::from(clearest(&ranks) >= ours);
        if as_clear as f64 >= 2.0 * limit * PERMUTATIONS as f64 {
            return as_clear as f64 / done as f64;
        }
    }
    (as_clear + 1) as f64 / (PERMUTATIONS + 1) as f64
}

/// The rank of each value from 1; equal ones share theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let ascending = sorted(values);
    let rank = |v: &f64| {
        let (below, up_to) = (ascending.partition_point(|a| a < v), ascending.partition_point(|a| a <= v));
        (below + up_to + 1) as f64 / 2.0
    };
    values.iter().map(rank).collect()
}

/// The sizes to measure next, so that each step is known to within `factor` (say 1.1): the geometric middle of the
/// sizes round it, in whole `granule` (say a page). Also the middle of a ramp that two neighbouring gaps could be: it
/// may be a step inside one of them. Nothing is left where it is empty.
#[must_use]
pub fn wanted(rows: &[Row], found: &[Inflection], factor: f64, granule: u64) -> Vec<u64> {
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
