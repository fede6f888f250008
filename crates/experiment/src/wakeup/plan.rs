//! The plan: a look at what the machine grants; then rounds of every condition and of the randomised design, or of the
//! sweep.

use fathom_analysis::metrics::wakeup::condition;
use fathom_analysis::wakeup::factorial::Design;
use fathom_probe::machine::ClockTrust;
use fathom_probe::pattern::{PatternKind, Trial, Wake};

use super::conditions::{self, Case, FACTORS};
use super::options::Options;
use super::sweep;
use super::trials::{
    LONG_NS, MIN_ACTIVATIONS, PILOT_ROUND, WARM, an_activation, awake, close, every_ns, series, traced,
    untraced, within,
};
use crate::budget::Budget;
use crate::cost::WAKE_START_NS;
use crate::record::Record;
use crate::round;

/// Activations of the look: enough to see a refusal, and what one costs on a model.
const LOOK: u64 = 40;
/// Rounds, at least. Of complete rounds the design's effects take two; three tell a bad one.
const ROUNDS: u64 = 3;
/// Series a round of the words that everything is compared with: p99.9 of them is asked for first.
const OFTEN: usize = 3;
/// Those words.
const CORE: [&str; 3] = [condition::UNLOADED, condition::STRESS_MIX, condition::STRESS_MIX_VM];

/// The next round; empty at the end. A record says itself what was asked.
#[must_use]
pub fn plan(record: &Record, seed: u64, budget_ms: u64) -> Vec<Trial> {
    let number = record.round() + 1;
    let budget = Budget::of(record, budget_ms);
    if number == PILOT_ROUND {
        return close(record, &budget, look(record), |_| 0, (seed, 0x9e55));
    }
    if !awake(record) {
        return Vec::new();
    }
    if Options::of(record).sweep {
        return sweep::round(record, &budget, seed);
    }
    let wanted = conditions_round(record, &budget, number);
    close(record, &budget, wanted, rank, (seed, 0x9e55))
}

/// What the budget loses first is the design, then the factors alone, and last what all is compared with.
fn rank(trial: &Trial) -> u8 {
    match conditions::factors_of(&trial.beside.load) {
        _ if CORE.iter().any(|core| conditions::is_named(core, trial)) => 0,
        Some(on) if on.iter().filter(|on| **on).count() != 1 => 2,
        _ => 1,
    }
}

/// Periodic wake-ups under no load, with and without the earlier places: granted, or refused with the reason.
fn look(record: &Record) -> Vec<Trial> {
    let none = conditions::named(condition::UNLOADED).map(|none| Case::of(none, record));
    let traced = [false, true].into_iter().filter(|traced| !traced || !untraced(record));
    let mut all: Vec<Trial> = traced
        .zip(none.into_iter().cycle())
        .map(|(traced, none)| Trial { warm: 10, ..series(record, &none, LOOK, traced) })
        .collect();
    // A described machine has no kernel that could have them.
    if record.trust != Some(ClockTrust::Modelled) {
        all.extend(timerlat(record, LOOK).filter(|_| !untraced(record)));
        let confined = conditions::confined(record).filter(|_| conditions::confined_wanted(record));
        all.extend(confined.map(|case| series(record, &case, LOOK, false)));
    }
    all.push(round::clock());
    all
}

/// Wake-ups of the kernel's own thread with nothing beside: what they have of the places is the kernel's own word.
fn timerlat(record: &Record, n: u64) -> Option<Trial> {
    let none = Case::of(conditions::named(condition::UNLOADED)?, record);
    let mut trial = series(record, &none, n, false);
    trial.get_mut::<Wake>()?.wakes.timerlat = true;
    Some(trial)
}

/// Was it granted?
fn has_timerlat(record: &Record) -> bool {
    record.of(PatternKind::Wake).any(|run| run.trial.is::<Wake>(|wake| wake.wakes.timerlat))
}

/// Was this load refused?
fn refused(record: &Record, case: &Case) -> bool {
    record
        .trials
        .iter()
        .any(|run| run.refusal.is_some() && run.trial.round > PILOT_ROUND && case.is_of(&run.trial))
}

/// Each condition, the words of [`CORE`] [`OFTEN`] times, and the design; what one series has comes from the budget.
fn conditions_round(record: &Record, budget: &Budget, number: u64) -> Vec<Trial> {
    let places = traced(record);
    let mut cases: Vec<(Case, bool)> = Vec::new();
    for case in conditions::cases(record).into_iter().filter(|case| !refused(record, case)) {
        let times = if CORE.contains(&case.token.as_str()) { OFTEN } else { 1 };
        // What tracing costs is a bias that is measured: once a round without it.
        if places && case.token == condition::UNLOADED {
            cases.push((case.clone(), false));
        }
        cases.extend(std::iter::repeat_n((case, places), times));
    }
    if conditions::design_runs(record)
        && let Some(design) = Design::new(FACTORS.len())
    {
        let of = |case| (conditions::of_factors(design.levels(case)), places);
        cases.extend((0..design.cases()).map(of).filter(|(case, _)| !refused(record, case)));
    }
    let kernels = u64::from(has_timerlat(record));
    let Some((rounds, n)) = shares(record, budget, cases.len() as u64 + kernels, number) else {
        return Vec::new();
    };
    if number > PILOT_ROUND + rounds {
        return Vec::new();
    }
    let own = cases.iter().map(|(case, traced)| series(record, case, n, *traced));
    own.chain(timerlat(record, n).filter(|_| kernels > 0)).collect()
}

/// How many rounds there are after the look, and how many activations a series of the next one has: so many that the
/// rounds that remain fit into what remains.
fn shares(record: &Record, budget: &Budget, count: u64, number: u64) -> Option<(u64, u64)> {
    let each = an_activation(record, budget)?;
    let start = if budget.modelled { 0 } else { WAKE_START_NS };
    // Of the whole budget, so that every round comes to the same number.
    let long = (LONG_NS / every_ns(record)).max(MIN_ACTIVATIONS).saturating_mul(each).saturating_add(start);
    let rounds = (budget.total / count.max(1) / long).clamp(ROUNDS, 64);
    let remain = (PILOT_ROUND + rounds + 1).saturating_sub(number).max(1);
    let share = budget.left() / remain / count.max(1);
    // A twentieth for cycle calibrations and for what estimates miss.
    let n = (share - share / 20).saturating_sub(start) / each;
    Some((rounds, within(record, n.saturating_sub(WARM))))
}
