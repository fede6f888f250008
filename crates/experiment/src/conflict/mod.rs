//! Conflict: how is each level built, and what does it cost when lines compete for a set?

mod colours;
mod headline;
mod plan;
mod reading;
mod study;
mod view;

use fathom_analysis::metrics;
use fathom_report::ReportKind;

pub use plan::plan;
pub use reading::read;

/// The experiment's name.
pub const NAME: &str = "conflict";

/// What reports of this experiment are.
pub static KIND: ReportKind = ReportKind {
    name: NAME,
    metrics: &[
        metrics::common::ALL,
        crate::latency_curve::TIERS,
        metrics::conflict::ALL,
        metrics::claims::ALL,
    ],
    headline: headline::headline,
    view: view::view,
};
