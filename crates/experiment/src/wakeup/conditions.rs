//! Conditions of a series of activations: load during the measurement, and cache state at the wake-up.

use fathom_analysis::claims::decode;
use fathom_analysis::metrics::wakeup::condition;
use fathom_probe::load::{Load, Stress};
use fathom_probe::pattern::{PatternKind, Trial, Wake};

pub(crate) use super::named::State;
use super::named::{CONFINED, STRESS_MIX_MALLOC, STRESS_MIX_VM};
pub use super::named::{Condition, LOADS, NAMED, named};
use super::options::Options;
use crate::record::Record;

/// Working set that the task walks after each wake-up, bytes: half of a small first level.
pub(crate) const WORK_BYTES: u64 = 16 << 10;
/// Working set of a task without work: one line.
pub(crate) const NO_WORK: u64 = 64;
/// Bytes swept to evict caches if no private cache is claimed: twice the private cache of any current core.
const DEFAULT_EVICTED: u64 = 4 << 20;
/// Maximum bytes swept: shared caches are left to the load.
const MAX_EVICTED: u64 = 16 << 20;

/// The pure factors of the randomised design, in its order.
pub const FACTORS: [Stress; 5] = [Stress::Copy, Stress::Chase, Stress::Pages, Stress::Fault, Stress::Unmap];

/// Conditions of a default run in addition to the design.
const DEFAULT_CONDITIONS: [&str; 13] = [
    condition::UNLOADED,
    condition::STRESS_MIX,
    condition::STRESS_MIX_VM,
    "read",
    "write",
    "copy",
    "chase",
    "pages",
    "fault",
    "unmap",
    "warm",
    "flushed",
    "evicted",
];

/// Returns whether a trial ran under this condition, for conditions that do not depend on the record.
pub(crate) fn is_named(word: &str, trial: &Trial) -> bool {
    named(word).is_some_and(|condition| Case::of(condition, &Record::default()).is_of(trial))
}

/// The condition of one series of activations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    /// Its token in findings.
    pub token: String,
    pub load: Load,
    pub state: State,
}

impl Case {
    /// Returns a named condition for the machine of a record.
    pub(crate) fn of(condition: &Condition, record: &Record) -> Case {
        let requested = Options::of(record).like_stress;
        let text = match condition.load {
            STRESS_MIX_VM if requested => STRESS_MIX_MALLOC,
            load => load,
        };
        // The table parses: a test checks it.
        let load = Load::parse(text).unwrap_or_default();
        Case { token: condition.token.to_owned(), load, state: condition.state }
    }

    /// Returns the case of the nth user-defined load.
    pub(crate) fn user_defined(nth: usize, load: &Load) -> Case {
        Case { token: format!("load-{}", nth + 1), load: load.clone(), state: State::Idle }
    }

    /// Applies this case to a trial.
    pub(crate) fn onto(&self, mut trial: Trial, record: &Record) -> Trial {
        let work = if matches!(self.state, State::Idle | State::Confined) { NO_WORK } else { WORK_BYTES };
        // One more than a lap: a whole lap would end where it began and prove nothing.
        (trial.memory.bytes, trial.loads) =
            (work, if work == NO_WORK { 1 } else { work / trial.memory.stride + 1 });
        let mut wake: Wake = trial.or_default();
        wake.wakes.flushed = self.state == State::Flushed;
        wake.wakes.evict = if self.state == State::Evicted { evicted_bytes(record) } else { 0 };
        trial.pattern = wake.into();
        trial.beside.confined = self.state == State::Confined;
        trial.beside.load = self.load.clone();
        trial
    }

    /// Returns whether a trial ran under this case.
    pub(crate) fn is_of(&self, trial: &Trial) -> bool {
        let wakes = trial.or_default::<Wake>().wakes;
        let state = match (wakes.flushed, wakes.evict > 0, trial.memory.bytes > NO_WORK) {
            (true, _, _) => State::Flushed,
            (_, true, _) => State::Evicted,
            (_, _, true) => State::Warm,
            _ if trial.beside.confined => State::Confined,
            _ => State::Idle,
        };
        // Wake-ups of another thread are not the task's, and a stream of a described machine is not a condition's load.
        let other = wakes.timerlat || !trial.beside.streams.is_empty();
        !other && (state, &self.load) == (self.state, &trial.beside.load)
    }
}

/// Returns twice the size of the largest private cache: the claimed second level, which most cores do not share, or
/// share with few.
fn evicted_bytes(record: &Record) -> u64 {
    let claims = decode(&record.facts).claims;
    let second = claims.iter().filter(|c| c.holds.data() && c.level == 2).filter_map(|c| c.size).max();
    second.map_or(DEFAULT_EVICTED, |bytes| (2 * bytes).clamp(1 << 20, MAX_EVICTED) / 64 * 64)
}

