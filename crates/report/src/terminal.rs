//! Report as text for a terminal.

mod doctor;

use fathom_analysis::facts;
use fathom_analysis::findings::Report;

use crate::head::{caveat, disturbance, identity, lead};
use crate::kind::ReportKind;
use crate::page::{Page, TextRole};
use crate::sensitivity;
use crate::style::Style;
use crate::text;
use crate::warnings;
pub use doctor::examination;

/// Formats the whole report as text, as its experiment's kind declares: the headline, a line with the number of
/// warnings and refusals, the findings, then warnings and refusals in full. No line is wider than `style.width`, except
/// for commands, which are never broken; every line ends in a newline.
///
/// `next` is the suggested next command, printed last.
#[must_use]
pub fn terminal(report: &Report, kind: &ReportKind, style: &Style, next: Option<&str>) -> String {
    let style = Style { width: style.width.clamp(Style::MIN_COLUMNS, Style::MAX_COLUMNS), ..*style };
    let report = text::clean_report(report, style.unicode);
    let mut page = Page::new(style);
    answer(&mut page, &report, kind);
    header(&mut page, &report);
    disturbed(&mut page, &report);
    if report.findings.is_empty() {
        no_findings(&mut page, &report);
    }
    (kind.view)(&report, &mut page);
    sensitivity::section(&mut page, &report);
    warnings::warnings(&mut page, &report.warnings);
    warnings::refusals(&mut page, &report.refusals);
    if let Some(next) = next {
        next_command(&mut page, &text::clean(next, style.unicode));
    }
    page.finish()
}

/// Prints the headline, and the line of warnings and refusals.
fn answer(page: &mut Page, report: &Report, kind: &ReportKind) {
    let headline = (kind.headline)(report);
    for (nth, line) in headline.lines().enumerate() {
        page.text(if nth == 0 { TextRole::Bold } else { TextRole::Plain }, line, "", "  ");
    }
    let folded = warnings::folded(report);
    if let Some(text) = &folded {
        page.text(TextRole::Warn, &format!("{text} (at the end)"), "", "  ");
    }
    if folded.is_some() || headline.lines().next().is_some() {
        page.line(TextRole::Plain, "");
    }
}

fn header(page: &mut Page, report: &Report) {
    page.text(TextRole::Bold, &lead(report), "", "  ");
    if let Some(caveat) = caveat(report) {
        page.text(TextRole::Plain, &caveat, "", "  ");
    }
    let what = identity(report);
    let facts = report.facts.iter().enumerate();
    let facts = facts.filter(|(at, (name, _))| Some(*at) != what && facts::is_head(name));
    let mut others: Vec<String> = facts.map(|(_, (name, value))| format!("{name} {value}")).collect();
    others.push(format!("seed {}", report.seed));
    page.text(TextRole::Dim, &others.join("; "), "", "  ");
}

/// Prints a disturbance with its causes, or one line for its absence.
fn disturbed(page: &mut Page, report: &Report) {
    let Some((role, text, causes)) = disturbance(report) else { return };
    page.text(role, &text, "", "  ");
    for cause in causes {
        page.text(if role == TextRole::Bad { TextRole::Warn } else { TextRole::Dim }, cause, "  - ", "    ");
    }
}

fn no_findings(page: &mut Page, report: &Report) {
    let why = match report.refusals.len() {
        0 => "Nothing was measured.".to_string(),
        1 => "Nothing was measured: see the refusal below.".to_string(),
        n => format!("Nothing was measured: see the {n} refusals below."),
    };
    page.line(TextRole::Plain, "");
    page.text(TextRole::Bad, &why, "", "  ");
}

/// Prints the next command, unbroken in one line.
fn next_command(page: &mut Page, next: &str) {
    page.line(TextRole::Plain, "");
    page.pieces(&[(TextRole::Plain, "Next: ".to_owned()), (TextRole::Bold, next.to_owned())]);
}
