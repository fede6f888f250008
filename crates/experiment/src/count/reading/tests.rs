use fathom_analysis::findings::Value;
use fathom_probe::wire::Line;

use super::*;
use crate::record::{End, MAX_SLICES, ProgramSlice, ProgramTimes, Run, TriedEvent};

const CACHES: [&str; 4] = ["cycles", "instructions", "L1-dcache-loads", "L1-dcache-load-misses"];
const TLB: [&str; 3] = ["cycles", "instructions", "dTLB-load-misses"];

/// A program of 2 million instructions and 3 million cycles: a fifth of the instructions load, a tenth of these miss, and one
/// in 1000 instructions misses the TLB. Each round takes a little longer than the one before.
fn planted() -> ProgramRuns {
    let names = |set: &[&str]| set.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let run = |set: Option<usize>, round: u64, counts: &[u64]| ProgramRun {
        set,
        wall_ns: 10_000_000 + 1_000_000 * round,
        cpu_us: [if set.is_some() { 6_600 } else { 6_000 }, 500],
        counted_us: set.map(|_| 7_050),
        faults: [80, 1],
        switches: [3, 2],
        counts: counts.to_vec(),
        ..ProgramRun::default()
    };
    let runs = (0..7).flat_map(|round| {
        [
            run(None, round, &[]),
            run(Some(0), round, &[3_000_000 + round, 2_000_000, 400_000, 40_000]),
            run(Some(1), round, &[3_000_000 + round, 2_000_000, 2_000]),
        ]
    });
    let events = [&CACHES[..], &TLB[2..]].concat();
    ProgramRuns {
        program: "planted".to_owned(),
        process: None,
        every_ms: None,
        with_kernel: false,
        events: events.iter().map(|name| TriedEvent { name: (*name).to_owned(), tried: Some(8) }).collect(),
        refused: vec![RefusedEvent {
            name: "branches".to_owned(),
            reason: "none".to_owned(),
            remedy: "buy some".to_owned(),
        }],
        sets: vec![names(&CACHES), names(&TLB)],
        times: Some(ProgramTimes {
            survey: "a survey".to_owned(),
            tiers: vec![[4_000; 3], [14_000, 13_000, 15_000]],
            translation: Some([30_000; 3]),
        }),
        runs: runs.collect(),
        regions: None,
        slices: Vec::new(),
    }
}

/// Returns the record of a program on a machine of this trust.
fn record(program: &ProgramRuns, trust: &str) -> Record {
    let run = Run { experiment: NAME.to_owned(), subject: program.program.clone(), ..Run::default() };
    let mut lines = vec![Record::first_line(), run.line().render()];
    for (seq, line) in
        [Line::new("probe").int("wire", fathom_probe::wire::VERSION).token("trust", trust), Line::new("gone")]
            .into_iter()
            .enumerate()
    {
        lines.push(line.seal(seq as u64));
    }
    lines.extend(program.head_lines().iter().map(Line::render));
    lines.extend(program.slices.iter().map(|slice| slice.line().render()));
    lines.extend(program.runs.iter().flat_map(ProgramRun::lines).map(|line| line.render()));
    lines.push(End { status: "complete".to_owned(), elapsed_ms: 100 }.line().render());
    let record = Record::parse(&lines.join("\n")).expect("a record");
    assert_eq!(record.problems, Vec::<String>::new());
    record
}

/// Returns value and interval of a finding.
fn value(report: &Report, name: &str) -> Option<[f64; 3]> {
    let f = report.findings.iter().find(|f| f.name() == name)?;
    match f.value {
        Value::Number(value) => Some([value, f.low?, f.high?]),
        Value::Text(_) => None,
    }
}

#[test]
fn record_returns_what_was_counted() {
    let planted = planted();
    assert_eq!(record(&planted, "real").program, Some(planted));
}

