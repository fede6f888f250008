//! How often each asked access of a program, and how many of all accesses of a lap, miss under a policy.

use super::rng::Rng;
use super::{Access, Block, Policy, Program, Set};

/// What a policy makes of a program that is run over and over.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Share of laps, 0 to 1, in which the asked access misses in the level under test; one an asked access, in order.
    pub miss: Vec<f64>,
    /// Standard error of each: 0 where the policy draws no lots, else that of the simulated laps.
    pub error: Vec<f64>,
    /// Does it depend on nothing but the program? Where not, some states lead into one cycle of laps and some into
    /// another; then these shares are the mean over the starts that were tried, and prove nothing.
    pub steady: bool,
}

/// What a policy makes of all accesses of a lap together, asked or not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LapPrediction {
    /// Accesses a lap.
    pub accesses: f64,
    /// Of them, those that miss in the nearer level; 0 where there is none.
    pub missed_nearer: f64,
    /// Its standard error.
    pub nearer_error: f64,
    /// Those that miss in the level under test as well.
    pub missed: f64,
    /// Its standard error.
    pub error: f64,
    /// Do both depend on nothing but the program? See [`Prediction::steady`].
    pub steady: bool,
}

/// Laps after which a program is expected to have forgotten where it started: a probe runs at least so many before it
/// counts.
pub const WARM_UP: usize = 32;
/// States that a simulation starts from: an empty set, and sets after walks of chance, over the program's own blocks
/// and over others.
const STARTS: u64 = 24;
/// The same for whole laps: what a query that is off in one state of ten loses among sixty shows in the time of every lap
/// of its program. The number that finds a state of one in ten in all but one program of ten thousand.
const STARTS_PER_LAP: u64 = 96;
/// Longest cycle of laps that is looked for. Longer ones would not show their mean in the few hundred laps that a probe
/// counts, so a program that has one is not steady.
const MAX_PERIOD_LAPS: usize = 32;
/// Where lots are drawn: starts, laps of each that are thrown away, and laps of each that are counted. Together 320,
/// whose error (2.8 % at worst) is below that of 200 observed laps.
const STARTS_BY_CHANCE: u64 = 16;
/// The same for whole laps, whose errors are smaller: see [`STARTS_PER_LAP`]. Together 1280.
const STARTS_IN_WHOLE_BY_CHANCE: u64 = 32;
const COUNTED_IN_WHOLE: usize = 40;
const WARM: usize = 4;
const COUNTED: usize = 20;
/// Accesses of a long average.
pub(super) const ACCESSES: usize = 400_000;

/// Simulates a program lap after lap in a set of `ways` ways, through the set of the nearer level where there is one
/// (its policy and ways): what hits there does not reach the level under test. The levels are neither inclusive nor
/// exclusive.
#[must_use]
pub fn predict(
    policy: Policy,
    ways: usize,
    program: &Program,
    nearer: Option<(Policy, usize)>,
) -> Prediction {
    let numbered = Numbered::of(program, Counted::Queries);
    let start = |seed| numbered.start(policy, ways, nearer, seed);
    if policy.draws() || nearer.is_some_and(|(p, _)| p.draws()) {
        by_chance(numbered.counts, (0..STARTS_BY_CHANCE).map(start))
    } else {
        without_chance(&numbered, (0..STARTS).map(start))
    }
}

/// As [`predict`], of all accesses of a lap together.
#[must_use]
pub fn predict_lap(
    policy: Policy,
    ways: usize,
    program: &Program,
    nearer: Option<(Policy, usize)>,
) -> LapPrediction {
    let numbered = Numbered::of(program, Counted::Levels);
    let start = |seed| numbered.start(policy, ways, nearer, seed);
    let of_levels = if policy.draws() || nearer.is_some_and(|(p, _)| p.draws()) {
        levels_by_chance((0..STARTS_IN_WHOLE_BY_CHANCE).map(start))
    } else {
        without_chance(&numbered, (0..STARTS_PER_LAP).map(start))
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

fn without_chance<'a>(numbered: &Numbered, starts: impl Iterator<Item = Lap<'a>>) -> Prediction {
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
                // No cycle, but asks that always hit or always miss need none.
                let single = numbered.counted == Counted::Queries;
                let constant = single && shares.iter().all(|s| *s == 0.0 || *s == 1.0);
                let others = &first.get_or_insert((shares.clone(), start)).0;
                constant && shares == *others
            }
        };
        // Two starts that come to different cycles, or one that comes to none, settle it.
        steady &= same;
        if !steady {
            break;
        }
    }
    let miss = first.map_or(vec![0.0; numbered.counts], |f| f.0);
    Prediction { error: vec![0.0; miss.len()], miss, steady }
}

