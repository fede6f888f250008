//! Records: read, judged, printed and compared.

use fathom_analysis::against;
use fathom_analysis::compare::compare;
use fathom_analysis::draft::{Options, draft};
use fathom_analysis::findings::Report;
use fathom_analysis::hierarchy::Hierarchy;
use fathom_experiment::record::Record;
use fathom_experiment::report_kinds::{self, REPORT_KINDS};
use fathom_experiment::{EXPERIMENTS, wakeup};
use fathom_probe::pattern::Trial;
use fathom_probe::wire::Line;
use fathom_report::html::{self, Entry};
use fathom_report::{ReportKind, Style, comparison, from_json, kind};

use crate::{lines, mutate};

/// Checks the reader with any bytes: as they are, and resealed.
pub fn run(data: &[u8]) {
    let (first, second) = (judged(data), judged(&mutate::resealed(data)));
    if let (Some(first), Some(second)) = (&first, &second) {
        compared(first, second);
        compared(second, second);
    }
}

fn style(colour: bool) -> Style {
    Style { colour, unicode: colour, width: 80, studies: true }
}

fn kind_of(report: &Report) -> &'static ReportKind {
    report_kinds::kind(&report.experiment).unwrap_or_else(|| panic!("{:?} is of no kind", report.experiment))
}

fn terminal(report: &Report, style: &Style, next: Option<&str>) -> String {
    fathom_report::terminal(report, kind_of(report), style, next)
}

fn json(report: &Report) -> String {
    fathom_report::json(report, kind_of(report))
}

/// Reads and judges; returns None if the first line is invalid or the record is refused.
pub fn judged(data: &[u8]) -> Option<Report> {
    let record = match lines::read(data, |record| record.excess().map(str::to_owned)) {
        Ok(record) => record,
        Err(why) => {
            assert!(!why.is_empty());
            return None;
        }
    };
    planned(&record);
    let report = match fathom_experiment::read(&record) {
        Ok(report) => report,
        // An unknown experiment or invalid options are refused before anything is judged.
        Err(why) => {
            assert!(why.starts_with("line "), "{why}");
            return None;
        }
    };
    for finding in &report.findings {
        let known = kind::key(&REPORT_KINDS, &finding.name());
        let known = known.unwrap_or_else(|| panic!("{} is in no schema", finding.name()));
        assert!(known.metric.units.contains(&finding.unit), "{} in '{}'", finding.name(), finding.unit);
    }
    let text = terminal(&report, &style(false), Some("fathom report A"));
    harmless(&text);
    assert!(terminal(&report, &style(true), None).contains("\x1b["));
    let document = json(&report);
    visible(&document);
    let again = from_json(&document, &REPORT_KINDS).unwrap_or_else(|e| panic!("{e}\n{document}"));
    // Values that are not finite are null in JSON, so that the texts are compared and not the reports.
    assert_eq!(json(&again), document);
    carried(&report, &document);
    drafted(&report);
    checked(&report);
    Some(report)
}

/// Asserts that a draft is valid TOML; the reader of descriptions decides whether such a machine is possible.
fn drafted(report: &Report) {
    let Ok(hierarchy) = Hierarchy::of(report) else { return };
    let text = fathom_report::draft(&draft(&hierarchy, &Options { name: "", policies: &["lru"] }));
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    toml::from_str::<toml::Table>(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let _ = fathom_model::Description::parse("draft", &text);
}

/// Asserts that the rows of a check are in the schema, and that a second check adds none.
fn checked(report: &Report) {
    let level = against::Level {
        name: "L1".to_owned(),
        latency: (3.0, 3.0),
        size: (32768.0, 32768.0),
        line: 64,
        ways: 4,
        sets: 128,
        replacement: "lru".to_owned(),
    };
    let tlb = against::Tlb {
        nth: 1,
        name: "T1".to_owned(),
        entries: 64,
        ways: 4,
        penalty: (7.0, 9.0),
        merged: false,
    };
    let described = against::Described {
        name: "any".to_owned(),
        core_hz: 1e9,
        hz: against::clock(report).unwrap_or(1e9),
        levels: vec![level],
        memory: (90.0, 100.0),
        outstanding: Some(6),
        window: Some(224),
        set_fill: Some((2.0, 3.0)),
        stream: Some((4.0, 6.0)),
        tlbs: vec![tlb],
    };
    let Ok(checked) = against::check(report, &described) else { return };
    for finding in &checked.findings {
        let known = kind::key(&REPORT_KINDS, &finding.name()).unwrap_or_else(|| panic!("{}", finding.name()));
        assert!(known.metric.units.contains(&finding.unit), "{} in '{}'", finding.name(), finding.unit);
    }
    harmless(&terminal(&checked, &style(false), None));
    let again =
        against::check(&checked, &described).unwrap_or_else(|_| panic!("what was checked can be checked"));
    assert_eq!(json(&again), json(&checked));
}

/// Asserts that a page has the findings, without directories in the command line, and that no text in them closes an element
/// of the page.
fn carried(report: &Report, document: &str) {
    let entry = Entry { name: "A", report, kind: kind_of(report) };
    let page = fathom_report::html(&[entry], &[], &[], true).unwrap_or_else(|e| panic!("{e}"));
    let back = html::reports(&page, &REPORT_KINDS).unwrap_or_else(|e| panic!("{e}\n{document}"));
    assert_eq!(json(&back[0].1), json(&html::carried(report)));
    assert_eq!(page.matches("</script").count(), 3, "{document}");
    visible(&page);
}

/// Asserts that the plans return valid trials even if the record comes from a hostile probe.
fn planned(record: &Record) {
    // The record has the requested options of a resumed run; the budget of a minute is enough for all of them.
    let all = EXPERIMENTS.iter().map(|experiment| (experiment.plan, 1000));
    for (plan, budget_ms) in all.chain([(wakeup::EXPERIMENT.plan, 60_000)]) {
        for trial in plan(record, 1, budget_ms) {
            let line = Line::parse(&trial.line().render()).unwrap_or_else(|e| panic!("{e}: {trial:?}"));
            assert_eq!(Trial::read(&line).unwrap_or_else(|e| panic!("{e}")), trial);
        }
    }
}

/// Asserts 80 columns of plain text; commands are never wrapped.
fn harmless(text: &str) {
    for line in text.lines() {
        let plain = line.chars().all(|c| c.is_ascii() && !c.is_ascii_control());
        assert!(plain && (line.len() <= 80 || line.contains('`') || line.starts_with("Next: ")), "{line:?}");
    }
}

/// Asserts that no character acts on a terminal or reverses the direction of writing.
fn visible(text: &str) {
    let acts = |c: char| {
        c != '\n'
            && (c.is_control()
                || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
    };
    assert!(!text.contains(acts), "{:?} in {text}", text.chars().find(|c| acts(*c)));
}

fn compared(a: &Report, b: &Report) {
    if a.experiment == b.experiment {
        let found = compare(a, b, |_| true);
        harmless(&comparison(&found, ["A", "B"], Some(0.05), &style(false)));
    }
}
