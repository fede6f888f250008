//! Points: the time of an operation with an attribute (or substitute) at a working set.

use super::behaviour::Times;
use super::{SEPARATE_LINES, STRIDE, STUDY_BYTES, UncachedMethod};
use crate::clock::resolution_ticks;
use crate::record::{Record, TrialRun};
use crate::scale::Scale;
use fathom_analysis::findings::{Key, Metric};
use fathom_analysis::interval::{Interval, grouped_interval};
use fathom_probe::machine::Operation;
use fathom_probe::pattern::PatternKind;

/// One operation on one working set with one method.
pub(super) struct Point {
    pub(super) key: (UncachedMethod, Operation, u64),
    pub(super) stride: u64,
    /// ns per operation, one list per trial.
    pub(super) groups: Vec<Vec<f64>>,
    /// The same in core cycles, if there is a cycle calibration.
    pub(super) cycles: Vec<Vec<f64>>,
    /// The trials.
    pub(super) ids: Vec<u64>,
    /// ns per operation: the median with its interval, including the clock's resolution.
    pub(super) time: Interval,
}

impl Point {
    pub(super) fn count(&self) -> usize {
        self.groups.iter().map(Vec::len).sum()
    }

    pub(super) fn at(&self, metric: &'static Metric) -> Key {
        let (method, operation, bytes) = self.key;
        metric.at([operation.token().into(), method.token().into(), bytes.into()])
    }
}

/// The points that determine the behaviour of memory: operation, working set, stride.
pub(super) const BEHAVIOUR_POINTS: [(Operation, u64, u64); 3] = [
    (Operation::Read, STUDY_BYTES, STRIDE),
    (Operation::Write, STUDY_BYTES, STRIDE),
    (Operation::Write, STUDY_BYTES / STRIDE * SEPARATE_LINES, SEPARATE_LINES),
];

/// The pilot round only tests what is granted; its times are of cold caches.
pub(super) const PILOT_ROUND: u64 = 1;

pub(super) fn point(
    record: &Record,
    key: (UncachedMethod, Operation, u64),
    step: u64,
    scale: &Scale,
) -> Option<Point> {
    let of = |r: &&TrialRun| {
        let t = &r.trial;
        matches!(t.kind(), PatternKind::Stride | PatternKind::Copy)
            && (UncachedMethod::of(t), t.pattern.operation(), t.memory.bytes) == key
            && t.memory.stride == step
            && t.round > PILOT_ROUND
            && r.done.is_some()
            && !r.samples.is_empty()
    };
    let (mut groups, mut cycles, mut ids, mut resolution) = (Vec::new(), Vec::new(), Vec::new(), 0.0f64);
    let clock_ns = resolution_ticks(record) as f64 * scale.tick_ns;
    for run in record.trials.iter().filter(of) {
        let ticks: Vec<f64> = run.ticks_per_op().collect();
        if let Some(cycle) = scale.cycle_at(run.trial.id) {
            cycles.push(ticks.iter().map(|t| t / cycle).collect());
        }
        groups.push(ticks.iter().map(|t| t * scale.tick_ns).collect());
        ids.push(run.trial.id);
        resolution = resolution.max(clock_ns / run.trial.loads as f64);
    }
    let i = grouped_interval(&groups)?;
    let time = i.with_resolution(resolution);
    Some(Point { key, stride: step, groups, cycles, ids, time })
}

/// Returns the times that determine the behaviour of memory with this method.
pub(super) fn times(all: &[Point], method: UncachedMethod) -> Option<Times> {
    let of = |(operation, bytes, step)| {
        let found = all.iter().find(|p| p.key == (method, operation, bytes) && p.stride == step);
        found.map(|p| p.time.value).filter(|t| *t > 0.0)
    };
    let [read, write, apart] = BEHAVIOUR_POINTS.map(of);
    Some(Times { read: read?, write: write?, apart: apart? })
}
