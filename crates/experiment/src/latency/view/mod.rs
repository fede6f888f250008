//! The report of `fathom latency`: access times, ladders, the latency curve if no single loads were timed, claims.

mod access;
mod ladders;

use fathom_analysis::findings::Report;
use fathom_analysis::metrics::latency::{EVENTS, LATENCY_WAIT};
use fathom_report::finding_index::FindingIndex;
use fathom_report::number;
use fathom_report::page::Page;
use fathom_report::rows::show_rest;

use crate::{claims, counted, latency_curve};

/// Renders the whole report.
pub(crate) fn view(report: &Report, page: &mut Page) {
    let mut index = FindingIndex::new(report);
    access::section(page, report, &mut index);
    events(page, &mut index);
    ladders::section(page, &mut index);
    latency_curve::view::section(page, report, &mut index);
    claims::view::section(page, report, &mut index);
    show_rest(page, index, &[]);
}

/// Renders the events per load, if any were counted.
fn events(page: &mut Page, index: &mut FindingIndex) {
    let name = |bytes| number::size(bytes as f64, None, None).value;
    let (rows, last) = (("working set", name), Some(("wait", &LATENCY_WAIT)));
    counted::view::table(page, index, &EVENTS, "Events per load in random order", rows, last);
}
