use fathom_analysis::findings::Value;
use fathom_probe::wire::Line;

use super::*;
use crate::record::{
    DataLevel, End, Instruction, ProfileCall, ProfileLatency, ProfileLevel, ProfileObject, ProfilePmu, Run,
};

/// 1000 samples of a millisecond: three quarters in `inner`, a quarter in `outer`.
fn planted() -> Profile {
    let place = |function: &str, source: &str, samples: u64| ProfilePlace {
        function: function.to_owned(),
        file: "program".to_owned(),
        source: source.to_owned(),
        instruction: None,
        samples,
        weight: samples * 1_000_000,
    };
    let call = |caller: u64, function: &str, samples: u64| ProfileCall {
        caller,
        function: function.to_owned(),
        file: "program".to_owned(),
        samples,
        weight: samples * 1_000_000,
    };
    Profile {
        program: "program".to_owned(),
        event: "cpu-clock".to_owned(),
        rate: 1000,
        counts: [1000, 0, 0],
        effective: 1000,
        processes: [1, 0],
        weight: 1_000_000_000,
        wall_ns: 1_200_000_000,
        cpu_us: [1_010_000, 20_000],
        functions: vec![place("inner", "", 750), place("outer", "", 250)],
        lines: vec![place("inner", "a.c:3", 740), place("outer", "a.c:9", 250), place("inner", "a.c:4", 10)],
        instructions: vec![ProfilePlace {
            instruction: Some(Instruction { address: 0xffff_8000_1000_0004, offset: 4 }),
            ..place("inner", "a.c:3", 700)
        }],
        objects: vec![ProfileObject {
            object: "a table".to_owned(),
            file: "program".to_owned(),
            samples: 200,
            weight: 200_000_000,
            latency: None,
        }],
        whole: Some(900),
        totals: vec![place("main", "", 1000), place("inner", "", 750), place("outer", "", 250)],
        calls: vec![call(0, "main", 0), call(1, "inner", 700), call(1, "outer", 250), call(3, "inner", 50)],
        ..Profile::default()
    }
}

fn record(profile: &Profile, trust: &str) -> Record {
    record_with(profile, trust, &[])
}

/// The same of a probe that reports these facts.
fn record_with(profile: &Profile, trust: &str, facts: &[Line]) -> Record {
    let run = Run { experiment: NAME.to_owned(), subject: profile.program.clone(), ..Run::default() };
    let mut lines = vec![Record::first_line(), run.line().render()];
    let probe = Line::new("probe").int("wire", fathom_probe::wire::VERSION).token("trust", trust);
    let sent = [probe].into_iter().chain(facts.iter().cloned()).chain([Line::new("gone")]);
    lines.extend(sent.zip(0..).map(|(line, number)| line.seal(number)));
    lines.extend(profile.record_lines().iter().map(Line::render));
    lines.push(End { status: "complete".to_owned(), elapsed_ms: 1200 }.line().render());
    let record = Record::parse(&lines.join("\n")).expect("a record");
    assert_eq!(record.problems, Vec::<String>::new());
    record
}

fn value(report: &Report, name: &str) -> Option<f64> {
    match report.findings.iter().find(|f| f.name() == name)?.value {
        Value::Number(value) => Some(value),
        Value::Text(_) => None,
    }
}

fn pmu(name: &str, cpus: &str, counts: [u64; 2], refused: &str) -> ProfilePmu {
    let [samples, counted] = counts;
    let counted = (counted > 0).then_some(counted);
    ProfilePmu { name: name.to_owned(), cpus: cpus.to_owned(), samples, counted, refused: refused.to_owned() }
}

