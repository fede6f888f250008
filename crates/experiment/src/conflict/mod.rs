//! Conflict: how is each level built, and what does it cost when lines compete for a set?

mod colours;
mod plan;
mod reading;
mod study;
mod view;

use fathom_analysis::metrics;
use fathom_report::{Headline, ReportKind};

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
    headline: |_| Headline::default(),
    view: view::view,
};
