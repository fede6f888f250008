//! Tests of plan and reading on records of machines whose sets take a known time to fill.

use fathom_analysis::claims::FactValue;
use fathom_analysis::findings::{Finding, Report};
use fathom_analysis::metrics::survey::{FILL_ONE_SET_TIME, FILL_TWO_SETS_TIME};

use super::*;
use crate::planted_curve;
use crate::record::TrialRun;

/// A machine with caches of 32 KiB and 1 MiB, of which the nearest claims `ways` ways. Independent loads take `one` ns if their lines are
/// in one of its sets, and `two` ns if they are in two.
#[derive(Clone, Copy)]
struct Machine {
    ways: Option<u64>,
    one: f64,
    two: f64,
}

const PLAIN: Machine = Machine { ways: Some(8), one: 2.0, two: 1.0 };

impl Machine {
    fn run(&self, trial: &Trial) -> TrialRun {
        let ns = match trial.kind() == PatternKind::Stride {
            false => planted_curve::latency(trial.memory.bytes, 100.0),
            true if trial.memory.stride == 4096 => self.one,
            true => self.two,
        };
        planted_curve::run(trial, 100_000, 0.02, |_| ns)
    }

    /// Runs all rounds of the plan.
    fn surveyed(&self) -> Record {
        let mut record = planted_curve::curve(256 << 20, |trial| self.run(trial));
        let facts = [
            ("level", "1".to_owned()),
            ("type", "Data".to_owned()),
            ("size", "32K".to_owned()),
            ("coherency_line_size", "64".to_owned()),
            ("ways_of_associativity", self.ways.map_or_else(String::new, |ways| ways.to_string())),
        ];
        let named =
            facts.map(|(key, value)| (format!("sysfs.cpu0.cache.index0.{key}"), FactValue::Text(value)));
        record.facts.extend(named);
        for _ in 0..5 {
            let round = plan(&record, (7, 10_000));
            record.trials.extend(round.iter().map(|trial| self.run(trial)));
        }
        record
    }
}

fn read(record: &Record) -> Report {
    let scale = Scale::of(record);
    let mut report = Report::default();
    rows(record, &scale, &Curves::of(record, &scale), &mut report);
    report
}

fn refused(machine: Machine) -> String {
    let report = read(&machine.surveyed());
    assert!(report.findings.is_empty() && report.refusals.len() == 1, "{report:?}");
    report.refusals[0].reason.clone()
}

#[test]
fn planted_times_come_back() {
    let record = PLAIN.surveyed();
    let trials: Vec<&Trial> = record.of(PatternKind::Stride).map(|run| &run.trial).collect();
    let strides =
        [4096, 2048].map(|stride| trials.iter().filter(|trial| trial.memory.stride == stride).count());
    assert_eq!((strides, trials.len()), ([5, 5], 10), "one round");
    let lines = |trial: &&Trial| trial.memory.cells() * trial.memory.stride / 4096;
    assert!(
        trials.iter().all(|trial| lines(trial) == 64),
        "eight times as many as there are ways, in each set"
    );
    let report = read(&record);
    for (metric, planted) in [(&FILL_ONE_SET_TIME, 2.0), (&FILL_TWO_SETS_TIME, 1.0)] {
        let found = report.find(metric).and_then(Finding::finite).expect("a time");
        assert!((found / planted - 1.0).abs() < 0.02, "{found} of {planted}");
    }
    assert_eq!(report.refusals, []);
}

#[test]
fn what_is_not_known_is_refused() {
    assert!(refused(Machine { ways: None, ..PLAIN }).contains("neither claimed nor measured"));
    // Loads of the second level take 8 ns.
    assert!(refused(Machine { one: 30.0, ..PLAIN }).contains("longer than one of the second cache, 8.0 ns"));
    let mut record = PLAIN.surveyed();
    record.trials.retain(|run| run.trial.kind() != PatternKind::Stride);
    assert!(read(&record).refusals[0].reason.contains("no loads of lines in one set"));
    let other = [("size", "36K"), ("ways_of_associativity", "3")];
    let named = |(key, value): (&str, &str)| {
        (format!("sysfs.cpu0.cache.index0.{key}"), FactValue::Text(value.to_owned()))
    };
    record.facts.extend(other.map(named));
    assert!(plan(&record, (7, 10_000)).is_empty());
    assert!(
        read(&record).refusals[0].reason.contains("its ways have 12 KiB"),
        "{:?}",
        read(&record).refusals
    );
}

#[test]
fn described_machines_are_not_asked() {
    let mut record = PLAIN.surveyed();
    record.trials.retain(|run| run.trial.kind() != PatternKind::Stride);
    record.trust = Some(fathom_probe::machine::ClockTrust::Modelled);
    assert!(plan(&record, (7, 10_000)).is_empty());
    assert_eq!(read(&record), Report::default());
}