/// Of accesses, places and objects have the latencies of their samples.
#[test]
fn accesses_are_told() {
    let mut profile = planted();
    let latency = |median: u64| Some(ProfileLatency { median, p90: 2 * median, samples: 100 });
    let level = |level: DataLevel, samples: u64, latency: Option<ProfileLatency>| ProfileLevel {
        level,
        number: (level == DataLevel::BehindLast).then_some(6),
        samples,
        weight: samples * 1_000_000,
        latency,
    };
    profile.event = "mem-loads".to_owned();
    profile.levels = vec![
        level(DataLevel::L1, 700, None),
        level(DataLevel::BehindLast, 100, None),
        level(DataLevel::Memory, 200, latency(250)),
    ];
    let told = [400, 400_000_000];
    profile.walks = Some(ProfileWalks { told, samples: 100, weight: 100_000_000, latency: latency(300) });
    profile.objects[0].latency = latency(240);
    let record = record(&profile, "real");
    assert_eq!(record.profile.as_ref(), Some(&profile));
    let report = read(&record);
    let row = |metric: &'static Metric, rank: u64| {
        let f = report.find(metric.at([rank.into()])).expect("a row");
        (f.finite(), f.detail.number(metrics::LATENCY), f.detail.number(metrics::LATENCY_P90))
    };
    assert_eq!(row(&metrics::LEVEL_SHARE, 1), (Some(0.7), None, None));
    assert_eq!(row(&metrics::LEVEL_SHARE, 3), (Some(0.2), Some(250.0), Some(500.0)));
    assert_eq!(row(&metrics::OBJECT_SHARE, 1), (Some(0.2), Some(240.0), Some(480.0)));
    let place = |rank: u64| {
        let f = report.find(metrics::LEVEL_SHARE.at([rank.into()])).expect("a row");
        (f.detail.word(metrics::LEVEL).map(str::to_owned), f.detail.number(metrics::LEVEL_NUMBER))
    };
    assert_eq!(place(2), (Some("behind-last-level".to_owned()), Some(6.0)));
    assert_eq!(place(3), (Some("memory".to_owned()), None));
    // Of those that tell it.
    let walks = report.find(&metrics::WALK_SHARE).expect("a row");
    assert_eq!((walks.finite(), walks.detail.number(metrics::SAMPLES)), (Some(0.25), Some(100.0)));
    assert_eq!(walks.detail.number(metrics::LATENCY_P90), Some(600.0));
    for level in DataLevel::ALL {
        assert_eq!(DataLevel::of_token(level.token()), Some(*level));
    }
    // More walks than samples that tell of them.
    let wrong = ProfileWalks { told: [50, 50_000_000], ..profile.walks.expect("planted") };
    let wrong = Profile { walks: Some(wrong), ..profile.clone() };
    assert_eq!(value(&read(&super::tests::record(&wrong, "real")), "profile.walks.share"), None);
    // A place that no version knows.
    let lines = profile.record_lines();
    let wrong = lines.iter().map(|line| line.render().replace("level=\"memory\"", "level=\"moon\""));
    let text: Vec<String> = std::iter::once(Record::first_line()).chain(wrong).collect();
    let problems = Record::parse(&text.join("\n")).expect("a record").problems;
    assert!(
        problems.iter().any(|problem| problem.contains("level=moon is no place of data")),
        "{problems:?}"
    );
}

/// What a trace does not have lowers the confidence.
#[test]
fn gaps_of_a_trace_are_told() {
    let profile = Profile { event: "arm_spe".to_owned(), gaps: [3, 2, 40], ..planted() };
    let record = record(&profile, "real");
    assert_eq!(record.profile.as_ref(), Some(&profile));
    let report = read(&record);
    let told: Vec<&Warning> =
        report.warnings.iter().filter(|warning| warning.kind == WarningKind::SamplesLost).collect();
    let [warning] = told.as_slice() else { panic!("{told:?}") };
    for part in ["3 parts were cut short", "in 2 parts samples collided", "40 records could not be read"] {
        assert!(warning.text.contains(part), "{warning:?}");
    }
}

/// Of CPUs of several types each PMU is told, and those that do not have the event.
#[test]
fn pmus_are_told() {
    let mut profile = planted();
    profile.pmus = vec![
        pmu("armv8_cortex_a53", "0-3", [400, 410_000], ""),
        pmu("armv8_cortex_a72", "4-5", [600, 620_000], ""),
        pmu("a_third", "6", [0, 0], "No such file or directory (os error 2)"),
    ];
    let record = record(&profile, "real");
    assert_eq!(record.profile.as_ref(), Some(&profile));
    let report = read(&record);
    assert_eq!(value(&report, "profile.pmu.1.samples"), Some(400.0));
    let second = report.find(metrics::PMU_SAMPLES.at([2u64.into()])).expect("a PMU");
    assert_eq!(second.detail.word(metrics::PMU), Some("armv8_cortex_a72"));
    assert_eq!(second.detail.word(metrics::CPUS), Some("4-5"));
    assert_eq!(second.detail.number(metrics::PMU_COUNTED), Some(620_000.0));
    assert_eq!(report.of(&metrics::PMU_SAMPLES).count(), 2);
    let refused = report.refusals.iter().find(|refused| refused.what.contains("a_third")).expect("told");
    assert!(refused.what.contains("CPUs 6") && refused.reason.contains("No such file"), "{refused:?}");
    assert!(refused.remedy.contains("--event cycles"), "{refused:?}");
}

