//! Sessions on described machines, which cannot run loads.

use super::*;

/// Returns the record and the report of a described machine.
fn described(name: &str, typed: &[(&str, &str)]) -> (Record, Report) {
    let description = catalog::load(name).expect("committed").expect("sound");
    let (_, record) = session(&mut Model::new(&description, 1), run(12_000, typed));
    assert_eq!(record.problems, Vec::<String>::new());
    let report = wakeup::read(&record);
    (record, report)
}

/// Returns whether a report refuses `what` because it was not run.
fn refused(report: &Report, what: &str) -> bool {
    let of = |r: &&fathom_analysis::findings::Refused| r.what == what;
    report
        .refusals
        .iter()
        .find(of)
        .is_some_and(|r| r.reason.contains("do not support this load") && !r.remedy.is_empty())
}

/// Asserts that there are no findings that need loads.
fn assert_no_findings_about_loads(report: &Report) {
    for prefix in ["effect.", "interaction.", "explained.", "pressure.", "stall.", "sweep.", "changepoint."] {
        assert!(!report.findings.iter().any(|f| f.name().starts_with(prefix)), "{prefix}");
    }
}

#[test]
fn absent_l2_adds_latency_on_described_machine() {
    let of = |name: &str| described(name, &[]).1;
    let (on, off) = (of("am5728"), of("am5728-l2-off"));
    let p50 = |report: &Report, what: &str| number(report, &format!("wakeup.{what}.p50"));
    assert!(p50(&on, "user.unloaded") > 0.0);
    // Flushed data come from memory in both cases; the rest of the path and evicted data are slower without L2.
    assert!(p50(&on, "work.flushed") > p50(&on, "work.warm"));
    assert!(p50(&off, "user.unloaded") > p50(&on, "user.unloaded"));
}

#[test]
fn every_condition_is_measured_or_refused_by_name() {
    let all: Vec<&str> = NAMED.iter().map(|condition| condition.token).collect();
    let typed = [("conditions", all.join(",")), ("load", "cpu*2;vm*2:64M copy*1".to_owned())];
    let (record, report) = described("am5728", &typed.each_ref().map(|(name, text)| (*name, text.as_str())));
    let mut named = 0;
    for condition in &all {
        let measured = row(&report, &format!("wakeup.user.{condition}.p50")).is_some();
        let refused = refused(&report, &format!("condition {condition}"));
        assert!(measured != refused, "{condition}: measured {measured}, refused {refused}");
        let carried_out = ["unloaded", "warm", "flushed", "evicted"].contains(condition);
        assert_eq!(measured, carried_out, "{condition}");
        named += 1;
    }
    assert_eq!(named, NAMED.len());
    assert!(refused(&report, "condition load-1 (cpu*2)"), "{:?}", report.refusals);
    assert!(refused(&report, "condition load-2 (vm*2:64M copy*1)"), "{:?}", report.refusals);
    assert_no_findings_about_loads(&report);
    // No load ran concurrently with the task.
    assert!(
        record
            .trials
            .iter()
            .all(|run| run.trial.beside.streams.is_empty() && run.trial.beside.load.is_none())
    );
}

#[test]
fn default_conditions_with_loads_are_refused() {
    let (_, report) = described("am5728", &[]);
    for condition in
        ["stress-mix", "stress-mix-vm", "read", "write", "copy", "chase", "pages", "fault", "unmap"]
    {
        assert!(refused(&report, &format!("condition {condition}")), "{condition}: {:?}", report.refusals);
        assert!(row(&report, &format!("wakeup.user.{condition}.p50")).is_none(), "{condition}");
    }
    assert!(refused(&report, "the factors' effects"), "{:?}", report.refusals);
    assert_no_findings_about_loads(&report);
}

#[test]
fn sweep_on_described_machine_is_refused_per_curve() {
    let (record, report) = described("am5728", &[("sweep", ""), ("bytes", "64K,1M")]);
    for curve in ["vm.free.4096", "vm.keep.4096", "vm.hold2.4096"] {
        assert!(refused(&report, &format!("sweep {curve}")), "{curve}: {:?}", report.refusals);
    }
    assert_no_findings_about_loads(&report);
    assert!(
        record
            .trials
            .iter()
            .all(|run| run.trial.beside.streams.is_empty() && run.trial.beside.load.is_none())
    );
}
