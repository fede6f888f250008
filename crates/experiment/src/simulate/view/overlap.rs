//! The two bounds of the time.

use fathom_analysis::findings::{Finding, Report};
use fathom_analysis::metrics::simulate as metrics;
use fathom_report::finding_index::FindingIndex;
use fathom_report::page::{Page, TextRole, left, right};

use super::{cell, count};

/// Shows the bounds, or that the machine describes only one.
pub(super) fn bounds(page: &mut Page, report: &Report, index: &mut FindingIndex) {
    let Some(most) = report.find(&metrics::CYCLES) else { return };
    let (least, outstanding) = (index.one(&metrics::LEAST_CYCLES), index.one(&metrics::OUTSTANDING));
    let (Some(least), Some(outstanding)) = (least, outstanding) else {
        let text = "A core that overlaps accesses takes less: how many overlap is not described for this machine (`outstanding` of \
                    [core]), so this is the upper bound only.";
        return page.text(TextRole::Dim, text, "", "  ");
    };
    page.heading("Bounds of the time");
    let window = match outstanding.detail.number(metrics::WINDOW) {
        Some(_) => format!(", within {} loads and stores", count(outstanding, metrics::WINDOW)),
        None => String::new(),
    };
    let row = |name: String, f: &Finding| vec![name, cell(Some(f))];
    let rows = [
        row("most: each access waits for the one before".to_owned(), most),
        row(format!("least: up to {} that miss overlap{window}", cell(Some(outstanding))), least),
    ];
    page.table(&[left("bound"), right("cycles")], &rows, &[]);
    let text = "Addresses do not tell which access depends on which: a chain of dependent accesses takes the most, \
                independent ones the least.";
    page.text(TextRole::Dim, text, "", "  ");
}
