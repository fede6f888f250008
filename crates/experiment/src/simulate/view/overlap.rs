//! The two bounds of the time.

use fathom_analysis::findings::{Finding, Report};
use fathom_analysis::metrics::simulate as metrics;
use fathom_report::finding_index::FindingIndex;
use fathom_report::page::{Page, TextRole, left, right};

use super::{cell, count, shown};

/// Returns the name of one of those that pass side by side.
fn named(side: &str) -> &'static str {
    match side {
        metrics::INSTRUCTION_SIDE => "instructions themselves",
        metrics::FETCH_SIDE => "fetches beyond hits",
        _ => "data accesses beyond hits",
    }
}

/// Returns the one that takes the longest in the least time.
pub(super) fn longest(least: &Finding) -> Option<&'static str> {
    let sides = least.detail.numbers(metrics::SIDES).iter();
    sides.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, _)| named(name))
}

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
        Some(_) => format!(", within {} instructions", count(outstanding, metrics::WINDOW)),
        None => String::new(),
    };
    let row = |name: String, f: &Finding| vec![name, cell(Some(f))];
    let mut rows = vec![
        row("most: each access waits for the one before".to_owned(), most),
        row(format!("least: up to {} that miss overlap{window}", cell(Some(outstanding))), least),
    ];
    let sides = least.detail.numbers(metrics::SIDES);
    if sides.len() > 1 {
        let side = |(name, cycles): &(String, f64)| {
            vec![format!("  the longest of: {}", named(name)), shown(*cycles)]
        };
        rows.extend(sides.iter().map(side));
    }
    page.table(&[left("bound"), right("cycles")], &rows, &[]);
    let text = "Addresses do not tell which access depends on which: a chain of dependent accesses takes the most, \
                independent ones the least.";
    page.text(TextRole::Dim, text, "", "  ");
}
