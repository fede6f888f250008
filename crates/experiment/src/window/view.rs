//! One line: how many instructions the core has in flight.

use fathom_analysis::metrics::survey::MEMORY_WINDOW;
use fathom_report::finding_index::FindingIndex;
use fathom_report::notes;
use fathom_report::number;
use fathom_report::page::{Page, TextRole};

/// Renders the section.
pub(crate) fn section(page: &mut Page, finding_index: &mut FindingIndex) {
    let Some(window) = finding_index.one(&MEMORY_WINDOW) else { return };
    page.heading("Instructions between two loads of memory");
    let [value, interval] = number::cells(Some(window));
    let text = format!("Instructions in flight at the same time: {value} {interval}");
    page.text(TextRole::Plain, text.trim_end(), "", "  ");
    notes(page, &[("instructions in flight".to_owned(), window)]);
}
