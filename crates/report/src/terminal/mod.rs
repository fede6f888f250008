//! A report for people: text that fits a terminal.

mod access;
mod claims;
mod compare;
mod doctor;
mod ladders;
pub(crate) mod number;
mod page;
mod picture;
mod sections;
pub mod share;
mod shelf;
mod strides;
mod text;

use fathom_analysis::facts;
use fathom_analysis::findings::{Finding, Report, Value};

pub(crate) use compare::blocks as comparison_blocks;
pub use compare::comparison;
pub use doctor::examination;
use page::Page;
pub(crate) use page::{Block, Chart, Ink, Pieces, Table};
use shelf::Shelf;
pub(crate) use text::{clean, clean_report};

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
    sections::warnings(&mut page, &report.warnings);
    sections::refusals(&mut page, &report.refusals);
    if let Some(next) = next {
        next_command(&mut page, &text::clean(next, style.unicode));
    }
    page.finish()
}

/// What was found, section by section.
fn body(page: &mut Page, report: &Report, mut shelf: Shelf) {
    let drawn = access::section(page, &report.histograms, &mut shelf);
    ladders::section(page, &mut shelf);
    strides::section(page, &mut shelf);
    sections::staircase(page, report, &mut shelf);
    sections::translation(page, &mut shelf);
    sections::prefetch(page, &mut shelf);
    claims::section(page, report, &mut shelf);
    sections::rest(page, &shelf.rest());
    let others: Vec<_> = report.histograms.iter().filter(|h| !(drawn && access::draws(h))).collect();
    sections::histograms(page, &others);
}

/// The same sections as blocks, for a page in another form; without header, warnings and refusals.
pub(crate) fn blocks(report: &Report) -> Vec<Block> {
    let mut page = Page::new(Style::default());
    let mut shelf = Shelf::new(&report.findings);
    shelf.take("disturbed");
    body(&mut page, report, shelf);
    page.blocks()
}

/// What a worth below `real` means for whoever reads the figures.
pub(crate) fn caveat(worth: &str) -> Option<&'static str> {
    match worth {
        "virtual" => Some("A guest on real caches: the figures say what it behaves like, not what it is."),
        "emulated" => Some("Emulated: proves that code works, never how fast anything is."),
        "modelled" => Some("Modelled: exact, and about the description only."),
        _ => None,
    }
}

/// Facts that say what the subject is, best first.
const WHAT_IT_IS: [&str; 4] = ["about", "cpu", "model", "machine"];

/// Where among the facts stands what the subject is?
fn identity(report: &Report) -> Option<usize> {
    WHAT_IT_IS
        .iter()
        .find_map(|name| report.facts.iter().position(|(n, _)| n == name))
        .or(if report.facts.is_empty() { None } else { Some(0) })
}

/// The first line: experiment, subject, its worth, what it is, its core clock, the time it took.
pub(crate) fn headline(report: &Report) -> String {
    let core = report.findings.iter().find(|f| f.name == "clock.core_hz").map(number::in_cells);
    let mut line = format!("{}: {}", report.experiment, report.subject);
    if !report.worth.is_empty() {
        line += &format!(" ({})", report.worth);
    }
    let more = [
        identity(report).map(|at| report.facts[at].1.clone()),
        core.map(|(shown, unit)| format!("core {} {unit}", shown.value)),
        report.elapsed_s.is_finite().then(|| format!("{:.1} s", report.elapsed_s)),
    ];
    for part in more.into_iter().flatten() {
        line += &format!(", {part}");
    }
    line
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

/// What the finding `disturbed` says, in words.
pub(crate) fn disturbance(f: &Finding) -> (Ink, String) {
    match &f.value {
        Value::Text(t) if t == "yes" => {
            (Ink::Bad, "DISTURBED: other work ran beside the measurement; figures may be wrong.".to_string())
        }
        Value::Text(t) if t == "no" => (Ink::Dim, "Undisturbed.".to_string()),
        _ => (Ink::Bad, format!("disturbed: {}", number::value(f).value)),
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

/// Notes under a table: each note once, with what it is about.
fn notes(page: &mut Page, of: &[(String, &Finding)]) {
    let mut told: Vec<(&str, Vec<&str>)> = Vec::new();
    for (label, f) in of {
        for note in &f.notes {
            let at = told.iter().position(|(n, _)| n == note).unwrap_or_else(|| {
                told.push((note, Vec::new()));
                told.len() - 1
            });
            if !told[at].1.contains(&label.as_str()) {
                told[at].1.push(label);
            }
        }
    }
    let all = of.iter().map(|(label, _)| label).collect::<std::collections::BTreeSet<_>>().len();
    for (note, labels) in told {
        let about = match labels.as_slice() {
            [only] => format!("{only}: "),
            many if many.len() == all => String::new(),
            [a, b] => format!("{a}, {b}: "),
            // A list of sixty working sets says no more than its ends.
            [first, .., last] => format!("{first} to {last} ({} of {all}): ", labels.len()),
            [] => String::new(),
        };
        page.text(Ink::Dim, &format!("{about}{note}"), "  ", "    ");
    }
}

#[cfg(test)]
mod tests;
