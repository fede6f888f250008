//! Trials of wake-ups: how long, how many, and what the record has of them already.

use super::conditions::{self, Case, NO_WORK};
use super::options::Options;
use super::{EVERY_NS, PRIORITY};
use crate::budget::Budget;
use crate::cost::Cost;
use crate::record::{Record, TrialRun};
use crate::round;
use fathom_probe::machine::Wakes;
use fathom_probe::pattern::{MAX_SERIES_NS, Memory, PatternKind, Trial, Wake};
use fathom_probe::splitmix::mix;

/// Activations that are dropped at the start of each series: the timer's path is cold, workers settle.
pub(super) const WARM: u64 = 50;

/// Fewest activations of a series: below that no percentile beyond the median is worth a row.
pub(super) const MIN_ACTIVATIONS: u64 = 100;

/// Longest series, ns: conditions have to be interleaved faster than the surroundings change, and ctrl-C waits.
pub(super) const MAX_NS: u64 = 5_000_000_000;

/// Longest series of the plan's own choice, ns.
pub(super) const LONG_NS: u64 = 3_000_000_000;

/// The number of the look's round.
pub(super) const PILOT_ROUND: u64 = 1;

/// A round of what can be asked: a record may come from anywhere, and ask for blocks of nothing and periods of years.
pub(super) fn close(
    record: &Record,
    budget: &Budget,
    mut wanted: Vec<Trial>,
    rank: impl Fn(&Trial) -> u8,
    seeds: (u64, u64),
) -> Vec<Trial> {
    wanted.retain(|trial| Trial::read(&trial.line()).is_ok());
    round::assemble(record, budget, wanted, rank, seeds)
}

pub(super) fn untraced(record: &Record) -> bool {
    Options::of(record).untraced
}

/// Was the task ever woken?
pub(super) fn awake(record: &Record) -> bool {
    record.of(PatternKind::Wake).any(|run| run.trial.is::<Wake>(|wake| !wake.wakes.timerlat))
}

/// Are the earlier places granted?
pub(super) fn traced(record: &Record) -> bool {
    let traced = |run: &TrialRun| run.trial.is::<Wake>(|wake| wake.wakes.traced) && run.done.is_some();
    record.of(PatternKind::Wake).any(traced)
}

/// A series of `n` activations of a cell.
pub(super) fn series(record: &Record, case: &Case, n: u64, traced: bool) -> Trial {
    let requested = Options::of(record);
    let wakes = Wakes {
        every_ns: requested.every_ns.unwrap_or(EVERY_NS),
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

/// As many activations of so many that a series may have: of a long period [`MIN_ACTIVATIONS`], though they take longer than
/// [`MAX_NS`], while the probe runs so long a trial.
pub(super) fn within(record: &Record, n: u64) -> u64 {
    let most = |ns: u64| ns / every_ns(record);
    n.min(most(MAX_NS)).max(MIN_ACTIVATIONS.min(most(MAX_SERIES_NS).saturating_sub(WARM)))
}

/// The period, ns; not 0.
pub(super) fn every_ns(record: &Record) -> u64 {
    record
        .of(PatternKind::Wake)
        .next()
        .map_or(EVERY_NS, |run| run.trial.or_default::<Wake>().wakes.every_ns)
        .max(1)
}

/// What an activation costs, in the budget's coin: the period; of a model what the dearest series so far took.
pub(super) fn an_activation(record: &Record, budget: &Budget) -> Option<u64> {
    if !budget.modelled {
        return Some(every_ns(record));
    }
    let of = |run: &TrialRun| {
        let accesses = run.done.as_ref()?.watch.accesses;
        Some(accesses / (run.trial.samples + run.trial.warm).max(1))
    };
    let seen = record.of(PatternKind::Wake).filter_map(of).max()?;
    // The look is of a task with nothing to do: what a condition sweeps before each sleep costs more.
    let cost = Cost { modelled: true, latency_curve: &[] };
    let one = Trial { samples: 1, ..Trial::of(Wake::default()) };
    let price = |case: &Case| cost.of(&Trial { warm: 0, ..case.onto(one.clone(), record) });
    let dearest = conditions::cases(record).iter().map(price).max().unwrap_or(0);
    Some(seen.max(dearest).max(1))
}

/// A seed for what a reading draws: from the record's own.
pub(super) fn seed_of(record: &Record, salt: u64) -> u64 {
    mix(record.run.as_ref().map_or(0, |run| run.seed) ^ salt)
}
