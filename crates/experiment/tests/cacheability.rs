//! Cacheability on models, whose attributes are described: study S0, what each attribute behaves as, and what is reported
//! where an attribute changes nothing.

#[path = "common/asked.rs"]
mod asked;

use asked::asked;
use fathom_analysis::attribute::Memory;
use fathom_analysis::findings::{Report, Value};
use fathom_experiment::cacheability;
use fathom_experiment::record::{Record, Run};
use fathom_experiment::session::{InProcess, Session};
use fathom_model::description::{Time, Uncached};
use fathom_model::{Description, Model, catalog};
use fathom_probe::wire::Line;

/// A session's transcript and its record.
fn session(description: &Description, run: Run) -> (Vec<String>, Record) {
    let run = Run { experiment: cacheability::NAME.into(), seed: 1, ..run };
    let session = Session::new(cacheability::plan, run);
    InProcess::new(session).run(&mut Model::new(description, 1))
}

fn measure(description: &Description, run: Run) -> Report {
    let (_, record) = session(description, run);
    assert_eq!(record.problems, Vec::<String>::new());
    assert!(record.trials.iter().all(|r| r.unverified == 0), "a sample proves nothing");
    cacheability::read(&record)
}

fn pi3() -> Description {
    catalog::load("bcm2837").expect("it is committed").expect("and sound")
}

fn number(report: &Report, name: &str) -> f64 {
    match report.findings.iter().find(|f| f.name() == name).map(|f| &f.value) {
        Some(Value::Number(v)) => *v,
        other => panic!("{name}: {other:?}"),
    }
}

fn word<'a>(report: &'a Report, name: &str) -> &'a str {
    match report.findings.iter().find(|f| f.name() == name).map(|f| &f.value) {
        Some(Value::Text(word)) => word,
        other => panic!("{name}: {other:?}"),
    }
}

/// These options, within a budget.
fn run(budget_ms: u64, typed: &[(&str, &str)]) -> Run {
    Run { asked: asked(cacheability::options::ALL, typed), budget_ms, ..Run::default() }
}

/// Options of the study at both of its sizes, and more.
fn study(budget_ms: u64, more: &[(&str, &str)]) -> Run {
    run(budget_ms, &[&[("bytes", "320,2560"), ("op", "rmw")], more].concat())
}

#[test]
fn study_loop_time_matches_the_study() {
    let report = measure(&pi3(), study(2000, &[]));
    let total = |attribute: &str| number(&report, &format!("cacheability.rmw.{attribute}.2560.total"));
    let (nc, wb) = (total("normal-nc"), total("write-back"));
    let ratio = number(&report, "cacheability.rmw.normal-nc.2560.ratio");
    // 15 %: the study's two figures, and what they divide to.
    for (found, published) in [(nc, 1040.0), (wb, 53.0), (ratio, 1040.0 / 53.0)] {
        assert!((found / published - 1.0).abs() < 0.15, "{found} and not {published}");
    }
    // An eighth of the words in a round, and beginning a round is a larger part of it.
    let small = number(&report, "cacheability.rmw.normal-nc.320.total");
    assert!((small / nc * 8.0 - 1.0).abs() < 0.05, "{small} ms over 320 bytes, {nc} over 2560");
    assert_eq!(number(&report, "cacheability.study.2560"), 1800.0);
}

/// And what docs/method says that would not do: stores for nothing beside the fastest memory, a cached store of a cycle by
/// itself, a core at 1200 MHz.
#[test]
fn what_the_studys_figures_exclude() {
    let totals = |change: fn(&mut Description)| {
        let mut description = pi3();
        change(&mut description);
        let report = measure(&description, study(2000, &[]));
        ["normal-nc", "write-back"].map(|a| number(&report, &format!("cacheability.rmw.{a}.2560.total")))
    };
    let near = |found: f64, ms: f64| assert!((found - ms).abs() < 0.02 * ms, "{found} and not {ms} ms");
    let free = totals(|d| {
        d.uncached.load = Some(Time::ns(130.0));
        d.uncached.gathering.as_mut().expect("described").drain = Time::cycles(0.0);
    });
    near(free[0], 865.0);
    near(totals(|d| d.core.store = Some(Time::cycles(1.0)))[1], 64.6);
    near(totals(|d| d.core.clock_hz = 1.2e9)[1], 27.0);
}

