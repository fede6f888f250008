//! Capacities under noise in bursts.
//!
//! Neighbours on a shared machine only add time, for milliseconds to seconds, and unevenly. So trials are a mixture:
//! undisturbed ones, whose samples agree, and disturbed ones. A working set that was fast once fits, whatever slower
//! trials it had. A working set that was slow does not fit only if noise alone is an improbable reason: the probability
//! that all of its slow trials were disturbed, after what trials close to the capacity show of the share and the length of bursts,
//! is below 2.5 %.
//!
//! An entry of a TLB may cover several pages whose frames happen to lie side by side (AMD's cores join their entries; on Arm a kernel
//! can ask for it). Then more pages fit in single trials, while others on fewer pages, as quiet, miss in full. Both happen by chance,
//! and the less improbable one is taken to have happened.

use crate::interval::Interval;

/// A trial at one working set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// Working set (bytes, or pages).
    pub x: f64,
    /// Position in the session.
    pub at: u64,
    /// Latency, any unit.
    pub y: f64,
    /// Whether its samples agree.
    pub quiet: bool,
}

/// A range of working sets that has one capacity in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Latency within the capacity.
    pub here: f64,
    /// Latency beyond it.
    pub next: f64,
    /// Smallest and largest working set considered.
    pub range: (f64, f64),
    /// Smallest rise that counts, as a share of the step.
    pub share: f64,
    /// Whether an entry may cover several units of the working set in some trials: pages of a TLB.
    pub may_cover_several: bool,
}

impl Step {
    /// Returns the latency from which on a trial is slow.
    fn threshold(&self) -> f64 {
        self.here + (self.share * (self.next - self.here)).max(MIN_RISE * self.here)
    }

    /// Returns the relative overflow whose trials are not slow.
    fn hidden(&self) -> f64 {
        let share = (self.threshold() - self.here) / (self.next - self.here).max(f64::MIN_POSITIVE);
        share.min(1.0) / MISSES_OF_A_LINE
    }
}

/// Result for a capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    /// Largest working set that fits.
    pub fits: f64,
    /// Smallest working set that does not; the end of the range if noise may explain all slow trials.
    pub risen: Option<f64>,
    /// Smallest working set above `fits` with a slow trial: noise may explain it, more trials decide.
    pub doubtful: Option<f64>,
    /// Number of trials above `fits` that were fast because an entry covered several pages.
    pub covered: usize,
}

impl Bracket {
    /// Returns the interval of the capacity, open ends at the ends of the range.
    #[must_use]
    pub fn interval(&self, value: f64, step: &Step) -> Interval {
        let low = self.fits * SHRINK / (1.0 + step.hidden());
        let high = self.risen.map_or(step.range.1, |x| x * GROW);
        Interval { value: value.clamp(low, high), low, high }
    }
}

/// Smallest relative rise that counts: noise that is there all the time, for example that of a shared clock.
const MIN_RISE: f64 = 0.025;
/// Largest probability that noise explains the slow trials of a working set that does not fit. Half of 5 %: the other
/// end of the interval may err too.
const MAX_CHANCE: f64 = 0.025;
/// The low end of the interval is below the largest working set that fits, by this and by the overflow that the threshold hides.
const SHRINK: f64 = 0.99;
/// Misses that one line more than fit in a set causes in each lap, at least: that of random replacement with any number of ways
/// (simulated with 2 to 16). All other policies of described machines miss more.
const MISSES_OF_A_LINE: f64 = 2.0;
/// The cache holds some lines of other data, so a working set that does not fit may be smaller than it: of an EPYC's 32 KiB,
/// 31.9 KiB did not fit.
const GROW: f64 = 1.01;
/// Time scales of bursts, in trials: on a shared EPYC guest the disturbed trials came in runs of ten to a hundred.
const BURST_TRIALS: [f64; 5] = [1.0, 5.0, 20.0, 60.0, 200.0];
/// Shares of the time in which a machine is disturbed, and the weight of each before any trial: a little more at both ends, like Jeffreys' prior.
const SHARES: [(f64, f64); 9] = [
    (0.01, 1.0),
    (0.03, 1.0),
    (0.1, 1.0),
    (0.2, 0.8),
    (0.35, 0.8),
    (0.5, 0.8),
    (0.65, 0.8),
    (0.8, 0.8),
    (0.95, 1.0),
];
/// Working sets within this factor below the largest that fits are its controls.
const CONTROLS: f64 = 1.25;
/// Smallest number of control working sets.
const MIN_CONTROLS: usize = 4;
/// Share of a step from which on a trial misses in full.
const WHOLLY: f64 = 0.8;
/// Probability that a trial is fast because entries cover several pages. On an EPYC (Zen 5) guest whose TLB holds 96, 3 of 43 trials on
/// 107 to 183 pages were in two of the three sessions of thirty that had such trials.
const COVERED: f64 = 0.03;

