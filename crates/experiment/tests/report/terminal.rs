use fathom_analysis::findings::{Report, Value};
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use fathom_experiment::report_kinds::REPORT_KINDS;
use fathom_report::number::{in_cells, shown};
use fathom_report::{Style, comparison, text};

use crate::samples::{self, golden};
use crate::{ASCII, STUDIES, UNICODE, page_of, text_of, unwrapped};

const NEXT: &str = "fathom report survey.fathom";

#[test]
fn survey_matches_the_golden_texts() {
    golden("survey-unicode.txt", &text_of(&samples::survey(33), &UNICODE, Some(NEXT)));
    golden("survey-ascii.txt", &text_of(&samples::survey(33), &ASCII, Some(NEXT)));
}

#[test]
fn latency_matches_the_golden_texts() {
    golden("latency-unicode.txt", &text_of(&samples::latency(), &UNICODE, Some(NEXT)));
    golden("latency-ascii.txt", &text_of(&samples::latency(), &ASCII, Some(NEXT)));
}

#[test]
fn conflict_matches_the_golden_texts() {
    golden("conflict-unicode.txt", &text_of(&samples::conflict(), &UNICODE, Some(NEXT)));
    golden("conflict-ascii.txt", &text_of(&samples::conflict(), &ASCII, Some(NEXT)));
}

#[test]
fn reads_of_several_sets_are_not_compared_with_one_set() {
    let mut report = samples::conflict();
    let one = unwrapped(&text_of(&report, &STUDIES, None));
    assert!(one.contains("; measured 5.14.") && one.contains("Study S1"), "{one}");
    let sets = report.findings.iter_mut().find(|f| f.name() == "tier.1.sets").expect("sets");
    sets.value = Value::Number(128.0);
    let two = unwrapped(&text_of(&report, &STUDIES, None));
    assert!(two.contains("A way is 8 KiB: these reads fall into 2 sets in turn"), "{two}");
    assert!(!two.contains("; measured 5.14.") && !two.contains("Study S1"), "{two}");
    let page = |report: &Report| page_of(&[("A", report)], &[]);
    let policies = "expected under textbook policies";
    assert!(page(&samples::conflict()).contains(policies) && !page(&report).contains(policies));
    assert!(page(&report).contains("data-chart=\"rounds.misses\""));
}

#[test]
fn missing_tiers_are_reported() {
    let mut report = samples::conflict();
    let none = "No tiers were found, so the geometry of levels is unknown.";
    report.findings.push(samples::number("tier.1.latency", 1.8, "ns", None, 9));
    assert!(!text_of(&report, &UNICODE, None).contains(none));
    report.findings.retain(|f| f.name().starts_with("conflict."));
    let text = text_of(&report, &UNICODE, None);
    assert!(text.contains(none) && !text.contains("misses: not counted"), "{text}");
    report.findings.retain(|f| f.name().contains("time_per_round"));
    let text = text_of(&report, &UNICODE, None);
    assert!(text.contains("misses: not counted, and not derived from single loads"), "{text}");
    assert!(!text_of(&samples::survey(9), &UNICODE, None).contains(none));
}

/// Compares two latency reports: the second is of another machine and slower in memory.
fn compared() -> fathom_analysis::compare::Comparison {
    let (a, mut b) = (samples::latency(), samples::latency());
    b.subject = "pi2".to_string();
    for f in b.findings.iter_mut().filter(|f| f.name().contains("1048576")) {
        match &mut f.value {
            Value::Number(v) => *v *= 1.3,
            Value::Text(word) => *word = "hit".to_string(),
        }
        (f.low, f.high) = (f.low.map(|v| v * 1.3), f.high.map(|v| v * 1.3));
    }
    b.findings.push(samples::number("tier.1.capacity", 4096.0, "bytes", None, 9));
    fathom_analysis::compare::compare(&a, &b, |_| true)
}

#[test]
fn comparison_matches_the_golden_texts() {
    let names = ["here.fathom", "there.fathom"];
    golden("compare-unicode.txt", &comparison(&compared(), names, Some(0.05), &UNICODE));
    golden("compare-ascii.txt", &comparison(&compared(), names, None, &ASCII));
    let (a, c) = (samples::latency(), compared());
    let none = comparison(&fathom_analysis::compare::compare(&a, &a, |_| true), names, None, &UNICODE);
    assert!(
        none.contains("Same options and settings.") && none.contains("findings differs significantly"),
        "{none}"
    );
    assert_eq!(c.beyond(0.05).count(), 2, "{c:#?}");
    assert_eq!(c.beyond(0.5).count(), 0);
}

