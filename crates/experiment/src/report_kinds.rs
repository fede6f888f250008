//! All kinds of reports: one per experiment.

use std::sync::LazyLock;

use fathom_report::ReportKind;

use crate::{EXPERIMENTS, OF_PROGRAMS};

/// Every kind of report, in display order.
pub static REPORT_KINDS: LazyLock<Vec<&ReportKind>> =
    LazyLock::new(|| EXPERIMENTS.iter().chain(OF_PROGRAMS).map(|experiment| experiment.report).collect());

/// Returns the report kind of this experiment.
#[must_use]
pub fn kind(experiment: &str) -> Option<&'static ReportKind> {
    REPORT_KINDS.iter().copied().find(|kind| kind.name == experiment)
}
