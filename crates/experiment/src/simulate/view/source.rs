//! The source around the lines with the longest time.

use fathom_analysis::findings::{Axis, Finding, Item, Report};
use fathom_analysis::metrics::simulate as metrics;
use fathom_report::finding_index::FindingIndex;
use fathom_report::page::{Page, Pieces, TextRole};

use super::{cell, count};

/// Share of the program's time from which a line stands out.
const MUCH: f64 = 0.05;

/// Shows the source, with counts beside it.
pub(super) fn source(page: &mut Page, report: &Report, index: &mut FindingIndex) {
    let all = index.along(&metrics::SOURCE_CYCLES, Axis::Rank);
    if all.is_empty() {
        return;
    }
    page.heading("The source, by time beyond hits");
    let total = report.find(&metrics::CYCLES).and_then(Finding::finite).filter(|all| *all > 0.0);
    // The nearest level is that of the data.
    let level = all.iter().find_map(|(_, f)| nearest(f)).map_or("misses", |(name, _)| name);
    let heads = ["cycles", level, "walks", "line"].map(str::to_owned);
    let rows: Vec<[String; 4]> = all.iter().map(|(_, f)| counts(f)).collect();
    let widths = [0, 1, 2, 3].map(|column| {
        let cells = rows.iter().chain([&heads]).map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    });
    let padded = |row: &[String; 4]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}"));
        cells.collect::<Vec<_>>().join("  ")
    };
    let mut lines: Vec<Pieces> = Vec::new();
    let mut before: Option<&Finding> = None;
    for ((_, f), row) in all.iter().zip(&rows) {
        if !before.is_some_and(|before| follows(before, f)) {
            let file = f.detail.word(metrics::SOURCE_FILE).unwrap_or_default();
            lines.extend((!lines.is_empty()).then(Pieces::new));
            lines.push(vec![(TextRole::Bold, format!("{}  {file}", padded(&heads)))]);
        }
        let text = f.detail.word(metrics::TEXT).unwrap_or_default();
        lines.push(vec![(role(f, total), format!("{}  {text}", padded(row)).trim_end().to_owned())]);
        before = Some(f);
    }
    page.listing(lines);
}

/// Returns whether a line is the one after another one.
fn follows(before: &Finding, f: &Finding) -> bool {
    let number = |f: &Finding| f.detail.number(metrics::LINE_NUMBER);
    let file = |f: &Finding| f.detail.word(metrics::SOURCE_FILE).map(str::to_owned);
    file(before) == file(f) && number(before).map(|number| number + 1.0) == number(f)
}

fn share(f: &Finding, total: Option<f64>) -> f64 {
    total.zip(f.finite()).map_or(0.0, |(all, part)| part / all)
}

/// Returns the time, the misses of the nearest level, the walks and the number. A line without executed code has the number only.
fn counts(f: &Finding) -> [String; 4] {
    let number = count(f, metrics::LINE_NUMBER);
    if f.detail.number(metrics::EXECUTED) == Some(0.0) {
        return [String::new(), String::new(), String::new(), number];
    }
    let misses = nearest(f).map_or(0.0, |(_, misses)| misses);
    let misses = fathom_report::number::shown(misses, None, None).value;
    [cell(Some(f)), misses, count(f, metrics::WALKS), number]
}

fn nearest(f: &Finding) -> Option<(&str, f64)> {
    let Some(Item::Numbers(levels)) = f.detail.get(metrics::MISSES) else { return None };
    levels.first().map(|(name, misses)| (name.as_str(), *misses))
}

fn role(f: &Finding, total: Option<f64>) -> TextRole {
    match (f.detail.number(metrics::EXECUTED), share(f, total)) {
        (Some(0.0), _) => TextRole::Dim,
        (_, much) if much >= MUCH => TextRole::Warn,
        _ => TextRole::Plain,
    }
}
