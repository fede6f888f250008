use fathom_analysis::findings::Value;

use super::*;
use crate::record::TriedEvent;

const EVENTS: [&str; 3] = ["cycles", "instructions", "L1-dcache-load-misses"];

fn counted_region(name: &str, entered: u64, ns: u64, counts: &[u64]) -> ProgramRegion {
    ProgramRegion { name: name.to_owned(), entered, ns, counts: counts.to_vec(), ..ProgramRegion::default() }
}

/// Six runs whose marks read the clock, and six that count: `outer` takes 5 ms and its part `inner` 3 ms, with 1 instruction in 2
/// cycles and 10 misses in 1000 instructions.
fn planted() -> ProgramRuns {
    let run = |set: Option<usize>| {
        let counts = |counts: [u64; 3]| if set.is_some() { counts.to_vec() } else { Vec::new() };
        let regions = vec![
            counted_region("", 64, 6_400, &counts([640, 320, 0])),
            counted_region("outer", 1, 5_000_000, &counts([5_000, 2_000, 40])),
            counted_region("inner", 3, 3_000_000, &counts([4_000, 2_000, 20])),
        ];
        let marks = ProgramMarks {
            attached: 1,
            threads: 1,
            read_by: [set.is_none(), set.is_some(), false],
            pairs: [64, 12_800],
            regions,
            ..ProgramMarks::default()
        };
        ProgramRun { set, in_regions: true, marks: Some(marks), ..ProgramRun::default() }
    };
    ProgramRuns {
        events: EVENTS.iter().map(|name| TriedEvent { name: (*name).to_owned(), tried: None }).collect(),
        sets: vec![EVENTS.iter().map(|name| (*name).to_owned()).collect()],
        regions: Some(AskedRegions { all: true, names: vec!["inner".to_owned(), "gone".to_owned()] }),
        runs: (0..6).flat_map(|_| [run(None), run(Some(0))]).collect(),
        ..ProgramRuns::default()
    }
}

fn read(program: &ProgramRuns, emulated: bool) -> Report {
    let mut report = Report::default();
    add(program, emulated, &mut report);
    report.warnings.extend(doubts(program));
    report
}

fn value(report: &Report, name: &str) -> Option<f64> {
    let found = report.findings.iter().find(|f| f.name() == name)?;
    assert!(found.count == 6 && found.low <= found.finite() && found.finite() <= found.high, "{found:?}");
    match found.value {
        Value::Number(value) => Some(value),
        Value::Text(_) => None,
    }
}

#[test]
fn regions_are_numbered_by_their_names_and_have_their_counts() {
    let report = read(&planted(), false);
    let all = [
        ("program.region.1.time", 3.0),
        ("program.region.1.entered", 3.0),
        ("program.region.1.event.cycles.count", 4000.0),
        ("program.region.1.event.L1-dcache-load-misses.per_thousand", 10.0),
        ("program.region.1.instructions_per_cycle", 0.5),
        ("program.region.2.time", 5.0),
        ("program.region.2.event.instructions.count", 2000.0),
        ("program.marks.time", 100.0),
        ("program.marks.cost", 200.0),
        ("program.marks.event.cycles.count", 10.0),
    ];
    for (name, planted) in all {
        assert_eq!(value(&report, name), Some(planted), "{name}");
    }
    let inner = report.findings.iter().filter(|f| f.detail.word(REGION) == Some("inner"));
    assert!(inner.clone().count() >= 5 && inner.clone().all(|f| f.name().starts_with("program.region.1.")));
    let cycles = report.find(metrics::MARKS_COUNT.at(["cycles".into()])).expect("it counts");
    assert_eq!(cycles.detail.word(metrics::READ_BY), Some("instructions"));
    assert_eq!(
        report.refusals.iter().map(|refused| refused.what.as_str()).collect::<Vec<_>>(),
        ["region gone"]
    );
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
}

#[test]
fn how_counters_were_read_is_told() {
    let ways = [
        ([true, false, false], "read"),
        ([false, true, false], "instructions"),
        ([false, false, true], "driver"),
        ([true, false, true], "some-by-instructions"),
    ];
    for (read_by, told) in ways {
        let mut program = planted();
        for marks in program.runs.iter_mut().filter_map(|run| run.marks.as_mut()) {
            marks.read_by = read_by;
        }
        let report = read(&program, false);
        let cycles = report.find(metrics::MARKS_COUNT.at(["cycles".into()])).expect("it counts");
        assert_eq!(cycles.detail.word(metrics::READ_BY), Some(told));
    }
}

