//! Predicts the misses of a program under a policy: of each timed access, and of all accesses of a lap.

use super::rng::Rng;
use super::{Access, Block, Policy, Program, Set};

/// Predicted misses of a repeated program, by timed access.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Share of laps, 0 to 1, in which the timed access misses in the level under test; one per timed access, in order.
    pub miss: Vec<f64>,
    /// Standard error of each: 0 for deterministic policies, else that of the simulated laps.
    pub error: Vec<f64>,
    /// Whether the prediction is independent of the initial state. If not, different states lead to different cycles of
    /// laps; then the shares are means over the simulated starts and prove nothing.
    pub steady: bool,
}

/// Predicted misses of all accesses of a lap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LapPrediction {
    /// Accesses per lap.
    pub accesses: f64,
    /// Misses in the nearer level; 0 without one.
    pub missed_nearer: f64,
    /// Standard error of it.
    pub nearer_error: f64,
    /// Misses in the level under test.
    pub missed: f64,
    /// Standard error of it.
    pub error: f64,
    /// Whether both are independent of the initial state. See [`Prediction::steady`].
    pub steady: bool,
}

/// Laps after which a program is assumed to be independent of its start: a probe runs at least this many before it
/// counts.
pub const WARM_UP: usize = 32;
/// Number of simulated starts: an empty set, and sets after random walks over the program's own blocks and over others.
const EXACT_STARTS: u64 = 24;
/// The same for whole laps. A timed load that is off in one of ten states is one among sixty, but it affects the time
/// of every lap of its program. This number finds a state of probability one in ten in all but one program of ten
/// thousand.
const STARTS_PER_LAP: u64 = 96;
/// Longest cycle of laps that is detected. The mean over a longer one would not be reached in the few hundred laps that
/// a probe counts, so such a program is not steady.
const MAX_PERIOD_LAPS: usize = 32;
/// Number of starts of a random policy. With it, the laps of each that are discarded, and the laps of each that are
/// counted: together 320, with an error (2.8 % at worst) below that of 200 observed laps.
const RANDOM_STARTS: u64 = 16;
/// The same for whole laps, whose errors are smaller: see [`STARTS_PER_LAP`]. Together 1280.
const RANDOM_STARTS_PER_LAP: u64 = 32;
const COUNTED_PER_LAP: usize = 40;
const WARM_UP_LAPS: usize = 4;
const COUNTED_LAPS: usize = 20;
/// Accesses of a long average, from an empty set.
pub(super) const LONG_AVERAGE_ACCESSES: usize = 400_000;

/// Simulates repeated laps of a program in a set of `ways` ways, behind the set of the nearer level if there is one
/// (its policy and ways): hits there do not reach the level under test. The levels are neither inclusive nor exclusive.
#[must_use]
pub fn predict(
    policy: Policy,
    ways: usize,
    program: &Program,
    nearer: Option<(Policy, usize)>,
) -> Prediction {
    let numbered = Numbered::of(program, Counted::Queries);
    let start = |seed| numbered.start(policy, ways, nearer, seed);
    if policy.is_random() || nearer.is_some_and(|(p, _)| p.is_random()) {
        random_prediction(numbered.counts, (0..RANDOM_STARTS).map(start))
    } else {
        exact_prediction(&numbered, (0..EXACT_STARTS).map(start))
    }
}

/// As [`predict`], for all accesses of a lap together.
#[must_use]
pub fn predict_lap(
    policy: Policy,
    ways: usize,
    program: &Program,
    nearer: Option<(Policy, usize)>,
) -> LapPrediction {
    let numbered = Numbered::of(program, Counted::Levels);
    let start = |seed| numbered.start(policy, ways, nearer, seed);
    let of_levels = if policy.is_random() || nearer.is_some_and(|(p, _)| p.is_random()) {
        random_levels((0..RANDOM_STARTS_PER_LAP).map(start))
    } else {
        exact_prediction(&numbered, (0..STARTS_PER_LAP).map(start))
    };
    LapPrediction {
        accesses: program.accesses.len() as f64,
        missed_nearer: of_levels.miss[0],
        nearer_error: of_levels.error[0],
        missed: of_levels.miss[1],
        error: of_levels.error[1],
        steady: of_levels.steady,
    }
}

