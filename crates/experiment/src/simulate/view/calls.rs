//! Functions with all that they call, and the tree of calls.

use fathom_analysis::findings::{Axis, Finding};
use fathom_analysis::metrics::simulate as metrics;
use fathom_report::call_tree::CallTree;
use fathom_report::finding_index::FindingIndex;
use fathom_report::page::{Page, left, right};

use super::{SHOWN, cell, count, misses, rest};

/// Shows them, if they are known.
pub(super) fn calls(page: &mut Page, index: &mut FindingIndex) {
    totals(page, index);
    let tree = CallTree {
        metric: &metrics::CALL_SHARE,
        caller: metrics::CALLER,
        function: metrics::FUNCTION,
        file: metrics::FILE,
        whole: "time",
        axis: "% of the time",
    };
    tree.show(page, index);
}

fn totals(page: &mut Page, index: &mut FindingIndex) {
    let all = index.along(&metrics::TOTAL_SHARE, Axis::Rank);
    if all.is_empty() {
        return;
    }
    page.heading("Functions with all that they call, by share of the time");
    let word = |f: &Finding, field| f.detail.word(field).unwrap_or_default().to_owned();
    let row = |f: &Finding| {
        vec![
            cell(Some(f)),
            count(f, metrics::TIME),
            word(f, metrics::FUNCTION),
            count(f, metrics::EXECUTED),
            count(f, metrics::ACCESSES),
            misses(f),
            count(f, metrics::WALKS),
            word(f, metrics::FILE),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().take(SHOWN).map(|(_, f)| row(f)).collect();
    let columns = [
        right("share"),
        right("cycles"),
        left("function").key(),
        right("instructions"),
        right("accesses"),
        left("misses"),
        right("walks"),
        left("file"),
    ];
    page.table(&columns, &rows, &[]);
    rest(page, all.len());
}
