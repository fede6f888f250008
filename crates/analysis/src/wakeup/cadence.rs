//! What comes back periodically: the period of late activations, from the times between any two of them.
//!
//! If every T something is late, then of two late activations more lie T, 2 T, 3 T apart than lie in between: a comb.
//! That holds too where some are missing, where others come in between, and where the phase drifts, as folding over
//! the whole run would not. The comb of T stands out further from chance than that of a multiple, which misses teeth,
//! and than that of a part, which has teeth where nothing is: so a cadence of 100 ms is called neither 1 s nor 50 ms.

use statrs::function::gamma::gamma_lr;

use crate::interval::Interval;

/// A period with a name: what could be behind a cadence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What it is, say `tick`.
    pub name: String,
    /// ns.
    pub period_ns: u64,
}

/// Something that comes back.
#[derive(Clone, Debug, PartialEq)]
pub struct Cadence {
    /// ns, with its 95 % interval.
    pub period_ns: Interval,
    /// The candidates with that period; none where nothing that is known has it.
    pub names: Vec<String>,
    /// The share of the exceedances that belongs to it, with its 95 % interval.
    pub share: Interval,
    /// Exceedances it was read from; those of activations in a row are one.
    pub count: usize,
}

/// No period beyond 2.5 s is looked for: the slowest cause known here (throttle and fair server) has 1 s.
const MAX_NS: f64 = 2.5e9;
/// Nor one below 0.9 ms: the fastest tick has 1 ms.
const MIN_NS: f64 = 0.9e6;
/// Teeth of a comb at most, and at least,
const TEETH: (usize, usize) = (32, 3);
/// and between them as many as lie within 7.5 s, three of the longest period: no phase need hold longer than that,
/// and no period has the advantage of lags that another does not have.
const HELD_NS: f64 = 7.5e9;
/// A tooth is at least this share of the period: narrower ones would take long, and no cause is more exact for a task
/// that shares the machine.
const MIN_RELATIVE_WIDTH: f64 = 1.0 / 200.0;
/// Pairs looked at in an octave of periods, at most: then the comb is shorter.
const PAIRS: f64 = 2e6;
/// Steps of the grid in a lag at most: 20 s at 10 us. What claims a finer grid gets a shorter comb and not all memory.
const STEPS: f64 = 2e6;
/// Chance of a comb as clear as that by luck, over all that are looked at together.
const SIGNIFICANCE: f64 = 1e-3;
/// A cadence of less than this share of the exceedances is not told: it would explain next to nothing.
const MIN_SHARE: f64 = 0.05;
/// Fewer exceedances than this say nothing.
const MIN_EXCEEDANCES: usize = 10;
/// A candidate has the period where they agree within 1 %, three times what the clocks of two machines differ by in
/// the worst case, and far less than any two candidates.
const SAME: f64 = 0.01;
/// So many causes at most are looked for, one after the other.
const CAUSES: usize = 3;

/// The cadences of the times of exceedances, ns, the clearest first. `grid_ns` is the task's own period: what happens
/// between two activations is seen at the next, so nothing shorter than three of them can be told, and nothing below
/// 0.9 ms is looked for.
///
/// What belongs to a cadence is taken out before the next is looked for. So a cause whose period is a multiple of
/// another's and which always comes with it is not told from it.
#[must_use]
pub fn find(times_ns: &[u64], grid_ns: u64, candidates: &[Candidate]) -> Vec<Cadence> {
    let grid = grid_ns.max(1);
    let mut left = stalls(times_ns, grid);
    let whole = left.len();
    let mut found: Vec<Cadence> = Vec::new();
    while found.len() < CAUSES {
        let Some(comb) = clearest(&left, grid) else { break };
        let phase = Phase::of(&left, &comb);
        let period = phase.as_ref().map_or_else(|| comb.interval(), |p| p.period);
        if found.iter().any(|c| (c.period_ns.value / period.value - 1.0).abs() < 2.0 * SAME) {
            break;
        }
        let (members, share) = members(&left, &comb, phase.as_ref());
        let share = share.scaled(left.len() as f64 / whole as f64);
        if share.value < MIN_SHARE {
            break;
        }
        found.push(Cadence {
            period_ns: period,
            names: names(period, grid, candidates),
            share,
            count: whole,
        });
        let rest: Vec<u64> = left.iter().zip(&members).filter(|(_, of)| !**of).map(|(t, _)| *t).collect();
        if rest.len() == left.len() {
            break;
        }
        left = rest;
    }
    found
}

/// The first of each run of exceedances with at most one activation between: a stall that makes several activations
/// late is one, and its pairs with another would look like chance that repeats itself.
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

