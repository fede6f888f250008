//! Gain of prefetch by the order of loads: metrics and view, shared by all experiments that measure it.

pub(crate) mod view;

use fathom_analysis::findings::Metric;
use fathom_analysis::metrics::survey;

/// Metrics of the gain of prefetch.
pub(crate) static METRICS: &[&Metric] = &[
    &survey::PREFETCH_ORDER_TIME,
    &survey::PREFETCH_GAIN,
    &survey::PREFETCH_MAX_STRIDE_LINES,
    &survey::PREFETCH_REPEAT_GAIN,
];
