//! What CPUs do to one another's lines: by level, and by object if the reasons of misses are known.

use fathom_analysis::findings::{Axis, Finding, Item, Report};
use fathom_analysis::metrics::simulate as metrics;
use fathom_report::finding_index::FindingIndex;
use fathom_report::number;
use fathom_report::page::{Page, TextRole, left, right};

use super::{SHOWN, cell, count, name, rest};

/// What the columns mean.
const MEANING: &str = "invalidated: lines that a CPU lost because another one stored to them (all: once for all levels of a CPU). \
                       dirty transfers: loads of a line that another CPU had modified. upgrades: stores to a line that the CPU \
                       itself and others had, clean.";

/// Shows the counts by level, and of all levels.
pub(super) fn levels(page: &mut Page, index: &mut FindingIndex) {
    let rows = index.rows(metrics::LEVEL_SHARING, &[Axis::Level]);
    let all = metrics::SHARING.map(|metric| index.one(metric));
    if rows.is_empty() && all.iter().all(Option::is_none) {
        return;
    }
    page.heading("Lines that CPUs share");
    let row = |number: String, name: String, of: [Option<&Finding>; 3]| {
        let mut row = vec![number, name];
        row.extend(of.map(cell));
        row
    };
    let mut lines: Vec<Vec<String>> = rows
        .iter()
        .map(|of| row(of.number(Axis::Level).to_string(), name(of.findings().next()), of.of))
        .collect();
    lines.push(row(String::new(), "all".to_owned(), all));
    let columns = [
        right("level"),
        left("name").key(),
        right("invalidated"),
        right("dirty transfers"),
        right("upgrades"),
    ];
    page.table(&columns, &lines, &[]);
    page.text(TextRole::Dim, MEANING, "", "  ");
}

/// Shows the objects whose lines CPUs share, those first to which most of it happens.
pub(super) fn objects(page: &mut Page, report: &Report) {
    let fields = [metrics::INVALIDATED, metrics::TRANSFERS, metrics::UPGRADES];
    let sum = |f: &Finding| fields.iter().filter_map(|&field| f.detail.number(field)).sum::<f64>();
    let mut all: Vec<&Finding> = report.of(&metrics::OBJECT_CYCLES).filter(|f| sum(f) > 0.0).collect();
    if all.is_empty() {
        return;
    }
    all.sort_by(|a, b| sum(b).total_cmp(&sum(a)));
    page.heading("Data that CPUs share");
    let row = |f: &&Finding| {
        let mut row = vec![f.detail.word(metrics::OBJECT).unwrap_or_default().to_owned()];
        row.extend(fields.map(|field| count(f, field)));
        row.extend(["shared", "falsely-shared"].map(|reason| missed(f, reason)));
        row
    };
    let rows: Vec<Vec<String>> = all.iter().take(SHOWN).map(row).collect();
    let columns = [
        left("object").key(),
        right("invalidated"),
        right("dirty transfers"),
        right("upgrades"),
        right("misses shared"),
        right("falsely shared"),
    ];
    page.table(&columns, &rows, &[]);
    rest(page, all.len());
}

/// Returns the misses of the nearest level for a reason.
fn missed(f: &Finding, reason: &str) -> String {
    let Some(Item::Numbers(list)) = f.detail.get(metrics::REASONS) else { return String::new() };
    let found = list.iter().find(|(name, _)| name == reason);
    found.map_or_else(String::new, |(_, misses)| number::shown(*misses, None, None).value)
}
