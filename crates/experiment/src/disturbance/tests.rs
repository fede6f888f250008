use fathom_analysis::claims::FactValue;
use fathom_probe::machine::Watch;
use fathom_probe::pattern::Trial;
use fathom_probe::rows::Done;

use super::*;
use crate::record::TrialRun;

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
    assert_eq!(d, Disturbance { trials: 100, ..Disturbance::default() });
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
    assert!(!few.disturbed);
    assert!(
        few.causes[0].contains("10 of 100 trials") && few.causes[0].contains("20 involuntary"),
        "{few:?}"
    );
    let many = judge(&with_bad_trials(11, off), &[], &[]);
    assert!(many.disturbed && many.remedy.contains("stop other work"), "{many:?}");
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
    assert!(d.remedy.starts_with("echo performance"), "{d:?}");
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
