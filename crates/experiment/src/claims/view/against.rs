//! Table of a description's claims and the measurements.

use fathom_analysis::facts::AGAINST;
use fathom_analysis::findings::{Finding, Key, Report, Value};
use fathom_analysis::metrics::claims::{CHECKS, Check};

use super::{VERDICTS, word, worded};
use fathom_report::finding_index::FindingIndex;
use fathom_report::number;
use fathom_report::page::{Page, TextRole, left, right};

/// Renders the check of a description, if there was one.
pub(super) fn section(page: &mut Page, report: &Report, finding_index: &mut FindingIndex) {
    let check = |f: &Finding| CHECKS.iter().find(|check| f.is(check.verdict));
    let taken = finding_index.listed(|f| check(f).is_some());
    let rows: Vec<(&Check, &Finding)> = taken.into_iter().filter_map(|f| Some((check(f)?, f))).collect();
    if rows.is_empty() {
        return;
    }
    let name =
        report.facts.iter().find(|(name, _)| name == AGAINST).map_or("a description", |f| f.1.as_str());
    page.heading(&format!("Against the description {name}"));
    let table: Vec<Vec<String>> = rows
        .iter()
        .map(|(check, f)| {
            let expected = Key { metric: check.described, at: f.key.at.clone() };
            let described = finding_index.one(expected).map(described);
            let number = f.key.at.first().map(|(axis, coordinate)| coordinate.write(*axis));
            let claim = check.property.replace("{}", &number.unwrap_or_default());
            let verdict = worded(&word(f), &report.trust);
            vec![claim, described.unwrap_or_default(), range(f).unwrap_or_default(), verdict]
        })
        .collect();
    let columns = [left("claim"), right("described"), left("measured (95 %)"), left("verdict")];
    page.table(&columns, &table, VERDICTS);
    for (_, f) in &rows {
        let role = if word(f) == "disagrees" { TextRole::Bad } else { TextRole::Plain };
        for note in &f.notes {
            page.text(role, note, "- ", "  ");
        }
    }
}

/// Formats the described value: a number, a word, or a range.
fn described(f: &Finding) -> String {
    range(f).unwrap_or_else(|| {
        let (shown, unit) = number::in_cells(f);
        format!("{} {unit}", shown.value).trim_end().to_string()
    })
}

/// Formats an interval without its value, with the unit.
fn range(f: &Finding) -> Option<String> {
    let (low, high) = (f.low?, f.high?);
    let middle = Value::Number(f64::midpoint(low, high));
    let (shown, unit) = number::in_cells(&Finding { value: middle, ..f.clone() });
    if low == high {
        return Some(format!("{} {unit}", shown.value).trim_end().to_string());
    }
    // The value of a size includes its unit.
    let unit = if f.unit == "bytes" { shown.value.rsplit(' ').next().unwrap_or_default() } else { unit };
    Some(format!("{} {unit}", shown.interval).trim_end().to_string())
}
