//! Records: read, judged, printed and compared.

use fathom_analysis::compare::compare;
use fathom_analysis::findings::Report;
use fathom_experiment::record::Record;
use fathom_experiment::{latency, stride, survey};
use fathom_probe::wire::{Line, Trial};
use fathom_report::{Style, comparison, from_json, html, json, schema, terminal};

use crate::{lines, mutate};

/// Holds any bytes against what is promised of every record: as they are, and sealed again.
pub fn run(data: &[u8]) {
    let (first, second) = (judged(data), judged(&mutate::resealed(data)));
    if let (Some(first), Some(second)) = (&first, &second) {
        compared(first, second);
        compared(second, second);
    }
}

fn style(colour: bool) -> Style {
    Style { colour, unicode: colour, width: 80 }
}

/// Reads and judges; nothing where the first line is none of a record.
pub fn judged(data: &[u8]) -> Option<Report> {
    let record = match lines::read(data, |record| record.excess().map(str::to_owned)) {
        Ok(record) => record,
        Err(why) => {
            assert!(!why.is_empty());
            return None;
        }
    };
    planned(&record);
    let report = fathom_experiment::read(&record);
    for finding in &report.findings {
        let known = schema::matches(&finding.name);
        let known = known.unwrap_or_else(|| panic!("{} is in no schema", finding.name));
        assert!(known.units.contains(&finding.unit), "{} in '{}'", finding.name, finding.unit);
    }
    let text = terminal(&report, &style(false), Some("fathom report A"));
    harmless(&text);
    assert!(terminal(&report, &style(true), None).contains("\x1b["));
    let document = json(&report);
    let again =
        from_json(&document, fathom_experiment::WARNINGS).unwrap_or_else(|e| panic!("{e}\n{document}"));
    // What is not finite is null in JSON, so that the text and not the report is what comes back.
    assert_eq!(json(&again), document);
    carried(&report, &document);
    Some(report)
}

/// A page carries the findings, and nothing in them ends an element of it.
fn carried(report: &Report, document: &str) {
    let page = html(&[("A", report)], &[]).unwrap_or_else(|e| panic!("{e}"));
    let back =
        html::reports(&page, fathom_experiment::WARNINGS).unwrap_or_else(|e| panic!("{e}\n{document}"));
    assert_eq!(json(&back[0].1), document);
    assert_eq!(page.matches("</script").count(), 3, "{document}");
}

/// A probe that is hostile shapes the record that the plans go on from: what they ask is still a trial.
fn planned(record: &Record) {
    for plan in [survey::plan, latency::plan, stride::plan] {
        for trial in plan(record, 1, 1000) {
            let line = Line::parse(&trial.line().render()).unwrap_or_else(|e| panic!("{e}: {trial:?}"));
            assert_eq!(Trial::read(&line).unwrap_or_else(|e| panic!("{e}")), trial);
        }
    }
}

/// Eighty columns of plain text.
fn harmless(text: &str) {
    for line in text.lines() {
        let plain = line.chars().all(|c| c.is_ascii() && !c.is_ascii_control());
        assert!(plain && line.len() <= 80, "{line:?}");
    }
}

fn compared(a: &Report, b: &Report) {
    if a.experiment == b.experiment {
        let found = compare(a, b, |_| true);
        harmless(&comparison(&found, ["A", "B"], Some(0.05), &style(false)));
    }
}
