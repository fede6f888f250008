//! Trials of wake-ups: lengths, costs, and queries of a record about them.

use super::conditions::{self, Case, FACTORS, NO_WORK};
use super::options::Options;
use super::{PERIOD_NS, PRIORITY};
use crate::budget::Budget;
use crate::cost::Cost;
use crate::record::{Record, TrialRun};
use crate::round;
use fathom_probe::load::Stress;
use fathom_probe::machine::Wakes;
use fathom_probe::pattern::{MAX_SERIES_NS, Memory, PatternKind, Trial, Wake};
use fathom_probe::splitmix::mix;

/// Activations that are dropped at the start of each series: the timer's path is cold, workers settle.
pub(super) const WARM: u64 = 50;

/// Minimum number of activations per series: fewer give no percentile beyond the median.
pub(super) const MIN_ACTIVATIONS: u64 = 100;

/// Maximum length of a series, ns: conditions must be interleaved faster than the environment changes, and ctrl-C waits
/// for the end of a series.
pub(super) const MAX_NS: u64 = 5_000_000_000;

/// Longest series that the plan chooses itself, ns.
pub(super) const MAX_PLANNED_NS: u64 = 3_000_000_000;

/// Number of the pilot round.
pub(super) const PILOT_ROUND: u64 = 1;

/// Assembles a round from valid trials: a hostile record may request blocks without size and periods of years.
pub(super) fn assemble(
    record: &Record,
    budget: &Budget,
    mut trials: Vec<Trial>,
    rank: impl Fn(&Trial) -> u8,
    seeds: (u64, u64),
) -> Vec<Trial> {
    trials.retain(|trial| Trial::read(&trial.line()).is_ok());
    let cost = Cost { modelled: budget.modelled, latency_curve: &[] };
    let price = |trial: &Trial| cost.of(trial).saturating_add(cost_of_load(record, budget, trial));
    round::assemble_at_cost(record, budget, trials, (rank, price), seeds)
}

/// Returns the accesses of a trial's load on a model, by the series of the same load so far.
fn cost_of_load(record: &Record, budget: &Budget, trial: &Trial) -> u64 {
    let load = &trial.beside.load;
    if !budget.modelled || load.is_none() {
        return 0;
    }
    let same = record.of(PatternKind::Wake).filter(|run| run.trial.beside.load == *load);
    same.filter_map(accesses_each).max().unwrap_or(0).saturating_mul(trial.samples + trial.warm)
}

/// Returns the accesses of a series on a model per activation.
fn accesses_each(run: &TrialRun) -> Option<u64> {
    let accesses = run.done.as_ref()?.watch.accesses;
    Some(accesses / (run.trial.samples + run.trial.warm).max(1))
}

pub(super) fn untraced(record: &Record) -> bool {
    Options::of(record).untraced
}

/// Returns whether the task was ever woken.
pub(super) fn was_woken(record: &Record) -> bool {
    record.of(PatternKind::Wake).any(|run| run.trial.is::<Wake>(|wake| !wake.wakes.timerlat))
}

/// Returns whether tracing is granted.
pub(super) fn traced(record: &Record) -> bool {
    let traced = |run: &TrialRun| run.trial.is::<Wake>(|wake| wake.wakes.traced) && run.done.is_some();
    record.of(PatternKind::Wake).any(traced)
}

/// Returns the reason and the remedy with which the machine of a record refused a case's load. Wake-ups without a load
/// may be refused with tracing and granted without.
pub(super) fn refusal<'a>(record: &'a Record, case: &Case) -> Option<&'a (String, String)> {
    let loaded = !case.load.is_none();
    let counts = |run: &&TrialRun| loaded || run.trial.round > PILOT_ROUND;
    let of = |run: &&TrialRun| run.refusal.is_some() && case.is_of(&run.trial) && counts(run);
    record.trials.iter().find(of).and_then(|run| run.refusal.as_ref())
}

/// Returns the factors of the design for the machine of a record: all, but on a described machine without those that it
/// refused in the pilot round.
pub(super) fn factors(record: &Record) -> Vec<Stress> {
    let alone = |kind: Stress| conditions::named(kind.token()).map(|condition| Case::of(condition, record));
    let refused = |kind: Stress| alone(kind).is_some_and(|case| refusal(record, &case).is_some());
    let modelled = record.is_modelled();
    FACTORS.into_iter().filter(|kind| !modelled || !refused(*kind)).collect()
}

/// Returns a series of `n` activations of a case.
pub(super) fn series(record: &Record, case: &Case, n: u64, traced: bool) -> Trial {
    let requested = Options::of(record);
    let wakes = Wakes {
        every_ns: requested.period_ns.unwrap_or(PERIOD_NS),
        priority: requested.priority.unwrap_or(PRIORITY),
        traced,
        ..Wakes::default()
    };
    let trial = Trial {
        memory: Memory { bytes: NO_WORK, ..Memory::default() },
        samples: n,
        warm: WARM,
        ..Trial::of(Wake::of(wakes))
    };
    case.onto(trial, record)
}

/// Limits the activations of a series. With a long period [`MIN_ACTIVATIONS`] are allowed to take longer than
/// [`MAX_NS`], up to the probe's limit per trial.
pub(super) fn limit_activations(record: &Record, n: u64) -> u64 {
    let max = |ns: u64| ns / every_ns(record);
    n.min(max(MAX_NS)).max(MIN_ACTIVATIONS.min(max(MAX_SERIES_NS).saturating_sub(WARM)))
}

/// Returns the period, ns; not 0.
pub(super) fn every_ns(record: &Record) -> u64 {
    record
        .of(PatternKind::Wake)
        .next()
        .map_or(PERIOD_NS, |run| run.trial.or_default::<Wake>().wakes.every_ns)
        .max(1)
}

/// Returns the cost of an activation in the budget's unit: the period; on a model that of the most expensive series so
/// far.
pub(super) fn activation_cost(record: &Record, budget: &Budget) -> Option<u64> {
    if !budget.modelled {
        return Some(every_ns(record));
    }
    let seen = record.of(PatternKind::Wake).filter_map(accesses_each).max()?;
    // The pilot series run a task without work; conditions that sweep before each sleep cost more.
    let cost = Cost { modelled: true, latency_curve: &[] };
    let one = Trial { samples: 1, ..Trial::of(Wake::default()) };
    let cost_of = |case: &Case| cost.of(&Trial { warm: 0, ..case.onto(one.clone(), record) });
    let dearest = conditions::cases(record).iter().map(cost_of).max().unwrap_or(0);
    Some(seen.max(dearest).max(1))
}

/// Returns a seed for random numbers of a reading, from the record's seed.
pub(super) fn seed_of(record: &Record, salt: u64) -> u64 {
    mix(record.run.as_ref().map_or(0, |run| run.seed) ^ salt)
}
