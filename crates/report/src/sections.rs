//! What a report says, section by section, on a page that a terminal or a browser may show.

mod access;
mod against;
mod attributes;
mod built;
mod claims;
mod colours;
pub(crate) mod compare;
mod heat;
mod ladders;
mod notes;
mod picture;
mod pressure;
mod rounds;
pub(crate) mod shelf;
mod strides;
pub(crate) mod survey;
mod transfers;

use fathom_analysis::findings::{Finding, Report, Value};

use crate::number;
use crate::page::{Block, Ink, Page};
use crate::terminal::Style;
use notes::notes;
use shelf::Shelf;

/// What was found, section by section.
pub(crate) fn body(page: &mut Page, report: &Report, mut shelf: Shelf) {
    pressure::section(page, report, &mut shelf);
    let drawn = access::section(page, &report.histograms, &mut shelf);
    ladders::section(page, &mut shelf);
    strides::section(page, &mut shelf);
    attributes::section(page, &mut shelf);
    transfers::section(page, &mut shelf);
    survey::staircase(page, report, &mut shelf);
    let nearest = built::section(page, report, &mut shelf);
    rounds::section(page, nearest, &mut shelf);
    colours::section(page, &mut shelf);
    survey::translation(page, &mut shelf);
    survey::prefetch(page, &mut shelf);
    claims::section(page, report, &mut shelf);
    against::section(page, report, &mut shelf);
    survey::rest(page, &shelf.rest());
    let others: Vec<_> =
        report.histograms.iter().filter(|h| !(drawn && access::draws(h) || pressure::draws(h))).collect();
    survey::histograms(page, &others);
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
pub(crate) fn identity(report: &Report) -> Option<usize> {
    WHAT_IT_IS
        .iter()
        .find_map(|name| report.facts.iter().position(|(n, _)| n == name))
        .or(if report.facts.is_empty() { None } else { Some(0) })
}

/// The first line: experiment, subject, its worth, what it is, its core clock, the time it took.
pub(crate) fn headline(report: &Report) -> String {
    // Its interval is among the clocks: here it has the digits of a number without one.
    let core = report.findings.iter().find(|f| f.name == "clock.core_hz");
    let core = core.map(|f| number::in_cells(&Finding { low: None, high: None, ..f.clone() }));
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
