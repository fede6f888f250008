//! A point: the time per access at a working set, a stride and an operation.

use fathom_analysis::findings::{Key, Metric};
use fathom_analysis::interval::Interval;
use fathom_probe::machine::Operation;

/// One working set at one stride with one operation.
pub(super) struct Point {
    pub(super) bytes: u64,
    pub(super) stride: u64,
    pub(super) operation: Operation,
    /// ns per access of each sample, with the trial's id.
    pub(super) trials: Vec<(u64, Vec<f64>)>,
    /// ns per access: the median with its interval, including the clock's resolution.
    pub(super) time: Interval,
    /// Largest share of a lap that a trial's samples covered.
    pub(super) lap: f64,
}

impl Point {
    pub(super) fn count(&self) -> usize {
        self.trials.iter().map(|t| t.1.len()).sum()
    }

    pub(super) fn ids(&self) -> Vec<u64> {
        self.trials.iter().map(|t| t.0).collect()
    }

    pub(super) fn key(&self, metric: &'static Metric) -> Key {
        metric.at([self.bytes.into(), self.stride.into(), self.operation.token().into()])
    }
}
