//! Sweeps of a load over sizes.

use super::*;

#[test]
fn sweep_finds_planted_step_within_ten_percent() {
    let report = measure(&mut Paper::new(step_at_32_mib), sweep(600_000));
    let found: Vec<&str> = report.of(&metrics::CHANGEPOINT_STATISTIC).filter_map(|f| f.word()).collect();
    assert!(found.contains(&"p50") && found.contains(&"p90"), "{found:?}");
    for nth in 1..=found.len() {
        let row = row(&report, &format!("changepoint.{nth}.bytes")).expect("a row");
        let (low, high) = (row.low.expect("an end"), row.high.expect("an end"));
        assert!(low < f64::from(32 << 20) && high >= f64::from(32 << 20), "{row:?}");
        assert!(high / low < 1.1 + 0.05, "not narrowed: {low} to {high}");
        let detail = &row.detail;
        assert_eq!(
            (detail.word(metrics::STRESSOR), detail.number(metrics::STRIDE)),
            (Some("vm"), Some(4096.0))
        );
        assert!(detail.word(metrics::MODE).is_some(), "{row:?}");
    }
    let counts: Vec<f64> = report.of(&metrics::CHANGEPOINTS).filter_map(|f| f.finite()).collect();
    assert_eq!(counts.iter().sum::<f64>(), found.len() as f64, "{counts:?}");
    // Without the step there is no changepoint.
    let report = measure(&mut Paper::new(|_| 0), sweep(300_000));
    assert!(!report.findings.iter().any(|f| f.name().starts_with("changepoint.")), "{:?}", report.findings);
}

/// Adds 150 ns to 5.7 us from 32 MiB on, under malloc: less than the smallest changepoint of latencies that is
/// reported.
fn small_step_of_malloc(s: &fathom_probe::load::Stressor) -> u64 {
    if s.kind == Stress::Malloc && s.bytes >= 32 << 20 { 150 } else { 0 }
}

#[test]
fn sweep_finds_first_faults_and_latency_change_there() {
    let typed = [("sweep", ""), ("modes", "free"), ("like-stress", "")];
    let report = measure(&mut Paper::new(small_step_of_malloc), run(300_000, &typed));
    let words: Vec<&str> = report.of(&metrics::CHANGEPOINT_STATISTIC).filter_map(|f| f.word()).collect();
    assert_eq!(words, ["faults"]);
    let place = row(&report, "changepoint.1.bytes").expect("a row");
    let (low, high) = (place.low.expect("an end"), place.high.expect("an end"));
    assert!(low < f64::from(32 << 20) && high >= f64::from(32 << 20) && high < 1.15 * low, "{place:?}");
    // One of two workers: a thousand passes per second with ten faults each.
    let near = |name: &str, value: f64| (number(&report, name) - value).abs() <= value / 100.0;
    assert!(near("changepoint.1.before", 0.0) && near("changepoint.1.after", 10_000.0));
    assert!(row(&report, "changepoint.1.effect").is_none());
    let p50 = row(&report, "changepoint.1.across.p50").expect("a row");
    let truth = 150.0 / 5693.0;
    assert!(p50.low.expect("an end") <= truth && truth <= p50.high.expect("an end"), "{p50:?}");
    // With explicit mapping every size faults, so there is no changepoint.
    let report = measure(&mut Paper::new(small_step_of_malloc), sweep(300_000));
    assert!(!report.findings.iter().any(|f| f.name().starts_with("changepoint.")), "{:?}", report.findings);
    assert!(number(&report, "sweep.vm.free.4096.1048576.faults") > 9_000.0);
}

#[test]
fn hold_modes_have_separate_rows() {
    let typed = [("sweep", ""), ("modes", "hold2,hold4"), ("bytes", "1M,2M")];
    let report = measure(&mut Paper::new(|_| 0), run(60_000, &typed));
    let mut names: Vec<String> =
        report.findings.iter().map(|f| f.name()).filter(|n| n.starts_with("sweep.")).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!((names.len(), count > 8), (count, true), "{names:?}");
    assert!(row(&report, "sweep.vm.hold2.4096.1048576.p50").is_some(), "{names:?}");
    assert!(row(&report, "sweep.vm.hold4.4096.1048576.p50").is_some(), "{names:?}");
}
