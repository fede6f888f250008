//! How late, and how surely: percentiles with the intervals of order statistics, the maximum with the number of
//! activations in which it was seen, missed activations, and the same corrected for coordinated omission.
//!
//! The intervals assume nothing of the distribution, and that activations are independent: those of a burst are
//! not, and then they are too narrow.

use statrs::function::gamma::ln_gamma;

use super::Activation;
use crate::histogram;
use crate::interval::Interval;

/// The percentiles that are reported, with their stable words.
pub const PERCENTILES: [(f64, &str); 6] =
    [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99"), (0.99999, "p99.999")];

/// Chance that an interval misses what it is of: 5 %, as everywhere.
const MISS: f64 = 0.05;

/// Bars of a histogram for a log axis lie this ratio apart: 1 %, a third of the half-width that p99.9 has in a
/// run of a minute, and less than a pixel on an axis of five decades.
pub const RESOLUTION: f64 = 1.01;

/// Why a percentile is not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The largest of so few samples is no upper bound with 95 %.
    TooFew {
        /// Samples there are.
        have: u64,
        /// Samples that it takes.
        need: u64,
    },
}

/// A percentile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentile {
    /// Which: 0.999 is p99.9.
    pub q: f64,
    /// Its stable word.
    pub token: &'static str,
    /// In us with its 95 % interval, or why not.
    pub us: Result<Interval, Refusal>,
}

/// The largest latency, which is a value without a meaning unless one says in how many it was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Maximum {
    /// us.
    pub us: f64,
    /// Activations in which it was the largest.
    pub seen_in: u64,
}

impl Maximum {
    /// The chance that one of the next `more` activations is later still, whatever the distribution, as long as
    /// it stays the same one: m / (m + n).
    #[must_use]
    pub fn beaten_within(&self, more: u64) -> f64 {
        more as f64 / (more as f64 + self.seen_in as f64).max(1.0)
    }
}

/// A histogram for a log axis.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Histogram {
    /// (us, count), ascending, [`RESOLUTION`] apart; empty bars are left out.
    pub bars: Vec<(f64, u64)>,
    /// Samples of [`FLOOR`] and less, which a log axis cannot show.
    pub below: u64,
}

/// What lies at or below 1 ns, the unit of the kernel's clocks, has no place on a log axis.
pub const FLOOR: f64 = 0.001;

/// What the samples say.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Samples.
    pub count: u64,
    /// The least, us.
    pub min: f64,
    /// us.
    pub mean: f64,
    /// us.
    pub stddev: f64,
    /// [`PERCENTILES`], each told or refused.
    pub percentiles: Vec<Percentile>,
    /// The largest.
    pub max: Maximum,
    /// For a log axis.
    pub histogram: Histogram,
}

/// What a run of a periodic task says.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Of the activations as they were seen.
    pub seen: Summary,
    /// Periods between the first and the last activation that had none.
    pub missed: u64,
    /// Missed activations that a wake-up before them accounts for: it was so late that their time had come.
    pub explained: u64,
    /// Of the activations seen and those explained, each as late as it would have been: a task that skips periods
    /// sees one long stall as one sample (coordinated omission).
    pub corrected: Summary,
}

/// Samples that a percentile takes: so many that the two-sided interval of order statistics exists. For the upper
/// percentiles that is where the largest becomes a one-sided 95 % bound: 2,995, 29,956 and 299,572 for p99.9,
/// p99.99 and p99.999.
#[must_use]
pub fn needed(q: f64) -> u64 {
    let miss = |n: f64| q.powf(n) + (1.0 - q).powf(n);
    let mut n = (MISS.ln() / q.max(1.0 - q).ln()).ceil();
    while n.is_finite() && miss(n) > MISS {
        n += 1.0;
    }
    n as u64
}

