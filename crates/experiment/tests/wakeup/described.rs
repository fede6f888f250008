//! Sessions on described machines: each load runs as what it is, or is refused by name.

use super::*;
use fathom_analysis::findings::Refused;
use fathom_probe::load::Load;

/// Returns the record and the report of a described machine.
fn described(name: &str, budget_ms: u64, typed: &[(&str, &str)]) -> (Record, Report) {
    let description = catalog::load(name).expect("committed").expect("sound");
    let (transcript, record) = session(&mut Model::new(&description, 1), run(budget_ms, typed));
    assert_eq!(record.problems, Vec::<String>::new());
    let report = wakeup::read(&record);
    let again = Record::parse(&transcript.join("\n")).expect("a record");
    assert_eq!(wakeup::read(&again), report);
    (record, report)
}

/// Returns the refusal of `what`.
fn refusal<'a>(report: &'a Report, what: &str) -> Option<&'a Refused> {
    report.refusals.iter().find(|r| r.what == what)
}

/// Returns whether a report refuses `what` because of a stressor, which it names.
fn refused(report: &Report, what: &str, stressor: &str) -> bool {
    refusal(report, what).is_some_and(|r| {
        r.reason.contains("a described machine cannot run")
            && r.reason.contains(stressor)
            && !r.remedy.is_empty()
    })
}

/// Returns whether a load has stressors that no description supports.
fn missing(load: &Load) -> bool {
    load.stressors.iter().any(|s| matches!(s.kind, Stress::Io | Stress::Disk | Stress::Unmap))
}

#[test]
fn absent_l2_adds_latency_on_described_machine() {
    let of = |name: &str| described(name, 4_000, &[("conditions", "unloaded,warm,flushed,evicted")]).1;
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
    let typed = [("conditions", all.join(",")), ("load", "cpu*2;vm*2:64M copy*1;read*2:4G".to_owned())];
    let (record, report) =
        described("am5728", 20_000, &typed.each_ref().map(|(name, text)| (*name, text.as_str())));
    for condition in &all {
        let measured = row(&report, &format!("wakeup.user.{condition}.p50")).is_some();
        let refused = refusal(&report, &format!("condition {condition}")).is_some();
        assert!(measured != refused, "{condition}: measured {measured}, refused {refused}");
        let runs = !["stress-mix", "stress-mix-vm", "io", "disk", "unmap"].contains(condition);
        assert_eq!(measured, runs && *condition != "stress-mix-vm-confined", "{condition}");
    }
    assert!(refused(&report, "condition stress-mix-vm", "io*4"), "{:?}", report.refusals);
    assert!(refused(&report, "condition stress-mix-vm", "disk*2"), "{:?}", report.refusals);
    let confined = refusal(&report, "condition stress-mix-vm-confined").expect("refused");
    assert!(confined.reason.contains("partition"), "{confined:?}");
    for nth in [1, 2] {
        assert!(row(&report, &format!("wakeup.user.load-{nth}.p50")).is_some(), "{:?}", report.refusals);
    }
    let large = refusal(&report, "condition load-3 (read*2:4G)").expect("refused");
    assert!(large.reason.contains("for loads"), "{large:?}");
    // Every measured load ran under its own name.
    for run in record.trials.iter().filter(|run| run.done.is_some()) {
        let load = &run.trial.beside.load;
        assert!(!missing(load) && !run.trial.beside.confined && run.trial.beside.streams.is_empty());
        assert_eq!(run.wakeups.load_stats.len(), load.stressors.len(), "{load}");
    }
    for condition in ["cpu", "chase", "fault"] {
        let note = format!("load: {condition}*2");
        let min = row(&report, &format!("wakeup.user.{condition}.min")).expect("measured");
        assert!(min.notes.contains(&note), "{:?}", min.notes);
    }
    equal_figures_are_explained(&report);
    assert!(!report.findings.iter().any(|f| f.name().starts_with("stall.")), "no scheduler, no stalls");
}