/// docs/method/cacheability.md: whatever the board's memory takes of the range that is known, the study's figures come out.
#[test]
fn the_studys_loop_does_not_hang_on_one_latency() {
    for (ns, ms, ratio) in [(130.0, 929.0, 17.2), (140.0, 993.0, 18.4), (150.0, 1057.0, 19.6)] {
        let mut description = pi3();
        description.uncached.load = Some(Time::ns(ns));
        let report = measure(&description, study(2000, &[]));
        let total = number(&report, "cacheability.rmw.normal-nc.2560.total");
        let found = number(&report, "cacheability.rmw.normal-nc.2560.ratio");
        assert!((total - ms).abs() < 2.0 && (found - ratio).abs() < 0.1, "{ns} ns: {total} ms, {found}");
        assert!((total / 1040.0 - 1.0).abs() < 0.15 && (found * 53.0 / 1040.0 - 1.0).abs() < 0.15);
    }
}

#[test]
fn each_attribute_is_translated_and_behaves_as_described() {
    let report = measure(&pi3(), study(2000, &[]));
    for (attribute, translated, behaves) in [
        ("write-back", "write-back", "cached"),
        // The core takes it for non-cacheable.
        ("write-through", "write-through", "gathered"),
        ("normal-nc", "normal-nc", "gathered"),
        ("device", "device-ngnrne", "device"),
    ] {
        assert_eq!(word(&report, &format!("cacheability.{attribute}.translated_as")), translated);
        assert_eq!(word(&report, &format!("cacheability.{attribute}.behaves_as")), behaves);
        if attribute != "write-back" {
            assert_eq!(word(&report, &format!("cacheability.{attribute}.alias")), "seen");
        }
    }
}

#[test]
fn an_attribute_that_changes_nothing_is_no_result() {
    let mut description = pi3();
    // As a hypervisor has it that overrules the attribute: what a cached access takes.
    description.uncached.load = Some(description.levels[0].latency);
    let gathering = description.uncached.gathering.as_mut().expect("described");
    (gathering.store, gathering.drain) = (Time::cycles(0.0), Time::cycles(0.0));
    let report = measure(&description, study(2000, &[]));
    let of = |what: &str| report.findings.iter().filter(|f| f.name().ends_with(what)).count();
    assert_eq!(word(&report, "cacheability.normal-nc.behaves_as"), "cached");
    assert!(report.findings.iter().all(|f| f.name() != "cacheability.rmw.normal-nc.2560.ratio"));
    assert!(report.findings.iter().all(|f| !f.name().starts_with("cacheability.study")));
    // Device memory is still what it is.
    assert!(of("device.2560.ratio") > 0);
    let reported = report.refusals.iter().any(|r| r.reason.contains("attribute not in force"));
    assert!(reported, "{:?}", report.refusals);
}

#[test]
fn missing_attribute_is_refused_with_the_key_to_add() {
    let mut description = pi3();
    description.uncached = Uncached::default();
    let report = measure(&description, study(2000, &[]));
    assert!(report.findings.iter().any(|f| f.name() == "cacheability.rmw.write-back.2560.time"));
    let refused: Vec<_> = report.refusals.iter().filter(|r| r.remedy.contains("[uncached]")).collect();
    assert!(!refused.is_empty(), "{:?}", report.refusals);
}

/// What tells whether an attribute is in force is what a budget loses last; and without it there is no ratio.
#[test]
fn a_small_budget_costs_points_and_not_the_truth() {
    let mut ratios = 0;
    for (budget_ms, beside) in
        [(150, &[][..]), (500, &[]), (1000, &[("all-mair", "")]), (5000, &[("all-mair", "")])]
    {
        let report = measure(&pi3(), run(budget_ms, beside));
        let known = report.findings.iter().any(|f| f.name() == "cacheability.normal-nc.behaves_as");
        let some = report
            .findings
            .iter()
            .filter(|f| f.name().contains(".normal-nc.") && f.name().ends_with(".ratio"));
        let some = some.count();
        assert!(known || some == 0, "{budget_ms} ms: {some} ratios of what nobody knows to be in force");
        assert!(
            known || report.refusals.iter().any(|r| r.reason.contains("it is unknown whether")),
            "{budget_ms} ms"
        );
        ratios += some;
    }
    assert!(ratios > 0, "no budget was enough");
}

