//! Effects of loads, causes and stages.

use super::*;
use crate::paper::{NO_PARTITIONS, NO_TIMERLAT, NO_TRACEPOINTS};
use fathom_analysis::findings::WarningKind;

/// Page faults cost 20 us, bandwidth 4 us; the study's memory workers cost as much as faults; all others nothing.
fn planted(s: &fathom_probe::load::Stressor) -> u64 {
    match s.kind {
        Stress::Fault | Stress::Vm => 20_000,
        Stress::Copy => 4_000,
        _ => 0,
    }
}

#[test]
fn planted_factor_effects_are_found_and_explained() {
    let mut machine = Paper::new(planted);
    machine.tracing = 2000;
    let report = measure(&mut machine, minute());
    for (factor, us) in [("copy", 4.0), ("chase", 0.0), ("pages", 0.0), ("fault", 20.0), ("unmap", 0.0)] {
        let row = row(&report, &format!("effect.{factor}")).expect(factor);
        let (low, high) = (row.low.expect("an interval"), row.high.expect("an interval"));
        assert!(low <= us && us <= high, "{factor}: {low} to {high}, and {us} was planted");
        assert!(high - low < 4.0, "{factor}: {low} to {high} says nothing");
    }
    // The increase comes from page faults only, of which the study's workers cause as many as the factor.
    let assert_near = |name: &str, us: f64| {
        let found = number(&report, name);
        assert!((found - us).abs() < 2.0, "{name}: {found} and not {us}");
    };
    assert_near("explained.increase", 20.0);
    assert_near("explained.fault", 20.0);
    assert_near("bias.trace", 2.0);
    assert_near("wakeup.user.unloaded.p50", 5.0 + 0.7 + 2.0);
    assert_near("wakeup.irq.fault.p50", (5.0 + 0.7 + 2.0 + 20.0) * 5.0 / 8.0);
    assert!(number(&report, "load.fault.faults") > 0.0 && number(&report, "stall.fault.cpu.share") > 0.4);
    assert!(report.refusals.iter().all(|r| !r.what.contains("factors")), "{:?}", report.refusals);
}

#[test]
fn load_confined_to_a_cache_share_is_compared_with_full_load() {
    let mut machine = Paper::new(planted);
    machine.parts = true;
    let report = measure(&mut machine, minute());
    let assert_near = |name: &str, us: f64| {
        let found = number(&report, name);
        assert!((found - us).abs() < 0.3, "{name}: {found} and not {us}");
    };
    assert_near("wakeup.user.stress-mix-vm.p50", 25.7);
    assert_near("wakeup.user.stress-mix-vm-confined.p50", 10.7);
    // The condition is not a cell of the design from which the factors' effects are computed.
    let effect = row(&report, "effect.baseline").expect("a row");
    assert!(
        (number(&report, "effect.baseline") - number(&report, "wakeup.user.unloaded.p99")).abs() < 0.3,
        "{effect:?}"
    );
    // Without partitioning there is one refusal, and all other rows.
    let mut machine = Paper::new(planted);
    let without = measure(&mut machine, minute());
    let confined = |report: &Report| report.refusals.iter().filter(|r| r.reason == NO_PARTITIONS).count();
    assert_eq!(confined(&without), 1, "{:?}", without.refusals);
    assert!(row(&without, "wakeup.user.stress-mix-vm-confined.p50").is_none());
    assert!(row(&without, "effect.baseline").is_some());
    // The condition is also refused if given by name.
    let typed = [("conditions", "unloaded,stress-mix-vm-confined")];
    let named = measure(&mut Paper::new(planted), run(5_000, &typed));
    assert!(confined(&named) > 0, "{:?}", named.refusals);
    assert!(row(&named, "wakeup.user.unloaded.p50").is_some());
}

#[test]
fn no_effect_is_found_where_none_is_planted() {
    let report = measure(&mut Paper::new(|_| 0), minute());
    for name in ["copy", "chase", "pages", "fault", "unmap"] {
        let row = row(&report, &format!("effect.{name}")).expect(name);
        assert!(row.low < Some(0.0) && row.high > Some(0.0), "{name}: {row:?}");
    }
    assert!(!report.findings.iter().any(|f| f.name().starts_with("cause.")), "{:?}", report.findings);
    let increase = row(&report, "explained.increase").expect("a row");
    assert!(increase.low < Some(0.1) && increase.high > Some(-0.1), "{increase:?}");
}

