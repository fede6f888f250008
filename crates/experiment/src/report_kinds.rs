//! Every kind of report, listed once.

use fathom_report::ReportKind;

use crate::{cacheability, conflict, dma, latency, stride, survey, wakeup};

/// Every kind of report, in display order.
pub static REPORT_KINDS: &[&ReportKind] = &[
    &survey::KIND,
    &latency::KIND,
    &stride::KIND,
    &conflict::KIND,
    &cacheability::KIND,
    &dma::KIND,
    &wakeup::KIND,
];

/// The kind of the reports of this experiment.
#[must_use]
pub fn kind(experiment: &str) -> Option<&'static ReportKind> {
    REPORT_KINDS.iter().copied().find(|kind| kind.name == experiment)
}
