//! Table of load times by the number of chains that are walked side by side, and how many misses that keeps under way.

use fathom_analysis::findings::{Axis, Finding};
use fathom_analysis::metrics::survey as metrics;
use fathom_report::finding_index::FindingIndex;
use fathom_report::notes;
use fathom_report::number;
use fathom_report::page::{INTERVAL, Page, TextRole, measured, right};

/// Renders the section.
pub(crate) fn section(page: &mut Page, finding_index: &mut FindingIndex) {
    let times = finding_index.along(&metrics::MEMORY_CHAINS_TIME, Axis::Chains);
    let overlap = finding_index.one(&metrics::MEMORY_OVERLAP);
    if times.is_empty() && overlap.is_none() {
        return;
    }
    page.heading("Loads of memory along several chains side by side");
    let positive = |f: &Finding| f.finite().filter(|v| *v > 0.0);
    let one = times.iter().find(|(chains, _)| *chains == 1).and_then(|(_, f)| positive(f));
    let row = |(chains, f): &(u64, &Finding)| {
        let [value, interval] = number::cells(Some(f));
        let ratio = match (one, positive(f)) {
            (Some(one), Some(time)) => format!("{}x", number::shown_ratio(one / time)),
            _ => String::new(),
        };
        vec![chains.to_string(), value, interval, ratio, f.count.to_string()]
    };
    let columns = [right("chains"), measured("ns per load"), INTERVAL, right("faster"), right("n")];
    page.table(&columns, &times.iter().map(row).collect::<Vec<_>>(), &[]);
    let mut labelled: Vec<(String, &Finding)> =
        times.iter().map(|(chains, f)| (format!("{chains} chains"), *f)).collect();
    if let Some(overlap) = overlap {
        let [value, interval] = number::cells(Some(overlap));
        let text = format!("Misses under way at the same time: {value} {interval}");
        page.text(TextRole::Plain, text.trim_end(), "", "  ");
        labelled.push(("misses under way".to_owned(), overlap));
    }
    notes(page, &labelled);
}