/// Asserts that conditions with equal figures have a note with the reason.
fn equal_figures_are_explained(report: &Report) {
    let figures = |condition: &str| {
        ["min", "p50", "max"].map(|what| {
            row(report, &format!("wakeup.user.{condition}.{what}")).and_then(|f| f.finite()).map(f64::to_bits)
        })
    };
    let all: Vec<&str> = NAMED.iter().map(|condition| condition.token).collect();
    let measured: Vec<&str> = all.into_iter().filter(|condition| figures(condition)[0].is_some()).collect();
    let mut equal = 0;
    for (nth, condition) in measured.iter().enumerate() {
        let Some(other) = measured[..nth].iter().find(|other| figures(other) == figures(condition)) else {
            continue;
        };
        equal += 1;
        let notes = &row(report, &format!("wakeup.user.{condition}.min")).expect("measured").notes;
        let explained = notes.iter().any(|note| note.starts_with("same figures as ") && note.contains(": "));
        assert!(explained, "{condition} and {other}: {notes:?}");
        println!("{condition}: {notes:?}");
    }
    assert!(equal > 0, "computing changes nothing");
}

#[test]
fn loads_that_share_a_level_slow_the_task_down() {
    let typed = [("conditions", "unloaded,cpu,vm,read,chase")];
    let (_, report) = described("am5728", 6_000, &typed);
    let p50 = |condition: &str| number(&report, &format!("wakeup.user.{condition}.p50"));
    for condition in ["vm", "read", "chase"] {
        assert!(p50(condition) > 1.5 * p50("unloaded"), "{condition}: {}", p50(condition));
        assert!(number(&report, &format!("load.{condition}.lines")) > 1e6, "{condition}");
    }
    assert!((p50("cpu") / p50("unloaded") - 1.0).abs() < 0.01, "{} {}", p50("cpu"), p50("unloaded"));
    // Nothing is shared but memory there, whose time varies by draws and open rows.
    let (_, off) = described("am5728-l2-off", 6_000, &typed);
    let of = |condition: &str| number(&off, &format!("wakeup.user.{condition}.p50"));
    assert!((of("vm") / of("unloaded") - 1.0).abs() < 0.05, "{} {}", of("vm"), of("unloaded"));
}

#[test]
fn effects_of_the_factors_that_run_are_reported() {
    let (record, report) = described("am5728", 24_000, &[("period", "200us")]);
    for factor in ["copy", "chase", "pages", "fault"] {
        assert!(row(&report, &format!("effect.{factor}")).is_some(), "{factor}: {:?}", report.refusals);
    }
    assert!(number(&report, "effect.copy") > 0.0);
    assert!(row(&report, "effect.unmap").is_none());
    assert!(refused(&report, "the effect of unmap", "unmap*2"), "{:?}", report.refusals);
    for condition in ["stress-mix", "stress-mix-vm", "unmap"] {
        assert!(refusal(&report, &format!("condition {condition}")).is_some(), "{condition}");
    }
    // Nothing is attributed to a load that did not run.
    assert!(!report.findings.iter().any(|f| f.name().starts_with("explained.")));
    assert!(record.trials.iter().all(|run| run.done.is_none() || !missing(&run.trial.beside.load)));
}

#[test]
fn sweep_on_described_machine_measures_or_refuses_every_size() {
    let typed = [("sweep", ""), ("bytes", "64K,1M,4M,1G"), ("modes", "free,keep")];
    let (_, report) = described("am5728", 8_000, &typed);
    for curve in ["vm.free.4096", "vm.keep.4096"] {
        for bytes in [64 << 10, 1 << 20, 4 << 20] {
            assert!(number(&report, &format!("sweep.{curve}.{bytes}.p50")) > 0.0);
        }
        let large = refusal(&report, &format!("sweep {curve} of 1 GiB")).unwrap_or_else(|| {
            panic!("{:?} {:?}", report.refusals, report.findings.iter().map(|f| f.name()).collect::<Vec<_>>())
        });
        assert!(large.reason.contains("for loads"), "{large:?}");
    }
    assert!(number(&report, "sweep.vm.free.4096.1048576.faults") > 1000.0);
    assert_eq!(number(&report, "sweep.vm.keep.4096.1048576.faults"), 0.0);
}
