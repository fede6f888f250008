//! Tests on planted machines whose first level holds 32 KiB and takes 2 ns.

use fathom_analysis::claims::FactValue;
use fathom_probe::pattern::{Alu, Trial};
use fathom_units::facts;

use super::*;
use crate::latency_curve::tier_rows;
use crate::planted_curve::{curve, latency, run};

/// Returns a survey of a machine whose calibrations of the core's clock show cycles of `cycle_ns`.
fn surveyed(cycle_ns: f64, trust: ClockTrust) -> Record {
    let of = |trial: &Trial, ns: f64| run(trial, 1, 0.0, |_| ns);
    let mut record = curve(64 << 20, |trial| of(trial, latency(trial.memory.bytes, 100.0)));
    let calibration = Trial { round: 1, loads: 100_000, samples: 5, ..Trial::of(Alu) };
    record.trials.insert(0, of(&calibration, cycle_ns));
    record.trust = Some(trust);
    record
}

/// Returns the capacity of the first level: its finding.
fn capacity(record: &Record) -> Finding {
    let scale = Scale::of(record);
    let mut curves = Curves::of(record, &scale);
    let mut report = Report::default();
    let ran = extend(record, &scale, &mut curves);
    tier_rows(&curves, &scale, &mut report);
    if ran {
        rows(&mut report);
    }
    let first = report.findings.iter().find(|row| row.key == TIER_CAPACITY.at([1_u64.into()]));
    first.expect("a capacity").clone()
}

#[test]
fn first_level_beside_a_second_thread_may_be_twice_as_large() {
    let whole = capacity(&surveyed(0.5, ClockTrust::Virtual));
    let high = whole.high.expect("an end");
    // A calibration that takes a little longer than a cycle.
    assert_eq!(capacity(&surveyed(0.501, ClockTrust::Virtual)).high, Some(high));
    let beside = capacity(&surveyed(0.47, ClockTrust::Virtual));
    assert_eq!((beside.low, beside.high), (whole.low, Some(2.0 * high)));
    assert!(beside.notes.iter().any(|note| note.contains("second thread")), "{:?}", beside.notes);
}

#[test]
fn nothing_is_extended_where_no_second_thread_can_be() {
    let mut record = surveyed(0.47, ClockTrust::Real);
    let alone = capacity(&record);
    assert_eq!(alone.high, capacity(&surveyed(0.5, ClockTrust::Real)).high);
    let threads = [(facts::SMT, "on"), (facts::CPU_SIBLINGS, "0,8")];
    record.facts.extend(threads.map(|(name, text)| (name.to_owned(), FactValue::Text(text.to_owned()))));
    assert_eq!(capacity(&record).high, alone.high.map(|high| 2.0 * high));
    let mut off = surveyed(0.47, ClockTrust::Real);
    off.facts.extend([(facts::CPU_SIBLINGS.to_owned(), FactValue::Text("0".to_owned()))]);
    assert_eq!(capacity(&off).high, alone.high);
}

#[test]
fn first_tlb_for_huge_pages_is_extended_and_no_other() {
    let mut report = Report::default();
    for n in [1_u64, 2] {
        let row = Finding::number(TLB_HUGE_ENTRIES.at([n.into()]), 64.0);
        report.findings.push(Finding { low: Some(62.0), high: Some(70.0), ..row });
    }
    rows(&mut report);
    let ends: Vec<_> = report.findings.iter().map(|row| (row.low, row.high, row.notes.len())).collect();
    assert_eq!(ends, [(Some(62.0), Some(140.0), 1), (Some(62.0), Some(70.0), 0)]);
}