/// Returns the survey checked against a description whose second level has half the size and that has no second TLB.
fn checked() -> Report {
    use fathom_analysis::against::{Described, Level, Tlb, check};
    let level = |name: &str, cycles: f64, kib: f64, ways| Level {
        name: name.to_string(),
        latency: (cycles, cycles),
        size: (kib * 1024.0, kib * 1024.0),
        line: 64,
        ways,
        sets: 64,
        replacement: "lru".to_string(),
    };
    let described = Described {
        name: "board".to_string(),
        core_hz: 2.96e9,
        hz: 2.96e9,
        levels: vec![level("L1D", 5.0, 48.0, 12), level("L2", 16.6, 1024.0, 16)],
        memory: (390.0, 400.0),
        outstanding: Some(6),
        window: Some(224),
        set_fill: None,
        stream: None,
        tlbs: vec![Tlb {
            nth: 1,
            name: "dTLB".to_string(),
            entries: 64,
            ways: 4,
            penalty: (6.0, 8.0),
            merged: false,
        }],
    };
    let mut report = samples::survey(9);
    report.findings.push(samples::number("tlb.2.penalty", 30.7, "ns", None, 9));
    report.findings.push(samples::word("tier.1.policies", "fifo, random", &[]));
    check(&report, &described).expect("it has tiers")
}

#[test]
fn description_is_compared_with_measured_values() {
    let text = text_of(&checked(), &UNICODE, None);
    let at = text.find("Against the description board").expect("its section");
    let end = text[at..].find("\n\n").map_or(text.len(), |end| at + end + 1);
    golden("against.txt", &text[at..end]);
    assert!(!text.contains("expected."), "every row is in the table: {text}");
    let narrow = text_of(&checked(), &Style { width: 60, ..ASCII }, None);
    assert!(narrow.lines().all(|l| l.width() <= 60), "{narrow}");
    let page = page_of(&[("A", &checked())], &[]);
    assert!(page.contains("Against the description board") && page.contains("disagrees"));
}

#[test]
fn a_histogram_without_its_peak_is_still_shown() {
    let mut report = samples::latency();
    report.findings.clear();
    assert!(text_of(&report, &UNICODE, None).contains("latency.8192.single"));
}

#[test]
fn survey_with_sixty_points_matches_the_golden_text() {
    golden("sixty-points.txt", &text_of(&samples::survey(60), &UNICODE, Some(NEXT)));
}

#[test]
fn disturbed_guest_matches_the_golden_text() {
    golden("disturbed.txt", &text_of(&samples::disturbed(), &UNICODE, Some(NEXT)));
}

#[test]
fn refused_report_matches_the_golden_text() {
    golden("refused.txt", &text_of(&samples::refused(), &ASCII, None));
}

#[test]
fn narrow_report_matches_the_golden_text() {
    golden("narrow.txt", &text_of(&samples::disturbed(), &Style { width: 60, ..UNICODE }, Some(NEXT)));
}

#[test]
fn disturbance_is_printed_above_every_figure() {
    let text = text_of(&samples::disturbed(), &UNICODE, None);
    let (cause, picture) = (text.find("switched out 412 times"), text.find("Latency of one load"));
    assert!(text.find("UNUSABLE") < cause && cause < picture && cause.is_some(), "{text}");
    assert!(text_of(&samples::survey(33), &UNICODE, None).contains("Undisturbed."));
}

/// A noisy report marks the findings that suffer, and only those.
#[test]
fn doubtful_findings_are_marked() {
    let mut report = samples::survey(33);
    report.findings[1] = samples::word("disturbance.state", "noisy", &["tasks waited"]);
    let quiet = text_of(&report, &UNICODE, None);
    assert!(quiet.contains("Noisy: no finding is doubtful because of it.\n  - tasks waited"), "{quiet}");
    let noisy_but = "noisy, but no value above is doubtful";
    assert!(contains_text(&quiet, noisy_but) && !quiet.contains('!'), "{quiet}");
    for f in report.findings.iter_mut().filter(|f| f.name().starts_with("tier.1.latency")) {
        f.disturbed_trials = 2;
    }
    let marked = text_of(&report, &UNICODE, None);
    assert!(
        marked.contains("findings are doubtful (!)") && marked.contains("noisy: 1 of the 5 values"),
        "{marked}"
    );
    assert!(marked.contains("1.690!") && marked.contains("5.61 ") && !marked.contains("5.61!"), "{marked}");
}