/// Returns the bracket of a step's capacity; `None` if no trial fits.
#[must_use]
pub fn bracket(trials: &[Trial], step: &Step) -> Option<Bracket> {
    let mut all: Vec<Trial> =
        trials.iter().copied().filter(|t| t.x >= step.range.0 && t.x <= step.range.1).collect();
    all.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.at.cmp(&b.at)));
    let threshold = step.threshold();
    let is_fast = |t: &Trial| t.y <= threshold;
    let sizes: Vec<&[Trial]> = all.chunk_by(|a, b| a.x == b.x).collect();
    // A fast trial whose samples disagree has a time from few samples: two of them count as one.
    let fits = |of: &[Trial]| {
        let fast: Vec<&Trial> = of.iter().filter(|t| is_fast(t)).collect();
        fast.len() >= 2 || fast.iter().any(|t| t.quiet)
    };
    let mut last = sizes.iter().rposition(|of| fits(of))?;
    let mut covered = 0;
    if step.may_cover_several {
        let fitting: Vec<usize> = (0..last).filter(|i| fits(sizes[*i])).collect();
        if let Some(found) = uncovered(&sizes[..=last], &fitting, step, is_fast) {
            (last, covered) = found;
        }
    }
    let largest = sizes[last][0].x;
    let noise = Noise { controls: controls(&sizes, last), is_fast };
    let (mut slow, mut risen, mut doubtful) = (Vec::<&Trial>::new(), None, None);
    for of in &sizes[last + 1..] {
        slow.extend(of.iter().filter(|t| !is_fast(t)));
        doubtful = doubtful.or(slow.first().map(|t| t.x));
        if noise.joint_chance(slow.iter().copied()) < MAX_CHANCE {
            risen = Some(of[0].x);
            break;
        }
    }
    Some(Bracket { fits: largest, risen, doubtful, covered })
}

/// Returns which of the `fitting` sizes is the largest that fits if entries covered several pages in the fast trials of the larger ones,
/// and the number of these trials; `None` if noise in the slow trials between is more probable.
fn uncovered(
    sizes: &[&[Trial]],
    fitting: &[usize],
    step: &Step,
    is_fast: impl Fn(&Trial) -> bool + Copy,
) -> Option<(usize, usize)> {
    let missed = |t: &&Trial| t.quiet && t.y >= step.here + WHOLLY * (step.next - step.here);
    let gain = |i: usize| {
        let above = || sizes[i + 1..].iter().flat_map(|of| of.iter());
        let noise = Noise { controls: controls(sizes, i), is_fast };
        let covered = above().filter(|t| is_fast(t)).count();
        (i, covered, COVERED.ln() * covered as f64 - noise.joint_chance(above().filter(missed)).ln())
    };
    let likeliest = fitting.iter().map(|i| gain(*i)).max_by(|a, b| a.2.total_cmp(&b.2))?;
    (likeliest.2 > 0.0).then_some((likeliest.0, likeliest.1))
}

/// Returns the trials of the working sets that are the controls of the one at `last`.
fn controls(sizes: &[&[Trial]], last: usize) -> Vec<Trial> {
    let largest = sizes[last][0].x;
    let near = sizes[..=last].iter().filter(|of| of[0].x >= largest / CONTROLS).count().max(MIN_CONTROLS);
    sizes[(last + 1).saturating_sub(near)..=last].concat()
}

/// What trials that should be fast show of the noise: it comes and goes, and the state at one trial tells that at the next ones.
struct Noise<F> {
    controls: Vec<Trial>,
    is_fast: F,
}

