//! The report of `fathom conflict`: tiers, geometry, rounds of reads, page colours, translation, claims.

mod colours;
mod rounds;

use fathom_analysis::findings::{Finding, Report};
use fathom_analysis::metrics::{conflict as metrics, survey};
use fathom_report::finding_index::FindingIndex;
use fathom_report::page::{Page, TextRole};
use fathom_report::rows::show_rest;

use crate::{claims, geometry, latency_curve};

/// Renders the whole report.
pub(crate) fn view(report: &Report, page: &mut Page) {
    let mut index = FindingIndex::new(report);
    latency_curve::view::section(page, report, &mut index);
    without_tiers(page, report);
    let nearest = geometry::view::section(page, &mut index);
    rounds::section(page, nearest, &mut index);
    colours::section(page, &mut index);
    latency_curve::view::translation(page, &mut index);
    claims::view::section(page, report, &mut index);
    show_rest(page, index, &[]);
}

/// Prints that the geometry is unknown, if no refusal does.
fn without_tiers(page: &mut Page, report: &Report) {
    let of_tiers =
        |f: &Finding| f.is(&survey::TIER_LATENCY) || f.is(&metrics::TIER_LINE) || f.is(&metrics::TIER_WAYS);
    let silent = report.refusals.is_empty() && !report.findings.iter().any(of_tiers);
    if silent && !report.findings.is_empty() {
        page.line(TextRole::Plain, "");
        page.text(TextRole::Warn, "No tiers were found, so the geometry of levels is unknown.", "", "  ");
    }
}