#[test]
fn verdicts_of_a_guest_are_marked() {
    let guest = text_of(&samples::disturbed(), &UNICODE, None);
    assert!(guest.contains("  agrees (guest)") && guest.contains("  disagrees (guest)"), "{guest}");
    let real = text_of(&samples::survey(33), &UNICODE, None);
    assert!(real.contains("  agrees") && real.contains("  disagrees") && !real.contains("(guest)"), "{real}");
}

#[test]
fn a_disagreement_without_a_sentence_gets_one() {
    let mut report = samples::survey(33);
    for f in &mut report.findings {
        if f.name().starts_with("verdict.") {
            f.notes.clear();
        }
    }
    let expected = "level 4: claimed 260 MiB by sysfs, 260 MiB by cpuid; the measurement disagrees";
    assert!(unwrapped(&text_of(&report, &UNICODE, None)).contains(expected));
    report.trust = "virtual".to_string();
    assert!(unwrapped(&text_of(&report, &UNICODE, None)).contains("the measurement disagrees (guest)"));
}

#[test]
fn data_and_instructions_of_one_level_are_two_rows() {
    let claim = |what: &str, v: f64, unit, holds: &str| {
        samples::number(&format!("claim.sysfs.level.1.{holds}.{what}"), v, unit, None, 1)
    };
    let report = Report {
        findings: vec![
            claim("size", 49152.0, "bytes", "data"),
            claim("ways", 12.0, "", "data"),
            claim("size", 32768.0, "bytes", "instructions"),
            claim("ways", 8.0, "", "instructions"),
        ],
        ..Report::default()
    };
    let text = unwrapped(&text_of(&report, &UNICODE, None));
    assert!(text.contains("1 data sysfs 48 KiB 12 instructions sysfs 32 KiB 8"), "{text}");
}

#[test]
fn second_finding_of_one_name_is_printed() {
    let mut report = samples::survey(33);
    report.findings.push(samples::number("tier.1.latency", 77.25, "ns", None, 1));
    let text = text_of(&report, &UNICODE, None);
    assert!(text.contains("77.25"), "{text}");
}

#[test]
fn non_positive_points_become_rows() {
    let mut report = samples::survey(33);
    report.findings.push(samples::number("latency.1234.time", -0.125, "ns", None, 1));
    let text = text_of(&report, &UNICODE, None);
    assert!(text.contains("33 points") && text.contains("latency.1234.time  -0.125"), "{text}");
    report.findings.retain(|f| !f.name().starts_with("latency.") || f.name() == "latency.4096.time");
    let text = text_of(&report, &UNICODE, None);
    assert!(!text.contains("points") && text.contains("latency.4096.time"), "{text}");
}

#[test]
fn colour_is_optional_and_changes_no_character() {
    let report = samples::disturbed();
    let plain = text_of(&report, &UNICODE, Some(NEXT));
    assert!(!plain.contains('\u{1b}'));
    let coloured = text_of(&report, &Style { colour: true, ..UNICODE }, Some(NEXT));
    assert!(coloured.contains("\u{1b}[1m") && coloured.contains("\u{1b}[32m"));
    assert_eq!(without_escapes(&coloured), plain);
}

#[test]
fn commands_are_never_wrapped() {
    let long = format!("fathom report /data/{}/survey.fathom --json", "x".repeat(100));
    let text = text_of(&samples::refused(), &Style { width: 60, ..ASCII }, Some(&long));
    assert!(text.ends_with(&format!("Next: {long}\n")), "{text}");
    let remedy = "allow it: `sudo sysctl kernel.perf_event_paranoid=1 kernel.kptr_restrict=0`, then again";
    let mut report = samples::refused();
    report.refusals[0].remedy = remedy.to_owned();
    for width in [60, 80] {
        let text = text_of(&report, &Style { width, ..ASCII }, None);
        let command = "`sudo sysctl kernel.perf_event_paranoid=1 kernel.kptr_restrict=0`,";
        assert!(text.lines().any(|line| line.contains(command)), "{text}");
    }
    // A command that is longer than a line is neither wrapped nor joined with other text.
    let lines = text::wrap(&format!("try `{long}` or wait"), 60, "- ", "  ");
    assert_eq!(lines, ["- try".to_owned(), format!("  `{long}`"), "  or wait".to_owned()]);
    // A single backtick does not begin a command.
    let alone = format!("a` {}", "b ".repeat(80));
    assert!(text::wrap(&alone, 60, "", "").iter().all(|line| line.len() <= 60));
}

