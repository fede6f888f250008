//! Summary statistics of latencies: percentiles with intervals from order statistics, the maximum with the number of
//! activations, missed activations, and the same corrected for coordinated omission.
//!
//! The intervals assume no distribution, but they assume that activations are independent. In bursts they are not, and
//! the intervals are too narrow.

use statrs::function::gamma::ln_gamma;

use super::Activation;
use crate::histogram;
use crate::interval::Interval;

/// Reported percentiles, with their stable tokens.
pub const PERCENTILES: [(f64, &str); 6] =
    [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99"), (0.99999, "p99.999")];

/// Error rate of an interval: 5 %, as everywhere.
const ERROR_RATE: f64 = 0.05;

/// Ratio of adjacent bars of a histogram for a log axis: 1 %, a third of the half-width of p99.9 in a run of a minute,
/// and less than a pixel on an axis of five decades.
pub const RESOLUTION: f64 = 1.01;

/// Reason why a percentile is not reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The largest of this number of samples is not an upper bound with 95 %.
    TooFew {
        /// Available samples.
        have: u64,
        /// Required samples.
        need: u64,
    },
}

/// A percentile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentile {
    /// Quantile: 0.999 is p99.9.
    pub q: f64,
    /// Name, such as `p99.9`.
    pub token: &'static str,
    /// Value in us with its 95 % interval, or the reason for a refusal.
    pub us: Result<Interval, Refusal>,
}

/// Largest latency, which is meaningful only with the number of activations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Maximum {
    /// Latency, us.
    pub us: f64,
    /// Number of activations of which it is the largest.
    pub seen_in: u64,
}

impl Maximum {
    /// Returns the probability that one of the next `more` activations exceeds it, for any unchanged distribution: m /
    /// (m + n).
    #[must_use]
    pub fn exceedance_probability(&self, more: u64) -> f64 {
        more as f64 / (more as f64 + self.seen_in as f64).max(1.0)
    }
}

/// A histogram for a log axis.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Histogram {
    /// (us, count), ascending, [`RESOLUTION`] apart; empty bars are left out.
    pub bars: Vec<(f64, u64)>,
    /// Samples of at most [`FLOOR`], which a log axis cannot show.
    pub below: u64,
}

/// Smallest value on a log axis, us: 1 ns, the unit of the kernel's clocks.
pub const FLOOR: f64 = 0.001;

/// Statistics of the samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Number of samples.
    pub count: u64,
    /// Smallest latency, us.
    pub min: f64,
    /// Mean, us.
    pub mean: f64,
    /// Standard deviation, us.
    pub stddev: f64,
    /// All of [`PERCENTILES`], each reported or refused.
    pub percentiles: Vec<Percentile>,
    /// Largest latency.
    pub max: Maximum,
    /// Histogram for a log axis.
    pub histogram: Histogram,
}

/// Statistics of a run of a periodic task.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Statistics of the observed activations.
    pub seen: Summary,
    /// Periods without an activation, between the first and the last activation.
    pub missed: u64,
    /// Missed activations explained by the preceding wake-up, which was later than their time.
    pub explained: u64,
    /// Statistics of the observed and the explained activations, each with the latency that it would have had. Without
    /// this correction a task that skips periods sees one long stall as one sample (coordinated omission).
    pub corrected: Summary,
}

/// Returns the number of samples that a percentile requires: so that the two-sided interval of order statistics exists.
/// For the upper percentiles this is where the largest sample becomes a one-sided 95 % bound: 2,995, 29,956 and 299,572
/// for p99.9, p99.99 and p99.999.
#[must_use]
pub fn needed(q: f64) -> u64 {
    let miss = |n: f64| q.powf(n) + (1.0 - q).powf(n);
    let mut n = (ERROR_RATE.ln() / q.max(1.0 - q).ln()).ceil();
    while n.is_finite() && miss(n) > ERROR_RATE {
        n += 1.0;
    }
    n as u64
}

/// Returns the indices (from 0) of the order statistics of `n` samples that bound the quantile `q` with 95 %. `None` if
/// there are none. The error rate of each end is 2.5 %; if that of the largest sample is higher, the lower end gets the
/// rest.
#[must_use]
pub fn ranks(n: u64, q: f64) -> Option<(u64, u64)> {
    if !(q > 0.0 && q < 1.0) || n < needed(q) {
        return None;
    }
    // K samples exceed the quantile: binomial with n and 1 - q. The upper end is too low if K is at least the number of
    // samples from it upwards; the lower end is too high if K is more than that.
    let (count, p) = (n as f64, 1.0 - q);
    let beyond = |k: f64, sum: f64| sum + ln_binomial_probability(count, p, k).exp();
    let (mean, sd) = (count * p, (count * p * q).sqrt());
    if mean.min(count * q) > 1000.0 {
        // With more than a thousand samples on each side, the normal approximation is off by less than one rank.
        let (more, fewer) = (mean + 1.96 * sd, mean - 1.96 * sd);
        return Some(((count - more).floor() as u64, (count - fewer).ceil().min(count - 1.0) as u64));
    }
    let (mut k, mut sum) = (0.0, beyond(0.0, 0.0));
    let (mut above, mut missed) = (0.0, sum);
    while beyond(k + 1.0, sum) <= ERROR_RATE / 2.0 {
        k += 1.0;
        sum = beyond(k, sum);
        (above, missed) = (k, sum);
    }
    while sum < 1.0 - (ERROR_RATE - missed.max(0.0)).min(ERROR_RATE / 2.0) && k < count - 1.0 {
        k += 1.0;
        sum = beyond(k, sum);
    }
    Some(((count - 1.0 - k) as u64, (count - 1.0 - above) as u64))
}