/// The places (from 0) of the order statistics of `n` samples between which the quantile `q` lies with 95 %.
/// `None` where there are none. Each end misses with 2.5 %; where the largest sample misses more often, the lower
/// end gets what is left.
#[must_use]
pub fn ranks(n: u64, q: f64) -> Option<(u64, u64)> {
    if !(q > 0.0 && q < 1.0) || n < needed(q) {
        return None;
    }
    // K samples exceed the quantile: binomial with n and 1 - q. The upper end is too low where K is at least as
    // many as lie from it upwards, the lower too high where K is more than lie from it upwards.
    let (count, p) = (n as f64, 1.0 - q);
    let beyond = |k: f64, sum: f64| sum + ln_chance(count, p, k).exp();
    let (mean, sd) = (count * p, (count * p * q).sqrt());
    if mean.min(count * q) > 1000.0 {
        // Beyond a thousand on each side the normal approximation is off by less than one rank.
        let (more, fewer) = (mean + 1.96 * sd, mean - 1.96 * sd);
        return Some(((count - more).floor() as u64, (count - fewer).ceil().min(count - 1.0) as u64));
    }
    let (mut k, mut sum) = (0.0, beyond(0.0, 0.0));
    let (mut above, mut missed) = (0.0, sum);
    while beyond(k + 1.0, sum) <= MISS / 2.0 {
        k += 1.0;
        sum = beyond(k, sum);
        (above, missed) = (k, sum);
    }
    while sum < 1.0 - (MISS - missed.max(0.0)).min(MISS / 2.0) && k < count - 1.0 {
        k += 1.0;
        sum = beyond(k, sum);
    }
    Some(((count - 1.0 - k) as u64, (count - 1.0 - above) as u64))
}

/// ln of the chance of `k` of `n` at `p` each.
fn ln_chance(n: f64, p: f64, k: f64) -> f64 {
    ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0) + k * p.ln() + (n - k) * (-p).ln_1p()
}

/// Samples as distinct values and how many are below each.
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

    /// The sample at a place from 0, ascending; the last one beyond the end.
    fn at(&self, place: u64) -> f64 {
        let bar = self.up_to.partition_point(|&up_to| up_to <= place).min(self.bars.len() - 1);
        self.bars[bar].0
    }

    fn percentile(&self, q: f64, token: &'static str) -> Percentile {
        let n = self.total();
        let us = match ranks(n, q) {
            None => Err(Refusal::TooFew { have: n, need: needed(q) }),
            Some((low, high)) => {
                // The sample that q of all do not exceed, and not a mean of two: a percentile was seen.
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

/// Bars for a log axis, [`RESOLUTION`] apart, of (us, count) bars.
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

/// Bars with ascending values that are numbers, equal ones in one bar.
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

/// A summary of (us, count) bars in any order: an imported histogram. `None` of nothing.
#[must_use]
pub fn of_bars(bars: &[(f64, u64)]) -> Option<Summary> {
    Counts::new(ordered(bars)).summary()
}

/// The bars of a histogram whose task skips the periods that it misses, with what was skipped: a wake-up that is
/// late by L stands for L - P, L - 2 P and so on, down to 0. The bars as they are where there is no period.
#[must_use]
pub fn corrected_bars(bars: &[(f64, u64)], period_us: f64) -> Vec<(f64, u64)> {
    let mut all = bars.to_vec();
    if period_us > 0.0 {
        for &(us, count) in bars.iter().filter(|b| b.0.is_finite()) {
            let skipped = (us / period_us).floor().clamp(0.0, MAX_LATENCY_US) as u64;
            all.extend((1..=skipped).map(|i| (us - i as f64 * period_us, count)));
        }
    }
    ordered(&all)
}

/// A stall accounts for a million periods at most, which at 100 us is longer than any run here: a value that is
/// nonsense must not fill the memory.
const MAX_LATENCY_US: f64 = 1e6;

/// What a run says, with the period in us. Activations in order, as they were seen; `None` of nothing.
///
/// Only a period that has no activation is filled in: a task that works off what it missed has a sample of each.
#[must_use]
pub fn summarise(activations: &[Activation], period_us: f64) -> Option<Run> {
    let values: Vec<f64> = activations.iter().map(|a| a.us).collect();
    let (mut missed, mut skipped) = (0, Vec::new());
    for pair in activations.windows(2) {
        let gap = pair[1].period.saturating_sub(pair[0].period).saturating_sub(1);
        missed += gap;
        if period_us > 0.0 && pair[0].us.is_finite() {
            let covered = (pair[0].us / period_us).floor().clamp(0.0, MAX_LATENCY_US) as u64;
            skipped.extend((1..=covered.min(gap)).map(|i| pair[0].us - i as f64 * period_us));
        }
    }
    let seen = Counts::new(histogram::bars(&values)).summary()?;
    let explained = skipped.len() as u64;
    skipped.extend(values);
    Some(Run { seen, missed, explained, corrected: Counts::new(histogram::bars(&skipped)).summary()? })
}
