//! A point: the time of an access at a size, a stride and an operation.

use fathom_analysis::findings::{Key, Metric};
use fathom_analysis::interval::Interval;
use fathom_probe::machine::Operation;

/// One working set at one step with one operation.
pub(super) struct Point {
    pub(super) bytes: u64,
    pub(super) stride: u64,
    pub(super) operation: Operation,
    /// ns an access of each sample, with the trial's id.
    pub(super) trials: Vec<(u64, Vec<f64>)>,
    /// ns an access: the median with its interval, in which is the clock's own step.
    pub(super) time: Interval,
    /// Largest share of a lap that a trial's samples went through.
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
