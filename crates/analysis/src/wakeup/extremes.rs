//! How late once an hour: peaks over a threshold and the generalised Pareto distribution of what they exceed it
//! by, after Coles, "An Introduction to Statistical Modeling of Extreme Values" (2001), chapter 4.
//!
//! An estimate beyond what was seen rests on the tail being of one kind. So most of this room is reasons not to
//! speak: [`Refusal`]. The caller drops the warm-up, and says whether the largest samples have different causes,
//! which only their stages can tell ([`super::stages::Reading::common`]).

mod pareto;

pub use pareto::Pareto;

use super::Activation;
use super::cadence::{self, Candidate};
use super::random::SeededRng;
use crate::interval::Interval;

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The task's period, ns.
    pub period_ns: u64,
    /// The kernel's tick, ns; 0 where there is none. Exceedances closer than that share a cause.
    pub tick_ns: u64,
    /// The level wanted is the one exceeded once in so many activations: 3.6 million are an hour at 1 ms.
    pub once_in: f64,
    /// Do the largest samples have different causes? Then no tail is fitted over them.
    pub mixed_causes: bool,
    /// Periods that have a name, for a cause that comes back.
    pub candidates: Vec<Candidate>,
    /// For the bootstrap.
    pub seed: u64,
}

/// Why nothing is said beyond what was seen.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// No threshold has [`MIN_CLUSTERS`] clusters above it.
    TooFew {
        /// At most.
        clusters: usize,
    },
    /// The caller knows that the largest samples have different causes.
    MixedCauses,
    /// Late activations come back periodically: they have a cause, and it is not chance.
    Periodic(cadence::Cadence),
    /// There are more or later ones at one time than at another.
    NotStationary,
    /// At no threshold are the shape and the mean excess those of the thresholds above it.
    Unstable,
    /// The generalised Pareto distribution does not fit (Anderson-Darling, 10 %).
    NoFit,
    /// The tail is so heavy that its variance is infinite: any number would be a guess.
    TooHeavy {
        /// The estimate of the shape.
        shape: f64,
    },
    /// The level asked for is not beyond the threshold: read it off the samples.
    Within,
    /// The interval says no more than an order of magnitude: its ends are further apart than [`MAX_INTERVAL_RATIO`].
    TooWide {
        /// Lower end, us.
        low: f64,
        /// Upper end, us.
        high: f64,
    },
}

impl Refusal {
    /// The stable word for it.
    #[must_use]
    pub fn token(&self) -> &'static str {
        match self {
            Refusal::TooFew { .. } => "too-few",
            Refusal::MixedCauses => "mixed-causes",
            Refusal::Periodic(_) => "periodic",
            Refusal::NotStationary => "not-stationary",
            Refusal::Unstable => "unstable",
            Refusal::NoFit => "no-fit",
            Refusal::TooHeavy { .. } => "too-heavy",
            Refusal::Within => "within",
            Refusal::TooWide { .. } => "too-wide",
        }
    }
}

/// A level that is exceeded once in so many activations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// us, with its 95 % interval: profile likelihood and the count of clusters, at this threshold and at a higher
    /// one, and at the upper end no tail that ends.
    pub us: Interval,
    /// Above this the tail was fitted, us.
    pub threshold: f64,
    /// So many clusters of late activations are above it.
    pub clusters: usize,
    /// Shape of the generalised Pareto: 0 exponential, above 0 heavier.
    pub shape: f64,
    /// Its scale, us.
    pub scale: f64,
    /// Anderson-Darling: the share of fitted tails that fit worse than this one; at least so much, because the
    /// bootstrap ends when it is clear.
    pub fit: f64,
}

/// Clusters that a fit takes at least: realtime statistics' rule of thumb, at which the shape has a standard error
/// of about 0.2.
pub const MIN_CLUSTERS: usize = 30;
/// More clusters than this add little to the shape (standard error 0.05) and much bias: a lower threshold reaches
/// into the body of the distribution.
const MAX_EXCEEDANCES: usize = 400;
/// A level's interval has that of the highest threshold with at least this share of the clusters in it. Of made-up
/// tails of shape 0.3 the intervals of one threshold held the true level in 81 of 94, with this in 87.
const HIGHER: f64 = 0.35;
/// No threshold is below p98: further in, clusters of unrelated activations run into each other.
const SHARE: f64 = 0.02;
/// Above this shape the variance is infinite.
pub const MAX_SHAPE_FINITE_VARIANCE: f64 = 0.5;
/// Most that the upper end of an interval may be of the lower: a decade. Beyond it not even the power of ten is known.
pub const MAX_INTERVAL_RATIO: f64 = 10.0;
/// Exceedances of fewer than so many periods apart are one cluster.
const CLUSTER_GAP_PERIODS: u64 = 5;
/// Thresholds tried leave this ratio of clusters to the next: 8 from 400 to 30.
const RATIO: f64 = 0.7;

