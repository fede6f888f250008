//! Return levels: peaks over a threshold, fitted with the generalised Pareto distribution, after Coles, "An
//! Introduction to Statistical Modeling of Extreme Values" (2001), chapter 4.
//!
//! An extrapolation is valid only if the tail has a single cause, so most of this module checks for reasons to refuse:
//! [`Refusal`]. The caller drops the warm-up, and passes whether the largest samples have different causes, which only
//! their stages show ([`super::stages::Reading::common`]).

mod pareto;

pub use pareto::Pareto;

use super::Activation;
use super::cadence::{self, Candidate};
use super::random::SeededRng;
use crate::interval::Interval;

/// Input of an extrapolation.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Period of the task, ns.
    pub period_ns: u64,
    /// The kernel's tick, ns; 0 if there is none. Exceedances closer than that share a cause.
    pub tick_ns: u64,
    /// The requested level is exceeded once in this many activations: 3.6 million are an hour at 1 ms.
    pub once_in: f64,
    /// Whether the largest samples have different causes. Then no tail is fitted.
    pub mixed_causes: bool,
    /// Known periods, to name a periodic cause.
    pub candidates: Vec<Candidate>,
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// Reason why no level is reported.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// No threshold has [`MIN_CLUSTERS`] clusters above it.
    TooFew {
        /// Largest number of clusters at any threshold.
        clusters: usize,
    },
    /// The caller knows that the largest samples have different causes.
    MixedCauses,
    /// Late activations are periodic, so they are not random.
    Periodic(cadence::Cadence),
    /// The number or size of late activations changes during the run.
    NotStationary,
    /// At no threshold do the shape and the mean excess agree with those of higher thresholds.
    Unstable,
    /// The generalised Pareto distribution does not fit (Anderson-Darling, 10 %).
    NoFit,
    /// The tail is so heavy that its variance is infinite, so any number would be a guess.
    TooHeavy {
        /// Estimated shape.
        shape: f64,
    },
    /// The requested level is not beyond the threshold: it can be read from the samples.
    Within,
    /// The interval is too wide: the ratio of its ends is above [`MAX_INTERVAL_RATIO`].
    TooWide {
        /// Lower end, us.
        low: f64,
        /// Upper end, us.
        high: f64,
    },
}

impl Refusal {
    /// Returns the stable token.
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

/// Level that is exceeded once in the requested number of activations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Level, us, with its 95 % interval: profile likelihood and the error of the number of clusters, at this threshold
    /// and at a higher one. For the upper end a tail without an end point is assumed.
    pub us: Interval,
    /// Threshold above which the tail was fitted, us.
    pub threshold: f64,
    /// Number of clusters of late activations above it.
    pub clusters: usize,
    /// Shape of the generalised Pareto: 0 exponential, above 0 heavier.
    pub shape: f64,
    /// Scale of the generalised Pareto, us.
    pub scale: f64,
    /// Anderson-Darling: the share of resampled tails that fit worse than this one. It is a lower bound, because the
    /// bootstrap stops early if the result is clear.
    pub fit: f64,
}

/// Smallest number of clusters for a fit: a rule of thumb, at which the shape has a standard error of about 0.2.
pub const MIN_CLUSTERS: usize = 30;
/// Largest number of clusters. More add little to the shape (standard error 0.05) but much bias, because a lower
/// threshold includes the body of the distribution.
const MAX_EXCEEDANCES: usize = 400;
/// A level's interval includes that of the highest threshold with at least this share of the clusters. For simulated
/// tails of shape 0.3, intervals of one threshold contained the true level in 81 of 94 cases, and in 87 with this.
const MIN_HIGHER_SHARE: f64 = 0.35;
/// Share of the activations above the lowest threshold (p98): at a lower one, clusters of unrelated activations merge.
const LATE_SHARE: f64 = 0.02;
/// Largest shape with a finite variance.
pub const MAX_SHAPE_FINITE_VARIANCE: f64 = 0.5;
/// Largest ratio of the ends of an interval: a decade. Beyond it not even the order of magnitude is known.
pub const MAX_INTERVAL_RATIO: f64 = 10.0;
/// Exceedances less than this many periods apart form one cluster.
const CLUSTER_GAP_PERIODS: u64 = 5;
/// Ratio of the numbers of clusters of successive thresholds: 8 thresholds from 400 to 30.
const THRESHOLD_RATIO: f64 = 0.7;

/// A late activation: its number and its latency.
pub(super) type LateActivation = (u64, f64);

/// Returns the level that is exceeded once in the requested number of activations, or the reason for a refusal.
///
/// # Errors
/// The first reason for a refusal.
pub fn level(activations: &[Activation], request: &Request) -> Result<Level, Refusal> {
    if request.mixed_causes {
        return Err(Refusal::MixedCauses);
    }
    let late = latest(activations);
    let gap = CLUSTER_GAP_PERIODS.max(request.tick_ns.div_ceil(request.period_ns.max(1)));
    let span = activations.iter().map(|a| a.period);
    let (first, last) = (span.clone().min().unwrap_or(0), span.max().unwrap_or(0));
    let tails = tails(&late, gap);
    let clusters = tails.first().map_or(0, |t| t.peaks.len());
    if clusters < MIN_CLUSTERS {
        return Err(Refusal::TooFew { clusters });
    }
    let mut rng = SeededRng::new(request.seed);
    let mut why = Refusal::Unstable;
    for (i, tail) in tails.iter().enumerate() {
        if !stable(tail, &tails[i + 1..]) {
            continue;
        }
        let fit = tail.pareto.worse(&tail.excesses, &mut rng);
        if fit < MIN_FIT_SHARE {
            why = Refusal::NoFit;
            continue;
        }
        periodic(tail, &late, request)?;
        if !stationary(&tail.peaks, (first, last)) {
            return Err(Refusal::NotStationary);
        }
        let mut reported = tail.level(activations.len(), request.once_in, fit)?;
        // The interval ignores that the threshold was chosen, so that of a much higher threshold is included.
        let enough = |t: &&Tail| t.peaks.len() as f64 >= MIN_HIGHER_SHARE * tail.peaks.len() as f64;
        let higher = tails[i + 1..].iter().rfind(enough);
        higher.map_or(Ok(()), |t| periodic(t, &late, request))?;
        match higher.map(|t| t.level(activations.len(), request.once_in, fit)) {
            Some(Ok(higher)) => {
                reported.us.low = reported.us.low.min(higher.us.low);
                reported.us.high = reported.us.high.max(higher.us.high);
            }
            // A tail that is too heavy at a higher threshold is refused.
            Some(Err(refusal @ Refusal::TooHeavy { .. })) => return Err(refusal),
            _ => {}
        }
        return narrow(reported);
    }
    Err(why)
}

