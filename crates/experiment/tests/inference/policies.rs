//! The replacement of the first level, of every policy that can be described: by single loads where the clock is fine
//! enough, and by the times of whole laps where it is not.

use fathom_analysis::findings::Value;
use fathom_analysis::replacement::{Policy, indistinguishable};
use fathom_experiment::conflict;
use fathom_experiment::record::{Run, TrialRun};
use fathom_experiment::session::{InProcess, Session};
use fathom_model::Model;
use fathom_model::description::{Description, Holds, Replacement};
use fathom_probe::pattern::{EvictionSet, PatternKind};

use crate::sessions::{BUDGET_MS, full};

/// Ticks a second: finer than a cycle of the core, and the counter of many arm64 boards.
const FINE: f64 = 4e9;
const COARSE: f64 = 19.2e6;

/// A machine whose first level has so many ways under a policy, with a clock of this frequency.
fn machine(ways: u32, policy: Replacement, hz: f64) -> Description {
    let mut d = crate::machines::machine("s1-8way");
    // Few ways are long ones: a first level of 8 KiB is lost in the latency curve of a clock that counts 52 ns.
    d.levels[0].size = u64::from(ways) * if ways < 8 { 16 << 10 } else { 4 << 10 };
    d.levels[0].ways = ways;
    // Four times the ways have to fit the next level.
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

/// Measures one machine; the policies that the report finds consistent.
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
    assert!(record.trials.iter().all(|t| t.unverified == 0), "a sample without proof");
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

/// Of each kind one: a queue, ages, a tree, random choice.
const FEW: [Replacement; 4] =
    [Replacement::Fifo, Replacement::Srrip, Replacement::TreePlru, Replacement::Random];

#[test]
fn fine_clock_identifies_policies_by_single_loads() {
    some(FINE, &FEW[..2]);
}

#[test]
fn coarse_clock_identifies_policies_by_whole_laps() {
    some(COARSE, &FEW[2..]);
}

/// Each policy of these is found with a first level of four ways; all of [`FEW`] in the full tier.
fn some(hz: f64, policies: &[Replacement]) {
    let policies = if full() { &FEW } else { policies };
    let tally = reported(hz, &[4], policies);
    assert_eq!((tally.right as usize, tally.wrong), (policies.len(), 0), "{tally:?}");
}

fn every(hz: f64) {
    let tally = reported(hz, &[2, 4, 8, 12], Replacement::ALL);
    assert_eq!(tally.wrong, 0, "{tally:?}");
    assert!(tally.right >= 36, "{tally:?}");
}

/// Every policy and number of ways, which takes longer than a test run has time for.
#[test]
#[ignore = "minutes: cargo test --release -p fathom-experiment --test inference every -- --ignored --nocapture"]
fn every_policy_by_single_loads() {
    every(FINE);
}

/// The same by the other clock.
#[test]
#[ignore = "minutes: cargo test --release -p fathom-experiment --test inference every -- --ignored --nocapture"]
fn every_policy_by_whole_laps() {
    every(COARSE);
}