/// A comb that stands out.
struct Comb {
    /// Period, ns.
    period: f64,
    /// Half the width of a tooth, ns.
    reach: f64,
    /// Step of the times, ns.
    grid: f64,
    /// How far off the period may be, ns: half a tooth's width at the last tooth.
    error: f64,
    /// ln of the chance that luck makes one as clear.
    chance: f64,
}

/// The clearest comb of all periods and widths of teeth, if luck does not make it.
fn clearest(times: &[u64], grid: u64) -> Option<Comb> {
    let (first, last) = (*times.first()?, *times.last()?);
    let longest = MAX_NS.min((last - first) as f64 / 6.0);
    let mut best: Option<Comb> = None;
    let mut looked = 0.0f64;
    let mut from = MIN_NS.max(3.0 * grid as f64);
    while from < longest && times.len() >= MIN_EXCEEDANCES {
        let apart = thinned(times, from / 4.0);
        let octave = (from / grid as f64, (2.0 * from).min(longest) / grid as f64);
        if let Some(lags) = Lags::new(&apart, grid, from, TEETH.0 as f64) {
            let (tried, comb) = lags.clearest(octave);
            looked += tried;
            best = comb.into_iter().chain(best).min_by(|a, b| a.chance.total_cmp(&b.chance));
        }
        from *= 2.0;
    }
    let mut best = best.filter(|b| b.chance + looked.max(1.0).ln() < SIGNIFICANCE.ln())?;
    for _ in 0..ROUNDS {
        let Some(fairer) = fairer(times, grid, &best) else { break };
        best = fairer;
    }
    let best = exact(times, grid, best);
    (best.followers(times) + looked.ln() < SIGNIFICANCE.ln()).then_some(best)
}

/// The comb of a multiple or a part of the period which stands out further than this one, where both look at the same
/// exceedances and the same lags. The first look is not fair: an octave of longer periods leaves out more exceedances,
/// and its combs reach further.
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
        theirs.filter(|t| ours.is_none_or(|ours| t.chance < ours.chance))
    })
}

/// The comb with its period as its whole reach tells it.
fn exact(times: &[u64], grid: u64, comb: Comb) -> Comb {
    let apart = thinned(times, comb.period / 4.0);
    let lags = Lags::new(&apart, grid, comb.period * 0.9, f64::INFINITY);
    lags.and_then(|lags| lags.near(comb.period)).unwrap_or(comb)
}

/// How often a comb gives way to a fairer one: 250 ticks of 4 ms are five factors.
const ROUNDS: usize = 5;

/// Those that come at least `dead` ns after the last that was taken: storms of late ones would repeat themselves
/// against each other. What is dense by itself would become regular by that: there the time is shorter, a fifth of
/// what lies between two of those taken.
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

/// How many pairs lie how far apart, in steps of the grid.
struct Lags {
    /// Running sum: pairs that lie less than so many steps apart.
    below: Vec<f64>,
    grid: f64,
    /// Teeth of a comb at most.
    most: f64,
}

impl Lags {
    /// Lags as the combs of an octave of periods from `from` ns need them.
    fn new(times: &[u64], grid: u64, from: f64, most: f64) -> Option<Lags> {
        let span = (times.last()? - times.first()?).max(1) as f64;
        let n = times.len() as f64;
        let needed = (HELD_NS.max(6.0 * from) + from).min(2.0 * from * (most + 0.5));
        let longest = needed.min(span / 2.0).min(PAIRS * span / (n * n));
        let steps = (longest / grid as f64).min(STEPS) as usize;
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
        Some(Lags { below, grid: grid as f64, most })
    }

    /// Pairs from `from` to `to` steps apart, both included.
    fn between(&self, from: usize, to: usize) -> f64 {
        self.below[to + 1] - self.below[from]
    }

    /// How many combs with periods of an octave (steps) were looked at, and the clearest.
    fn clearest(&self, (from, to): (f64, f64)) -> (f64, Option<Comb>) {
        let mut best: Option<Comb> = None;
        let mut looked = 0.0;
        let narrowest = (from * MIN_RELATIVE_WIDTH / 2.0) as usize;
        let mut half = narrowest;
        // A tooth is at most a quarter of the period, and one step at least.
        while half == narrowest || (4 * (2 * half + 1)) as f64 <= from {
            let width = (2 * half + 1) as f64;
            let mut period = from;
            while period < to {
                let teeth = self.teeth(period);
                if teeth < TEETH.1 {
                    break;
                }
                looked += 1.0;
                if let Some(chance) = self.chance(period, teeth, half)
                    && best.as_ref().is_none_or(|b| chance < b.chance)
                {
                    let reach = width / 2.0 * self.grid;
                    let (error, grid) = (reach / teeth as f64, self.grid);
                    best = Some(Comb { period: period * grid, reach, error, chance, grid });
                }
                // The last tooth of the next comb lies most of a tooth further.
                period += 0.7 * width / teeth as f64;
            }
            half = 2 * half + 1;
        }
        (looked, best)
    }

