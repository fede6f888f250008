//! Detection of periodic late activations from the time differences between pairs of them.
//!
//! If something is late every T, then more pairs of late activations are T, 2 T, 3 T apart than in between: a comb.
//! This holds even if some are missing, if others come in between, and if the phase drifts, unlike with folding over
//! the whole run. The comb of T is more significant than that of a multiple, which misses teeth, and than that of a
//! fraction, which has teeth without events. So a cadence of 100 ms is reported as neither 1 s nor 50 ms.

use statrs::function::gamma::gamma_lr;

use crate::interval::Interval;

/// A known period that may explain a cadence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Name, for instance `tick`.
    pub name: String,
    /// Period, ns.
    pub period_ns: u64,
}

/// A periodic cause of late activations.
#[derive(Clone, Debug, PartialEq)]
pub struct Cadence {
    /// Period, ns, with its 95 % interval.
    pub period_ns: Interval,
    /// Names of the candidates with that period; empty if there is none.
    pub names: Vec<String>,
    /// Share of the exceedances that belongs to it, with its 95 % interval.
    pub share: Interval,
    /// Number of exceedances used; consecutive ones count once.
    pub count: usize,
}

/// Longest period searched, ns: the slowest cause known here (RT throttling and fair server) has 1 s.
const MAX_NS: f64 = 2.5e9;
/// Shortest period searched, ns: the fastest tick has 1 ms.
const MIN_NS: f64 = 0.9e6;
/// Largest and smallest number of teeth of a comb.
const MAX_TEETH: usize = 32;
const MIN_TEETH: usize = 3;
/// Largest extent of a comb, ns: three of the longest period. The phase need not be stable for longer, and all periods
/// are tested over the same lags.
const MAX_COMB_NS: f64 = 7.5e9;
/// Smallest width of a tooth, as a share of the period: narrower teeth would take too long, and no cause is more
/// precise for a task on a shared machine.
const MIN_RELATIVE_WIDTH: f64 = 1.0 / 200.0;
/// Largest number of pairs per octave of periods; beyond it the comb is shortened.
const MAX_PAIRS: f64 = 2e6;
/// Largest number of grid steps in a lag: 20 s at 10 us. With a finer grid the comb is shortened, to limit memory.
const MAX_LAG_STEPS: f64 = 2e6;
/// Significance level of a comb, over all combs tested together.
const SIGNIFICANCE: f64 = 1e-3;
/// Smallest reported share of the exceedances: a smaller one explains almost nothing.
const MIN_SHARE: f64 = 0.05;
/// Smallest number of exceedances for an analysis.
const MIN_EXCEEDANCES: usize = 10;
/// Relative tolerance for the period of a candidate: 1 %, three times the worst difference between the clocks of two
/// machines, and far below the difference between any two candidates.
const PERIOD_TOLERANCE: f64 = 0.01;
/// Largest number of causes searched, one after another.
const MAX_CAUSES: usize = 3;

/// Finds the cadences in the times of exceedances, ns, the most significant first. `grid_ns` is the task's own period.
/// An event between two activations is observed at the next one, so periods below three activations, or below 0.9 ms,
/// cannot be found.
///
/// The members of a cadence are removed before the next one is searched. So a cause whose period is a multiple of
/// another's and which always coincides with it is not separated from it.
#[must_use]
pub fn find(times_ns: &[u64], grid_ns: u64, candidates: &[Candidate]) -> Vec<Cadence> {
    let grid = grid_ns.max(1);
    let mut remaining = stalls(times_ns, grid);
    let total = remaining.len();
    let mut found: Vec<Cadence> = Vec::new();
    while found.len() < MAX_CAUSES {
        let Some(comb) = clearest(&remaining, grid) else { break };
        let phase = Phase::of(&remaining, &comb);
        let period = phase.as_ref().map_or_else(|| comb.interval(), |p| p.period);
        if found.iter().any(|c| (c.period_ns.value / period.value - 1.0).abs() < 2.0 * PERIOD_TOLERANCE) {
            break;
        }
        let (members, share) = members(&remaining, &comb, phase.as_ref());
        let share = share.scaled(remaining.len() as f64 / total as f64);
        if share.value < MIN_SHARE {
            break;
        }
        found.push(Cadence {
            period_ns: period,
            names: names(period, grid, candidates),
            share,
            count: total,
        });
        let rest: Vec<u64> =
            remaining.iter().zip(&members).filter(|(_, of)| !**of).map(|(t, _)| *t).collect();
        if rest.len() == remaining.len() {
            break;
        }
        remaining = rest;
    }
    found
}