/// Returns a sample of every kind of report, with tables of different widths.
fn all_samples() -> Vec<Report> {
    vec![
        samples::survey(33),
        samples::latency(),
        samples::conflict(),
        samples::disturbed(),
        samples::refused(),
        samples::wakeup(),
        samples::sweep(),
        checked(),
    ]
}

#[test]
fn reports_fit_terminals_of_every_width() {
    for report in all_samples() {
        let mut heights = Vec::new();
        for width in [60, 80, 120, 200] {
            for style in [Style { width, ..UNICODE }, Style { width, ..ASCII }] {
                let text = text_of(&report, &style, Some(NEXT));
                for line in text.lines() {
                    assert!(line.width() <= width, "{} columns of {width}: {line:?}", line.width());
                }
            }
            heights.push(text_of(&report, &Style { width, ..UNICODE }, Some(NEXT)).lines().count());
        }
        assert!(heights.is_sorted_by(|a, b| a >= b), "{}: {heights:?}", report.experiment);
    }
}

/// A table that is wider than the terminal is divided into parts.
#[test]
fn wide_table_is_divided_and_repeats_row_labels() {
    let wide = text_of(&samples::conflict(), &Style { width: 200, ..ASCII }, None);
    let narrow = text_of(&samples::wakeup(), &Style { width: 60, ..ASCII }, None);
    golden("wakeup-60.txt", &narrow);
    golden("conflict-200.txt", &wide);
    // Every part of the task's table begins with the condition.
    let heads: Vec<&str> =
        narrow.lines().filter(|line| line.contains("p99.9") && line.contains("(95 %)")).collect();
    assert!(!heads.is_empty(), "{narrow}");
    let rows = narrow.lines().filter(|line| line.starts_with("stress-mix-vm ")).count();
    assert!(rows > 8, "{rows}\n{narrow}");
}

fn without_escapes(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let mut out = parts.next().unwrap_or("").to_string();
    for part in parts {
        out += part.split_once('m').expect("an SGR sequence ends in m").1;
    }
    out
}

/// Returns whether `text` contains `words`, ignoring blanks and line breaks.
fn contains_text(text: &str, words: &str) -> bool {
    let squeeze = |t: &str| t.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    squeeze(text).contains(&squeeze(words))
}

fn check_width(report: &Report, style: &Style, next: Option<&str>) -> Result<(), TestCaseError> {
    let text = text_of(report, style, next);
    for line in text.lines() {
        // Commands are never wrapped.
        if line.starts_with("Next: ") || line.contains('`') {
            continue;
        }
        let width = UnicodeWidthStr::width(line);
        prop_assert!(width <= style.width, "{width} columns: {line:?}");
    }
    prop_assert!(text.ends_with('\n'));
    prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "control characters");
    prop_assert!(style.unicode || text.is_ascii(), "beyond ASCII");
    Ok(())
}