#[test]
fn findings_are_medians_over_the_runs_that_counted() {
    let report = read(&record(&planted(), "real"));
    assert_eq!(report.warnings, []);
    for (name, expected) in [
        // Seven runs without counting; the interval of seven leaves out none.
        ("program.wall", [13.0, 10.0, 16.0]),
        ("program.cpu", [6.5, 6.5, 6.5]),
        ("program.user", [6.0, 6.0, 6.0]),
        ("program.system", [0.5, 0.5, 0.5]),
        ("program.faults.minor", [80.0; 3]),
        ("program.faults.major", [1.0; 3]),
        ("program.switches.voluntary", [3.0; 3]),
        ("program.switches.involuntary", [2.0; 3]),
        ("program.event.instructions.count", [2_000_000.0; 3]),
        ("program.event.L1-dcache-load-misses.count", [40_000.0; 3]),
        ("program.event.L1-dcache-load-misses.per_thousand", [20.0; 3]),
        ("program.event.L1-dcache-load-misses.share", [0.1; 3]),
        ("program.event.L1-dcache-loads.per_thousand", [200.0; 3]),
        ("program.event.dTLB-load-misses.per_thousand", [1.0; 3]),
        // Only memory is behind the first level.
        ("program.explained.memory", [400_000.0, 360_000.0, 440_000.0]),
        ("program.explained.translation", [60_000.0; 3]),
        ("program.explained.all", [460_000.0, 420_000.0, 500_000.0]),
    ] {
        assert_eq!(value(&report, name), Some(expected), "{name}");
    }
    // Both sets count cycles.
    let cycles = report.findings.iter().find(|f| f.name() == "program.event.cycles.count").expect("counted");
    assert_eq!((cycles.count, cycles.finite()), (14, Some(3_000_003.0)));
    let [rate, ..] = value(&report, "program.instructions_per_cycle").expect("both were counted");
    assert!((rate - 2.0 / 3.0).abs() < 1e-5, "{rate}");
    let [cost, ..] = value(&report, "program.counting_cost").expect("runs with and without");
    assert!((cost - 600.0 / 6500.0).abs() < 1e-9, "{cost}");
    assert_eq!(value(&report, "program.event.dTLB-load-misses.share"), None, "its loads were not counted");
    assert_eq!(report.refusals.len(), 1);
    assert_eq!(report.refusals[0].what, "branches");
    assert!(report.refusals[0].remedy.contains("fathom count --simulated"), "{:?}", report.refusals);
}

#[test]
fn counts_of_shared_registers_are_left_out_and_told() {
    let mut planted = planted();
    // Too few, as they were counted in half of the time.
    for run in planted.runs.iter_mut().filter(|run| run.set == Some(1)).take(3) {
        run.counts[2] /= 2;
        run.shared = true;
    }
    let report = read(&record(&planted, "real"));
    assert_eq!(value(&report, "program.event.dTLB-load-misses.count"), Some([2_000.0; 3]));
    let shared = report.warnings.iter().find(|w| w.kind == WarningKind::CountersShared).expect("told");
    assert!(shared.text.contains("3 of 21 runs"), "{}", shared.text);
    for run in planted.runs.iter_mut().filter(|run| run.set.is_some()) {
        run.shared = true;
    }
    let report = read(&record(&planted, "real"));
    assert_eq!(report.of(&metrics::COUNT).count(), 0, "nothing was counted all the time");
}

#[test]
fn an_emulator_has_counts_but_no_times() {
    let report = read(&record(&planted(), "emulated"));
    for name in
        ["program.wall", "program.cpu", "program.event.cycles.count", "program.instructions_per_cycle"]
    {
        assert_eq!(value(&report, name), None, "{name}");
    }
    assert_eq!(value(&report, "program.event.instructions.count"), Some([2_000_000.0; 3]));
    assert!(report.refusals.iter().any(|refused| refused.what.contains("times")), "{:?}", report.refusals);
}

#[test]
fn runs_that_differ_or_fail_are_told() {
    let mut planted = planted();
    planted.runs[1].counts[1] += 30_000;
    planted.runs[2].ended = "exit status: 3".to_owned();
    let report = read(&record(&planted, "real"));
    let told = |kind| report.warnings.iter().find(|w| w.kind == kind).map(|w| w.text.as_str());
    let differ = told(WarningKind::RunsDiffer).expect("told");
    assert!(differ.contains("2000000 to 2030000"), "{differ}");
    let failed = told(WarningKind::ProgramFailed).expect("told");
    assert!(failed.contains("1 of 21") && failed.contains("exit status: 3"), "{failed}");
}