/// An emulator has neither times nor cycles.
#[test]
fn emulators_have_counts_only() {
    let report = read(&planted(), true);
    let of = |f: &fathom_analysis::findings::Finding| f.name();
    assert!(report.findings.iter().map(of).all(|name| !name.contains("time") && !name.contains("cycle")));
    assert_eq!(value(&report, "program.region.1.event.instructions.count"), Some(2000.0));
    assert!(value(&report, "program.marks.cost").is_none());
}

#[test]
fn what_did_not_count_is_left_out_and_told() {
    let mut program = planted();
    for run in &mut program.runs {
        let marks = run.marks.as_mut().expect("marks");
        marks.regions[1].shared = 1;
        marks.regions[2].unmatched = 2;
    }
    program.runs[0].marks.as_mut().expect("marks").uncounted = 3;
    program.runs[0].marks.as_mut().expect("marks").error = [13, 0];
    let report = read(&program, false);
    assert!(value(&report, "program.region.2.event.instructions.count").is_none());
    assert_eq!(value(&report, "program.region.1.event.instructions.count"), Some(2000.0));
    let told: Vec<String> =
        report.warnings.iter().map(|w| format!("{}: {}", w.kind.token(), w.text)).collect();
    assert!(told[0].starts_with("marks-unmatched") && told[0].contains("inner (2 times)"), "{told:?}");
    assert!(told[1].starts_with("counters-shared"), "{told:?}");
    assert!(told[2].starts_with("marks-lost") && told[2].contains("3 threads had no counters"), "{told:?}");
    assert!(told[2].contains("Permission denied"), "{told:?}");
}

/// A region that a run without counters may have entered is no 0.
#[test]
fn runs_whose_threads_had_no_counters_count_nothing() {
    let mut program = planted();
    for run in program.runs.iter_mut().filter(|run| run.set.is_some()) {
        let marks = run.marks.as_mut().expect("marks");
        marks.regions.truncate(1);
    }
    let count = "program.region.1.event.instructions.count";
    assert_eq!(value(&read(&program, false), count), Some(0.0), "it was not entered");
    for run in program.runs.iter_mut().filter(|run| run.set.is_some()) {
        run.marks.as_mut().expect("marks").uncounted = 1;
    }
    let report = read(&program, false);
    assert!(value(&report, count).is_none() && value(&report, "program.region.1.time") == Some(3.0));
}

#[test]
fn nothing_is_believed_of_runs_without_marks_or_with_damaged_ones() {
    for (damaged, why) in [(true, "wrote into the memory"), (false, "no program or library with marks")] {
        let mut program = planted();
        for run in &mut program.runs {
            let attached = u64::from(damaged);
            run.marks = Some(ProgramMarks { attached, damaged, ..ProgramMarks::default() });
        }
        let report = read(&program, false);
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert!(report.refusals[0].reason.contains(why), "{:?}", report.refusals);
    }
}

/// What a run writes is read again, and a line that does not belong there is an error.
#[test]
fn record_has_what_marks_counted() {
    use crate::record::{Record, Run};
    use fathom_probe::wire::Line;
    let program = planted();
    let lines = |program: &ProgramRuns| {
        let head = Run { experiment: "count".to_owned(), ..Run::default() };
        let mut lines = vec![Record::first_line(), head.line().render()];
        lines.extend(program.head_lines().iter().map(Line::render));
        lines.extend(program.runs.iter().flat_map(ProgramRun::lines).map(|line| line.render()));
        lines
    };
    let record = Record::parse(&lines(&program).join("\n")).expect("a record");
    assert_eq!(record.problems, Vec::<String>::new());
    assert_eq!(record.program, Some(program.clone()));
    let mut twice = program.clone();
    let marks = twice.runs[0].marks.as_mut().expect("marks");
    marks.regions.push(counted_region("inner", 1, 1, &[]));
    let mut long = program.clone();
    long.runs[0].marks.as_mut().expect("marks").regions[0].counts.push(1);
    let mut whole = program;
    whole.runs[0].in_regions = false;
    for (wrong, why) in
        [(twice, "is twice"), (long, "counts of 0 events"), (whole, "does not follow its run")]
    {
        let record = Record::parse(&lines(&wrong).join("\n")).expect("a record");
        assert!(record.problems.iter().any(|problem| problem.contains(why)), "{why}: {:?}", record.problems);
    }
}