proptest! {
    #![proptest_config(samples::config())]

    #[test]
    fn no_line_exceeds_the_width(
        report in samples::any_report(),
        width in prop_oneof![Just(80usize), 60usize..=200],
        unicode in any::<bool>(),
        next in prop::option::of(samples::any_text()),
    ) {
        check_width(&report, &Style { colour: false, unicode, width, studies: true }, next.as_deref())?;
    }

    #[test]
    fn any_comparison_fits(
        a in samples::any_report(),
        b in samples::any_report(),
        width in 60usize..=200,
        unicode in any::<bool>(),
    ) {
        let style = Style { colour: false, unicode, width, studies: true };
        let c = fathom_analysis::compare::compare(&a, &b, |_| true);
        let text = comparison(&c, [&a.subject, &b.subject], Some(0.01), &style);
        for line in text.lines().filter(|line| !line.contains('`')) {
            prop_assert!(UnicodeWidthStr::width(line) <= width, "{line:?}");
        }
        prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "control characters");
    }

    #[test]
    fn any_histogram_fits(
        counts in prop::collection::vec((any::<f64>(), any::<u64>()), 0..60),
        width in 60usize..=200,
        unicode in any::<bool>(),
    ) {
        let mut report = samples::latency();
        report.histograms[1].counts = counts;
        check_width(&report, &Style { colour: false, unicode, width, studies: true }, None)?;
    }

    #[test]
    fn a_survey_with_long_texts_fits_too(
        texts in prop::collection::vec(samples::any_text(), 8..9),
        width in 60usize..=200,
        unicode in any::<bool>(),
    ) {
        let mut report = samples::disturbed();
        report.subject = texts[0].clone();
        report.facts = vec![(texts[1].clone(), texts[2].clone()), (texts[3].clone(), texts[4].clone())];
        for (i, f) in report.findings.iter_mut().enumerate() {
            f.notes.push(texts[i % texts.len()].clone());
        }
        report.warnings[0].text = texts[5].clone();
        report.refusals[0].what = texts[6].clone();
        check_width(&report, &Style { colour: false, unicode, width, studies: true }, Some(&texts[0]))?;
    }

    #[test]
    fn notes_warnings_and_unknown_findings_are_never_cut(
        note in "[a-zA-Z0-9 ,.]{1,300}",
        word in "[a-z]{1,20}",
        width in 60usize..=200,
        value in -1e6f64..1e6,
    ) {
        let mut report = samples::disturbed();
        report.findings[10].notes.push(note.clone());
        report.warnings[0].text = format!("one {note}");
        report.refusals[0].remedy = format!("two {note}");
        report.findings.push(samples::word("verdict.level.9.size", &word, &[&note]));
        report.findings.push(samples::number("samples.verified", value, "samples", None, 5));
        let text = text_of(&report, &Style { width, ..UNICODE }, None);
        let lines = [note.clone(), ["one ", &note].concat(), ["two ", &note].concat()];
        for line in lines.iter().chain([&word]) {
            prop_assert!(contains_text(&text, line), "{line}");
        }
        prop_assert!(contains_text(&text, &shown(value, None, None).value));
    }

    #[test]
    fn value_of_every_finding_is_printed(report in samples::any_report()) {
        // A report of this finding alone shows its value, whatever its metric.
        for f in &report.findings {
            let alone = Report { findings: vec![f.clone()], ..Report::default() };
            let expected = match &f.value {
                Value::Text(word) if f.name() == "disturbance.state" => match word.as_str() {
                    "ok" => "Undisturbed".to_owned(),
                    "noisy" => "Noisy".to_owned(),
                    "unusable" => "UNUSABLE".to_owned(),
                    other => other.to_owned(),
                },
                Value::Text(word) => word.clone(),
                Value::Number(_) => in_cells(f).0.value,
            };
            for kind in REPORT_KINDS.iter() {
                let style = if f.name().contains("study") { &STUDIES } else { &UNICODE };
                let text = fathom_report::terminal(&alone, kind, style, None);
                prop_assert!(contains_text(&text, &expected), "{}, {f:?}\n{text}", kind.name);
            }
        }
    }

    #[test]
    fn printed_intervals_include_the_printed_value(value in -1e9f64..1e9, below in 0.0f64..1e6, above in 0.0f64..1e6) {
        let s = shown(value, Some(value - below), Some(value + above));
        let inner = s.interval.trim_matches(['(', ')']).to_string();
        let (low, high) = inner.split_once("..").expect("an interval");
        let read = |t: &str| t.parse::<f64>().expect("a number");
        prop_assert!(read(low) <= read(&s.value) && read(&s.value) <= read(high), "{s:?}");
        // Rounding moves an end by at most a quarter of the half-width (integers aside).
        let half = (below + above) / 2.0;
        prop_assert!((read(high) - (value + above)).abs() <= f64::max(half / 4.0, 0.5) + 1e-6);
    }
}

#[test]
fn page_colours_are_tables_of_pages_by_colours() {
    let mut report = Report { experiment: "conflict".to_string(), ..Report::default() };
    for (which, misses) in [("shared", 0.0), ("1", 9.0), ("4", 0.0), ("77", 1.0)] {
        let name = |what: &str| format!("tier.1.colour.{which}.9.{what}");
        report.findings.push(samples::number(&name("misses_per_round"), misses, "", None, 3));
        report.findings.push(samples::number(&name("time_per_round"), 10.0 + misses, "ns", None, 3));
    }
    report.findings.push(samples::word("tier.1.colour.useful", "yes", &["a way is 4 pages"]));
    let text = text_of(&report, &ASCII, None);
    for line in [
        "Page colours of tier 1: misses per round, one load in each page",
        "pages  shared  1 colour  4 colours",
        "    9       0         9          0",
        "    9      10        19         10",
        "Colouring helps in tier 1: yes; a way is 4 pages",
        // There is no column for 77 colours: the row is printed as a plain row.
        "tier.1.colour.77.9.misses_per_round",
    ] {
        assert!(text.contains(line), "no '{line}' in:\n{text}");
    }
}
