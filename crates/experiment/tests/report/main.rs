//! Hand-built reports as text, pages, JSON and every other form: tests of views and toolkit together.

mod draft;
#[path = "../common/full.rs"]
mod full;
mod html;
mod json;
mod kinds;
mod numbers;
mod samples;
mod schema;
mod share;
mod terminal;
mod wakeup;

use fathom_analysis::findings::Report;
use fathom_experiment::report_kinds::{REPORT_KINDS, kind};
use fathom_experiment::survey;
use fathom_report::html::{Change, Entry};
use fathom_report::json::ReadError;
use fathom_report::{ReportKind, Style};

/// Without colour, in ASCII, 80 columns.
const ASCII: Style = Style { colour: false, unicode: false, width: 80, studies: false };
/// In Unicode, with comparisons with studies.
const STUDIES: Style = Style { colour: false, unicode: true, width: 80, studies: true };

/// Without colour, in Unicode, 80 columns.
const UNICODE: Style = Style { colour: false, unicode: true, width: 80, studies: false };

/// Returns the kind of a report; that of a survey if the experiment is a random text.
fn kind_of(report: &Report) -> &'static ReportKind {
    kind(&report.experiment).unwrap_or(&survey::KIND)
}

fn text_of(report: &Report, style: &Style, next: Option<&str>) -> String {
    fathom_report::terminal(report, kind_of(report), style, next)
}

fn json_of(report: &Report) -> String {
    fathom_report::json(report, kind_of(report))
}

fn read(text: &str) -> Result<Report, ReadError> {
    fathom_report::from_json(text, &REPORT_KINDS)
}

fn page_of(named: &[(&str, &Report)], changes: &[Change]) -> String {
    let entries: Vec<Entry> =
        named.iter().map(|(name, report)| Entry { name, report, kind: kind_of(report) }).collect();
    fathom_report::html(&entries, changes, &[], false).expect("the template renders")
}

fn read_page(page: &str) -> Result<Vec<(String, Report)>, ReadError> {
    fathom_report::html::reports(page, &REPORT_KINDS)
}

/// Returns the text in one line, with one blank between words.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