impl<F: Fn(&Trial) -> bool> Noise<F> {
    /// Returns the probability that noise made all of these trials slow. Slow ones whose samples agree are compared with controls like that, others with
    /// all disturbed ones.
    fn joint_chance<'a>(&self, slow: impl Iterator<Item = &'a Trial>) -> f64 {
        let (quiet, other): (Vec<&Trial>, Vec<&Trial>) = slow.partition(|t| t.quiet);
        self.chance(&quiet, |t| t.quiet && !(self.is_fast)(t))
            * self.chance(&other, |t| !t.quiet || !(self.is_fast)(t))
    }

    /// Returns the probability that all of these trials were disturbed, after what the controls show: the mean over shares and lengths of bursts, each
    /// weighted by how well it explains the controls.
    fn chance(&self, slow: &[&Trial], is_disturbed: impl Fn(&Trial) -> bool) -> f64 {
        if slow.is_empty() {
            return 1.0;
        }
        let mut known: Vec<(u64, bool)> = self.controls.iter().map(|t| (t.at, is_disturbed(t))).collect();
        known.sort_unstable();
        let mut all = known.clone();
        all.extend(slow.iter().map(|t| (t.at, true)));
        all.sort_unstable();
        let (mut explained, mut both) = (Vec::new(), Vec::new());
        for length in BURST_TRIALS {
            for (share, prior) in SHARES {
                explained.push(prior.ln() + log_likelihood(&known, share, length));
                both.push(prior.ln() + log_likelihood(&all, share, length));
            }
        }
        let most = explained.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum = |logs: &[f64]| logs.iter().map(|log| (log - most).exp()).sum::<f64>();
        sum(&both) / sum(&explained)
    }
}