/// Returns the first of each run of exceedances with at most one activation between them: a stall that delays several
/// activations counts once, because its pairs with another stall would look like a repetition.
fn stalls(times_ns: &[u64], grid_ns: u64) -> Vec<u64> {
    let mut ascending = times_ns.to_vec();
    ascending.sort_unstable();
    let mut last = None;
    ascending.retain(|&t| {
        let first = last.is_none_or(|l| t - l > grid_ns.saturating_mul(2));
        last = Some(t);
        first
    });
    ascending
}

/// A significant comb.
struct Comb {
    /// Period, ns.
    period: f64,
    /// Half the width of a tooth, ns.
    reach: f64,
    /// Step of the times, ns.
    grid: f64,
    /// Error of the period, ns: half a tooth's width at the last tooth.
    error: f64,
    /// ln of the p-value.
    ln_p: f64,
}

/// Returns the most significant comb over all periods and widths of teeth, if it is significant.
fn clearest(times: &[u64], grid: u64) -> Option<Comb> {
    let (first, last) = (*times.first()?, *times.last()?);
    let longest = MAX_NS.min((last - first) as f64 / 6.0);
    let mut best: Option<Comb> = None;
    let mut tested = 0.0f64;
    let mut from = MIN_NS.max(3.0 * grid as f64);
    while from < longest && times.len() >= MIN_EXCEEDANCES {
        let apart = thinned(times, from / 4.0);
        let octave = (from / grid as f64, (2.0 * from).min(longest) / grid as f64);
        if let Some(lags) = Lags::new(&apart, grid, from, MAX_TEETH as f64) {
            let (tried, comb) = lags.clearest(octave);
            tested += tried;
            best = comb.into_iter().chain(best).min_by(|a, b| a.ln_p.total_cmp(&b.ln_p));
        }
        from *= 2.0;
    }
    let mut best = best.filter(|b| b.ln_p + tested.max(1.0).ln() < SIGNIFICANCE.ln())?;
    for _ in 0..MAX_REPLACEMENTS {
        let Some(fairer) = fairer(times, grid, &best) else { break };
        best = fairer;
    }
    let best = exact(times, grid, best);
    (best.followers(times) + tested.ln() < SIGNIFICANCE.ln()).then_some(best)
}

/// Returns a comb of a multiple or a fraction of the period that is more significant than this one for the same
/// exceedances and the same lags. The first search is biased: an octave of longer periods drops more exceedances, and
/// its combs are longer.
fn fairer(times: &[u64], grid: u64, comb: &Comb) -> Option<Comb> {
    let factors = [2.0, 3.0, 5.0, 7.0, 0.5, 1.0 / 3.0, 0.2, 1.0 / 7.0];
    factors.iter().find_map(|factor| {
        let period = comb.period * factor;
        if period > MAX_NS || period < MIN_NS.max(3.0 * grid as f64) {
            return None;
        }
        let longer = period.max(comb.period);
        let lags = Lags::new(&thinned(times, longer / 4.0), grid, longer * 0.9, f64::INFINITY)?;
        let (ours, theirs) = (lags.near(comb.period), lags.near(period));
        theirs.filter(|t| ours.is_none_or(|ours| t.ln_p < ours.ln_p))
    })
}

/// Refines the period of a comb over its full extent.
fn exact(times: &[u64], grid: u64, comb: Comb) -> Comb {
    let apart = thinned(times, comb.period / 4.0);
    let lags = Lags::new(&apart, grid, comb.period * 0.9, f64::INFINITY);
    lags.and_then(|lags| lags.near(comb.period)).unwrap_or(comb)
}

/// Largest number of replacements of a comb by a better one: 250 ticks of 4 ms are five factors.
const MAX_REPLACEMENTS: usize = 5;

/// Returns the exceedances that are at least `dead` ns after the last one kept, because bursts of late activations
/// would correlate with each other. For dense exceedances a long dead time would make them regular, so it is reduced to
/// a fifth of the mean distance of the kept ones.
fn thinned(times: &[u64], mut dead: f64) -> Vec<u64> {
    let span = times.last().zip(times.first()).map_or(0, |(last, first)| last - first) as f64;
    loop {
        let mut taken: Vec<u64> = Vec::new();
        for &t in times {
            if taken.last().is_none_or(|l| (t - l) as f64 >= dead) {
                taken.push(t);
            }
        }
        if taken.len() as f64 * dead <= 0.2 * span {
            return taken;
        }
        dead /= 2.0;
    }
}