/// Returns all requested cases, or the default ones.
pub(crate) fn cases(record: &Record) -> Vec<Case> {
    let requested = Options::of(record);
    let user_defined = requested.loads.iter().enumerate().map(|(nth, load)| Case::user_defined(nth, load));
    let words: Vec<&str> = match (requested.conditions.is_empty(), requested.loads.is_empty()) {
        (false, _) => requested.conditions.iter().map(String::as_str).collect(),
        // User-defined loads are compared with no load.
        (true, false) => vec![condition::UNLOADED],
        (true, true) if confines(record) => [&DEFAULT_CONDITIONS[..], &[CONFINED]].concat(),
        (true, true) => DEFAULT_CONDITIONS.to_vec(),
    };
    let mut cases: Vec<Case> = Vec::new();
    for case in words.into_iter().filter_map(named).map(|c| Case::of(c, record)).chain(user_defined) {
        if !cases.iter().any(|have| have.token == case.token) {
            cases.push(case);
        }
    }
    cases
}

/// Returns a case with a load confined to a share of the caches, to test whether this machine partitions caches.
pub(crate) fn confined(record: &Record) -> Option<Case> {
    let load = Load::parse("cpu").ok()?;
    Some(Case { load, ..Case::of(named(CONFINED)?, record) })
}

/// Returns whether the confined condition is requested, or part of the default.
pub(crate) fn confined_scheduled(record: &Record) -> bool {
    let sweep = Options::of(record).sweep;
    let requested = Options::of(record).conditions.iter().any(|c| c == CONFINED);
    requested || !sweep && design_scheduled(record)
}

/// Returns whether the confined trial was granted.
fn confines(record: &Record) -> bool {
    record.of(PatternKind::Wake).any(|run| run.trial.beside.confined && run.done.is_some())
}

/// Returns whether the randomised design over the factors is scheduled: only by default.
pub(crate) fn design_scheduled(record: &Record) -> bool {
    let requested = Options::of(record);
    requested.conditions.is_empty() && requested.loads.is_empty()
}

/// Returns a case of the design: those of `factors` that are on, each with its condition's load.
pub(crate) fn of_factors(factors: &[Stress], on: &[bool]) -> Case {
    let kinds = factors.iter().zip(on).filter(|(_, on)| **on).map(|(kind, _)| kind.token());
    let loads = kinds.filter_map(named).filter_map(|c| Load::parse(c.load).ok());
    let load = Load { stressors: loads.flat_map(|load| load.stressors).collect() };
    Case { token: String::new(), load, state: State::Idle }
}

/// Returns which of `factors` are in a trial's load; `None` if it contains anything else.
pub(crate) fn factors_of(factors: &[Stress], load: &Load) -> Option<Vec<bool>> {
    let on: Vec<bool> = factors.iter().map(|kind| load.stressors.iter().any(|s| s.kind == *kind)).collect();
    (of_factors(factors, &on).load == *load).then_some(on)
}

#[cfg(test)]
mod tests {
    use fathom_probe::machine::ClockTrust;

    use super::super::options::{CONDITIONS, LIKE_STRESS};
    use super::*;
    use crate::options::Asked;

    #[test]
    fn every_condition_has_a_valid_and_unique_trial() {
        let record = Record::default();
        let cases: Vec<Case> = NAMED.iter().map(|c| Case::of(c, &record)).collect();
        for (i, (condition, case)) in NAMED.iter().zip(&cases).enumerate() {
            assert!(Load::parse(condition.load).is_ok(), "{}", condition.token);
            let trial = case.onto(Trial::default(), &record);
            assert_eq!(cases.iter().position(|c| c.is_of(&trial)), Some(i), "{}", condition.token);
        }
        assert!(DEFAULT_CONDITIONS.iter().all(|word| named(word).is_some()));
    }

    #[test]
    fn different_conditions_lead_to_different_trials() {
        let all = NAMED.iter().map(|condition| condition.token.to_owned()).collect::<Vec<_>>();
        for (trust, like_stress) in
            [(ClockTrust::Modelled, false), (ClockTrust::Real, false), (ClockTrust::Real, true)]
        {
            let mut asked = Asked::default().with(&CONDITIONS, &all).expect("words");
            if like_stress {
                asked = asked.switched_on(&LIKE_STRESS);
            }
            let mut record = Record::default();
            record.trust.replace(trust);
            record.run.replace(crate::record::Run { asked, ..Default::default() });
            let run = cases(&record);
            assert_eq!(run.len(), NAMED.len());
            let trials: Vec<Trial> = run.iter().map(|case| case.onto(Trial::default(), &record)).collect();
            for (i, trial) in trials.iter().enumerate() {
                assert_eq!(trials.iter().position(|other| other == trial), Some(i), "{}", run[i].token);
                assert!(trial.beside.streams.is_empty());
            }
        }
    }

    #[test]
    fn cases_of_the_design_are_recognised_by_their_load() {
        for bits in 0..1u32 << FACTORS.len() {
            let on: Vec<bool> = (0..FACTORS.len()).map(|i| bits & (1 << i) != 0).collect();
            assert_eq!(factors_of(&FACTORS, &of_factors(&FACTORS, &on).load), Some(on));
        }
        assert_eq!(factors_of(&FACTORS, &Load::parse("copy*3").expect("a load")), None);
        assert_eq!(factors_of(&FACTORS, &Load::parse("cpu*2 copy*2").expect("a load")), None);
        assert_eq!(factors_of(&FACTORS[..4], &of_factors(&FACTORS, &[true; 5]).load), None);
    }
}
