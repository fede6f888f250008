//! A report for people: text that fits a terminal.

mod doctor;

use fathom_analysis::facts;
use fathom_analysis::findings::Report;
use fathom_analysis::metrics::common::DISTURBED;

use crate::page::{Page, TextRole};
use crate::sections::finding_index::FindingIndex;
use crate::sections::{body, caveat, disturbance, headline, identity, survey};
use crate::style::Style;
use crate::text;
pub use doctor::examination;

/// The whole report as text: no line is wider than `style.width`, and every line ends in a newline.
///
/// `next` is the next command to type, printed last; where it must be cut, it is cut with
/// backslashes, so that it can still be pasted.
///
/// A finding that no section knows is printed as a row, so nothing is lost.
#[must_use]
pub fn terminal(report: &Report, style: &Style, next: Option<&str>) -> String {
    let style = Style { width: style.width.clamp(Style::NARROWEST, Style::WIDEST), ..*style };
    let report = text::clean_report(report, style.unicode);
    let mut page = Page::new(style);
    let mut finding_index = FindingIndex::new(&report.findings);
    header(&mut page, &report);
    disturbed(&mut page, &mut finding_index);
    if report.findings.is_empty() {
        nothing(&mut page, &report);
    }
    body(&mut page, &report, finding_index);
    survey::warnings(&mut page, &report.warnings);
    survey::refusals(&mut page, &report.refusals);
    if let Some(next) = next {
        next_command(&mut page, &text::clean(next, style.unicode));
    }
    page.finish()
}

fn header(page: &mut Page, report: &Report) {
    page.text(TextRole::Bold, &headline(report), "", "  ");
    if let Some(caveat) = caveat(&report.trust) {
        page.text(TextRole::Plain, caveat, "", "  ");
    }
    let what = identity(report);
    let facts = report.facts.iter().enumerate();
    let facts = facts.filter(|(at, (name, _))| Some(*at) != what && facts::is_head(name));
    let mut others: Vec<String> = facts.map(|(_, (name, value))| format!("{name} {value}")).collect();
    others.push(format!("seed {}", report.seed));
    page.text(TextRole::Dim, &others.join("; "), "", "  ");
}

/// A disturbance stands on top, with its causes; its absence is one quiet line.
fn disturbed(page: &mut Page, finding_index: &mut FindingIndex) {
    let Some(f) = finding_index.one(&DISTURBED) else { return };
    let (role, text) = disturbance(f);
    page.text(role, &text, "", "  ");
    for note in &f.notes {
        page.text(if role == TextRole::Bad { TextRole::Warn } else { TextRole::Dim }, note, "  - ", "    ");
    }
}

fn nothing(page: &mut Page, report: &Report) {
    let why = match report.refusals.len() {
        0 => "Nothing was measured.".to_string(),
        1 => "Nothing was measured: see the refusal below.".to_string(),
        n => format!("Nothing was measured: see the {n} refusals below."),
    };
    page.line(TextRole::Plain, "");
    page.text(TextRole::Bad, &why, "", "  ");
}

fn next_command(page: &mut Page, next: &str) {
    page.line(TextRole::Plain, "");
    let width = page.style().width;
    let lines = text::command(next, width);
    let label = "Next: ";
    if let [only] = lines.as_slice()
        && label.len() + unicode_width::UnicodeWidthStr::width(only.as_str()) <= width
    {
        page.pieces(&[(TextRole::Plain, label.to_string()), (TextRole::Bold, only.clone())]);
        return;
    }
    page.line(TextRole::Plain, label);
    for line in lines {
        page.line(TextRole::Bold, &line);
    }
}

#[cfg(test)]
mod tests;