/// A late activation: its number, and how late.
pub(super) type Late = (u64, f64);

/// The level that is exceeded once in so many activations, or why none is reported.
///
/// # Errors
/// The first reason not to speak.
pub fn level(activations: &[Activation], request: &Request) -> Result<Level, Refusal> {
    if request.mixed_causes {
        return Err(Refusal::MixedCauses);
    }
    let late = latest(activations);
    let gap = CLUSTER_GAP_PERIODS.max(request.tick_ns.div_ceil(request.period_ns.max(1)));
    let span = activations.iter().map(|a| a.period);
    let (first, last) = (span.clone().min().unwrap_or(0), span.max().unwrap_or(0));
    let tails = tails(&late, gap);
    let most = tails.first().map_or(0, |t| t.peaks.len());
    if most < MIN_CLUSTERS {
        return Err(Refusal::TooFew { clusters: most });
    }
    let mut chance = SeededRng::new(request.seed);
    let mut why = Refusal::Unstable;
    for (i, tail) in tails.iter().enumerate() {
        if !stable(tail, &tails[i + 1..]) {
            continue;
        }
        let fit = tail.pareto.worse(&tail.excesses, &mut chance);
        if fit < REJECTED {
            why = Refusal::NoFit;
            continue;
        }
        periodic(tail, &late, request)?;
        if !stationary(&tail.peaks, (first, last)) {
            return Err(Refusal::NotStationary);
        }
        let mut reported = tail.level(activations.len(), request.once_in, fit)?;
        // The threshold was chosen, and the interval does not know it: what a much higher one says belongs to it.
        let enough = |t: &&Tail| t.peaks.len() as f64 >= HIGHER * tail.peaks.len() as f64;
        let higher = tails[i + 1..].iter().rfind(enough);
        higher.map_or(Ok(()), |t| periodic(t, &late, request))?;
        match higher.map(|t| t.level(activations.len(), request.once_in, fit)) {
            Some(Ok(higher)) => {
                reported.us.low = reported.us.low.min(higher.us.low);
                reported.us.high = reported.us.high.max(higher.us.high);
            }
            // What is too heavy further out is too heavy.
            Some(Err(refusal @ Refusal::TooHeavy { .. })) => return Err(refusal),
            _ => {}
        }
        return narrow(reported);
    }
    Err(why)
}

/// The level, where its interval says where it is.
fn narrow(reported: Level) -> Result<Level, Refusal> {
    let Interval { low, high, .. } = reported.us;
    if high <= MAX_INTERVAL_RATIO * low { Ok(reported) } else { Err(Refusal::TooWide { low, high }) }
}

/// A fit is rejected where fewer of the tails drawn from it fit worse: 10 %.
const REJECTED: f64 = 0.1;

/// The largest [`SHARE`] of the activations, in order of time.
fn latest(activations: &[Activation]) -> Vec<Late> {
    let mut late: Vec<Late> =
        activations.iter().filter(|a| a.us.is_finite()).map(|a| (a.period, a.us)).collect();
    let keep = (late.len() as f64 * SHARE).ceil() as usize;
    if keep > 0 && keep < late.len() {
        late.select_nth_unstable_by(keep, |a, b| b.1.total_cmp(&a.1));
        late.truncate(keep);
    }
    late.sort_by_key(|l| l.0);
    late
}

/// What lies above a threshold.
struct Tail {
    threshold: f64,
    /// The largest of each cluster, in order of time.
    peaks: Vec<Late>,
    /// What they exceed the threshold by, ascending.
    excesses: Vec<f64>,
    pareto: Pareto,
}

/// The tails above ever higher thresholds, the lowest first, from [`MAX_EXCEEDANCES`] clusters down to [`MIN_CLUSTERS`].
fn tails(late: &[Late], gap: u64) -> Vec<Tail> {
    let mut descending: Vec<f64> = late.iter().map(|l| l.1).collect();
    descending.sort_by(|a, b| b.total_cmp(a));
    let mut tails: Vec<Tail> = Vec::new();
    let mut keep = descending.len() as f64;
    while keep as usize > MIN_CLUSTERS {
        let threshold = descending[keep as usize - 1];
        let tail = tail(late, threshold, gap);
        let clusters = tail.peaks.len();
        if clusters > MAX_EXCEEDANCES {
            keep *= (MAX_EXCEEDANCES as f64 / clusters as f64).min(0.95);
            continue;
        }
        if clusters >= MIN_CLUSTERS {
            tails.push(tail);
        }
        keep *= RATIO;
    }
    tails
}