/// Histogram of the distances of pairs, in steps of the grid.
struct Lags {
    /// Running sum: number of pairs less than this many steps apart.
    below: Vec<f64>,
    grid: f64,
    /// Largest number of teeth of a comb.
    max_teeth: f64,
}

impl Lags {
    /// Computes the lags needed by the combs of an octave of periods from `from` ns.
    fn new(times: &[u64], grid: u64, from: f64, max_teeth: f64) -> Option<Lags> {
        let span = (times.last()? - times.first()?).max(1) as f64;
        let n = times.len() as f64;
        let needed = (MAX_COMB_NS.max(6.0 * from) + from).min(2.0 * from * (max_teeth + 0.5));
        let longest = needed.min(span / 2.0).min(MAX_PAIRS * span / (n * n));
        let steps = (longest / grid as f64).min(MAX_LAG_STEPS) as usize;
        if times.len() < MIN_EXCEEDANCES {
            return None;
        }
        let mut pairs = vec![0.0; steps + 1];
        for (i, from) in times.iter().enumerate() {
            for to in &times[i + 1..] {
                let lag = ((to - from) as f64 / grid as f64).round() as usize;
                if lag > steps {
                    break;
                }
                pairs[lag] += 1.0;
            }
        }
        let sum = |sum: &mut f64, pairs: f64| Some(core::mem::replace(sum, *sum + pairs));
        let below = pairs.into_iter().chain([0.0]).scan(0.0, sum).collect();
        Some(Lags { below, grid: grid as f64, max_teeth })
    }

    /// Returns the number of pairs from `from` to `to` steps apart, both included.
    fn between(&self, from: usize, to: usize) -> f64 {
        self.below[to + 1] - self.below[from]
    }

    /// Returns the number of combs tested with periods of an octave (steps), and the most significant one.
    fn clearest(&self, (from, to): (f64, f64)) -> (f64, Option<Comb>) {
        let mut best: Option<Comb> = None;
        let mut tested = 0.0;
        let narrowest = (from * MIN_RELATIVE_WIDTH / 2.0) as usize;
        let mut half = narrowest;
        // A tooth is at most a quarter of the period, and at least one step.
        while half == narrowest || (4 * (2 * half + 1)) as f64 <= from {
            let width = (2 * half + 1) as f64;
            let mut period = from;
            while period < to {
                let teeth = self.teeth(period);
                if teeth < MIN_TEETH {
                    break;
                }
                tested += 1.0;
                if let Some(ln_p) = self.ln_p(period, teeth, half)
                    && best.as_ref().is_none_or(|b| ln_p < b.ln_p)
                {
                    let reach = width / 2.0 * self.grid;
                    let (error, grid) = (reach / teeth as f64, self.grid);
                    best = Some(Comb { period: period * grid, reach, error, ln_p, grid });
                }
                // The last tooth of the next comb is shifted by most of a tooth.
                period += 0.7 * width / teeth as f64;
            }
            half = 2 * half + 1;
        }
        (tested, best)
    }

    /// Returns the most significant comb within 1 % of a period in ns.
    fn near(&self, period: f64) -> Option<Comb> {
        self.clearest((period / self.grid * 0.99, period / self.grid * 1.01)).1
    }

    /// Returns the number of teeth of a comb: up to half a period before the last lag.
    fn teeth(&self, period: f64) -> usize {
        let held = (MAX_COMB_NS / self.grid / period).clamp(MIN_TEETH as f64, self.max_teeth);
        (((self.below.len() - 2) as f64 / period - 0.5).max(0.0)).min(held) as usize
    }

    /// Returns ln of the p-value of the number of pairs on the teeth. `None` if there are hardly more than between
    /// them, from half a period before the first tooth to half a period after the last.
    fn ln_p(&self, period: f64, teeth: usize, half: usize) -> Option<f64> {
        let width = (2 * half + 1) as f64;
        let on: f64 = (1..=teeth)
            .map(|k| {
                let at = (k as f64 * period).round() as usize;
                self.between(at - half, at + half)
            })
            .sum();
        let ends = ((period / 2.0).ceil() as usize, ((teeth as f64 + 0.5) * period) as usize);
        let steps = (ends.1 - ends.0 + 1) as f64 - teeth as f64 * width;
        let between = (self.between(ends.0, ends.1) - on).max(0.0);
        let expected = (between + 1.0) / steps.max(1.0) * teeth as f64 * width;
        let more = on - expected;
        // The expectation is estimated from a count too: its error is added to that of the count on the teeth.
        let spread = (1.0 + expected / (between + 1.0)).sqrt();
        (more > 4.0 * spread * expected.sqrt() && more >= MIN_EXCEEDANCES as f64 / 2.0)
            .then(|| ln_beyond(expected + more / spread, expected))
    }
}

