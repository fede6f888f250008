//! The plan of `fathom wakeup`: a pilot round that tests what the machine grants; then rounds over every condition and
//! the randomised design, or over the sweep.

use fathom_analysis::metrics::wakeup::condition;
use fathom_analysis::wakeup::factorial::Design;
use fathom_probe::pattern::{PatternKind, Trial, Wake};

use super::conditions::{self, Case, FACTORS};
use super::options::Options;
use super::sweep;
use super::trials::{
    self, MAX_PLANNED_NS, MIN_ACTIVATIONS, PILOT_ROUND, WARM, activation_cost, assemble, every_ns,
    limit_activations, series, traced, untraced, was_woken,
};
use crate::budget::Budget;
use crate::cost::WAKE_START_NS;
use crate::record::Record;
use crate::round;

/// Activations per pilot series: enough to detect a refusal, and the cost of an activation on a model.
const PILOT_ACTIVATIONS: u64 = 40;
/// And per pilot series of a load on a described machine, whose speed varies little.
const PILOT_LOADED: u64 = 4;
/// Minimum number of rounds. The design's effects need two complete rounds; three reveal a bad one.
const MIN_ROUNDS: u64 = 3;
/// Series per round of the reference conditions: their p99.9 is needed first.
const CORE_SERIES: usize = 3;
/// The reference conditions.
const CORE: [&str; 3] = [condition::UNLOADED, condition::STRESS_MIX, condition::STRESS_MIX_VM];

/// Returns the next round; empty at the end. The request is that of the record's options.
#[must_use]
pub fn plan(record: &Record, seed: u64, budget_ms: u64) -> Vec<Trial> {
    let number = record.round() + 1;
    let budget = Budget::of(record, budget_ms);
    if number == PILOT_ROUND {
        return assemble(record, &budget, pilot(record), |_| 0, (seed, 0x9e55));
    }
    if !was_woken(record) {
        return Vec::new();
    }
    if Options::of(record).sweep {
        return sweep::round(record, &budget, seed);
    }
    let trials = conditions_round(record, &budget, number);
    assemble(record, &budget, trials, rank, (seed, 0x9e55))
}

/// Returns the order in which trials are dropped from the budget: first the design, then single factors, last the
/// reference conditions.
fn rank(trial: &Trial) -> u8 {
    match conditions::factors_of(&FACTORS, &trial.beside.load) {
        _ if CORE.iter().any(|core| conditions::is_named(core, trial)) => 0,
        Some(on) if on.iter().filter(|on| **on).count() != 1 => 2,
        _ => 1,
    }
}

/// Returns the pilot round: wake-ups without load, with and without tracing, which are granted or refused with a
/// reason.
fn pilot(record: &Record) -> Vec<Trial> {
    let none = conditions::named(condition::UNLOADED).map(|none| Case::of(none, record));
    let traced = [false, true].into_iter().filter(|traced| !traced || !untraced(record));
    let mut all: Vec<Trial> = traced
        .zip(none.into_iter().cycle())
        .map(|(traced, none)| Trial { warm: 10, ..series(record, &none, PILOT_ACTIVATIONS, traced) })
        .collect();
    if record.is_modelled() {
        // Each load is refused here, or shows its cost.
        let loads = if Options::of(record).sweep { sweep::pilot(record) } else { conditions::cases(record) };
        let loaded = loads.into_iter().filter(|case| !case.load.is_none());
        all.extend(loaded.map(|case| Trial { warm: 1, ..series(record, &case, PILOT_LOADED, false) }));
    } else {
        // A described machine has no kernel that could provide these.
        all.extend(timerlat(record, PILOT_ACTIVATIONS).filter(|_| !untraced(record)));
        let confined = conditions::confined(record).filter(|_| conditions::confined_scheduled(record));
        all.extend(confined.map(|case| series(record, &case, PILOT_ACTIVATIONS, false)));
    }
    all.push(round::clock());
    all
}

/// Returns a series of the kernel's own timerlat thread without load: its places are those that the kernel reports.
fn timerlat(record: &Record, n: u64) -> Option<Trial> {
    let none = Case::of(conditions::named(condition::UNLOADED)?, record);
    let mut trial = series(record, &none, n, false);
    trial.get_mut::<Wake>()?.wakes.timerlat = true;
    Some(trial)
}

/// Returns whether it was granted.
fn has_timerlat(record: &Record) -> bool {
    record.of(PatternKind::Wake).any(|run| run.trial.is::<Wake>(|wake| wake.wakes.timerlat))
}

/// Returns a round of every condition, those of [`CORE`] [`CORE_SERIES`] times, and of the design. The budget gives the
/// length of a series.
fn conditions_round(record: &Record, budget: &Budget, number: u64) -> Vec<Trial> {
    let places = traced(record);
    let mut cases: Vec<(Case, bool)> = Vec::new();
    let runs = |case: &Case| trials::refusal(record, case).is_none();
    for case in conditions::cases(record).into_iter().filter(runs) {
        let times = if CORE.contains(&case.token.as_str()) { CORE_SERIES } else { 1 };
        // The overhead of tracing is measured: one series per round without it.
        if places && case.token == condition::UNLOADED {
            cases.push((case.clone(), false));
        }
        cases.extend(std::iter::repeat_n((case, places), times));
    }
    let factors = trials::factors(record);
    if conditions::design_scheduled(record)
        && let Some(design) = Design::new(factors.len())
    {
        let of = |case| (conditions::of_factors(&factors, design.levels(case)), places);
        cases.extend((0..design.cases()).map(of).filter(|(case, _)| runs(case)));
    }
    let timerlat_series = u64::from(has_timerlat(record));
    let Some((rounds, n)) = shares(record, budget, cases.len() as u64 + timerlat_series, number) else {
        return Vec::new();
    };
    if number > PILOT_ROUND + rounds {
        return Vec::new();
    }
    let of_cases = cases.iter().map(|(case, traced)| series(record, case, n, *traced));
    of_cases.chain(timerlat(record, n).filter(|_| timerlat_series > 0)).collect()
}

/// Returns the number of rounds after the pilot round, and the activations per series of the next round, so that the
/// remaining rounds fit into the remaining budget.
fn shares(record: &Record, budget: &Budget, count: u64, number: u64) -> Option<(u64, u64)> {
    let each = activation_cost(record, budget)?;
    let start = if budget.modelled { 0 } else { WAKE_START_NS };
    // From the whole budget, so that every round computes the same number.
    let longest =
        (MAX_PLANNED_NS / every_ns(record)).max(MIN_ACTIVATIONS).saturating_mul(each).saturating_add(start);
    let rounds = (budget.total / count.max(1) / longest).clamp(MIN_ROUNDS, 64);
    let remain = (PILOT_ROUND + rounds + 1).saturating_sub(number).max(1);
    let share = budget.left() / remain / count.max(1);
    // A twentieth is reserved for cycle calibrations and estimation errors.
    let n = (share - share / 20).saturating_sub(start) / each;
    Some((rounds, limit_activations(record, n.saturating_sub(WARM))))
}
