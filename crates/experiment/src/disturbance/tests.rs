use fathom_analysis::claims::FactValue;
use fathom_probe::machine::Watch;
use fathom_probe::pattern::Trial;
use fathom_probe::rows::Done;

use super::*;
use crate::record::{End, TrialRun};

/// Returns a record of trials with these watch data.
fn record(watches: impl IntoIterator<Item = Watch>) -> Record {
    let mut record = Record::default();
    for (i, watch) in watches.into_iter().enumerate() {
        let trial = Trial { id: i as u64 + 1, ..Trial::default() };
        let done = Done {
            trial: trial.id,
            page_bytes: 4096,
            base: 0,
            translation: None,
            watch,
            spent_ns: watch.wall_ns,
        };
        record.trials.push(TrialRun { trial, done: Some(done), ..TrialRun::default() });
    }
    record
}

const QUIET: Watch =
    Watch { wall_ns: 1_000_000, cpu_ns: 999_000, involuntary: 0, steal_ns: 0, faults: 0, accesses: 0 };

/// Returns a record with `bad` of 100 trials `worse` and the others quiet.
fn with_bad_trials(bad: usize, worse: Watch) -> Record {
    record((0..100).map(|i| if i < bad { worse } else { QUIET }))
}

#[test]
fn a_quiet_record_is_undisturbed_and_has_no_causes() {
    let d =
        judge(&with_bad_trials(0, QUIET), &[(1, 1, 1.0), (1, 9, 1.005)], &[vec![3.0, 3.1], vec![9.0, 9.1]]);
    assert_eq!(d, Disturbance { judged: 100, trials: 100, ..Disturbance::default() });
}

#[test]
fn an_empty_record_is_undisturbed() {
    assert_eq!(judge(&Record::default(), &[], &[]), Disturbance::default());
    assert!(!judge(&Record::default(), &[], &[vec![], vec![1.0]]).disturbed);
}

#[test]
fn time_off_cpu_disturbs_beyond_a_tenth_of_trials() {
    let off = Watch { cpu_ns: 900_000, involuntary: 2, ..QUIET };
    let few = judge(&with_bad_trials(10, off), &[], &[]);
    assert!(!few.disturbed && few.state == DisturbanceState::Ok);
    assert!(
        few.causes[0].contains("10 of 100 trials") && few.causes[0].contains("20 involuntary"),
        "{few:?}"
    );
    let many = judge(&with_bad_trials(11, off), &[], &[]);
    assert!(many.disturbed && many.remedy.contains("stop other work"), "{many:?}");
    assert_eq!(many.state, DisturbanceState::Noisy);
    // No median tolerates half.
    assert_eq!(judge(&with_bad_trials(49, off), &[], &[]).state, DisturbanceState::Noisy);
    assert_eq!(judge(&with_bad_trials(50, off), &[], &[]).state, DisturbanceState::Unusable);
    assert!(!many.remedy.contains("hypervisor"));
}

#[test]
fn stolen_time_counts_even_where_the_guest_thinks_it_ran() {
    let stolen = Watch { cpu_ns: 1_000_000, steal_ns: 500_000, ..QUIET };
    let d = judge(&with_bad_trials(20, stolen), &[], &[]);
    assert!(d.disturbed && d.remedy.contains("hypervisor"), "{d:?}");
    assert!(d.remedy.contains("as root"), "{d:?}");
    let mut raised = with_bad_trials(20, stolen);
    let fifo = FactValue::Text("granted".into());
    raised.facts.extend([("privilege.fifo".to_owned(), fifo)]);
    assert!(!judge(&raised, &[], &[]).remedy.contains("as root"), "the priority is granted already");
    assert!(d.causes[0].contains("10.0 ms stolen"), "{d:?}");
}

#[test]
fn a_thread_clock_ahead_of_the_wall_clock_is_not_lost_time() {
    assert!(!judge(&with_bad_trials(100, Watch { cpu_ns: 1_001_000, ..QUIET }), &[], &[]).disturbed);
}

#[test]
fn the_cycle_calibration_may_change_between_rounds_but_not_within_one() {
    let between = [(1, 1, 1.0), (1, 9, 1.0), (2, 10, 1.3), (2, 19, 1.3)];
    assert!(!judge(&record([QUIET]), &between, &[]).disturbed);
    let inside = [(1, 1, 1.0), (1, 9, 1.0), (2, 10, 1.0), (2, 19, 1.02)];
    let mut scaled = record([QUIET]);
    let governor = |word: &str| ("env.freq.governor".to_owned(), FactValue::Text(word.to_owned()));
    scaled.facts.extend([governor("ondemand")]);
    let d = judge(&scaled, &inside, &[]);
    assert!(d.disturbed && d.causes[0].contains("2.0 % inside round 2"), "{d:?}");
    assert!(d.remedy.starts_with("echo performance") && d.state == DisturbanceState::Noisy, "{d:?}");
    scaled.facts.extend([governor("performance")]);
    assert!(!judge(&scaled, &inside, &[]).remedy.contains("echo performance"), "applied already");
}

