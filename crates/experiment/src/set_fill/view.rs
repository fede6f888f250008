//! Two lines: independent loads of lines in one set, and in two.

use fathom_analysis::metrics::survey::{FILL_ONE_SET_TIME, FILL_TWO_SETS_TIME};
use fathom_report::finding_index::FindingIndex;
use fathom_report::notes;
use fathom_report::number;
use fathom_report::page::{INTERVAL, Page, left, measured, right};

/// Renders the section.
pub(crate) fn section(page: &mut Page, finding_index: &mut FindingIndex) {
    let named = [(&FILL_ONE_SET_TIME, "one"), (&FILL_TWO_SETS_TIME, "two")];
    let found: Vec<_> = named
        .into_iter()
        .filter_map(|(metric, sets)| Some((sets.to_owned(), finding_index.one(metric)?)))
        .collect();
    if found.is_empty() {
        return;
    }
    page.heading("Independent loads that miss the nearest cache, by the sets of their lines");
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|(sets, f)| {
            let [value, interval] = number::cells(Some(f));
            vec![sets.clone(), value, interval, f.count.to_string()]
        })
        .collect();
    page.table(&[left("sets"), measured("ns per load"), INTERVAL, right("n")], &rows, &[]);
    notes(page, &found);
}
