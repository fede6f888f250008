use super::{Described, Level, Tlb, Verdict, check, compared, contradicted};
use crate::findings::Item;
use crate::findings::{Basis, Finding, Report, Value, Warning, WarningKind};
use crate::metrics::REGISTRY;

use crate::interval::Interval;

fn finding(name: &str, value: f64, unit: &'static str, off: f64) -> Finding {
    Finding {
        low: Some(value - off),
        high: Some(value + off),
        count: 40,
        trials: vec![7],
        ..Finding::number(REGISTRY.key(name).expect("a name of the schema"), value).in_unit(unit)
    }
}

/// Returns a survey with levels of 32 KiB and 1 MiB at 4 and 20 cycles, memory at 200, TLBs of 64 and 1024 entries, on
/// a core of 1 GHz.
fn survey() -> Report {
    let rows = [
        ("clock.core_hz", 1e9, "Hz", 1e5),
        ("tier.1.latency", 4.0, "ns", 0.01),
        ("tier.1.capacity", 32768.0, "bytes", 200.0),
        ("tier.2.latency", 20.0, "ns", 0.1),
        ("tier.2.capacity", 1_048_576.0, "bytes", 9000.0),
        ("tier.3.latency", 200.0, "ns", 1.0),
        ("tlb.1.entries", 64.0, "", 1.0),
        ("tlb.1.penalty", 7.0, "ns", 0.05),
        ("tlb.2.entries", 1024.0, "", 10.0),
        ("tlb.2.penalty", 40.0, "ns", 0.4),
        ("translation.8192.added", 41.0, "ns", 0.0),
        ("latency.67108864.time", 200.0, "ns", 1.0),
    ];
    let findings = rows.iter().map(|(name, v, unit, off)| finding(name, *v, unit, *off)).collect();
    Report { experiment: "survey".into(), trust: "real".into(), findings, ..Report::default() }
}

fn level(name: &str, cycles: f64, size: f64, ways: u32) -> Level {
    Level {
        name: name.into(),
        latency: (cycles, cycles),
        size: (size, size),
        line: 64,
        ways,
        sets: size as u64 / 64 / u64::from(ways),
        replacement: "lru".into(),
    }
}

fn described() -> Described {
    let tlb = |nth, name: &str, entries, cycles| Tlb {
        nth,
        name: name.into(),
        entries,
        ways: 4,
        penalty: (cycles, cycles),
        merged: false,
    };
    Described {
        name: "board".into(),
        core_hz: 1e9,
        hz: 1e9,
        levels: vec![level("L1D", 4.0, 32768.0, 8), level("L2", 20.0, 1_048_576.0, 16)],
        memory: (200.0, 200.0),
        outstanding: None,
        window: None,
        set_fill: None,
        stream: None,
        tlbs: vec![tlb(1, "near", 64, 7.0), tlb(2, "far", 1024, 40.0)],
    }
}

/// Returns the verdicts of the check by name, and the notes of those that do not agree.
fn verdicts_and_notes(report: &Report, described: &Described) -> (Vec<(String, String)>, Vec<String>) {
    let checked = check(report, described).expect("tiers");
    let rows = checked.findings.iter().filter(|f| f.name().starts_with("check."));
    let mut notes = Vec::new();
    let verdicts_and_notes = rows.map(|f| {
        let Value::Text(word) = &f.value else { panic!("{} is not a token", f.name()) };
        if word != "agrees" {
            notes.extend(f.notes.iter().cloned());
        }
        (f.name()["check.".len()..].to_owned(), word.clone())
    });
    (verdicts_and_notes.collect(), notes)
}

/// Returns the rows that do not agree.
fn not_agreeing(report: &Report, described: &Described) -> Vec<String> {
    let (verdicts_and_notes, _) = verdicts_and_notes(report, described);
    verdicts_and_notes
        .into_iter()
        .filter(|(_, w)| w != "agrees")
        .map(|(name, w)| format!("{name} {w}"))
        .collect()
}