#[test]
fn one_outlier_of_the_cycle_calibration_is_not_drift() {
    let mut ticks: Vec<(u64, u64, f64)> = Vec::new();
    for id in [1, 9] {
        ticks.extend([1.0, 1.0, 1.0, 1.0].map(|t| (1, id, t)));
    }
    ticks.push((1, 9, 4.0));
    assert!(!judge(&record([QUIET]), &ticks, &[]).disturbed);
}

#[test]
fn rounds_that_disagree_at_the_median_point_disturb() {
    let repeats = vec![vec![3.0, 3.4], vec![5.0, 5.8], vec![80.0, 80.0]];
    let d = judge(&record([QUIET]), &[], &repeats);
    assert!(d.disturbed && d.causes[0].contains("rounds disagree"), "{d:?}");
    assert_eq!(d.state, DisturbanceState::Noisy);
    let apart = vec![vec![3.0, 5.0], vec![5.0, 9.0], vec![80.0, 80.0]];
    assert_eq!(judge(&record([QUIET]), &[], &apart).state, DisturbanceState::Unusable);
    // One outlier among many points affects only its own interval.
    let one = vec![vec![3.0, 3.0], vec![5.0, 5.0], vec![80.0, 200.0]];
    assert!(!judge(&record([QUIET]), &[], &one).disturbed);
}

#[test]
fn hostile_watches_do_not_overflow() {
    let max = Watch {
        wall_ns: u64::MAX,
        cpu_ns: 0,
        involuntary: u64::MAX,
        steal_ns: u64::MAX,
        faults: u64::MAX,
        accesses: u64::MAX,
    };
    assert!(
        judge(&with_bad_trials(100, max), &[(u64::MAX, 0, f64::NAN), (0, 0, 0.0)], &[vec![0.0, 0.0]])
            .disturbed
    );
}

/// Adds a session of ten seconds during which tasks waited for a CPU in `share` of the time.
fn waiting(record: &mut Record, share: f64) {
    let total = |us: f64| FactValue::Text(format!("some avg10=0.00 total={us:.0}; full total=0"));
    record.facts.extend([
        ("env.pressure.cpu".to_owned(), total(5.0)),
        ("env.after.pressure.cpu".to_owned(), total(5.0 + share * 1e7)),
    ]);
    record.end = Some(End { status: "complete".into(), elapsed_ms: 10_000 });
}

#[test]
fn other_work_during_the_session_makes_it_noisy() {
    let mut busy = record([QUIET]);
    waiting(&mut busy, 0.9);
    let d = judge(&busy, &[], &[]);
    assert_eq!((d.state, d.disturbed, d.causes.len()), (DisturbanceState::Noisy, false, 0), "{d:?}");
    assert!(d.environment[0].contains("waited for a CPU in 90 %"), "{d:?}");
    // The measurement's own.
    waiting(&mut busy, 0.25);
    assert_eq!(judge(&busy, &[], &[]).state, DisturbanceState::Ok);
    // A task on each other CPU waits for nothing.
    let load = |text: &str| ("env.loadavg".to_owned(), FactValue::Text(text.to_owned()));
    busy.facts.extend([load("5.82 5.09 4.93 5/110")]);
    let d = judge(&busy, &[], &[]);
    assert!(d.state == DisturbanceState::Noisy && d.environment[0].contains("5.8"), "{d:?}");
    busy.facts.extend([load("1.00 0.50 0.20 1/82")]);
    assert_eq!(judge(&busy, &[], &[]).state, DisturbanceState::Ok);
    busy.facts.extend([load("many")]);
    assert_eq!(judge(&busy, &[], &[]).state, DisturbanceState::Ok);
}

#[test]
fn a_model_is_never_disturbed() {
    let mut modelled = with_bad_trials(100, Watch { cpu_ns: 0, involuntary: 9, ..QUIET });
    modelled.trust = Some(fathom_probe::machine::ClockTrust::Modelled);
    waiting(&mut modelled, 0.9);
    let d = judge(&modelled, &[(1, 1, 1.0), (1, 9, 2.0)], &[vec![1.0, 9.0]]);
    assert_eq!(d, Disturbance { judged: 100, trials: 100, ..Disturbance::default() });
}