/// Returns ln of the probability that a Poisson count with this mean is at least `count`; Chernoff's bound if a double
/// would underflow.
fn ln_beyond(count: f64, mean: f64) -> f64 {
    let bound = count - mean - count * (count / mean).ln();
    if bound < -600.0 { bound } else { gamma_lr(count, mean).max(1e-300).ln() }
}

impl Comb {
    /// Returns ln of the p-value of the number of exceedances that follow another one at a tooth. A few coinciding
    /// exceedances make many pairs, but each of them follows only once.
    fn followers(&self, times: &[u64]) -> f64 {
        let apart = thinned(times, self.period / 4.0);
        let n = apart.len() as f64;
        let span = apart.last().zip(apart.first()).map_or(1, |(last, first)| last - first).max(1) as f64;
        // The number of teeth is limited so that most unrelated exceedances have no accidental partner.
        let a_tooth = 2.0 * self.reach * n / span;
        let teeth =
            (0.3 / a_tooth).min(MAX_COMB_NS / self.period).clamp(MIN_TEETH as f64, MAX_TEETH as f64) as u32;
        let following = |shift: f64| {
            let follows = |&&t: &&u64| {
                (1..=teeth).any(|k| {
                    let expected = t as f64 - (f64::from(k) - shift) * self.period;
                    let at = apart.partition_point(|&u| (u as f64) < expected - self.reach);
                    apart.get(at).is_some_and(|&u| u as f64 <= expected + self.reach)
                })
            };
            apart.iter().filter(follows).count() as f64
        };
        let count = following(0.0);
        // The number of coincidences is also estimated between the teeth, because late activations may come in bursts.
        let between = [0.35, 0.5, 0.65].map(following).iter().sum::<f64>() / 3.0;
        let mean = between.max(n * (1.0 - (-a_tooth * f64::from(teeth)).exp()));
        // Chernoff's bound of the binomial distribution.
        let others = |x: f64, y: f64| if x > 0.0 { x * (x / y).ln() } else { 0.0 };
        if count <= mean { 0.0 } else { -others(count, mean) - others(n - count, n - mean) }
    }

    fn interval(&self) -> Interval {
        Interval { value: self.period, low: self.period - self.error, high: self.period + self.error }
    }
}

/// A phase that is stable over the whole run.
struct Phase {
    /// Period, ns.
    period: Interval,
    /// Most frequent phase, 0 to 1.
    centre: f64,
}

impl Phase {
    /// Finds the period within the comb's error with the highest concentration of phases (Rayleigh). `None` if the
    /// concentration is not significant: the phase drifts.
    fn of(times: &[u64], comb: &Comb) -> Option<Phase> {
        let span = (times.last()? - times.first()?).max(1) as f64;
        let some: Vec<u64> = times.iter().copied().step_by(times.len() / MAX_TIMES + 1).collect();
        let times = some.as_slice();
        let n = times.len() as f64;
        // First in steps that turn the last phase by 0.4 of a period relative to the first, then by a twentieth.
        let turn = comb.period * comb.period / span;
        let best = |centre: f64, step: f64, steps: i64| {
            (-steps..=steps)
                .map(|i| centre + i as f64 * step)
                .map(|period| (period, gathered(times, period)))
                .max_by(|a, b| a.1.0.total_cmp(&b.1.0))
        };
        let steps = (comb.error / (0.4 * turn)).ceil().min(MAX_STEPS);
        let coarse = best(comb.period, 0.4 * turn, steps as i64)?;
        let (value, (gathered, centre)) = best(coarse.0, 0.05 * turn, 8)?;
        // The power is exponential without periodicity; the level is one in a thousand over all steps.
        if gathered * gathered / n < (steps * 2.0 + 17.0).ln() - SIGNIFICANCE.ln() {
            return None;
        }
        // Error of a frequency (Rife and Boorstyn, IEEE Transactions on Information Theory 20, 1974), plus half a step.
        let frequency = (6.0 * n).sqrt() / (gathered * core::f64::consts::TAU * span);
        let error = 1.96 * frequency * comb.period * comb.period + 0.025 * turn;
        Some(Phase { period: Interval { value, low: value - error, high: value + error }, centre })
    }