/// Returns ln of the binomial probability of `k` out of `n` at `p` each.
fn ln_binomial_probability(n: f64, p: f64, k: f64) -> f64 {
    ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0) + k * p.ln() + (n - k) * (-p).ln_1p()
}

/// Distinct sample values with cumulative counts.
struct Counts {
    bars: Vec<(f64, u64)>,
    up_to: Vec<u64>,
}

impl Counts {
    fn new(bars: Vec<(f64, u64)>) -> Counts {
        let sum = |sum: &mut u64, bar: &(f64, u64)| {
            *sum += bar.1;
            Some(*sum)
        };
        Counts { up_to: bars.iter().scan(0, sum).collect(), bars }
    }

    fn total(&self) -> u64 {
        self.up_to.last().copied().unwrap_or(0)
    }

    /// Returns the sample at an index from 0, ascending; the last one beyond the end.
    fn at(&self, place: u64) -> f64 {
        let bar = self.up_to.partition_point(|&up_to| up_to <= place).min(self.bars.len() - 1);
        self.bars[bar].0
    }

    fn percentile(&self, q: f64, token: &'static str) -> Percentile {
        let n = self.total();
        let us = match ranks(n, q) {
            None => Err(Refusal::TooFew { have: n, need: needed(q) }),
            Some((low, high)) => {
                // The smallest sample that is not exceeded by a share q, not a mean of two: a percentile is an observed
                // value.
                let value = self.at(((q * n as f64).ceil() as u64).max(1) - 1);
                Ok(Interval { value, low: self.at(low).min(value), high: self.at(high).max(value) })
            }
        };
        Percentile { q, token, us }
    }

    fn summary(&self) -> Option<Summary> {
        let (first, last) = (self.bars.first()?, self.bars.last()?);
        let n = self.total() as f64;
        let mean = self.bars.iter().map(|b| b.0 * b.1 as f64).sum::<f64>() / n;
        let squares: f64 = self.bars.iter().map(|b| (b.0 - mean).powi(2) * b.1 as f64).sum();
        Some(Summary {
            count: self.total(),
            min: first.0,
            mean,
            stddev: (squares / (n - 1.0).max(1.0)).sqrt(),
            percentiles: PERCENTILES.iter().map(|&(q, token)| self.percentile(q, token)).collect(),
            max: Maximum { us: last.0, seen_in: self.total() },
            histogram: log_bars(&self.bars),
        })
    }
}

/// Returns bars for a log axis, [`RESOLUTION`] apart, from (us, count) bars.
#[must_use]
pub fn log_bars(bars: &[(f64, u64)]) -> Histogram {
    let mut histogram = Histogram::default();
    for &(us, count) in bars {
        if us <= FLOOR {
            histogram.below += count;
            continue;
        }
        let at = ((us.ln() / RESOLUTION.ln()).round() * RESOLUTION.ln()).exp();
        match histogram.bars.last_mut() {
            Some((last, n)) if *last == at => *n += count,
            _ => histogram.bars.push((at, count)),
        }
    }
    histogram
}

/// Sorts bars by value, merges equal ones and drops not-a-numbers.
fn ordered(bars: &[(f64, u64)]) -> Vec<(f64, u64)> {
    let mut kept: Vec<_> = bars.iter().copied().filter(|b| !b.0.is_nan() && b.1 > 0).collect();
    kept.sort_by(|a, b| a.0.total_cmp(&b.0));
    kept.dedup_by(|later, first| {
        later.0 == first.0 && {
            first.1 += later.1;
            true
        }
    });
    kept
}

/// Returns a summary of (us, count) bars in any order, for an imported histogram. `None` if there are none.
#[must_use]
pub fn of_bars(bars: &[(f64, u64)]) -> Option<Summary> {
    Counts::new(ordered(bars)).summary()
}

/// Returns the bars of a histogram of a task that skips missed periods, with the skipped ones added: a latency of L
/// also implies L - P, L - 2 P and so on, down to 0. Returns the bars unchanged if there is no period.
#[must_use]
pub fn corrected_bars(bars: &[(f64, u64)], period_us: f64) -> Vec<(f64, u64)> {
    let mut all = bars.to_vec();
    if period_us > 0.0 {
        for &(us, count) in bars.iter().filter(|b| b.0.is_finite()) {
            let skipped = (us / period_us).floor().clamp(0.0, MAX_SKIPPED_PERIODS) as u64;
            all.extend((1..=skipped).map(|i| (us - i as f64 * period_us, count)));
        }
    }
    ordered(&all)
}

/// Largest number of periods that a stall covers: at 100 us longer than any run here. It limits memory for invalid
/// values.
const MAX_SKIPPED_PERIODS: f64 = 1e6;

/// Summarises a run, with the period in us. Activations are in the order of observation; `None` if there are none.
///
/// Only periods without an activation are filled in: a task that catches up on missed periods has a sample of each.
#[must_use]
pub fn summarise(activations: &[Activation], period_us: f64) -> Option<Run> {
    let values: Vec<f64> = activations.iter().map(|a| a.us).collect();
    let (mut missed, mut skipped) = (0, Vec::new());
    for pair in activations.windows(2) {
        let gap = pair[1].period.saturating_sub(pair[0].period).saturating_sub(1);
        missed += gap;
        if period_us > 0.0 && pair[0].us.is_finite() {
            let covered = (pair[0].us / period_us).floor().clamp(0.0, MAX_SKIPPED_PERIODS) as u64;
            skipped.extend((1..=covered.min(gap)).map(|i| pair[0].us - i as f64 * period_us));
        }
    }
    let seen = Counts::new(histogram::bars(&values)).summary()?;
    let explained = skipped.len() as u64;
    skipped.extend(values);
    Some(Run { seen, missed, explained, corrected: Counts::new(histogram::bars(&skipped)).summary()? })
}
