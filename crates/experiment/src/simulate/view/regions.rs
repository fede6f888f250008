//! Regions of the program.

use fathom_analysis::findings::{Axis, Finding, Report};
use fathom_analysis::metrics::simulate as metrics;
use fathom_report::finding_index::FindingIndex;
use fathom_report::page::{Page, left, right};

use super::{SHOWN, cell, count, misses, rest};

/// Shows the regions.
pub(super) fn regions(page: &mut Page, report: &Report, index: &mut FindingIndex) {
    let all = index.along(&metrics::REGION_CYCLES, Axis::Rank);
    if all.is_empty() {
        return;
    }
    page.heading("Regions, with those within them, by time");
    let total = report.find(&metrics::CYCLES).and_then(Finding::finite).filter(|all| *all > 0.0);
    let overlap = all.iter().any(|(_, f)| f.detail.get(metrics::LEAST).is_some());
    let row = |f: &Finding| {
        let share = total.zip(f.finite()).map(|(all, part)| format!("{:.1} %", 100.0 * part / all));
        let mut row = vec![
            cell(Some(f)),
            share.unwrap_or_default(),
            f.detail.word(metrics::REGION).unwrap_or_default().to_owned(),
            count(f, metrics::ENTERED),
            count(f, metrics::EXECUTED),
            count(f, metrics::ACCESSES),
            misses(f),
            count(f, metrics::WALKS),
        ];
        if overlap {
            row.insert(1, count(f, metrics::LEAST));
        }
        row
    };
    let rows: Vec<Vec<String>> = all.iter().take(SHOWN).map(|(_, f)| row(f)).collect();
    let mut columns = vec![
        right("cycles"),
        right("share"),
        left("region").key(),
        right("entered"),
        right("instructions"),
        right("accesses"),
        left("misses"),
        right("walks"),
    ];
    if overlap {
        columns.insert(1, right("least"));
    }
    page.table(&columns, &rows, &[]);
    rest(page, all.len());
    times(page, &all);
}

/// Shows the times of single entries, of regions that were left more than once.
fn times(page: &mut Page, all: &[(u64, &Finding)]) {
    let fields = [metrics::SHORTEST, metrics::MEDIAN, metrics::P99, metrics::LONGEST];
    let several = |f: &Finding| {
        f.detail.number(metrics::ENTERED) > Some(1.0) && f.detail.number(metrics::LONGEST).is_some()
    };
    let row = |f: &Finding| {
        let mut row = vec![f.detail.word(metrics::REGION).unwrap_or_default().to_owned()];
        row.push(count(f, metrics::ENTERED));
        row.extend(fields.map(|field| count(f, field)));
        row
    };
    let rows: Vec<Vec<String>> =
        all.iter().take(SHOWN).filter(|(_, f)| several(f)).map(|(_, f)| row(f)).collect();
    if rows.is_empty() {
        return;
    }
    page.heading("Each entry of a region, cycles if every access waits");
    let columns = [
        left("region").key(),
        right("entered"),
        right("shortest"),
        right("median"),
        right("99 %"),
        right("longest"),
    ];
    page.table(&columns, &rows, &[]);
}