fn by_chance<'a>(queries: usize, starts: impl Iterator<Item = Lap<'a>>) -> Prediction {
    let runs: Vec<Vec<f64>> = starts
        .map(|mut start| {
            start.average(WARM);
            start.average(COUNTED)
        })
        .collect();
    let miss = mean(&runs, queries);
    let laps = (runs.len() * COUNTED) as f64;
    let mut steady = true;
    let error = (0..queries).map(|query| {
        // One more miss and one more hit: a share of 0 or 1 of so many laps is not known to be exactly that.
        let p = (miss[query] * laps + 1.0) / (laps + 2.0);
        let variance = p * (1.0 - p) / COUNTED as f64;
        let squares = runs.iter().map(|r| (r[query] - p).powi(2) / variance);
        let dispersion = squares.clone().sum::<f64>() / (runs.len() - 1) as f64;
        // Starts that differ by more than chance remember where they were.
        steady &= dispersion < MAX_DISPERSION && squares.fold(0.0, f64::max) < MAX_SIGMAS_APART.powi(2);
        (variance * dispersion.max(1.0) / runs.len() as f64).sqrt()
    });
    Prediction { error: error.collect(), miss, steady }
}

/// Of counts that may be any number a lap has no variance that follows from their mean: it is taken from the laps.
fn levels_by_chance<'a>(starts: impl Iterator<Item = Lap<'a>>) -> Prediction {
    let runs: Vec<Vec<Vec<f64>>> = starts
        .map(|mut start| {
            start.average(WARM);
            (0..COUNTED_IN_WHOLE).map(|_| start.average(1)).collect()
        })
        .collect();
    let means: Vec<Vec<f64>> = runs.iter().map(|laps| mean(laps, LEVELS)).collect();
    let miss = mean(&means, LEVELS);
    let (many, each) = (runs.len() as f64, COUNTED_IN_WHOLE as f64);
    let laps = many * each;
    let mut steady = true;
    let error = (0..LEVELS).map(|level| {
        let apart = runs.iter().zip(&means);
        let squares =
            apart.flat_map(|(laps, mean)| laps.iter().map(|lap| (lap[level] - mean[level]).powi(2)));
        // Laps that were all alike are not known to be: one more miss or less in as many laps again.
        let variance = (squares.sum::<f64>() / (laps - many)).max(1.0 / laps) / each;
        let squares = means.iter().map(|m| (m[level] - miss[level]).powi(2) / variance);
        let dispersion = squares.clone().sum::<f64>() / (many - 1.0);
        steady &= dispersion < MAX_DISPERSION && squares.fold(0.0, f64::max) < MAX_SIGMAS_APART.powi(2);
        // What is observed comes from one start, not from all: what they differ by, beyond chance, is its error.
        (variance * (dispersion.max(1.0) / many + (dispersion - 1.0).max(0.0))).sqrt()
    });
    Prediction { error: error.collect(), miss, steady }
}

/// Dispersion of the starts (chi-squared a degree of freedom) at which a program is not steady: chance passes it once in
/// ten thousand asks.
const MAX_DISPERSION: f64 = 2.95;
/// Standard errors by which one start may differ from the mean of all.
const MAX_SIGMAS_APART: f64 = 5.0;

fn mean(runs: &[Vec<f64>], queries: usize) -> Vec<f64> {
    (0..queries).map(|i| runs.iter().map(|r| r[i]).sum::<f64>() / runs.len().max(1) as f64).collect()
}

