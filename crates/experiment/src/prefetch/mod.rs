//! What prefetch gains, by the order of loads: shown alike by all experiments that measure it.

pub(crate) mod view;

use fathom_analysis::findings::Metric;
use fathom_analysis::metrics::survey;

/// Metrics of what prefetch gains.
pub(crate) static METRICS: &[&Metric] = &[
    &survey::PREFETCH_ORDER_TIME,
    &survey::PREFETCH_GAIN,
    &survey::PREFETCH_MAX_STRIDE_LINES,
    &survey::PREFETCH_REPEAT_GAIN,
];
