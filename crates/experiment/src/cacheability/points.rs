//! Points: the time of an operation through a means at a size.

use super::behaviour::Times;
use super::{SEPARATE_LINES, STRIDE, STUDY_BYTES, UncachedMethod};
use crate::clock::step_ticks;
use crate::record::{Record, TrialRun};
use crate::scale::Scale;
use fathom_analysis::findings::{Key, Metric};
use fathom_analysis::interval::{Interval, grouped_interval};
use fathom_probe::machine::Operation;
use fathom_probe::pattern::PatternKind;

/// One operation on one working set by one means.
pub(super) struct Point {
    pub(super) key: (UncachedMethod, Operation, u64),
    pub(super) stride: u64,
    /// ns an operation, a list a trial.
    pub(super) groups: Vec<Vec<f64>>,
    /// The same in core cycles, where there is a cycle calibration.
    pub(super) cycles: Vec<Vec<f64>>,
    /// The trials.
    pub(super) ids: Vec<u64>,
    /// ns an operation: the median with its interval, in which is the clock's own step.
    pub(super) time: Interval,
}

impl Point {
    pub(super) fn count(&self) -> usize {
        self.groups.iter().map(Vec::len).sum()
    }

    pub(super) fn at(&self, metric: &'static Metric) -> Key {
        let (means, operation, bytes) = self.key;
        metric.at([operation.token().into(), means.token().into(), bytes.into()])
    }
}

/// What tells how memory behaves: operation, working set, step.
pub(super) const DECISIVE: [(Operation, u64, u64); 3] = [
    (Operation::Read, STUDY_BYTES, STRIDE),
    (Operation::Write, STUDY_BYTES, STRIDE),
    (Operation::Write, STUDY_BYTES / STRIDE * SEPARATE_LINES, SEPARATE_LINES),
];

/// The first round only looks: what it ran cold is no time.
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
    let (mut groups, mut cycles, mut ids, mut grain) = (Vec::new(), Vec::new(), Vec::new(), 0.0f64);
    for run in record.trials.iter().filter(of) {
        let ticks: Vec<f64> = run.ticks_per_op().collect();
        if let Some(cycle) = scale.cycle_at(run.trial.id) {
            cycles.push(ticks.iter().map(|t| t / cycle).collect());
        }
        groups.push(ticks.iter().map(|t| t * scale.tick_ns).collect());
        ids.push(run.trial.id);
        grain = grain.max(step_ticks(record) as f64 * scale.tick_ns / run.trial.loads as f64);
    }
    let i = grouped_interval(&groups)?;
    let time = i.with_resolution(grain);
    Some(Point { key, stride: step, groups, cycles, ids, time })
}

/// What tells how memory behaves that was had by `means`.
pub(super) fn times(all: &[Point], means: UncachedMethod) -> Option<Times> {
    let of = |(operation, bytes, step)| {
        let found = all.iter().find(|p| p.key == (means, operation, bytes) && p.stride == step);
        found.map(|p| p.time.value).filter(|t| *t > 0.0)
    };
    let [read, write, apart] = DECISIVE.map(of);
    Some(Times { read: read?, write: write?, apart: apart? })
}
