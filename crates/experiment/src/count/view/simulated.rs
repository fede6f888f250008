//! The events of a described processor, which were counted in a simulation.

use fathom_analysis::findings::{Axis, Finding, Report};
use fathom_analysis::metrics::count as metrics;
use fathom_events::{Group, Quantity};
use fathom_report::finding_index::FindingIndex;
use fathom_report::number;
use fathom_report::page::{Page, TextRole, left, measured, right};

use super::super::EVENT_TABLE;

/// The question that an event answers.
fn question(quantity: Option<Quantity>) -> &'static str {
    match quantity {
        Some(
            Quantity::StallFrontend
            | Quantity::AccessL1I
            | Quantity::RefillL1I
            | Quantity::RefillTlbInstruction,
        ) => INSTRUCTIONS,
        Some(of) => match of.group() {
            Group::Work => WORK,
            Group::Caches => CACHES,
            Group::Translation => TRANSLATION,
            Group::Stalls => WAITS,
            Group::Memory => MEMORY,
            Group::Other => OTHER,
        },
        None => OTHER,
    }
}

pub(super) const WORK: &str = "How much work";
pub(super) const CACHES: &str = "Which data is not in the caches";
pub(super) const TRANSLATION: &str = "Which translations are not in the TLBs";
pub(super) const INSTRUCTIONS: &str = "Which instructions come late";
pub(super) const WAITS: &str = "How long the core waits for data and units";
const MEMORY: &str = "What is accessed beyond the caches";
const OTHER: &str = "Other events";
const ALL: [&str; 7] = [WORK, CACHES, TRANSLATION, INSTRUCTIONS, WAITS, MEMORY, OTHER];

/// Renders the section, if there are such events.
pub(super) fn section(page: &mut Page, report: &Report, index: &mut FindingIndex) {
    let rows = index.rows([&metrics::ENTRY_COUNT, &metrics::ENTRY_PER_THOUSAND], &[Axis::Entry]);
    let events: Vec<[Option<&Finding>; 2]> = rows.iter().map(|row| row.of).collect();
    if events.is_empty() {
        return;
    }
    for heading in ALL {
        let lines: Vec<Vec<String>> = events.iter().filter_map(|of| line(heading, *of)).collect();
        if !lines.is_empty() {
            page.heading(heading);
            let columns =
                [left("number"), left("event").key(), measured("count"), right("per 1000 instructions")];
            page.table(&columns, &lines, &[]);
        }
    }
    page.heading("What these counts are not");
    for [count, _] in &events {
        let Some(f) = count else { continue };
        let caveat = f.detail.word(metrics::CAVEAT).unwrap_or_default();
        let differs = f.detail.word(metrics::DIFFERS);
        let differs = differs.map(|text| format!("In the simulation: {text}")).unwrap_or_default();
        let text = [caveat, &differs].map(str::trim).join(" ");
        if !text.trim().is_empty() {
            page.text(TextRole::Plain, &format!("{}: {}", name(f), text.trim()), "", "  ");
        }
    }
    let table = report.facts.iter().find(|(name, _)| name == EVENT_TABLE);
    let table = table.map_or(String::new(), |(_, table)| format!(" {table}"));
    let text = format!(
        "Counted in a simulation of the description, in user space, with the numbers and the rules of the processor \
         (fathom events{table}). Cycles are those of the description: nothing here was timed."
    );
    page.text(TextRole::Dim, &text, "", "  ");
}

fn name(f: &Finding) -> String {
    let word = |field| f.detail.word(field).unwrap_or_default();
    format!("{} {}", word(metrics::EVENT_CODE), word(metrics::EVENT_NAME))
}

/// Returns the line of an event that answers a question.
fn line(heading: &str, [count, per_thousand]: [Option<&Finding>; 2]) -> Option<Vec<String>> {
    let known = count.or(per_thousand)?;
    let word = |field| known.detail.word(field).unwrap_or_default();
    let [value, ratio] = [count, per_thousand].map(|f| number::cells(f)[0].clone());
    let cells =
        vec![word(metrics::EVENT_CODE).to_owned(), word(metrics::EVENT_NAME).to_owned(), value, ratio];
    (question(Quantity::from_token(word(metrics::EVENT_OF))) == heading).then_some(cells)
}