/// Returns the logarithm of the probability of these states of trials, ascending in time, of noise that is there in this share of the time and whose
/// state lasts for about `length` trials.
fn log_likelihood(states: &[(u64, bool)], share: f64, length: f64) -> f64 {
    let mut before: Option<(u64, bool)> = None;
    let one = |&(at, is_disturbed): &(u64, bool)| {
        let anew = if is_disturbed { share } else { 1.0 - share };
        let chance = before.map_or(anew, |(then, was)| {
            let lasts = (-(at.abs_diff(then) as f64) / length).exp();
            (1.0 - lasts) * anew + if was == is_disturbed { lasts } else { 0.0 }
        });
        before = Some((at, is_disturbed));
        chance.max(f64::MIN_POSITIVE).ln()
    };
    states.iter().map(one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns trials at 16 to 48 of a machine of capacity 32 with bursts of noise, `rounds` at each size.
    fn session(seed: u64, rounds: u64, busy: u64) -> Vec<Trial> {
        let mut state = seed;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let mut all = Vec::new();
        let (mut at, mut noisy) = (0, false);
        for _ in 0..rounds {
            for n in 0..32 {
                at += 1;
                if random() % 12 == 0 {
                    noisy = random() % 100 < busy;
                }
                // Every size once per round, in an order that differs between rounds.
                let x = (16 + (n * 7 + random() % 32) % 32) as f64;
                let quiet_y = if x <= 32.0 { 4.0 } else { 4.0 + 10.0 * (x / 32.0 - 1.0).min(0.5) * 2.0 };
                let y = if noisy { quiet_y + 0.2 + (random() % 50) as f64 / 10.0 } else { quiet_y };
                all.push(Trial { x, at, y, quiet: !noisy });
            }
        }
        all
    }

    const STEP: Step =
        Step { here: 4.0, next: 14.0, range: (16.0, 48.0), share: 0.04, may_cover_several: false };

    #[test]
    fn interval_holds_the_capacity_in_quiet_and_noisy_sessions() {
        let mut wide = 0;
        for (busy, seeds) in [(0, 20), (30, 100), (60, 100)] {
            let mut held = 0;
            for seed in 1..=seeds {
                let found = bracket(&session(seed, 6, busy), &STEP).unwrap().interval(32.0, &STEP);
                held += usize::from(found.low <= 32.0 && 32.0 <= found.high);
                wide += usize::from(found.high > 40.0);
            }
            // A correct 95 % interval fails this with a probability below 0.001.
            assert!(held as f64 >= 0.88 * seeds as f64, "busy {busy}: {held} of {seeds}");
        }
        assert!(wide < 30, "{wide} intervals say nothing");
    }

    /// Under random replacement each line too many misses twice in a lap: the first working sets beyond the capacity are fast.
    #[test]
    fn overflow_below_the_threshold_is_in_the_interval() {
        for (capacity, next) in [(1024.0, 14.0), (1024.0, 5.5), (20_480.0, 6.0)] {
            let step = Step { next, range: (0.5 * capacity, 2.0 * capacity), ..STEP };
            let trial = |i: u64| {
                let x = capacity * (0.9 + 0.001 * i as f64);
                let misses = (2.0 * (x - capacity).max(0.0) / x).min(1.0);
                Trial { x, at: i, y: 4.0 + misses * (next - 4.0), quiet: true }
            };
            let found = bracket(&(0..300).map(trial).collect::<Vec<_>>(), &step).unwrap();
            assert!(found.fits > 1.01 * capacity, "{found:?}");
            let interval = found.interval(capacity, &step);
            assert!(interval.low <= capacity && interval.low > 0.97 * capacity, "{interval:?}");
        }
    }

    #[test]
    fn one_noisy_trial_below_the_capacity_is_no_capacity() {
        let mut trials = session(3, 3, 0);
        trials.retain(|t| t.x != 25.0);
        trials.push(Trial { x: 25.0, at: 50, y: 9.0, quiet: false });
        let found = bracket(&trials, &STEP).unwrap();
        assert!(found.fits >= 31.0 && found.risen.is_some_and(|x| x > 32.0), "{found:?}");
    }

    /// A TLB of 32 entries. Of the trials on more pages one in ten has frames side by side, of those on fewer a third is slow.
    #[test]
    fn pages_that_share_entries_are_no_capacity() {
        let step = Step { may_cover_several: true, ..STEP };
        let covered = |t: &Trial| t.quiet && t.x > 34.0 && (t.at * 7 + t.x as u64).is_multiple_of(10);
        for busy in [0, 30] {
            let mut held = [0; 2];
            for seed in 1..=100 {
                let mut trials = session(seed, 6, busy);
                trials.iter_mut().filter(|t| t.quiet && t.x > 32.0).for_each(|t| t.y = 14.0);
                let plain = bracket(&trials, &step).unwrap();
                trials.iter_mut().filter(|t| covered(t)).for_each(|t| t.y = 4.0);
                let found = bracket(&trials, &step).unwrap();
                let holds =
                    |b: &Bracket| b.fits <= 32.0 && b.risen.is_some_and(|x| (32.0..36.0).contains(&x));
                held[0] += usize::from(holds(&plain) && plain.covered == 0);
                held[1] += usize::from(holds(&found) && found.covered > 0);
            }
            assert!(held.iter().all(|held| *held >= 93), "busy {busy}: {held:?} of 100");
        }
    }

    /// Half of the time a neighbour takes ways: five slow trials next to one another are hardly more evidence than one, far from one another they are.
    #[test]
    fn slow_trials_that_may_share_a_burst_are_little_evidence() {
        let trial = |x: f64, at, slow: bool| Trial { x, at, y: if slow { 9.0 } else { 4.0 }, quiet: true };
        // Bursts of 40 trials.
        let controls = (0..40).map(|i| trial(20.0 + (i % 4) as f64, 10 * i, i / 4 % 2 == 1));
        let risen = |slow: &[u64]| {
            let slow = slow.iter().map(|at| trial(24.0, *at, true));
            bracket(&controls.clone().chain(slow).collect::<Vec<_>>(), &STEP).unwrap().risen
        };
        assert_eq!(risen(&[405, 406, 407, 408, 409]), None);
        assert_eq!(risen(&[5, 85, 165, 245, 325, 405]), Some(24.0));
    }

    #[test]
    fn slow_trials_in_one_burst_leave_the_end_open() {
        let quiet = |x: f64, at| Trial { x, at, y: 4.0, quiet: true };
        let noisy = |x: f64, at| Trial { x, at, y: 9.0, quiet: false };
        let mut trials: Vec<Trial> = (0..8).map(|i| quiet(16.0 + i as f64, i)).collect();
        trials.extend((0..3).map(|i| noisy(22.0 - i as f64, 20 + i)));
        trials.extend((0..3).map(|i| noisy(24.0 + i as f64, 23 + i)));
        let found = bracket(&trials, &STEP).unwrap();
        assert_eq!((found.fits, found.risen, found.doubtful), (23.0, None, Some(24.0)));
        assert_eq!(bracket(&[noisy(20.0, 1)], &STEP), None);
    }
}