#[test]
fn record_returns_what_was_sampled() {
    let planted = planted();
    assert_eq!(record(&planted, "real").profile, Some(planted));
}

#[test]
fn shares_have_the_interval_of_their_samples() {
    let report = read(&record(&planted(), "real"));
    assert_eq!((report.warnings.as_slice(), report.refusals.len()), (&[][..], 0));
    assert_eq!(value(&report, "profile.function.1.share"), Some(0.75));
    assert_eq!(value(&report, "profile.line.3.share"), Some(0.01));
    assert_eq!(value(&report, "profile.user"), Some(1010.0));
    // Wilson's interval by hand: (0.75 + 0.00192) / 1.00384 -+ 0.02676.
    let inner = report.findings.iter().find(|f| f.name() == "profile.function.1.share").expect("it is there");
    let (low, high) = (inner.low.expect("an end"), inner.high.expect("an end"));
    assert!((low - 0.7223).abs() < 2e-4 && (high - 0.7758).abs() < 2e-4, "{low} {high}");
    let instruction = report.of(&metrics::INSTRUCTION_SHARE).next().expect("it is there");
    assert_eq!(instruction.finite(), Some(0.7));
    let object = report.of(&metrics::OBJECT_SHARE).next().expect("it is there");
    assert_eq!(
        (object.finite(), object.detail.word(metrics::OBJECT), object.detail.number(metrics::SAMPLES)),
        (Some(0.2), Some("a table"), Some(200.0))
    );
    // All digits, more than a number of JSON has.
    assert_eq!(instruction.detail.word(common::ADDRESS), Some("0xffff800010000004"));
    let headline = (super::super::KIND.headline)(&report);
    assert!(
        headline.answer.contains("75 %") && headline.answer.contains("74 % in its line a.c:3"),
        "{headline:?}"
    );
}

#[test]
fn calls_have_what_they_call() {
    let report = read(&record(&planted(), "real"));
    let calls = report.of(&metrics::CALL_SHARE).map(|f| {
        (f.name(), f.finite().expect("a share"), f.detail.number(metrics::CALLER).expect("a number"))
    });
    let expected = [(1, 1.0, 0.0), (2, 0.7, 1.0), (3, 0.3, 1.0), (4, 0.05, 3.0)];
    let expected =
        expected.map(|(call, share, caller)| (format!("profile.call.{call}.share"), share, caller));
    assert_eq!(calls.collect::<Vec<_>>(), expected);
    assert_eq!(value(&report, "profile.total.1.share"), Some(1.0));
    assert_eq!(value(&report, "profile.callers.known"), Some(0.9));
    // Two of a million samples are seen in no figure.
    let mut rare = planted();
    rare.calls[3] = ProfileCall { samples: 2, weight: 2, ..rare.calls[3].clone() };
    assert_eq!(read(&record(&rare, "real")).of(&metrics::CALL_SHARE).count(), 3);
}

#[test]
fn unknown_callers_are_told_and_lower_no_confidence() {
    let unknown = Profile { whole: Some(700), ..planted() };
    let report = read(&record(&unknown, "real"));
    let warning = report.warnings.iter().find(|w| w.kind == WarningKind::CallersUnknown).expect("told");
    assert!(warning.text.contains("of 300 of 1000 samples"), "{warning:?}");
    assert!(!warning.kind.lowers_confidence());
    // A record that claims more than there are.
    let report = read(&record(&Profile { whole: Some(1001), ..planted() }, "real"));
    assert_eq!(value(&report, "profile.callers.known"), None);
}