#[test]
fn intervals_agree_disagree_or_are_undecided() {
    let none = super::CAPACITY_TOLERANCE;
    let at = |value: f64, off: f64| Interval { value, low: value - off, high: value + off };
    for (described, measured, verdict) in [
        ((100.0, 100.0), at(100.5, 1.0), Verdict::Agrees),
        ((100.0, 120.0), at(110.0, 1.0), Verdict::Agrees),
        ((100.0, 100.0), at(105.0, 1.0), Verdict::Undecided),
        ((100.0, 100.0), at(112.0, 1.0), Verdict::Disagrees),
        ((100.0, 100.0), at(88.0, 1.0), Verdict::Disagrees),
        // Too wide to decide.
        ((100.0, 100.0), at(120.0, 40.0), Verdict::Undecided),
    ] {
        assert_eq!(compared(described, measured, none), verdict, "{described:?} {measured:?}");
    }
    // Small numbers: a fifth of a cycle, one entry.
    assert_eq!(compared((1.0, 1.0), at(1.15, 0.01), super::LATENCY_TOLERANCE), Verdict::Agrees);
    assert_eq!(compared((10.0, 10.0), at(10.0, 1.0), super::ENTRIES_TOLERANCE), Verdict::Agrees);
}

#[test]
fn own_description_agrees_with_described_and_measured_values() {
    assert_eq!(not_agreeing(&survey(), &described()), Vec::<String>::new());
    let checked = check(&survey(), &described()).expect("tiers");
    assert!(!contradicted(&checked));
    assert!(checked.facts.contains(&("against".to_owned(), "board".to_owned())));
    let of = |name: &str| checked.findings.iter().find(|f| f.name() == name).expect("a row");
    let (ought, is) = (of("described.level.2.latency"), of("check.level.2.latency"));
    assert_eq!((&ought.value, ought.unit), (&Value::Number(20.0), "cycles"));
    assert!(is.low.is_some_and(|low| (low - 19.9).abs() < 1e-9), "{is:?}");
    assert_eq!((is.unit, is.count, is.trials.as_slice()), ("cycles", 40, [7].as_slice()));
    assert_eq!(of("check.tiers").notes, ["not measured, so not checked: line, ways, sets, replacement"]);
    // A second check replaces the first.
    assert_eq!(check(&checked, &described()).expect("tiers"), checked);
    // In ns if no core clock was measured.
    let mut silent = survey();
    silent.findings.remove(0);
    let slow = Described { hz: 2e9, ..described() };
    assert!(not_agreeing(&silent, &slow).contains(&"level.1.latency disagrees".to_owned()));
}

#[test]
fn every_described_value_can_be_contradicted_with_a_note() {
    type Change = fn(&mut Described);
    let changes: [(&str, Change); 9] = [
        ("core.clock", |d| d.core_hz = 2e9),
        ("level.1.size", |d| d.levels[0].size = (65536.0, 65536.0)),
        ("level.1.latency", |d| d.levels[0].latency = (3.0, 3.0)),
        ("level.2.latency", |d| d.levels[1].latency = (25.0, 26.0)),
        ("memory.latency", |d| d.memory = (250.0, 250.0)),
        ("tlb.1.entries", |d| d.tlbs[0].entries = 32),
        ("tlb.2.penalty", |d| d.tlbs[1].penalty = (20.0, 30.0)),
        ("tlbs", |d| drop(d.tlbs.pop())),
        ("tiers", |d| drop(d.levels.pop())),
    ];
    for (name, change) in changes {
        let mut other = described();
        change(&mut other);
        let (verdicts_and_notes, notes) = verdicts_and_notes(&survey(), &other);
        assert!(
            verdicts_and_notes.contains(&(name.to_owned(), "disagrees".to_owned())),
            "{name}: {verdicts_and_notes:?}"
        );
        assert!(!notes.is_empty(), "{name}");
        // A disturbed run contradicts nothing.
        let mut disturbed = survey();
        disturbed
            .findings
            .push(Finding { value: Value::Text("yes".into()), ..finding("disturbed", 0.0, "", 0.0) });
        let checked = check(&disturbed, &other).expect("tiers");
        assert!(!contradicted(&checked), "{name}");
        assert!(checked.findings.iter().flat_map(|f| &f.notes).any(|n| n.contains("disturbed")), "{name}");
    }
}

#[test]
fn measured_geometry_is_checked() {
    let mut report = survey();
    let word =
        |name: &str, text: &str| Finding { value: Value::Text(text.into()), ..finding(name, 0.0, "", 0.0) };
    report.findings.extend([
        finding("tier.1.line", 64.0, "bytes", 0.0),
        finding("tier.1.ways", 8.0, "", 0.0),
        finding("tier.1.sets", 64.0, "", 0.0),
        finding("tier.2.line", 64.0, "bytes", 0.0),
        finding("tier.2.ways", 15.0, "", 1.0),
        finding("tlb.1.ways", 4.0, "", 0.0),
        word("tier.1.policies", "fifo, lru"),
        word("tier.2.policies", "random"),
    ]);
    assert_eq!(
        not_agreeing(&report, &described()),
        ["level.2.ways undecided", "level.2.replacement disagrees"],
        "15 (14 to 16) may be 16; random is not lru"
    );
    let mut other = described();
    other.levels[0].line = 32;
    other.levels[0].sets = 128;
    other.levels[1].line = 128;
    other.tlbs[0].ways = 2;
    let not_agreeing = not_agreeing(&report, &other);
    for name in ["level.1.line", "level.1.sets", "level.2.line", "tlb.1.ways"] {
        assert!(not_agreeing.contains(&format!("{name} disagrees")), "{not_agreeing:?}");
    }
}