#[test]
fn cadence_of_100_ms_is_named_quota() {
    let mut machine = Paper::new(|_| 0);
    machine.cadence = 100_000_000;
    let report = measure(&mut machine, minute());
    assert!((number(&report, "cause.quota.period") - 100.0).abs() < 1.0);
    assert!(number(&report, "cause.quota.share") > 0.8);
    assert!(
        report.refusals.iter().any(|r| r.what == "wakeup.user.unloaded.return_level_1h"),
        "{:?}",
        report.refusals
    );
    let worst = row(&report, "worst.1.latency").expect("a row");
    // Every condition has late activations.
    let condition = worst.detail.word(metrics::CONDITION);
    assert!(NAMED.iter().any(|named| Some(named.token) == condition), "{worst:?}");
    assert!(
        worst.detail.numbers(metrics::STAGES).iter().any(|(stage, _)| stage == "before-irq"),
        "{worst:?}"
    );
    assert!(worst.detail.numbers(metrics::EVENTS).iter().any(|e| e.0 == "switch idle -> task"), "{worst:?}");
    assert_eq!(worst.detail.word(metrics::RAN_BEFORE), Some("idle"));
}

#[test]
fn missing_tracer_leaves_user_rows_and_a_refusal() {
    let mut machine = Paper::new(|_| 0);
    machine.blind = true;
    let report = measure(&mut machine, run(5_000, &[]));
    assert!(row(&report, "wakeup.user.unloaded.p50").is_some());
    assert!(row(&report, "wakeup.irq.unloaded.p50").is_none());
    assert!(report.refusals.iter().any(|r| r.reason == NO_TRACEPOINTS), "{:?}", report.refusals);
}

#[test]
fn kernel_wake_ups_have_separate_rows() {
    let mut machine = Paper::new(planted);
    machine.kernels = true;
    let report = measure(&mut machine, minute());
    let assert_near = |name: &str, us: f64| {
        let found = number(&report, name);
        assert!((found - us).abs() < 0.3, "{name}: {found} and not {us}");
    };
    assert_near("wakeup.kernel.timerlat.p50", 3.7);
    assert_near("wakeup.irq.timerlat.p50", 3.7 / 4.0);
    assert_near("wakeup.user.unloaded.p50", 5.7);
    assert_near("effect.baseline", number(&report, "wakeup.user.unloaded.p99"));
    assert!(row(&report, "wakeup.user.timerlat.p50").is_none());
    let first = row(&report, "wakeup.kernel.timerlat.min").expect("a row");
    assert!(first.count > 300 && first.trials.len() > 1, "{first:?}");
    assert!(machine.timed > 3, "once in the look and once a round");
    // If it is refused, the report says so, and it is not requested again.
    let mut machine = Paper::new(planted);
    let report = measure(&mut machine, minute());
    assert!(report.refusals.iter().any(|r| r.reason == NO_TIMERLAT), "{:?}", report.refusals);
    assert_eq!(machine.timed, 1);
    assert!(!report.findings.iter().any(|f| f.name().contains("timerlat")));
}

#[test]
fn denied_priority_refuses_all_but_explicit_priority_0() {
    let mut machine = Paper::new(|_| 0);
    machine.denied = true;
    let report = measure(&mut machine, minute());
    assert!(!report.findings.iter().any(|f| f.name().starts_with("wakeup.")), "{:?}", report.findings);
    assert!(report.refusals.iter().any(|r| r.remedy == "run as root"));
    let report = measure(&mut machine, run(3_000, &[("priority", "0")]));
    assert!(row(&report, "wakeup.user.unloaded.p50").is_some());
    assert!(report.warnings.iter().any(|w| w.kind == WarningKind::WakeupConfig), "{:?}", report.warnings);
}

#[test]
fn refused_load_leaves_other_loads_measured() {
    let report = measure(&mut Paper::new(planted), run(5_000, &[("load", "vm*1:2G;vm*2:8M")]));
    assert!(row(&report, "wakeup.user.load-1.p50").is_none());
    assert!(number(&report, "wakeup.user.load-2.p50") > number(&report, "wakeup.user.unloaded.p50") + 19.0);
    assert!(report.refusals.iter().any(|r| r.reason.contains("so much memory")), "{:?}", report.refusals);
}
