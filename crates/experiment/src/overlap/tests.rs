//! Tests of plan and reading on records of machines whose overlap is known.

use fathom_analysis::claims::FactValue;
use fathom_analysis::findings::{Basis, Finding, Report};
use fathom_analysis::metrics::survey::MEMORY_CHAINS_TIME;
use fathom_probe::machine::ClockTrust;

use super::*;
use crate::planted_curve;

const SEED: u64 = 7;
const BUDGET_MS: u64 = 10_000;

/// A machine with caches of 32 KiB and 1 MiB, whose loads of memory take `memory` ns. At most `overlap` of them are under way. Times
/// have errors of up to `noise`, relative.
#[derive(Clone, Copy)]
struct Machine {
    memory: f64,
    overlap: f64,
    noise: f64,
}

const PLAIN: Machine = Machine { memory: 100.0, overlap: 12.0, noise: 0.0 };

impl Machine {
    fn run(&self, trial: &Trial) -> TrialRun {
        planted_curve::run(trial, 40_000_000, self.noise, |nth| {
            let chains = trial.get::<SideBySide>().map_or(1, |together| together.chains_of(nth as usize));
            planted_curve::latency(trial.memory.bytes, self.memory) * (chains as f64 / self.overlap).max(1.0)
        })
    }

    fn curve(&self, top: u64) -> Record {
        planted_curve::curve(top, |trial| self.run(trial))
    }

    /// Runs all rounds of the plan.
    fn surveyed(&self, top: u64) -> Record {
        let mut record = self.curve(top);
        for _ in 0..10 {
            let round = plan(&record, (SEED, BUDGET_MS));
            record.trials.extend(round.iter().map(|trial| self.run(trial)));
        }
        record
    }
}

/// Returns the report of a record: the findings and refusals of this module.
fn read(record: &Record) -> Report {
    let scale = Scale::of(record);
    let mut report = Report::default();
    rows(record, &scale, &Curves::of(record, &scale), &mut report);
    report
}

fn overlap(report: &Report) -> &Finding {
    report.find(&MEMORY_OVERLAP).unwrap_or_else(|| panic!("{:?}", report.refusals))
}

#[track_caller]
fn refused(report: &Report) -> &str {
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!(report.refusals.len(), 1);
    assert_eq!(report.refusals[0].what, "memory.overlap");
    &report.refusals[0].reason
}

#[test]
fn second_thread_of_a_guest_may_have_half() {
    let mut record = Machine { overlap: 12.0, ..PLAIN }.surveyed(256 << 20);
    let bare = overlap(&read(&record)).high.expect("an end");
    record.trust = Some(fathom_probe::machine::ClockTrust::Virtual);
    let report = read(&record);
    assert!(overlap(&report).high.is_some_and(|high| high >= 2.0 * bare && high > 24.0));
    assert!(overlap(&report).low.is_some_and(|low| low < 12.0));
    assert!(overlap(&report).notes.iter().any(|note| note.contains("second thread")));
}

#[test]
fn planted_overlap_comes_back() {
    for planted in [1.0, 3.0, 12.0, 28.0] {
        let record = Machine { overlap: planted, ..PLAIN }.surveyed(256 << 20);
        let report = read(&record);
        let found = overlap(&report);
        assert!((found.finite().unwrap_or(0.0) - planted).abs() < 0.01 * planted, "{planted}: {found:?}");
        assert_eq!(found.basis, Basis::Derived);
        // 5 % of ten seconds, at 40 ms each, are twelve trials; nine are the most.
        assert_eq!((found.trials.len(), report.of(&MEMORY_CHAINS_TIME).count()), (9, CHAINS.len()));
        let eight = report.find(MEMORY_CHAINS_TIME.at([8u64.into()])).and_then(Finding::finite);
        let expected = 100.0 / planted.min(8.0);
        assert!(eight.is_some_and(|ns| (ns - expected).abs() < 0.01 * expected), "{eight:?}");
        assert_eq!(report.refusals, []);
    }
}

#[test]
fn more_chains_than_were_walked_give_a_lower_bound() {
    let report = read(&Machine { overlap: 90.0, ..PLAIN }.surveyed(256 << 20));
    let found = overlap(&report);
    assert_eq!((found.basis, found.high), (Basis::Bounds, None));
    assert!(found.finite().is_some_and(|number| (number - 64.0).abs() < 0.7), "{found:?}");
}

