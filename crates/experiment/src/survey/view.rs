//! The report of the survey: latency curve, geometry, translation, prefetch, claims.

use fathom_analysis::findings::Report;
use fathom_analysis::metrics::survey::EVENTS;
use fathom_report::finding_index::FindingIndex;
use fathom_report::page::Page;
use fathom_report::rows::show_rest;

use crate::{claims, counted, geometry, latency_curve, overlap, prefetch, set_fill, window};

/// Renders the whole report.
pub(crate) fn view(report: &Report, page: &mut Page) {
    let mut index = FindingIndex::new(report);
    latency_curve::view::section(page, report, &mut index);
    events(page, &mut index);
    geometry::view::section(page, &mut index);
    latency_curve::view::translation(page, &mut index);
    overlap::view::section(page, &mut index);
    window::view::section(page, &mut index);
    set_fill::view::section(page, &mut index);
    prefetch::view::section(page, &mut index);
    claims::view::section(page, report, &mut index);
    show_rest(page, index, &[]);
}

/// Renders the events per load, if any were counted.
fn events(page: &mut Page, index: &mut FindingIndex) {
    let heading = "Events per load at the points of each tier";
    counted::view::table(page, index, &EVENTS, heading, ("tier", |tier| tier.to_string()), None);
}