fn tail(late: &[Late], threshold: f64, gap: u64) -> Tail {
    let mut peaks: Vec<Late> = Vec::new();
    let mut last = 0;
    for &(at, us) in late.iter().filter(|l| l.1 > threshold) {
        match peaks.last_mut() {
            Some(peak) if at.saturating_sub(last) < gap => {
                if us > peak.1 {
                    *peak = (at, us);
                }
            }
            _ => peaks.push((at, us)),
        }
        last = at;
    }
    let mut excesses: Vec<f64> = peaks.iter().map(|p| p.1 - threshold).collect();
    excesses.sort_by(f64::total_cmp);
    Tail { threshold, pareto: Pareto::fit(&excesses), peaks, excesses }
}

/// Is the tail what the tails above higher thresholds are? Shape: the difference of two estimates of which one has
/// part of the other's samples has the difference of their variances (Hausman, Econometrica 46, 1978). Mean excess:
/// that over a higher threshold is what the fit at this one says it is.
fn stable(tail: &Tail, higher: &[Tail]) -> bool {
    higher.iter().all(|h| {
        let (ours, theirs) = (tail.pareto.shape_error(tail.peaks.len()), h.pareto.shape_error(h.peaks.len()));
        let apart = (theirs * theirs - ours * ours).max(0.0).sqrt();
        let shape = (h.pareto.shape - tail.pareto.shape).abs() <= STRAY * apart;
        let n = h.excesses.len() as f64;
        let mean = h.excesses.iter().sum::<f64>() / n;
        let squares: f64 = h.excesses.iter().map(|e| (e - mean).powi(2)).sum();
        let error = (squares / (n - 1.0) / n).sqrt();
        // Without a variance a mean has no standard error.
        let heavy = tail.pareto.shape > MAX_SHAPE_FINITE_VARIANCE;
        shape
            && (heavy
                || (tail.pareto.mean_beyond(h.threshold - tail.threshold) - mean).abs() <= STRAY * error)
    })
}

/// Standard errors that two estimates of one thing may lie apart: a chance of 5 % each.
const STRAY: f64 = 1.96;

/// Refuses where what is above the threshold comes back periodically.
fn periodic(tail: &Tail, late: &[Late], request: &Request) -> Result<(), Refusal> {
    // Every late activation and not the clusters: a cadence shorter than a cluster would vanish in it.
    let times: Vec<u64> =
        late.iter().filter(|l| l.1 > tail.threshold).map(|l| l.0.saturating_mul(request.period_ns)).collect();
    match cadence::find(&times, request.period_ns, &request.candidates).into_iter().next() {
        Some(found) => Err(Refusal::Periodic(found)),
        None => Ok(()),
    }
}

/// Tenths of the run: as many late ones in each as chance allows (dispersion against Poisson), and no trend in how
/// late they are (Spearman); 0.5 % each.
fn stationary(peaks: &[Late], (first, last): (u64, u64)) -> bool {
    const PARTS: usize = 10;
    // Upper 0.5 % of chi-square with nine degrees of freedom; two-sided 0.5 % of the normal distribution.
    const DISPERSED: f64 = 23.589;
    const TREND: f64 = 2.807;
    let width = ((last - first) as f64 + 1.0) / PARTS as f64;
    let mut counts = [0.0f64; PARTS];
    for &(at, _) in peaks {
        counts[(((at - first) as f64 / width) as usize).min(PARTS - 1)] += 1.0;
    }
    let n = peaks.len() as f64;
    let expected = n / PARTS as f64;
    let dispersion: f64 = counts.iter().map(|c| (c - expected).powi(2) / expected).sum();
    let mut order: Vec<usize> = (0..peaks.len()).collect();
    order.sort_by(|&i, &j| peaks[i].1.total_cmp(&peaks[j].1));
    let squares: f64 = order.iter().enumerate().map(|(rank, &i)| (rank as f64 - i as f64).powi(2)).sum();
    let rho = 1.0 - 6.0 * squares / (n * (n * n - 1.0));
    dispersion <= DISPERSED && rho.abs() * (n - 1.0).sqrt() <= TREND
}

impl Tail {
    fn level(&self, activations: usize, once_in: f64, fit: f64) -> Result<Level, Refusal> {
        let Pareto { shape, scale } = self.pareto;
        if shape > MAX_SHAPE_FINITE_VARIANCE {
            return Err(Refusal::TooHeavy { shape });
        }
        let expected = self.peaks.len() as f64 / activations as f64 * once_in;
        if expected <= 1.0 {
            return Err(Refusal::Within);
        }
        let excess = self.pareto.beyond(expected);
        let profile = pareto::profile(&self.excesses, self.pareto, expected);
        // The count of clusters is Poisson: what its error moves, in quadrature.
        let count = 1.96 * scale * expected.powf(shape) / (self.peaks.len() as f64).sqrt();
        let us = Interval {
            value: self.threshold + excess,
            low: self.threshold + (excess - (excess - profile.0).hypot(count)).max(0.0),
            high: self.threshold + excess + (profile.1 - excess).hypot(count),
        };
        let (threshold, clusters) = (self.threshold, self.peaks.len());
        Ok(Level { us, threshold, clusters, shape, scale, fit })
    }
}