/// Misses a lap of a program's asked accesses, from an empty set.
pub(super) fn from_empty(policy: Policy, ways: usize, program: &Program, accesses: usize) -> f64 {
    let numbered = Numbered::of(program, Counted::Queries);
    let mut lap = numbered.start(policy, ways, None, 0);
    let counted = (accesses / numbered.accesses.len().max(1)).max(COUNTED);
    if !policy.draws()
        && let Cycle::New(shares) = lap.cycle(None)
    {
        return shares.iter().sum();
    }
    lap.average(counted / 8);
    lap.average(counted).iter().sum()
}

/// What is counted of a lap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    /// The misses of each asked access in the level under test.
    Queries,
    /// The misses of all accesses in the nearer level, and in the level under test.
    Levels,
}

/// Counts of [`Counted::Levels`].
const LEVELS: usize = 2;

/// A program whose blocks are numbered from 0 without gaps.
struct Numbered {
    accesses: Vec<(u16, Access)>,
    blocks: usize,
    counted: Counted,
    counts: usize,
    /// Of the program, so that no two programs' errors have the same draws in common (FNV-1a over the blocks).
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

    /// The sets after a walk of chance over the program's own blocks.
    fn start(&self, policy: Policy, ways: usize, nearer: Option<(Policy, usize)>, seed: u64) -> Lap<'_> {
        let mut rng = Rng::new(self.salt ^ seed);
        let mut set = |policy, ways| Set::new(policy, ways, rng.next());
        let mut lap = Lap {
            program: self,
            tested: set(policy, ways),
            nearer: nearer.map(|(policy, ways)| set(policy, ways)),
        };
        // Twice as many blocks as ways, of the program or of others, in a random order: every kind of state.
        let most = ways.max(nearer.map_or(0, |(_, w)| w));
        let others = (seed % 2) as usize * self.blocks;
        let among = if others > 0 { 2 * most } else { self.blocks };
        let steps = if seed == 0 { 0 } else { 5 * most + rng.below(most + 1) };
        for _ in 0..steps {
            lap.visit((others + rng.below(among)) as u16, Block::Tested(0));
        }
        lap
    }
}

/// How the laps repeat, and the shares of misses over one cycle.
enum Cycle {
    /// On the cycle that was known.
    Known,
    New(Vec<f64>),
    /// Not within [`WARM_UP`] laps, or on none of [`MAX_PERIOD_LAPS`] laps or less; the shares over so many.
    None(Vec<f64>),
}

/// A program on its way.
#[derive(Clone)]
struct Lap<'a> {
    program: &'a Numbered,
    tested: Set,
    nearer: Option<Set>,
}

impl Lap<'_> {
    /// One access; did it miss in the nearer level, and in the level under test?
    fn visit(&mut self, number: u16, block: Block) -> (bool, bool) {
        let answered = self.nearer.as_mut().map(|n| n.visit(number));
        let arrives = answered != Some(true) && matches!(block, Block::Tested(_));
        (answered == Some(false), arrives && !self.tested.visit(number))
    }

    /// One lap; adds its misses to `missed`.
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

    /// Runs until the laps repeat, and through exactly one cycle of them. It is found by keeping a state and looking out
    /// for it, twice as long each time (R. Brent, "An improved Monte Carlo factorization algorithm", BIT 1980). `known`
    /// is a state on a cycle that was found before.
    fn cycle(&mut self, known: Option<&Lap<'_>>) -> Cycle {
        let (mut laps, mut window) = (0, 1);
        loop {
            let kept = self.clone();
            let last = laps + window >= WARM_UP;
            let most = if last { MAX_PERIOD_LAPS } else { window };
            let mut missed = vec![0.0; self.program.counts];
            for lap in 1..=most {
                self.run(&mut missed);
                if known.is_some_and(|known| self.same_state(known)) {
                    return Cycle::Known;
                }
                let back = self.same_state(&kept);
                if back || (last && lap == most) {
                    let shares = missed.iter().map(|m| m / lap as f64).collect();
                    return if back { Cycle::New(shares) } else { Cycle::None(shares) };
                }
            }
            laps += window;
            window *= 2;
        }
    }

    /// Shares of misses over so many laps.
    fn average(&mut self, laps: usize) -> Vec<f64> {
        let mut missed = vec![0.0; self.program.counts];
        for _ in 0..laps {
            self.run(&mut missed);
        }
        missed.iter().map(|m| m / laps.max(1) as f64).collect()
    }
}