#[test]
fn unmeasured_requested_attribute_is_reported() {
    let reported = |budget_ms| {
        let run = study(budget_ms, &[("all-mair", ""), ("page-walks", "")]);
        measure(&pi3(), run).warnings.into_iter().map(|w| w.text).collect::<Vec<_>>().join("; ")
    };
    let (little, enough) = (reported(600), reported(20_000));
    assert!(little.contains("bytes of MAIR_EL1") && little.contains("walks"), "{little}");
    assert!(!enough.contains("MAIR_EL1") && !enough.contains("walks"), "{enough}");
}

#[test]
fn a_size_that_is_refused_costs_the_others_nothing() {
    let of = |bytes: &str| {
        let report = measure(&pi3(), run(2000, &[("bytes", bytes), ("op", "read")]));
        let row = report.findings.iter().find(|f| f.name() == "cacheability.read.normal-nc.2560.time");
        (row.expect("measured").count, report.refusals.len(), report.warnings.len())
    };
    let (alone, with) = (of("2560"), of("2560,1G"));
    assert_eq!(alone.0, with.0, "as many samples beside a size that does not fit");
    assert!(with.1 > alone.1 && with.2 == alone.2, "{with:?}");
}

#[test]
fn only_what_is_asked_for_is_measured() {
    let run = study(2000, &[("attributes", "device")]);
    let report = measure(&pi3(), run);
    let of = |attribute: &str| {
        report
            .findings
            .iter()
            .any(|f| f.name().starts_with("cacheability.rmw.") && f.name().contains(attribute))
    };
    assert!(of("write-back") && of("device") && !of("normal-nc") && !of("write-through"));
    assert!(report.findings.iter().any(|f| f.name() == "cacheability.rmw.device.2560.ratio"));
}

#[test]
fn every_byte_behaves_as_the_description_has_it() {
    let run = study(10_000, &[("all-mair", "")]);
    let report = measure(&pi3(), run);
    for byte in 0..=u8::MAX {
        if Memory::of(byte) == Memory::Reserved {
            // The description says nothing of these.
            continue;
        }
        let (said, behaves) =
            (format!("mair.{byte:02x}.translated_as"), format!("mair.{byte:02x}.behaves_as"));
        // What the description has: write-back in both halves is cached; what both halves keep out of caches, or
        // through them, gathers; so do unlike halves; device memory is device memory.
        let expected = match word(&report, &said) {
            "write-back" => "cached",
            "write-through" | "normal-nc" | "mixed" => "gathered",
            _ => "device",
        };
        assert_eq!(word(&report, &behaves), expected, "{byte:#04x}");
    }
}

#[test]
fn walk_bypassing_caches_costs_memory_latency() {
    let description = pi3();
    let run = study(10_000, &[("page-walks", "")]);
    let report = measure(&description, run);
    let walk = |tables: &str| number(&report, &format!("walk.{tables}.cycles"));
    // Described: 7 cycles and a fetch, which the second level serves in 15, or memory in 140 ns (84 cycles at
    // 600 MHz); and 2 for the main TLB where it answers. Some descriptors and some translations are still there.
    let (cached, not) = (walk("write-back"), walk("normal-nc"));
    assert!((18.0..30.0).contains(&cached), "{cached} cycles");
    assert!((80.0..100.0).contains(&not), "{not} cycles");
}

/// What an emulator's clock says is shown of no attribute; how each is translated, and that its work was done, is.
#[test]
fn an_emulators_times_are_refused_and_its_mappings_shown() {
    let (transcript, _) = session(&pi3(), study(2000, &[]));
    let emulated = |line: &String| match Line::parse(line) {
        Ok(parsed) if parsed.word == "probe" => {
            Line::new("probe").int("wire", 1).token("trust", "emulated").seal(1)
        }
        _ => line.clone(),
    };
    let lines: Vec<String> = transcript.iter().map(emulated).collect();
    let record = Record::parse(&lines.join("\n")).expect("a record");
    assert_eq!(record.problems, Vec::<String>::new());
    let report = cacheability::read(&record);
    assert!(
        report.findings.iter().all(|f| !f.name().ends_with(".time") && !f.name().ends_with("behaves_as"))
    );
    assert_eq!(word(&report, "cacheability.normal-nc.translated_as"), "normal-nc");
    assert_eq!(number(&report, "cacheability.device.mair"), 0.0);
    assert_eq!(word(&report, "cacheability.device.alias"), "seen");
    let samples: usize = record.trials.iter().map(|r| r.samples.len()).sum();
    assert_eq!(number(&report, "samples.verified"), samples as f64);
    assert!(report.refusals.iter().any(|r| r.reason.contains("emulator")));
}