    /// Returns whether a time after the first is within `reach` of the phase.
    fn holds(&self, after: u64, reach: f64) -> bool {
        let off = (after as f64 / self.period.value - self.centre).rem_euclid(1.0);
        off.min(1.0 - off) * self.period.value <= reach
    }
}

/// Largest number of periods tested for a phase, on each side of the comb's: an hour of 4 ms for a task of 1 ms.
const MAX_STEPS: f64 = 10_000.0;

/// Largest number of times used for a phase; of more times, every n-th is used.
const MAX_TIMES: usize = 3000;

/// Returns the length of the sum of all phases as unit vectors, and its direction (0 to 1).
fn gathered(times: &[u64], period: f64) -> (f64, f64) {
    let sum = times.iter().fold((0.0, 0.0), |sum, &t| {
        let (sin, cos) = (core::f64::consts::TAU * ((t - times[0]) as f64 / period).fract()).sin_cos();
        (sum.0 + cos, sum.1 + sin)
    });
    (f64::hypot(sum.0, sum.1), f64::atan2(sum.1, sum.0) / core::f64::consts::TAU)
}

/// Returns which exceedances belong to a cadence, and their share. It is estimated in two ways that can only be too
/// low: by phase over the whole run, which may drift, and by neighbours, which are missing if few of the cadence's
/// events are late. The larger one is used.
fn members(times: &[u64], comb: &Comb, phase: Option<&Phase>) -> (Vec<bool>, Interval) {
    let n = times.len() as f64;
    let span = times.last().zip(times.first()).map_or(1, |(last, first)| last - first).max(1) as f64;
    let share = |with: usize, random: f64| {
        let with = with as f64 / n;
        let off = 1.96 * (with * (1.0 - with) / n).sqrt() / (1.0 - random);
        let value = ((with - random) / (1.0 - random)).clamp(0.0, 1.0);
        Interval { value, low: (value - off).max(0.0), high: (value + off).min(1.0) }
    };
    let period = phase.map_or(comb.period, |p| p.period.value);
    let neighbours = neighbours(times, period, comb.reach);
    let with = neighbours.iter().filter(|&&m| m > 0).count();
    let mut by_neighbours = share(with, 0.0);
    for _ in 0..20 {
        // Each of the six windows may contain an unrelated exceedance by chance.
        by_neighbours =
            share(with, 1.0 - (-6.0 * 2.0 * comb.reach * n * (1.0 - by_neighbours.value) / span).exp());
    }
    // A time just before an activation and one just after it are observed a whole step apart.
    let wide = comb.reach + comb.grid / 2.0;
    let in_phase = |p: &Phase| times.iter().map(|t| p.holds(t - times[0], wide)).collect::<Vec<bool>>();
    let by_phase = phase.map(in_phase).unwrap_or_default();
    let within = by_phase.iter().filter(|m| **m).count();
    let folded = share(within, (2.0 * wide / period).min(0.9));
    if folded.value >= by_neighbours.value {
        (by_phase, folded)
    } else {
        (neighbours.iter().map(|&m| m > 1).collect(), by_neighbours)
    }
}

/// Returns how many of its six neighbours (one, two and three periods before and after) each exceedance has.
fn neighbours(times: &[u64], period: f64, reach: f64) -> Vec<usize> {
    let near = |expected: f64| {
        let at = times.partition_point(|&t| (t as f64) < expected - reach);
        times.get(at).is_some_and(|&t| t as f64 <= expected + reach)
    };
    let around =
        |t: u64| (1..=3).flat_map(move |k| [-1.0, 1.0].map(|side| t as f64 + side * f64::from(k) * period));
    times.iter().map(|&t| around(t).filter(|&expected| near(expected)).count()).collect()
}

/// Returns the candidates with this period. A task observes an event between two activations at the next one, so a
/// cause whose period is not a multiple of the task's recurs, for the task, at the least common multiple.
fn names(period: Interval, grid_ns: u64, candidates: &[Candidate]) -> Vec<String> {
    let off = (period.high - period.value).max(PERIOD_TOLERANCE * period.value);
    let seen = |c: &Candidate| [c.period_ns as f64, common(c.period_ns, grid_ns)];
    let same = |c: &&Candidate| seen(c).iter().any(|ns| (ns - period.value).abs() <= off);
    candidates.iter().filter(same).map(|c| c.name.clone()).collect()
}

/// Returns the least common multiple.
fn common(a: u64, b: u64) -> f64 {
    let (mut x, mut y) = (a.max(1), b.max(1));
    while y > 0 {
        (x, y) = (y, x % y);
    }
    a as f64 / x as f64 * b as f64
}