#[test]
fn noise_gives_an_interval_with_the_truth() {
    let held = |planted: f64| {
        let report = read(&Machine { overlap: planted, noise: 0.06, ..PLAIN }.surveyed(256 << 20));
        let found = overlap(&report);
        let inside = found.low.zip(found.high).is_some_and(|(low, high)| low <= planted && planted <= high);
        assert!(found.finite().is_some_and(|number| (number / planted - 1.0).abs() < 0.06), "{found:?}");
        inside
    };
    // Of intervals with 95 %, three of twelve or more miss in one of fifty such tests; the seeds are fixed.
    assert!((3..15).filter(|planted| held(f64::from(*planted))).count() >= 10);
}

#[test]
fn plan_walks_every_number_of_chains_in_memory_and_ends() {
    let record = PLAIN.surveyed(256 << 20);
    let trials: Vec<&Trial> = record.of(PatternKind::SideBySide).map(|run| &run.trial).collect();
    let orders: Vec<&Vec<u64>> =
        trials.iter().filter_map(|trial| Some(&trial.get::<SideBySide>()?.chains)).collect();
    for (trial, order) in trials.iter().zip(&orders) {
        assert!((MIN_BYTES..=256 << 20).contains(&trial.memory.bytes));
        assert_eq!(trial.samples, order.len() as u64);
        assert!(CHAINS.iter().all(|chains| order.contains(chains)));
        // The probe accepts it.
        assert_eq!(Trial::read(&trial.line()).as_ref(), Ok(*trial));
    }
    let mut different = orders.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), orders.len(), "each trial has its own order");
    assert_eq!(plan(&record, (SEED, BUDGET_MS)), []);
}

#[test]
fn described_machines_are_neither_asked_nor_reported() {
    let mut record = PLAIN.curve(256 << 20);
    record.trust = Some(ClockTrust::Modelled);
    assert_eq!(plan(&record, (SEED, BUDGET_MS)), []);
    let report = read(&record);
    assert!(report.findings.is_empty() && report.refusals.is_empty(), "{report:?}");
}

#[test]
fn without_a_plateau_of_memory_it_is_refused() {
    let unplanned = |record: &Record| assert_eq!(plan(record, (SEED, BUDGET_MS)), []);
    // The curve ends before the working set.
    let record = PLAIN.curve(12 << 20);
    unplanned(&record);
    assert!(refused(&read(&record)).contains("16 MiB, and the largest that was measured is 12 MiB"));
    // The last tier is faster than memory.
    let record = Machine { memory: 20.0, ..PLAIN }.curve(256 << 20);
    unplanned(&record);
    assert!(refused(&read(&record)).contains("less than a read of DRAM"));
    // A larger cache is claimed.
    let mut record = PLAIN.curve(256 << 20);
    let claim = [("level", "3"), ("size", "307200K"), ("type", "Unified")];
    let fact = |(key, value): (&str, &str)| {
        (format!("sysfs.cpu0.cache.index3.{key}"), FactValue::Text(value.to_owned()))
    };
    record.facts.extend(claim.map(fact));
    unplanned(&record);
    let report = read(&record);
    assert!(refused(&report).contains("a cache of 300 MiB is claimed"), "{report:?}");
}

#[test]
fn trials_that_were_refused_or_lost_samples_give_a_reason() {
    let mut record = PLAIN.curve(256 << 20);
    assert!(refused(&read(&record)).contains("no chains side by side"));
    let first = plan(&record, (SEED, BUDGET_MS));
    record.trials.extend(first.iter().map(|trial| PLAIN.run(trial)));
    let at = record.trials.iter().position(|run| run.trial.kind() == PatternKind::SideBySide);
    let at = at.expect("a trial");
    let mut lost = record.clone();
    lost.trials[at].samples.pop();
    assert!(refused(&read(&lost)).contains("missing"));
    let mut denied = record.clone();
    let refusal = Some(("no memory".to_owned(), "free some".to_owned()));
    denied.trials[at] = TrialRun { trial: record.trials[at].trial.clone(), refusal, ..TrialRun::default() };
    assert_eq!(refused(&read(&denied)), "no memory");
    assert_eq!(plan(&denied, (SEED, BUDGET_MS)), []);
}