    /// The clearest comb within 1 % of a period in ns.
    fn near(&self, period: f64) -> Option<Comb> {
        self.clearest((period / self.grid * 0.99, period / self.grid * 1.01)).1
    }

    /// Teeth of a comb: to half a period before the last lag.
    fn teeth(&self, period: f64) -> usize {
        let held = (HELD_NS / self.grid / period).clamp(TEETH.1 as f64, self.most);
        (((self.below.len() - 2) as f64 / period - 0.5).max(0.0)).min(held) as usize
    }

    /// ln of the chance that luck puts so many pairs on the teeth; `None` where there are hardly more than beside
    /// them: from half a period before the first tooth to half a period behind the last.
    fn chance(&self, period: f64, teeth: usize, half: usize) -> Option<f64> {
        let width = (2 * half + 1) as f64;
        let on: f64 = (1..=teeth)
            .map(|k| {
                let at = (k as f64 * period).round() as usize;
                self.between(at - half, at + half)
            })
            .sum();
        let ends = ((period / 2.0).ceil() as usize, ((teeth as f64 + 0.5) * period) as usize);
        let steps = (ends.1 - ends.0 + 1) as f64 - teeth as f64 * width;
        let beside = (self.between(ends.0, ends.1) - on).max(0.0);
        let expected = (beside + 1.0) / steps.max(1.0) * teeth as f64 * width;
        let more = on - expected;
        // The expectation is itself a count: its error adds to that of what is on the teeth.
        let spread = (1.0 + expected / (beside + 1.0)).sqrt();
        (more > 4.0 * spread * expected.sqrt() && more >= MIN_EXCEEDANCES as f64 / 2.0)
            .then(|| ln_beyond(expected + more / spread, expected))
    }
}

/// ln of the chance that a Poisson count of this mean is at least `count`; its bound (Chernoff) where a double does
/// not hold it.
fn ln_beyond(count: f64, mean: f64) -> f64 {
    let bound = count - mean - count * (count / mean).ln();
    if bound < -600.0 { bound } else { gamma_lr(count, mean).max(1e-300).ln() }
}

