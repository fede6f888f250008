//! Functions with all that they call, and the tree of calls.

use fathom_analysis::findings::{Axis, Finding, Report};
use fathom_analysis::metrics::simulate as metrics;
use fathom_report::call_tree::CallTree;
use fathom_report::finding_index::FindingIndex;
use fathom_report::page::{Page, TextRole, left, right};

use super::{SHOWN, cell, count, misses, overlap, rest};

/// Shows them, if they are known.
pub(super) fn calls(page: &mut Page, report: &Report, index: &mut FindingIndex) {
    totals(page, report, index);
    let (caller, function, file) = (metrics::CALLER, metrics::FUNCTION, metrics::FILE);
    let (metric, whole, axis) = (&metrics::CALL_SHARE, "time", "% of the time");
    CallTree { figure: "calls", metric, caller, function, file, whole, axis }.show(page, index);
    let (metric, whole, axis) = (&metrics::CALL_LEAST_SHARE, "least time", "% of the least time");
    CallTree { figure: "calls-least", metric, caller, function, file, whole, axis }.show(page, index);
}

fn totals(page: &mut Page, report: &Report, index: &mut FindingIndex) {
    let all = index.along(&metrics::TOTAL_SHARE, Axis::Rank);
    if all.is_empty() {
        return;
    }
    page.heading("Functions with all that they call, by share of the time");
    let word = |f: &Finding, field| f.detail.word(field).unwrap_or_default().to_owned();
    let longest = report.find(&metrics::LEAST_CYCLES).and_then(overlap::longest);
    let overlap = all.iter().any(|(_, f)| f.detail.get(metrics::LEAST_PART).is_some());
    let row = |f: &Finding| {
        let mut row = vec![
            cell(Some(f)),
            count(f, metrics::TIME),
            word(f, metrics::FUNCTION),
            count(f, metrics::EXECUTED),
            count(f, metrics::ACCESSES),
            misses(f),
            count(f, metrics::WALKS),
            word(f, metrics::FILE),
        ];
        if overlap {
            row.insert(2, count(f, metrics::LEAST_PART));
        }
        row
    };
    let rows: Vec<Vec<String>> = all.iter().take(SHOWN).map(|(_, f)| row(f)).collect();
    let mut columns = vec![
        right("share"),
        right("cycles"),
        left("function").key(),
        right("instructions"),
        right("accesses"),
        left("misses"),
        right("walks"),
        left("file"),
    ];
    if overlap {
        columns.insert(2, right("least"));
    }
    page.table(&columns, &rows, &[]);
    rest(page, all.len());
    if let Some(side) = longest.filter(|_| overlap) {
        let text = format!("least: its part of the least time, of which {side} take the longest.");
        page.text(TextRole::Dim, &text, "", "  ");
    }
}