/// A setuid program is not counted: its counts are near 0 and not wrong in any other way.
#[test]
fn counts_of_what_the_kernel_hides_are_left_out_and_told() {
    let mut planted = planted();
    for run in planted.runs.iter_mut().filter(|run| run.set == Some(0)) {
        (run.cpu_us, run.counted_us) = ([60_000, 1_000], Some(3_000));
        run.counts.fill(7);
    }
    let report = read(&record(&planted, "real"));
    assert_eq!(value(&report, "program.event.L1-dcache-loads.count"), None);
    assert_eq!(value(&report, "program.event.instructions.count"), Some([2_000_000.0; 3]));
    let told = report.warnings.iter().find(|w| w.kind == WarningKind::Uncounted).expect("told");
    assert!(told.text.contains("7 of 21 runs") && told.text.contains("setuid"), "{}", told.text);
}

#[test]
fn a_kernel_that_is_counted_and_processes_that_are_left_are_told() {
    let mut planted = ProgramRuns { with_kernel: true, ..planted() };
    planted.runs[4].left = true;
    let report = read(&record(&planted, "real"));
    let kinds: Vec<WarningKind> = report.warnings.iter().map(|warning| warning.kind).collect();
    assert_eq!(kinds, [WarningKind::KernelCounted, WarningKind::ProcessesLeft]);
}

/// More misses than loads: the kernel's events are not of the same accesses, and no share is said.
#[test]
fn misses_that_are_more_than_the_loads_have_no_share() {
    let mut planted = planted();
    planted.runs[1].counts[3] = 500_000;
    let report = read(&record(&planted, "real"));
    assert_eq!(report.of(&metrics::SHARE).count(), 0);
}

/// A process with two sets in turns: 300 slices of 10 ms with half a CPU, and three times as many faults in the last third.
fn sliced() -> ProgramRuns {
    let names = |set: &[&str]| set.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let slice = |nth: u64| {
        let own = if nth.is_multiple_of(2) { [4_000_000, 8_000_000] } else { [2_000_000, 1000] };
        ProgramSlice {
            set: (nth % 2) as usize,
            begin_us: 10_500 * nth,
            wall_us: 10_000,
            counts: [&[5_000_000, if nth < 200 { 10 } else { 30 }][..], &own].concat(),
            shared: nth == 299,
        }
    };
    let events = ["task-clock", "page-faults", "cycles", "instructions", "dTLB-load-misses"];
    ProgramRuns {
        program: "server".to_owned(),
        process: Some(1234),
        every_ms: Some(10),
        events: events.iter().map(|name| TriedEvent { name: (*name).to_owned(), tried: None }).collect(),
        sets: vec![
            names(&["task-clock", "page-faults", "cycles", "instructions"]),
            names(&["task-clock", "page-faults", "instructions", "dTLB-load-misses"]),
        ],
        slices: (0..300).map(slice).collect(),
        ..ProgramRuns::default()
    }
}

#[test]
fn slices_of_a_process_are_rates_and_ratios() {
    let planted = sliced();
    let whole = record(&planted, "real");
    assert_eq!(whole.program.as_ref(), Some(&planted));
    let report = read(&whole);
    let number = |name: &str| {
        report.findings.iter().find(|f| f.name() == name).and_then(Finding::finite).unwrap_or(f64::NAN)
    };
    assert!((number("program.counted_time") - 3000.0).abs() < 1e-6);
    assert!((number("program.cpus") - 0.5).abs() < 1e-9);
    // The last slice was shared: 200 of 1000 a second, 99 of 3000.
    let faults = (200.0 * 1000.0 + 99.0 * 3000.0) / 299.0;
    assert!((number("program.event.page-faults.rate") - faults).abs() < 1e-6);
    assert!((number("program.event.dTLB-load-misses.rate") - 100_000.0).abs() < 1e-6);
    assert!((number("program.instructions_per_cycle") - 2.0).abs() < 1e-9);
    assert!((number("program.event.dTLB-load-misses.per_thousand") - 0.5).abs() < 1e-9);
    assert!((number("program.slice.10.event.page-faults.rate") - 1000.0).abs() < 1e-6);
    assert!((number("program.slice.10.instructions_per_cycle") - 2.0).abs() < 1e-9);
    // Two sets of 150 and 149 slices: none is joined with another.
    let slices = report.findings.iter().filter(|f| f.name().ends_with(".cpus")).count();
    assert_eq!(slices, 1 + 299);
    let shared = report.warnings.iter().find(|w| w.kind == WarningKind::CountersShared).expect("told");
    assert!(shared.text.contains("in 1 of 300 slices"), "{shared:?}");
    let headline = (crate::count::KIND.headline)(&report);
    assert!(headline.answer.contains("0.50 CPUs on average, 0.50 to 0.50"), "{headline:?}");
    let emulated = read(&record(&planted, "emulated"));
    assert!(!emulated.findings.iter().any(|f| f.name().starts_with("program.slice")), "it has no time");
}

