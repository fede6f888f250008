use fathom_analysis::metrics::REGISTRY;
use fathom_probe::machine::Watch;
use fathom_probe::pattern::{Chase, Trial};
use fathom_probe::rows::Done;

use super::*;
use crate::reading::{number, state_row, text};
use crate::record::TrialRun;
use crate::survey;

/// Returns a record of these trials, of which `disturbed` lost their CPU.
fn record(trials: std::ops::RangeInclusive<u64>, disturbed: &[u64]) -> Record {
    let mut record = Record::default();
    record.trials.extend(trials.map(|id| {
        let cpu_ns = if disturbed.contains(&id) { 500_000 } else { 1_000_000 };
        let watch = Watch { wall_ns: 1_000_000, cpu_ns, ..Watch::default() };
        TrialRun {
            trial: Trial { id, ..Trial::of(Chase::default()) },
            done: Some(Done { trial: id, watch, ..Done::default() }),
            ..TrialRun::default()
        }
    }));
    record
}

/// Returns a report of two tiers, whose latencies are from these trials.
fn report(record: &Record, near: &[u64], far: &[u64]) -> Report {
    let mut report = Report { experiment: "survey".into(), trust: "real".into(), ..Report::default() };
    state_row(&super::super::judge(record, &[], &[]), &mut report);
    for (name, trials) in [("tier.1.latency", near), ("latency.4096.time", far)] {
        let mut finding = number(REGISTRY.key(name).expect("a name of the schema"), 1.0, "ns");
        finding.trials = trials.to_vec();
        report.findings.push(finding);
    }
    mark(record, &survey::KIND, &mut report);
    report
}

fn kinds(report: &Report) -> Vec<WarningKind> {
    report.warnings.iter().map(|warning| warning.kind).collect()
}

fn doubtful(report: &Report) -> Vec<(String, u64)> {
    let all = report.findings.iter().filter(|f| f.is_doubtful());
    all.map(|f| (f.name(), f.disturbed_trials)).collect()
}

/// Two of 541 trials disturb nothing, nor does one of three.
#[test]
fn few_disturbed_trials_leave_the_session_ok() {
    let record = record(1..=541, &[3, 9]);
    let report = report(&record, &[1, 2, 3, 4, 9, 10, 11, 12], &[9, 20, 21]);
    assert_eq!(DisturbanceState::of(&report), Some(DisturbanceState::Ok), "{report:?}");
    assert_eq!((doubtful(&report), kinds(&report)), (vec![], vec![]));
}

/// A finding suffers from its own trials, and the report from those of the headline.
#[test]
fn the_flag_goes_to_the_findings_that_suffer() {
    let record = record(1..=541, &[3, 9, 11]);
    // A trial that is listed twice is one trial.
    let beside = report(&record, &[1, 2], &[3, 3, 9, 10, 11, 12, 13, 14, 15]);
    assert_eq!(DisturbanceState::of(&beside), Some(DisturbanceState::Noisy));
    assert_eq!(doubtful(&beside), [("latency.4096.time".to_owned(), 3)]);
    assert_eq!(kinds(&beside), [WarningKind::Noisy]);
    assert!(!WarningKind::Noisy.lowers_confidence() && WarningKind::Disturbed.lowers_confidence());
    assert!(beside.warnings[0].text.contains("latency.4096.time (3 of its 8 trials)"), "{beside:?}");
    let quoted = report(&record, &[3], &[1, 2]);
    assert_eq!(doubtful(&quoted), [("tier.1.latency".to_owned(), 1)]);
    assert_eq!(kinds(&quoted), [WarningKind::Disturbed]);
    assert!(quoted.warnings[0].text.starts_with("1 finding is doubtful"), "{quoted:?}");
    assert!(quoted.warnings[0].text.contains("tier.1.latency (1 of its 1 trial)"), "{quoted:?}");
}

/// The warning of the session and that of the findings are one.
#[test]
fn a_session_has_one_warning_of_disturbance() {
    let noisy = record(1..=10, &[1, 2]);
    let quiet = report(&noisy, &[5], &[6]);
    assert_eq!((doubtful(&quiet), kinds(&quiet)), (vec![], vec![WarningKind::Noisy]));
    let suffers = report(&noisy, &[1], &[6]);
    assert_eq!(kinds(&suffers), [WarningKind::Disturbed]);
    assert!(suffers.warnings[0].text.contains("; 2 of 10 trials were off the CPU"), "{suffers:?}");
    let unusable = report(&record(1..=10, &[1, 2, 3, 4, 5]), &[1], &[6]);
    assert_eq!(DisturbanceState::of(&unusable), Some(DisturbanceState::Unusable));
    assert_eq!(kinds(&unusable), [WarningKind::Disturbed]);
}

/// A report without a verdict, and that of a model, have no doubtful findings.
#[test]
fn what_was_not_judged_is_not_marked() {
    let mut record = record(1..=4, &[1, 2, 3, 4]);
    let mut bare = Report::default();
    bare.findings.push(Finding { trials: vec![1], ..number(survey_time(), 1.0, "ns") });
    mark(&record, &survey::KIND, &mut bare);
    assert_eq!(doubtful(&bare), []);
    record.trust = Some(fathom_probe::machine::ClockTrust::Modelled);
    bare.findings.push(text(&DISTURBANCE_STATE, "ok"));
    mark(&record, &survey::KIND, &mut bare);
    assert_eq!(doubtful(&bare), []);
}

fn survey_time() -> &'static fathom_analysis::findings::Metric {
    REGISTRY.metric("walk.latency").expect("a metric")
}