#[test]
fn call_of_a_later_call_is_refused() {
    let mut hostile = planted();
    hostile.calls[1].caller = 2;
    let lines: Vec<String> = hostile.record_lines().iter().map(Line::render).collect();
    let record = Record::parse(&[vec![Record::first_line()], lines].concat().join("\n")).expect("a record");
    assert!(
        record.problems.iter().any(|p| p.contains("caller=2 is not one of 1 calls before it")),
        "{:?}",
        record.problems
    );
    let _ = read(&record);
}

/// The interval of a share covers it in 95 % of all series of samples, small shares included.
#[test]
fn interval_covers_the_share() {
    let mut state = 0x1234_5678_9abc_def0_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    for share in [0.02, 0.1, 0.5, 0.9] {
        let series = 2000;
        let covered = (0..series).filter(|_| {
            let n = 400;
            let hits = (0..n).filter(|_| random() < share).count();
            let i = interval(hits as f64 / f64::from(n), n as u64);
            i.low <= share && share <= i.high
        });
        let covered = covered.count() as f64 / f64::from(series);
        assert!(covered > 0.93, "{share}: covered in {covered}");
    }
}

#[test]
fn lost_and_few_samples_are_told() {
    let told = |profile: &Profile, kind| {
        let report = read(&record(profile, "real"));
        report.warnings.iter().find(|w| w.kind == kind).map(|w| w.text.clone())
    };
    let planted = planted();
    assert_eq!(told(&planted, WarningKind::SamplesLost), None);
    let lost = Profile { counts: [1000, 3, 0], ..planted.clone() };
    assert!(
        told(&lost, WarningKind::SamplesLost)
            .is_some_and(|text| text.starts_with("3 records were lost or may have been"))
    );
    // The kernel accounts twice the time for which there are samples, as QEMU's overflows are lost.
    let missing = Profile { cpu_us: [2_000_000, 0], ..planted.clone() };
    let text = told(&missing, WarningKind::SamplesLost).expect("told");
    assert!(text.contains("1000 ms of 2000 ms"), "{text}");
    // A setuid program has no samples, beside a short one that has.
    let hidden = Profile { counts: [50, 0, 0], effective: 50, cpu_us: [128_000, 0], ..planted.clone() };
    let text = told(&hidden, WarningKind::SamplesLost).expect("told");
    assert!(text.contains("50 ms of 128 ms") && text.contains("more rights"), "{text}");
    // 250 processes of less than a period are not seen at all.
    let short = Profile { processes: [251, 250], cpu_us: [1_069_000, 0], ..planted.clone() };
    let text = told(&short, WarningKind::SamplesLost).expect("told");
    assert!(text.contains("250 of 251 processes"), "{text}");
    let few = Profile {
        counts: [4, 0, 0],
        effective: 4,
        weight: 4_000_000,
        functions: Vec::new(),
        lines: Vec::new(),
        ..planted
    };
    assert!(told(&few, WarningKind::FewSamples).is_some());
}

/// QEMU loses most overflows of the counter of instructions: 6 of 180 came.
#[test]
fn lost_overflows_are_told_by_the_count_of_the_events() {
    let few = Profile {
        event: "instructions".to_owned(),
        counts: [6, 0, 0],
        effective: 6,
        weight: 6_000_000,
        counted: Some(180_000_000),
        functions: Vec::new(),
        totals: Vec::new(),
        calls: Vec::new(),
        lines: Vec::new(),
        ..planted()
    };
    let told = |profile: &Profile| {
        let report = read(&record(profile, "real"));
        report.warnings.into_iter().find(|w| w.kind == WarningKind::SamplesLost).map(|w| w.text)
    };
    let text = told(&few).expect("told");
    assert!(text.contains("3 % of the 180000000 instructions"), "{text}");
    let whole = Profile { weight: 170_000_000, counts: [170, 0, 0], effective: 170, ..few.clone() };
    assert_eq!(told(&whole), None, "the last period of a process is never sampled");
    let none = Profile { counts: [0; 3], effective: 0, weight: 0, ..few };
    let report = read(&record(&none, "real"));
    assert!(report.refusals[0].reason.contains("had 180000000 instructions"), "{report:?}");
}