/// The kernel lets nobody look into a setuid program: its slices would say that it did nothing.
#[test]
fn slices_without_the_time_of_their_run_are_left_out() {
    let mut planted = sliced();
    planted.process = None;
    // Slices have 1.5 s.
    let run = |us: u64| ProgramRun { wall_ns: 3_000_000_000, cpu_us: [us, 0], ..ProgramRun::default() };
    for (us, is_told) in [(1_550_000, false), (3_000_000, true)] {
        planted.runs = vec![run(us)];
        let report = read(&record(&planted, "real"));
        assert_eq!(report.warnings.iter().any(|w| w.kind == WarningKind::Uncounted), is_told, "{us}");
        assert_eq!(report.findings.iter().any(|f| f.name() == "program.cpus"), !is_told, "{us}");
    }
}

/// To open the counters of many threads takes longer than a short slice.
#[test]
fn time_in_no_slice_is_told() {
    let told = |gap: u64| {
        let mut planted = sliced();
        for (nth, slice) in planted.slices.iter_mut().enumerate() {
            slice.begin_us = (slice.wall_us + gap) * nth as u64;
        }
        let report = read(&record(&planted, "real"));
        report.warnings.into_iter().find(|w| w.kind == WarningKind::SlicesCut).map(|w| w.text)
    };
    assert_eq!(told(500), None);
    assert!(told(10_000).is_some_and(|text| text.contains("50 % of the time")));
}

#[test]
fn long_series_are_joined_and_the_end_of_too_long_ones_is_told() {
    let mut planted = sliced();
    planted.sets.truncate(1);
    let one = planted.slices[0].clone();
    planted.slices =
        (0..MAX_SLICES as u64).map(|nth| ProgramSlice { begin_us: 10_000 * nth, ..one.clone() }).collect();
    let report = read(&record(&planted, "real"));
    let cpus: Vec<&Finding> = report
        .findings
        .iter()
        .filter(|f| f.name().starts_with("program.slice.") && f.name().ends_with(".cpus"))
        .collect();
    assert_eq!(cpus.len(), 200);
    assert!(cpus.iter().all(|f| (f.finite().unwrap_or(0.0) - 0.5).abs() < 1e-9));
    assert_eq!(cpus[0].name(), "program.slice.500.cpus", "50 slices of 10 ms");
    assert!(report.warnings.iter().any(|w| w.kind == WarningKind::SlicesCut));
    let mut record = record(&planted, "real");
    record.push(&one.line().render()).expect("not the first line");
    assert!(record.problems[0].contains("more than 10000 slices"), "{:?}", record.problems);
}