fn exact_prediction<'a>(numbered: &Numbered, starts: impl Iterator<Item = Lap<'a>>) -> Prediction {
    let mut first: Option<(Vec<f64>, Lap<'a>)> = None;
    let mut steady = true;
    for mut start in starts {
        let known = first.as_ref().map(|(_, on_cycle)| on_cycle);
        let same = match (start.cycle(known), &first) {
            (Cycle::Known, _) => true,
            (Cycle::New(shares), Some((others, _))) => shares == *others,
            (Cycle::New(shares), None) => {
                first = Some((shares, start));
                true
            }
            (Cycle::None(shares), _) => {
                // Without a cycle, timed loads that always hit or always miss are steady too.
                let single = numbered.counted == Counted::Queries;
                let constant = single && shares.iter().all(|s| *s == 0.0 || *s == 1.0);
                let others = &first.get_or_insert((shares.clone(), start)).0;
                constant && shares == *others
            }
        };
        // Two starts with different cycles, or one without a cycle, are enough.
        steady &= same;
        if !steady {
            break;
        }
    }
    let miss = first.map_or(vec![0.0; numbered.counts], |f| f.0);
    Prediction { error: vec![0.0; miss.len()], miss, steady }
}

fn random_prediction<'a>(queries: usize, starts: impl Iterator<Item = Lap<'a>>) -> Prediction {
    let runs: Vec<Vec<f64>> = starts
        .map(|mut start| {
            start.average(WARM_UP_LAPS);
            start.average(COUNTED_LAPS)
        })
        .collect();
    let miss = mean(&runs, queries);
    let laps = (runs.len() * COUNTED_LAPS) as f64;
    let mut steady = true;
    let error = (0..queries).map(|query| {
        // One miss and one hit are added, because a share of 0 or 1 over finitely many laps is not exact.
        let p = (miss[query] * laps + 1.0) / (laps + 2.0);
        let variance = p * (1.0 - p) / COUNTED_LAPS as f64;
        let squares = runs.iter().map(|r| (r[query] - p).powi(2) / variance);
        let dispersion = squares.clone().sum::<f64>() / (runs.len() - 1) as f64;
        // Starts that differ significantly depend on their initial state.
        steady &= dispersion < MAX_DISPERSION && squares.fold(0.0, f64::max) < MAX_SIGMAS_APART.powi(2);
        (variance * dispersion.max(1.0) / runs.len() as f64).sqrt()
    });
    Prediction { error: error.collect(), miss, steady }
}

/// Counts per lap have no variance that follows from their mean, so it is estimated from the laps.
fn random_levels<'a>(starts: impl Iterator<Item = Lap<'a>>) -> Prediction {
    let runs: Vec<Vec<Vec<f64>>> = starts
        .map(|mut start| {
            start.average(WARM_UP_LAPS);
            (0..COUNTED_PER_LAP).map(|_| start.average(1)).collect()
        })
        .collect();
    let means: Vec<Vec<f64>> = runs.iter().map(|laps| mean(laps, LEVELS)).collect();
    let miss = mean(&means, LEVELS);
    let (many, each) = (runs.len() as f64, COUNTED_PER_LAP as f64);
    let laps = many * each;
    let mut steady = true;
    let error = (0..LEVELS).map(|level| {
        let apart = runs.iter().zip(&means);
        let squares =
            apart.flat_map(|(laps, mean)| laps.iter().map(|lap| (lap[level] - mean[level]).powi(2)));
        // Equal laps do not prove a variance of 0: one miss more or less in as many further laps is assumed.
        let variance = (squares.sum::<f64>() / (laps - many)).max(1.0 / laps) / each;
        let squares = means.iter().map(|m| (m[level] - miss[level]).powi(2) / variance);
        let dispersion = squares.clone().sum::<f64>() / (many - 1.0);
        steady &= dispersion < MAX_DISPERSION && squares.fold(0.0, f64::max) < MAX_SIGMAS_APART.powi(2);
        // An observation has one start, so the systematic difference between starts is part of its error.
        (variance * (dispersion.max(1.0) / many + (dispersion - 1.0).max(0.0))).sqrt()
    });
    Prediction { error: error.collect(), miss, steady }
}

/// Largest dispersion of the starts (chi-squared per degree of freedom) of a steady program: exceeded by chance for one
/// timed load in ten thousand.
const MAX_DISPERSION: f64 = 2.95;
/// Largest difference of one start from the mean of all, in standard errors.
const MAX_SIGMAS_APART: f64 = 5.0;

fn mean(runs: &[Vec<f64>], queries: usize) -> Vec<f64> {
    (0..queries).map(|i| runs.iter().map(|r| r[i]).sum::<f64>() / runs.len().max(1) as f64).collect()
}

/// Returns the misses per lap of a program's timed accesses, from an empty set.
pub(super) fn from_empty(policy: Policy, ways: usize, program: &Program, accesses: usize) -> f64 {
    let numbered = Numbered::of(program, Counted::Queries);
    let mut lap = numbered.start(policy, ways, None, 0);
    let counted = (accesses / numbered.accesses.len().max(1)).max(COUNTED_LAPS);
    if !policy.is_random()
        && let Cycle::New(shares) = lap.cycle(None)
    {
        return shares.iter().sum();
    }
    lap.average(counted / 8);
    lap.average(counted).iter().sum()
}

/// Quantity counted per lap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    /// Misses of each timed access in the level under test.
    Queries,
    /// Misses of all accesses in the nearer level, and in the level under test.
    Levels,
}

/// Number of counts of [`Counted::Levels`].
const LEVELS: usize = 2;

/// A program whose blocks are numbered from 0 without gaps.
struct Numbered {
    accesses: Vec<(u16, Access)>,
    blocks: usize,
    counted: Counted,
    counts: usize,
    /// Hash of the program (FNV-1a over the blocks), so that the random draws of two programs are independent.
    salt: u64,
}