/// Faults of an emulated machine are real, its time is none, unless its clock counts instructions.
#[test]
fn an_emulator_has_no_time_but_events() {
    let refused = |profile: &Profile| {
        let report = read(&record(profile, "emulated"));
        (report.refusals[0].what.clone(), value(&report, "profile.function.1.share"))
    };
    assert_eq!(refused(&planted()), ("times and shares of them".to_owned(), None));
    let faults = Profile { event: "page-faults".to_owned(), counted: Some(1_000_000_000), ..planted() };
    assert_eq!(refused(&faults), ("times".to_owned(), Some(0.75)));
    let declared = Line::new("fact")
        .text("name", fathom_units::facts::KERNEL_COMMAND_LINE)
        .text("text", "console=ttyAMA0 fathom.instruction_ns=4");
    let report = read(&record_with(&planted(), "emulated", &[declared]));
    assert_eq!(value(&report, "profile.function.1.share"), Some(0.75));
    assert_eq!(value(&report, "profile.wall"), None);
    let headline = (crate::profile::KIND.headline)(&report);
    assert!(headline.answer.contains("75 % of the instructions"), "{headline:?}");
}

/// Samples of small weight tell less: without that, the interval of the share would be too short.
#[test]
fn intervals_follow_the_samples_that_have_weight() {
    let of = |effective: u64| {
        let report = read(&record(&Profile { effective, ..planted() }, "real"));
        let f = report.findings.iter().find(|f| f.name() == "profile.function.1.share").expect("it is there");
        f.high.expect("an end") - f.low.expect("an end")
    };
    assert!((of(250) / of(1000) - 2.0).abs() < 0.05, "{} {}", of(250), of(1000));
    assert!((of(u64::MAX) - of(1000)).abs() < 1e-9, "no more than there are");
}

#[test]
fn what_has_no_sample_or_no_name_is_refused() {
    let none = Profile { counts: [0; 3], effective: 0, weight: 0, ..planted() };
    let report = read(&record(&Profile { ended: "exit status: 3".to_owned(), ..none }, "real"));
    assert!(report.findings.is_empty() && report.refusals[0].reason.contains("no sample"), "{report:?}");
    assert!(report.warnings.iter().any(|warning| warning.kind == WarningKind::ProgramFailed), "{report:?}");
    assert!(report.warnings.iter().all(|warning| warning.kind != WarningKind::FewSamples), "{report:?}");
    let changed = Profile { changed: vec!["/tmp/t".to_owned()], left: true, ..planted() };
    let report = read(&record(&changed, "real"));
    assert!(report.refusals.iter().any(|refused| refused.what == "names in /tmp/t"), "{report:?}");
    assert!(report.warnings.iter().any(|warning| warning.kind == WarningKind::ProcessesLeft), "{report:?}");
}

#[test]
fn an_emulator_has_no_shares() {
    let report = read(&record(&planted(), "emulated"));
    assert!(report.findings.is_empty() && report.refusals.len() == 1, "{report:?}");
}

#[test]
fn hostile_lines_are_told_and_left_out() {
    let whole = record(&planted(), "real").profile;
    for (line, why) in [
        (
            "profile part=program name=\"x\" event=\"e\" rate=1 counts=1,2,3 effective=1 processes=1,0 weight=1 wall_ns=1 cpu_us=1,1",
            "a second program",
        ),
        ("profile part=function function=\"f\" file=\"x\" counts=1", "1 numbers instead of 2"),
        ("profile part=elsewhere", "is not one of: program changed pmu function line"),
    ] {
        let mut record = record(&planted(), "real");
        record.push(line).expect("not the first line");
        assert!(record.problems.iter().any(|problem| problem.contains(why)), "{line}: {:?}", record.problems);
        assert_eq!(record.profile, whole, "{line}");
    }
    // More samples than there are have no share.
    let mut record = record(&planted(), "real");
    let most = u64::MAX;
    record
        .push(&format!("profile part=line function=\"f\" file=\"x\" counts={most},{most}"))
        .expect("not the first line");
    assert_eq!(record.problems, Vec::<String>::new());
    assert_eq!(read(&record).of(&metrics::LINE_SHARE).count(), 3);
}
