//! What was described beside what was measured, claim by claim.

use fathom_analysis::against::FACT;
use fathom_analysis::findings::{Finding, Report, Value};

use super::claims::{VERDICTS, word, worded};
use super::shelf::Shelf;
use crate::number;
use crate::page::{Ink, Page, left, right};

/// The check of a description, if there was one.
pub fn section(page: &mut Page, report: &Report, shelf: &mut Shelf) {
    let named = report.findings.iter().filter_map(|f| f.name.strip_prefix("against."));
    let rows: Vec<(&str, &Finding)> =
        named.filter_map(|name| Some((name, shelf.take(&format!("against.{name}"))?))).collect();
    if rows.is_empty() {
        return;
    }
    let name = report.facts.iter().find(|(name, _)| name == FACT).map_or("a description", |f| f.1.as_str());
    page.heading(&format!("Against the description {name}"));
    let table: Vec<Vec<String>> = rows
        .iter()
        .map(|(name, f)| {
            let described = shelf.take(&format!("expected.{name}")).map(described);
            let verdict = worded(&word(f), &report.worth);
            vec![name.replace('.', " "), described.unwrap_or_default(), range(f).unwrap_or_default(), verdict]
        })
        .collect();
    let columns = [left("claim"), right("described"), left("measured (95 %)"), left("verdict")];
    page.table(&columns, &table, VERDICTS);
    for (_, f) in &rows {
        let ink = if word(f) == "disagrees" { Ink::Bad } else { Ink::Plain };
        for note in &f.notes {
            page.text(ink, note, "- ", "  ");
        }
    }
}

/// What was described: one number or word, or a range.
fn described(f: &Finding) -> String {
    range(f).unwrap_or_else(|| {
        let (shown, unit) = number::in_cells(f);
        format!("{} {unit}", shown.value).trim_end().to_string()
    })
}

/// An interval without its value, with the unit.
fn range(f: &Finding) -> Option<String> {
    let (low, high) = (f.low?, f.high?);
    let middle = Value::Number(f64::midpoint(low, high));
    let (shown, unit) = number::in_cells(&Finding { value: middle, ..f.clone() });
    if low == high {
        return Some(format!("{} {unit}", shown.value).trim_end().to_string());
    }
    // A size carries its unit.
    let unit = if f.unit == "bytes" { shown.value.rsplit(' ').next().unwrap_or_default() } else { unit };
    Some(format!("{} {unit}", shown.interval).trim_end().to_string())
}
