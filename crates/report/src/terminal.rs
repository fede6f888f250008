//! A report for people: text that fits a terminal.

mod doctor;

use fathom_analysis::facts;
use fathom_analysis::findings::Report;

use crate::page::{Ink, Page};
use crate::sections::shelf::Shelf;
use crate::sections::{body, caveat, disturbance, headline, identity, survey};
use crate::text;
pub use doctor::examination;

/// How the text may look. Who calls decides; nothing here looks at the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// May it be coloured (ANSI escape sequences)?
    pub colour: bool,
    /// May characters beyond ASCII be used?
    pub unicode: bool,
    /// Columns that no line exceeds; fewer than [`Style::NARROWEST`] count as that many.
    pub width: usize,
}

impl Style {
    /// The narrowest width, in columns, that a table of numbers can still be read in.
    pub const NARROWEST: usize = 40;

    /// The widest line, in columns: what is wider than this is hard to read, however wide the terminal.
    pub const WIDEST: usize = 120;
}

impl Default for Style {
    /// Without colour, in Unicode, 80 columns.
    fn default() -> Style {
        Style { colour: false, unicode: true, width: 80 }
    }
}

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
    let mut shelf = Shelf::new(&report.findings);
    header(&mut page, &report);
    disturbed(&mut page, &mut shelf);
    if report.findings.is_empty() {
        nothing(&mut page, &report);
    }
    body(&mut page, &report, shelf);
    survey::warnings(&mut page, &report.warnings);
    survey::refusals(&mut page, &report.refusals);
    if let Some(next) = next {
        next_command(&mut page, &text::clean(next, style.unicode));
    }
    page.finish()
}

fn header(page: &mut Page, report: &Report) {
    page.text(Ink::Bold, &headline(report), "", "  ");
    if let Some(caveat) = caveat(&report.worth) {
        page.text(Ink::Plain, caveat, "", "  ");
    }
    let what = identity(report);
    let facts = report.facts.iter().enumerate();
    let facts = facts.filter(|(at, (name, _))| Some(*at) != what && facts::is_head(name));
    let mut others: Vec<String> = facts.map(|(_, (name, value))| format!("{name} {value}")).collect();
    others.push(format!("seed {}", report.seed));
    page.text(Ink::Dim, &others.join("; "), "", "  ");
}

/// A disturbance stands on top, with its causes; its absence is one quiet line.
fn disturbed(page: &mut Page, shelf: &mut Shelf) {
    let Some(f) = shelf.take("disturbed") else { return };
    let (ink, text) = disturbance(f);
    page.text(ink, &text, "", "  ");
    for note in &f.notes {
        page.text(if ink == Ink::Bad { Ink::Warn } else { Ink::Dim }, note, "  - ", "    ");
    }
}

fn nothing(page: &mut Page, report: &Report) {
    let why = match report.refusals.len() {
        0 => "Nothing was measured.".to_string(),
        1 => "Nothing was measured: see the refusal below.".to_string(),
        n => format!("Nothing was measured: see the {n} refusals below."),
    };
    page.line(Ink::Plain, "");
    page.text(Ink::Bad, &why, "", "  ");
}

fn next_command(page: &mut Page, next: &str) {
    page.line(Ink::Plain, "");
    let width = page.style().width;
    let lines = text::command(next, width);
    let label = "Next: ";
    if let [only] = lines.as_slice()
        && label.len() + unicode_width::UnicodeWidthStr::width(only.as_str()) <= width
    {
        page.pieces(&[(Ink::Plain, label.to_string()), (Ink::Bold, only.clone())]);
        return;
    }
    page.line(Ink::Plain, label);
    for line in lines {
        page.line(Ink::Bold, &line);
    }
}

#[cfg(test)]
mod tests;
