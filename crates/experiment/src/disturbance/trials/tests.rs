use fathom_analysis::claims::FactValue;
use fathom_probe::load::{Load, LoadStats, Stalls};
use fathom_probe::machine::ActivationRow;
use fathom_probe::pattern::{Alu, Chase, Trial, Wake};
use fathom_probe::rows::{Done, Sample};

use super::*;
use crate::record::End;

const WALL_NS: u64 = 1_000_000;

/// Returns a trial that kept its CPU, with these samples.
fn run(id: u64, trial: Trial, samples: usize) -> TrialRun {
    let watch = Watch { wall_ns: WALL_NS, cpu_ns: WALL_NS, ..Watch::default() };
    TrialRun {
        trial: Trial { id, ..trial },
        samples: vec![Sample::default(); samples],
        done: Some(Done { trial: id, watch, ..Done::default() }),
        ..TrialRun::default()
    }
}

fn chase(id: u64) -> TrialRun {
    run(id, Trial::of(Chase::default()), 9)
}

fn wake(id: u64) -> TrialRun {
    let mut run = run(id, Trial::of(Wake::default()), 0);
    run.wakeups.woken = vec![ActivationRow::default(); 100];
    run
}

fn record(trials: impl IntoIterator<Item = TrialRun>) -> Record {
    let mut record = Record::default();
    record.trials.extend(trials);
    record
}

/// Changes what the probe counted around a trial.
fn watched(mut run: TrialRun, change: impl Fn(&mut Watch)) -> TrialRun {
    if let Some(done) = &mut run.done {
        change(&mut done.watch);
    }
    run
}

#[test]
fn switches_count_by_the_samples_that_they_hit() {
    let switched = |n| watched(chase(1), |watch| watch.involuntary = n);
    assert_eq!(disturbed(&record([switched(3)]), &[]), []);
    assert_eq!(disturbed(&record([switched(4)]), &[]), [(1, Cause::LostCpu)]);
}

#[test]
fn a_thread_that_sleeps_loses_its_cpu_only_to_the_hypervisor() {
    let asleep = watched(wake(1), |watch| watch.cpu_ns = 10_000);
    let stolen = watched(wake(2), |watch| watch.steal_ns = WALL_NS / 10);
    let awake = watched(chase(3), |watch| watch.cpu_ns = 10_000);
    let all = disturbed(&record([asleep, stolen, awake]), &[]);
    assert_eq!(all, [(2, Cause::LostCpu), (3, Cause::LostCpu)]);
}

#[test]
fn contradicted_trials_are_disturbed() {
    let contradicted = TrialRun { contradicted: Some(-3.0), ..chase(1) };
    assert_eq!(disturbed(&record([contradicted, chase(2)]), &[]), [(1, Cause::Contradicted)]);
}

#[test]
fn trials_between_different_calibrations_have_no_clock() {
    let alu = |id| run(id, Trial::of(Alu), 3);
    let all = record([alu(1), chase(2), alu(3), chase(4), wake(5), alu(6), chase(7)]);
    let ticks = [(1, 1, 1.0), (1, 3, 1.04), (1, 6, 1.2)];
    assert_eq!(disturbed(&all, &ticks), [(4, Cause::Clock)]);
}

/// Returns a record of one series of wake-ups without a load and one with, during which tasks waited for a CPU for so
/// many seconds of ten.
fn beside_load(waited: f64, stalls: Option<Stalls>) -> Record {
    let mut loaded = wake(2);
    loaded.trial.beside.load = Load::parse("cpu*2").expect("a load");
    loaded.wakeups.load_stats = vec![LoadStats { ns: 6_000_000_000, ..LoadStats::default() }];
    loaded.wakeups.stalls = stalls;
    let mut record = record([wake(1), loaded]);
    let total = |s: f64| FactValue::Text(format!("some avg10=0.00 total={:.0}; full total=0", s * 1e6));
    record.facts.extend([
        ("env.pressure.cpu".to_owned(), total(1.0)),
        ("env.after.pressure.cpu".to_owned(), total(1.0 + waited)),
    ]);
    record.end = Some(End { status: "complete".into(), elapsed_ms: 10_000 });
    record
}

/// What waits beside a requested load is that load. What waits in the rest of the time is other work.
#[test]
fn wake_ups_without_load_are_disturbed_by_other_work_only() {
    let stalls = |cpu_us| Some(Stalls { cpu_us, ..Stalls::default() });
    assert_eq!(disturbed(&beside_load(6.5, stalls(6_000_000)), &[]), []);
    assert_eq!(disturbed(&beside_load(9.5, stalls(6_000_000)), &[]), [(1, Cause::OtherWork)]);
    assert_eq!(disturbed(&beside_load(9.5, None), &[]), [], "the load's share is unknown");
}