impl Numbered {
    fn of(program: &Program, counted: Counted) -> Numbered {
        let mut blocks: Vec<Block> = program.accesses.iter().map(|a| a.block).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let number = |b: Block| blocks.binary_search(&b).unwrap_or(0).min(usize::from(u16::MAX) - 1) as u16;
        let accesses: Vec<(u16, Access)> = program.accesses.iter().map(|a| (number(a.block), *a)).collect();
        let salt = accesses.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, (n, a)| {
            (hash ^ (2 * u64::from(*n) + u64::from(a.timed))).wrapping_mul(0x0100_0000_01b3)
        });
        let counts = if counted == Counted::Queries { program.queries() } else { LEVELS };
        Numbered { accesses, blocks: blocks.len(), counted, counts, salt }
    }

    /// Returns the sets after a random walk over the program's own blocks or others.
    fn start(&self, policy: Policy, ways: usize, nearer: Option<(Policy, usize)>, seed: u64) -> Lap<'_> {
        let mut rng = Rng::new(self.salt ^ seed);
        let mut set = |policy, ways| Set::new(policy, ways, rng.next());
        let mut lap = Lap {
            program: self,
            tested: set(policy, ways),
            nearer: nearer.map(|(policy, ways)| set(policy, ways)),
        };
        // Twice as many blocks as ways, of the program or others, in a random order, to reach every kind of state.
        let max = ways.max(nearer.map_or(0, |(_, w)| w));
        let others = (seed % 2) as usize * self.blocks;
        let among = if others > 0 { 2 * max } else { self.blocks };
        let steps = if seed == 0 { 0 } else { 5 * max + rng.below(max + 1) };
        for _ in 0..steps {
            lap.visit((others + rng.below(among)) as u16, Block::Tested(0));
        }
        lap
    }
}

/// Cycle of laps, and the shares of misses over it.
enum Cycle {
    /// The cycle that was already known.
    Known,
    New(Vec<f64>),
    /// No cycle within [`WARM_UP`] laps, or none of [`MAX_PERIOD_LAPS`] laps or less; with the shares over these laps.
    None(Vec<f64>),
}

/// State of a running program.
#[derive(Clone)]
struct Lap<'a> {
    program: &'a Numbered,
    tested: Set,
    nearer: Option<Set>,
}

impl Lap<'_> {
    /// Performs one access; returns whether it missed in the nearer level, and in the level under test.
    fn visit(&mut self, number: u16, block: Block) -> (bool, bool) {
        let nearer_hit = self.nearer.as_mut().map(|n| n.visit(number));
        let arrives = nearer_hit != Some(true) && matches!(block, Block::Tested(_));
        (nearer_hit == Some(false), arrives && !self.tested.visit(number))
    }

    /// Runs one lap and adds its misses to `missed`.
    fn run(&mut self, missed: &mut [f64]) {
        let mut query = 0;
        for &(number, access) in &self.program.accesses {
            let (nearer, miss) = self.visit(number, access.block);
            if self.program.counted == Counted::Levels {
                missed[0] += f64::from(nearer);
                missed[1] += f64::from(miss);
            } else if access.timed {
                missed[query] += f64::from(miss);
                query += 1;
            }
        }
    }

    fn same_state(&self, other: &Lap<'_>) -> bool {
        let nearer = match (&self.nearer, &other.nearer) {
            (Some(a), Some(b)) => a.same_state(b),
            _ => true,
        };
        nearer && self.tested.same_state(&other.tested)
    }

    /// Runs until the laps repeat, and through exactly one cycle of them. The cycle is found by saving a state and
    /// comparing with it, over twice as many laps each time (R. Brent, "An improved Monte Carlo factorization
    /// algorithm", BIT 1980). `known` is a state on a cycle found before.
    fn cycle(&mut self, known: Option<&Lap<'_>>) -> Cycle {
        let (mut laps, mut window) = (0, 1);
        loop {
            let kept = self.clone();
            let last = laps + window >= WARM_UP;
            let max = if last { MAX_PERIOD_LAPS } else { window };
            let mut missed = vec![0.0; self.program.counts];
            for lap in 1..=max {
                self.run(&mut missed);
                if known.is_some_and(|known| self.same_state(known)) {
                    return Cycle::Known;
                }
                let back = self.same_state(&kept);
                if back || (last && lap == max) {
                    let shares = missed.iter().map(|m| m / lap as f64).collect();
                    return if back { Cycle::New(shares) } else { Cycle::None(shares) };
                }
            }
            laps += window;
            window *= 2;
        }
    }

    /// Returns the shares of misses over `laps` laps.
    fn average(&mut self, laps: usize) -> Vec<f64> {
        let mut missed = vec![0.0; self.program.counts];
        for _ in 0..laps {
            self.run(&mut missed);
        }
        missed.iter().map(|m| m / laps.max(1) as f64).collect()
    }
}
