//! The report of `fathom latency`: access times, ladders, the latency curve if no single loads were timed, claims.

mod access;
mod ladders;

use fathom_analysis::findings::Report;
use fathom_report::finding_index::FindingIndex;
use fathom_report::page::Page;
use fathom_report::rows::show_rest;

use crate::{claims, latency_curve};

/// Renders the whole report.
pub(crate) fn view(report: &Report, page: &mut Page) {
    let mut index = FindingIndex::new(report);
    access::section(page, report, &mut index);
    ladders::section(page, &mut index);
    latency_curve::view::section(page, report, &mut index);
    claims::view::section(page, report, &mut index);
    show_rest(page, index, &[]);
}