#[test]
fn missing_tier_contradicts_only_where_it_was_measurable() {
    let mut deeper = described();
    deeper.levels.push(level("L3", 60.0, 8_388_608.0, 16));
    deeper.tlbs.push(Tlb { nth: 3, name: "third".into(), entries: 2048, ..deeper.tlbs[1].clone() });
    assert_eq!(
        not_agreeing(&survey(), &deeper),
        ["level.3.size disagrees", "tiers disagrees", "tlb.3.entries disagrees", "tlbs disagrees"]
    );
    // Beyond the measured range, and possibly merged with the neighbour.
    deeper.levels[2].size = (5e7, 5e7);
    deeper.tlbs[2].entries = 5000;
    assert_eq!(
        not_agreeing(&survey(), &deeper),
        ["level.3.size undecided", "tiers undecided", "tlb.3.entries undecided", "tlbs undecided"]
    );
    deeper.levels[2] = level("L3", 22.0, 8_388_608.0, 16);
    deeper.tlbs[2] = Tlb { entries: 2048, merged: true, ..deeper.tlbs[2].clone() };
    assert!(not_agreeing(&survey(), &deeper).iter().all(|row| row.ends_with("undecided")));
    // A step that may be page tables is not an extra TLB, and may be a described one.
    let mut report = survey();
    report.findings[8].detail.set(crate::metrics::survey::MAYBE_TABLES, Item::Flag(true));
    assert_eq!(not_agreeing(&report, &described()), Vec::<String>::new());
    let mut one = described();
    one.tlbs.pop();
    assert_eq!(not_agreeing(&report, &one), Vec::<String>::new());
}

#[test]
fn lower_bound_does_not_contradict_larger_values() {
    let mut report = survey();
    report.warnings.push(Warning {
        kind: WarningKind::NoFinalPlateau,
        text: String::new(),
        remedy: String::new(),
    });
    let far = Described { memory: (300.0, 300.0), ..described() };
    assert_eq!(not_agreeing(&report, &far), ["memory.latency undecided"]);
    let near = Described { memory: (100.0, 100.0), ..described() };
    assert_eq!(not_agreeing(&report, &near), ["memory.latency disagrees"]);
    report.findings.clear();
    assert!(check(&report, &near).is_err());
}

#[test]
fn tier_that_may_be_two_close_levels_contradicts_neither() {
    let mut machine = described();
    machine.levels.insert(0, level("L0", 3.8, 16384.0, 4));
    let of_first = |machine: &Described| {
        let all = not_agreeing(&survey(), machine).into_iter();
        all.filter(|row| row.starts_with("level.1") && row.ends_with("disagrees")).collect::<Vec<_>>()
    };
    assert!(of_first(&machine).is_empty(), "{:?}", not_agreeing(&survey(), &machine));
    // A level that is far enough from the next is contradicted.
    (machine.levels[0].latency, machine.levels[0].size) = ((1.0, 1.0), (4096.0, 4096.0));
    assert!(!of_first(&machine).is_empty());
}

#[test]
fn instructions_in_flight_are_compared() {
    let verdict = |low: f64, high: f64, described: Option<u32>| {
        let mut report = survey();
        report.findings.push(finding("memory.window", f64::midpoint(low, high), "", (high - low) / 2.0));
        let of = Described { window: described, ..super::tests::described() };
        let (verdicts, _) = verdicts_and_notes(&report, &of);
        verdicts.into_iter().find(|(name, _)| name == "window").map(|(_, verdict)| verdict)
    };
    for (low, high, expected) in [
        (446.0, 450.0, "agrees"),
        (442.0, 446.0, "agrees"),
        (300.0, 310.0, "disagrees"),
        (520.0, 530.0, "disagrees"),
        (430.0, 436.0, "undecided"),
        (300.0, 600.0, "undecided"),
    ] {
        assert_eq!(verdict(low, high, Some(448)).as_deref(), Some(expected), "{low} to {high}");
    }
    assert_eq!(verdict(446.0, 450.0, None), None);
    // What is described and was not measured is told.
    let checked = check(&survey(), &Described { window: Some(448), ..described() }).expect("tiers");
    let tiers = checked.findings.iter().find(|f| f.name() == "check.tiers").expect("a row");
    assert!(tiers.notes[0].ends_with("instructions in flight"), "{:?}", tiers.notes);
}