/// Returns the level if its interval is narrow enough.
fn narrow(reported: Level) -> Result<Level, Refusal> {
    let Interval { low, high, .. } = reported.us;
    if high <= MAX_INTERVAL_RATIO * low { Ok(reported) } else { Err(Refusal::TooWide { low, high }) }
}

/// Smallest share of resampled tails that must fit worse: 10 %.
const MIN_FIT_SHARE: f64 = 0.1;

/// Returns the largest [`LATE_SHARE`] of the activations, in order of time.
fn latest(activations: &[Activation]) -> Vec<LateActivation> {
    let mut late: Vec<LateActivation> =
        activations.iter().filter(|a| a.us.is_finite()).map(|a| (a.period, a.us)).collect();
    let keep = (late.len() as f64 * LATE_SHARE).ceil() as usize;
    if keep > 0 && keep < late.len() {
        late.select_nth_unstable_by(keep, |a, b| b.1.total_cmp(&a.1));
        late.truncate(keep);
    }
    late.sort_by_key(|l| l.0);
    late
}

/// Tail above a threshold.
struct Tail {
    threshold: f64,
    /// Largest exceedance of each cluster, in order of time.
    peaks: Vec<LateActivation>,
    /// Their excesses over the threshold, ascending.
    excesses: Vec<f64>,
    pareto: Pareto,
}

/// Returns the tails above increasing thresholds, from [`MAX_EXCEEDANCES`] clusters down to [`MIN_CLUSTERS`].
fn tails(late: &[LateActivation], gap: u64) -> Vec<Tail> {
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
        keep *= THRESHOLD_RATIO;
    }
    tails
}

fn tail(late: &[LateActivation], threshold: f64, gap: u64) -> Tail {
    let mut peaks: Vec<LateActivation> = Vec::new();
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

/// Returns whether the tail agrees with the tails above higher thresholds. Shape: the variance of the difference of two
/// estimates, one from a subset of the other's samples, is the difference of their variances (Hausman, Econometrica 46,
/// 1978). Mean excess: that over a higher threshold must be as predicted by the fit at this one.
fn stable(tail: &Tail, higher: &[Tail]) -> bool {
    higher.iter().all(|h| {
        let (ours, theirs) = (tail.pareto.shape_error(tail.peaks.len()), h.pareto.shape_error(h.peaks.len()));
        let apart = (theirs * theirs - ours * ours).max(0.0).sqrt();
        let shape = (h.pareto.shape - tail.pareto.shape).abs() <= MAX_STANDARD_ERRORS * apart;
        let n = h.excesses.len() as f64;
        let mean = h.excesses.iter().sum::<f64>() / n;
        let squares: f64 = h.excesses.iter().map(|e| (e - mean).powi(2)).sum();
        let error = (squares / (n - 1.0) / n).sqrt();
        // Without a finite variance a mean has no standard error.
        let heavy = tail.pareto.shape > MAX_SHAPE_FINITE_VARIANCE;
        shape
            && (heavy
                || (tail.pareto.mean_beyond(h.threshold - tail.threshold) - mean).abs()
                    <= MAX_STANDARD_ERRORS * error)
    })
}

/// Largest difference of two consistent estimates, in standard errors: an error probability of 5 % each.
const MAX_STANDARD_ERRORS: f64 = 1.96;

/// Refuses if the exceedances are periodic.
fn periodic(tail: &Tail, late: &[LateActivation], request: &Request) -> Result<(), Refusal> {
    // All late activations are used, not the clusters, which would hide a cadence shorter than a cluster.
    let times: Vec<u64> =
        late.iter().filter(|l| l.1 > tail.threshold).map(|l| l.0.saturating_mul(request.period_ns)).collect();
    match cadence::find(&times, request.period_ns, &request.candidates).into_iter().next() {
        Some(found) => Err(Refusal::Periodic(found)),
        None => Ok(()),
    }
}

/// Tests tenths of the run: the number of late activations in each (dispersion against Poisson), and a trend of their
/// latency (Spearman); 0.5 % each.
fn stationary(peaks: &[LateActivation], (first, last): (u64, u64)) -> bool {
    const PARTS: usize = 10;
    // Upper 0.5 % of chi-squared with nine degrees of freedom; two-sided 0.5 % of the normal distribution.
    const MAX_DISPERSION: f64 = 23.589;
    const MAX_TREND: f64 = 2.807;
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
    dispersion <= MAX_DISPERSION && rho.abs() * (n - 1.0).sqrt() <= MAX_TREND
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
        // The number of clusters is Poisson; its error is added in quadrature.
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