impl Comb {
    /// ln of the chance that luck has so many exceedances follow another at a tooth. A few that meet by luck make
    /// many pairs, but each of them follows only once.
    fn followers(&self, times: &[u64]) -> f64 {
        let apart = thinned(times, self.period / 4.0);
        let n = apart.len() as f64;
        let span = apart.last().zip(apart.first()).map_or(1, |(last, first)| last - first).max(1) as f64;
        // No more teeth than leave most of those that follow nothing without a chance partner.
        let a_tooth = 2.0 * self.reach * n / span;
        let teeth = (0.3 / a_tooth).min(HELD_NS / self.period).clamp(TEETH.1 as f64, TEETH.0 as f64) as u32;
        let following = |shift: f64| {
            let follows = |&&t: &&u64| {
                (1..=teeth).any(|k| {
                    let wanted = t as f64 - (f64::from(k) - shift) * self.period;
                    let at = apart.partition_point(|&u| (u as f64) < wanted - self.reach);
                    apart.get(at).is_some_and(|&u| u as f64 <= wanted + self.reach)
                })
            };
            apart.iter().filter(follows).count() as f64
        };
        let count = following(0.0);
        // What luck does is seen between the teeth as well, where late ones come in storms.
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

/// A phase that holds over the whole run.
struct Phase {
    /// ns.
    period: Interval,
    /// Where in the period most are, 0 to 1.
    centre: f64,
}

impl Phase {
    /// The period within the comb's error at which the phases gather best (Rayleigh); `None` where they gather no
    /// better than luck has it: the phase drifts.
    fn of(times: &[u64], comb: &Comb) -> Option<Phase> {
        let span = (times.last()? - times.first()?).max(1) as f64;
        let some: Vec<u64> = times.iter().copied().step_by(times.len() / MAX_TIMES + 1).collect();
        let times = some.as_slice();
        let n = times.len() as f64;
        // First in steps that turn the last phase by four tenths against the first, then by a twentieth.
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
        // The power is exponential under chance; one in a thousand over all steps.
        if gathered * gathered / n < (steps * 2.0 + 17.0).ln() - SIGNIFICANCE.ln() {
            return None;
        }
        // The error of a frequency (Rife and Boorstyn, IEEE Transactions on Information Theory 20, 1974), and half a
        // step.
        let frequency = (6.0 * n).sqrt() / (gathered * core::f64::consts::TAU * span);
        let error = 1.96 * frequency * comb.period * comb.period + 0.025 * turn;
        Some(Phase { period: Interval { value, low: value - error, high: value + error }, centre })
    }

    /// Does a time after the first lie within `reach` of the phase?
    fn holds(&self, after: u64, reach: f64) -> bool {
        let off = (after as f64 / self.period.value - self.centre).rem_euclid(1.0);
        off.min(1.0 - off) * self.period.value <= reach
    }
}

/// Periods that a phase is looked for at, to each side of the comb's: an hour of 4 ms at a task of 1 ms.
const MAX_STEPS: f64 = 10_000.0;

/// Times that a phase is looked for in, at most: every so-manyth of more.
const MAX_TIMES: usize = 3000;

/// The length of the sum of all phases as unit vectors, and where it points (0 to 1).
fn gathered(times: &[u64], period: f64) -> (f64, f64) {
    let sum = times.iter().fold((0.0, 0.0), |sum, &t| {
        let (sin, cos) = (core::f64::consts::TAU * ((t - times[0]) as f64 / period).fract()).sin_cos();
        (sum.0 + cos, sum.1 + sin)
    });
    (f64::hypot(sum.0, sum.1), f64::atan2(sum.1, sum.0) / core::f64::consts::TAU)
}

/// Which exceedances belong to a cadence, and what share they are. Told in two ways, each of which can only see too
/// few: by phase over the whole run, which may drift, and by neighbours, which are missing where few of the cadence's
/// times are late.
fn members(times: &[u64], comb: &Comb, phase: Option<&Phase>) -> (Vec<bool>, Interval) {
    let n = times.len() as f64;
    let span = times.last().zip(times.first()).map_or(1, |(last, first)| last - first).max(1) as f64;
    let share = |with: usize, luck: f64| {
        let with = with as f64 / n;
        let off = 1.96 * (with * (1.0 - with) / n).sqrt() / (1.0 - luck);
        let value = ((with - luck) / (1.0 - luck)).clamp(0.0, 1.0);
        Interval { value, low: (value - off).max(0.0), high: (value + off).min(1.0) }
    };
    let period = phase.map_or(comb.period, |p| p.period.value);
    let neighbours = neighbours(times, period, comb.reach);
    let with = neighbours.iter().filter(|&&m| m > 0).count();
    let mut beside = share(with, 0.0);
    for _ in 0..20 {
        // What does not belong meets, in each of six windows, something else that does not belong.
        beside = share(with, 1.0 - (-6.0 * 2.0 * comb.reach * n * (1.0 - beside.value) / span).exp());
    }
    // A time just before an activation and one just behind it are seen a whole step apart.
    let wide = comb.reach + comb.grid / 2.0;
    let in_phase = |p: &Phase| times.iter().map(|t| p.holds(t - times[0], wide)).collect::<Vec<bool>>();
    let by_phase = phase.map(in_phase).unwrap_or_default();
    let within = by_phase.iter().filter(|m| **m).count();
    let folded = share(within, (2.0 * wide / period).min(0.9));
    if folded.value >= beside.value {
        (by_phase, folded)
    } else {
        (neighbours.iter().map(|&m| m > 1).collect(), beside)
    }
}

/// How many of its six neighbours (one, two and three periods before and after) each exceedance has.
fn neighbours(times: &[u64], period: f64, reach: f64) -> Vec<usize> {
    let near = |wanted: f64| {
        let at = times.partition_point(|&t| (t as f64) < wanted - reach);
        times.get(at).is_some_and(|&t| t as f64 <= wanted + reach)
    };
    let around =
        |t: u64| (1..=3).flat_map(move |k| [-1.0, 1.0].map(|side| t as f64 + side * f64::from(k) * period));
    times.iter().map(|&t| around(t).filter(|&wanted| near(wanted)).count()).collect()
}

/// The candidates with this period. A task sees what lies between two of its activations at the next one, so a cause
/// whose period is no multiple of the task's comes back, for the task, at the least common multiple.
fn names(period: Interval, grid_ns: u64, candidates: &[Candidate]) -> Vec<String> {
    let off = (period.high - period.value).max(SAME * period.value);
    let seen = |c: &Candidate| [c.period_ns as f64, common(c.period_ns, grid_ns)];
    let same = |c: &&Candidate| seen(c).iter().any(|ns| (ns - period.value).abs() <= off);
    candidates.iter().filter(same).map(|c| c.name.clone()).collect()
}

/// The least common multiple.
fn common(a: u64, b: u64) -> f64 {
    let (mut x, mut y) = (a.max(1), b.max(1));
    while y > 0 {
        (x, y) = (y, x % y);
    }
    a as f64 / x as f64 * b as f64
}
