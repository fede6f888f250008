//! Replacement policy of the first level, for every policy that can be described: from single loads with a fine clock,
//! and from times of whole laps with a coarse one.

use fathom_analysis::findings::Value;
use fathom_analysis::replacement::{Policy, indistinguishable};
use fathom_experiment::conflict;
use fathom_experiment::record::{Run, TrialRun};
use fathom_experiment::session::{InProcess, Session};
use fathom_model::Model;
use fathom_model::description::{Description, Holds, Replacement};
use fathom_probe::pattern::{EvictionSet, PatternKind};

use crate::full::full;
use crate::sessions::BUDGET_MS;

/// Clock frequencies in Hz: finer than a core cycle, and the counter of many arm64 boards.
const FINE: f64 = 4e9;
const COARSE: f64 = 19.2e6;

/// Returns a machine whose first level has `ways` ways with this policy, and a clock of `hz`.
fn machine(ways: u32, policy: Replacement, hz: f64) -> Description {
    let mut d = crate::machines::machine("s1-8way");
    // A level with few ways has large ones: a coarse clock of 52 ns does not resolve a first level of 8 KiB.
    d.levels[0].size = u64::from(ways) * if ways < 8 { 16 << 10 } else { 4 << 10 };
    d.levels[0].ways = ways;
    // Four times the ways must fit the next level.
    let next = d.levels.iter_mut().find(|level| level.holds == Holds::Unified).unwrap();
    next.size = 2 << 20;
    d.levels[0].replacement = policy;
    d.timer.clock_hz = hz;
    d.name = format!("{ways} ways of {} by {hz} Hz", policy.word());
    d
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    decided: u32,
    right: u32,
    wrong: u32,
    undecided: u32,
}

/// Measures a machine; returns the policies that are consistent with the measurement, or None if undecided.
fn policies(d: &Description) -> Option<Vec<Policy>> {
    let run = Run {
        experiment: conflict::NAME.into(),
        subject: d.name.clone(),
        seed: 1,
        budget_ms: BUDGET_MS,
        ..Run::default()
    };
    let (_, record) = InProcess::new(Session::new(conflict::plan, run)).run(&mut Model::new(d, 1));
    let report = conflict::read(&record);
    assert!(record.trials.iter().all(|t| t.unverified == 0), "an unverified sample");
    let sequence = |run: &TrialRun| run.trial.or_default::<EvictionSet>().sequence;
    let evicts = |run: &TrialRun| sequence(run).accesses().iter().any(|a| a.block.evicts);
    let nearest =
        record.of(PatternKind::EvictionSet).filter(|run| !evicts(run) && run.trial.memory.stride == 64);
    let single = nearest.map(|run| !sequence(run).timed().is_empty());
    let fine = d.timer.clock_hz == FINE;
    assert!(single.into_iter().all(|single| single == fine), "{}", d.name);
    let row = report.findings.iter().find(|f| f.name() == "tier.1.policies");
    let Some(Value::Text(words)) = row.map(|f| &f.value) else {
        let why = report.refusals.iter().find(|r| r.what == "tier.1.policies");
        println!("{}: {:?}", d.name, why.map(|r| &r.reason));
        return None;
    };
    Some(words.split(',').filter_map(Policy::from_token).collect())
}

fn reported(hz: f64, ways: &[u32], policies_of: &[Replacement]) -> Tally {
    let mut tally = Tally::default();
    for &ways in ways {
        for replacement in policies_of {
            let d = machine(ways, *replacement, hz);
            let truth = Policy::from_token(replacement.word()).unwrap();
            let mut group =
                indistinguishable(ways as usize, 8).into_iter().find(|g| g.contains(&truth)).unwrap();
            group.sort_unstable();
            let reported = policies(&d);
            println!("{}: {reported:?}", d.name);
            let Some(mut named) = reported else {
                tally.undecided += 1;
                continue;
            };
            named.sort_unstable();
            let decided = named.len() <= group.len();
            tally.decided += u32::from(decided);
            tally.undecided += u32::from(!decided);
            tally.right += u32::from(named == group);
            if !named.contains(&truth) || (decided && named != group) {
                println!("{}: {named:?}", d.name);
                tally.wrong += 1;
            }
        }
    }
    println!("a clock of {hz} Hz: {tally:?}");
    tally
}

/// One policy of each kind: a queue, ages, a tree, random choice.
const ONE_OF_EACH_KIND: [Replacement; 4] =
    [Replacement::Fifo, Replacement::Srrip, Replacement::TreePlru, Replacement::Random];

#[test]
fn fine_clock_identifies_policies_by_single_loads() {
    assert_some_identified(FINE, &ONE_OF_EACH_KIND[..1]);
}

#[test]
fn coarse_clock_identifies_policies_by_whole_laps() {
    assert_some_identified(COARSE, &ONE_OF_EACH_KIND[2..3]);
}

/// Asserts that each of these policies is identified with a first level of four ways; in the full tier all of [`ONE_OF_EACH_KIND`].
fn assert_some_identified(hz: f64, policies: &[Replacement]) {
    let policies = if full() { &ONE_OF_EACH_KIND } else { policies };
    let tally = reported(hz, &[4], policies);
    assert_eq!((tally.right as usize, tally.wrong), (policies.len(), 0), "{tally:?}");
}

fn assert_all_identified(hz: f64) {
    let tally = reported(hz, &[2, 4, 8, 12], Replacement::ALL);
    assert_eq!(tally.wrong, 0, "{tally:?}");
    assert!(tally.right >= 36, "{tally:?}");
}

/// Every policy and number of ways, which takes too long for a default test run.
#[test]
#[ignore = "minutes: cargo test --release -p fathom-experiment --test inference every -- --ignored --nocapture"]
fn every_policy_by_single_loads() {
    assert_all_identified(FINE);
}

/// The same with the coarse clock.
#[test]
#[ignore = "minutes: cargo test --release -p fathom-experiment --test inference every -- --ignored --nocapture"]
fn every_policy_by_whole_laps() {
    assert_all_identified(COARSE);
}