#[test]
fn lines_in_order_are_compared() {
    let verdict = |ns: f64, described: Option<f64>| {
        let mut report = survey();
        report.findings.push(finding("prefetch.sequential.time", ns, "ns", 0.01));
        let of = Described { stream: described.map(|cycles| (cycles, cycles)), ..super::tests::described() };
        let (verdicts, _) = verdicts_and_notes(&report, &of);
        verdicts.into_iter().find(|(name, _)| name == "stream").map(|(_, verdict)| verdict)
    };
    assert_eq!(verdict(9.0, Some(9.0)).as_deref(), Some("agrees"));
    assert_eq!(verdict(30.0, Some(9.0)).as_deref(), Some("disagrees"));
    assert_eq!(verdict(9.0, None), None);
    let checked = check(&survey(), &Described { stream: Some((9.0, 9.0)), ..described() }).expect("tiers");
    let tiers = checked.findings.iter().find(|f| f.name() == "check.tiers").expect("a row");
    assert!(tiers.notes[0].ends_with("lines in order"), "{:?}", tiers.notes);
}

#[test]
fn fills_of_one_set_are_compared_if_the_set_limits_them() {
    let verdict = |one: f64, all: f64| {
        let mut report = survey();
        report.findings.push(finding("fill.one_set.time", one, "ns", 0.01));
        report.findings.push(finding("fill.two_sets.time", all, "ns", 0.01));
        let of = Described { set_fill: Some((8.0, 8.0)), ..super::tests::described() };
        let (verdicts, _) = verdicts_and_notes(&report, &of);
        verdicts.into_iter().find(|(name, _)| name == "set_fill").map(|(_, verdict)| verdict)
    };
    assert_eq!(verdict(8.0, 2.0).as_deref(), Some("agrees"));
    assert_eq!(verdict(14.0, 2.0).as_deref(), Some("disagrees"));
    assert_eq!(verdict(8.0, 7.0), None);
}

/// A survey tells an effective number: more than described contradict it, fewer do not.
#[test]
fn misses_under_way_are_compared() {
    let of = |outstanding| Described { outstanding, ..described() };
    let with = |value: f64, off: f64| {
        let mut report = survey();
        report.findings.push(finding("memory.overlap", value, "", off));
        report
    };
    let verdict = |report: &Report, described: u32| {
        let (verdicts, notes) = verdicts_and_notes(report, &of(Some(described)));
        let found = verdicts.into_iter().find(|(name, _)| name == "outstanding").expect("a row").1;
        (found, notes.join(" "))
    };
    assert_eq!(verdict(&with(6.2, 0.3), 6).0, "agrees");
    assert_eq!(verdict(&with(20.5, 0.5), 20).0, "agrees");
    let more = verdict(&with(9.0, 0.3), 6);
    assert!(more.0 == "disagrees" && more.1.contains("is described as 6, measured is 9"), "{more:?}");
    let fewer = verdict(&with(4.0, 0.3), 6);
    assert!(fewer.0 == "undecided" && fewer.1.contains("may allow fewer"), "{fewer:?}");
    assert_eq!(verdict(&with(6.2, 3.0), 6).0, "undecided", "too wide");
    // The most chains that were walked still help.
    let open = |value| {
        let mut report = with(value, 0.5);
        let last = report.findings.last_mut().expect("the number");
        (last.basis, last.high) = (Basis::Bounds, None);
        report
    };
    assert_eq!(verdict(&open(30.0), 20).0, "disagrees");
    assert_eq!(verdict(&open(20.0), 20).0, "undecided");
    assert_eq!(verdict(&open(20.0), 40).0, "undecided");
    for (report, described, told) in
        [(survey(), Some(6), true), (survey(), None, false), (with(6.0, 0.1), None, false)]
    {
        let checked = check(&report, &of(described)).expect("tiers");
        assert!(!checked.findings.iter().any(|f| f.name() == "check.outstanding"));
        let tiers = checked.findings.iter().find(|f| f.name() == "check.tiers").expect("a row");
        let note = "not measured, so not checked: line, ways, sets, replacement";
        let expected = if told { format!("{note}, misses under way") } else { note.to_owned() };
        assert_eq!(tiers.notes, [expected]);
    }
}