#[test]
fn hostile_slices_are_told_and_left_out() {
    let whole = record(&sliced(), "real").program.expect("a program");
    for (line, why) in [
        ("program part=slice set=2 begin_us=4000000 wall_us=1 counts=1,2,3,4", "not listed before"),
        ("program part=slice set=0 begin_us=4000000 wall_us=1 counts=1,2,3", "3 counts of 4"),
        ("program part=slice set=0 begin_us=0 wall_us=1 counts=1,2,3,4", "does not follow"),
        ("program part=slice set=0 begin_us=4000000 wall_us=0 counts=1,2,3,4", "does not follow"),
        (
            "program part=slice set=0 begin_us=18446744073709551615 wall_us=1 counts=1,2,3,4",
            "does not follow",
        ),
        ("program part=slice set=0 wall_us=1 counts=1,2,3,4", "'begin_us' is missing"),
    ] {
        let mut record = record(&sliced(), "real");
        record.push(line).expect("not the first line");
        assert!(
            record.problems.first().is_some_and(|problem| problem.contains(why)),
            "{:?}",
            record.problems
        );
        assert_eq!(record.program.as_ref(), Some(&whole), "{line}");
    }
    // The largest numbers that a line may have do not overflow anything.
    let mut record = record(&sliced(), "real");
    let most = u64::MAX - 5_000_000;
    record
        .push(&format!(
            "program part=slice set=0 begin_us=4000000 wall_us={most} counts={most},{most},{most},{most}"
        ))
        .expect("not the first line");
    assert_eq!((record.problems.len(), read(&record).experiment.as_str()), (0, NAME));
}

#[test]
fn hostile_lines_are_told_and_left_out() {
    let whole = record(&planted(), "real").program.expect("a program");
    for (line, why) in [
        ("program part=command name=\"other\"", "a second command"),
        ("program part=event name=\"nothing\"", "is not one of"),
        ("program part=event name=\"cycles\"", "cycles is listed twice"),
        ("program part=event name=\"branches\"", "branches is listed twice"),
        ("program part=refused name=\"cycles\" reason=\"x\" remedy=\"y\"", "cycles is listed twice"),
        ("program part=set events=\"cycles,cycles\"", "twice"),
        ("program part=set events=\"\"", "is not one of"),
        ("program part=times survey=\"x\" tiers=1,1,1,2,2,2", "a second part=times"),
        ("program part=run wall_ns=1 cpu_us=1,2 faults=1,2 switches=1,2 set=2 counts=1", "not listed before"),
        ("program part=run wall_ns=1 cpu_us=1,2 faults=1,2 switches=1,2 set=0 counts=1", "1 counts of 4"),
        ("program part=run wall_ns=1 cpu_us=1,2 faults=1,2 switches=1,2 counts=1", "1 counts of 0"),
        ("program part=run wall_ns=1 cpu_us=1 faults=1,2 switches=1,2", "1 numbers instead of 2"),
        ("program part=run cpu_us=1,2 faults=1,2 switches=1,2", "'wall_ns' is missing"),
        ("program part=elsewhere", "is not one of: command event"),
    ] {
        let mut record = record(&planted(), "real");
        record.push(line).expect("not the first line");
        let problem = record.problems.first().map_or("", String::as_str);
        assert!(problem.contains(why), "{line}: {problem:?}");
        assert_eq!(record.program.as_ref(), Some(&whole), "{line}");
        assert_eq!(read(&record).experiment, NAME);
    }
    for line in [
        "program part=times survey=\"x\" tiers=1,1,1,2,2",
        "program part=times survey=\"x\" tiers=2,1,1",
        "program part=times survey=\"x\" tiers=1,1,1 translation=1",
        "program part=times survey=\"x\" tiers=1,1,1 translation=1,1,1,2,2,2",
    ] {
        let mut record = record(&ProgramRuns { times: None, ..planted() }, "real");
        record.push(line).expect("not the first line");
        let told = ["no intervals", "more than one time"];
        assert!(record.problems.iter().any(|problem| told.iter().any(|why| problem.contains(why))), "{line}");
    }
    // Extreme numbers are read without overflow.
    let mut record = record(&planted(), "real");
    let most = u64::MAX;
    let line = format!(
        "program part=run wall_ns={most} cpu_us={most},{most} faults={most},{most} switches={most},{most} set=0 \
         counts={most},0,0,{most}"
    );
    record.push(&line).expect("not the first line");
    assert_eq!(record.problems, Vec::<String>::new());
    assert_eq!(read(&record).experiment, NAME);
    let empty =
        Record::parse(&[Record::first_line(), "program part=command name=\"x\"".to_owned()].join("\n"));
    assert!(read(&empty.expect("a record")).refusals.iter().any(|refused| refused.reason.contains("no run")));
}
