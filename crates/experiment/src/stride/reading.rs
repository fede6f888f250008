//! The reading: time an access and time a line, by working set, step and operation.

use fathom_analysis::claims::decode;
use fathom_analysis::findings::{Report, Warning};
use fathom_analysis::interval::{Interval, grouped_interval, median};
use fathom_probe::machine::Operation;
use fathom_probe::patterns::stride::UNROLL;
use fathom_probe::wire::PatternKind;

use super::plan::{Asked, asked, sizes};
use super::sketch::Sketch;
use super::{ASSUMED_LINE, NAME, STUDY_STEP, fresh, lines, prefetch};
use crate::clock::step_ticks;
use crate::common::claims;
use crate::common::scale::{Scale, believable};
use crate::common::{grained, quotient};
use crate::disturbance;
use crate::reading::{begun, clocks, disturbed_row, measured, refuse_all, size};
use crate::record::Record;

/// Reads a record. Everything that is shown follows from the record alone.
#[must_use]
pub fn read(record: &Record) -> Report {
    let mut report = begun(record, NAME);
    if !believable(record) {
        refuse_all(record, "every time of a sweep", &mut report);
        return report;
    }
    let scale = Scale::of(record);
    let sketch = Sketch::of(record, &scale);
    let sizes = sizes(record, sketch.as_ref());
    let asked = asked(record, &sizes);
    let points = points(record, &asked, &scale);
    let repeats: Vec<Vec<f64>> =
        points.iter().map(|p| p.trials.iter().filter_map(|t| median(&t.1)).collect()).collect();
    disturbed_row(&disturbance::judge(record, &scale.cycle_ticks, &repeats), &mut report);
    clocks(record, &scale, &mut report);
    let (line, who) = line(record);
    for point in &points {
        let first = points.iter().find(|p| (p.bytes, p.operation) == (point.bytes, point.operation));
        rows(point, first.unwrap_or(point), line, &who, &mut report);
    }
    lines::rows(record, &points, sketch.as_ref(), &mut report);
    if let Some(sketch) = &sketch {
        sketch.rows(&sizes, record, &mut report);
    }
    study_ratio(&points, &mut report);
    fresh::rows(record, &scale, &asked, &points, &mut report);
    prefetch::rows(record, &scale, &mut report);
    missing(&asked, &points, &mut report);
    report.findings.extend(claims::rows(&decode(&record.facts)));
    report
}

/// One working set at one step with one operation.
pub(super) struct Point {
    pub(super) bytes: u64,
    pub(super) step: u64,
    pub(super) operation: Operation,
    /// ns an access of each sample, with the trial's id.
    trials: Vec<(u64, Vec<f64>)>,
    /// ns an access: the median with its interval, in which is the clock's own step.
    pub(super) time: Interval,
    /// Largest share of a lap that a trial's samples went through.
    lap: f64,
}

impl Point {
    pub(super) fn count(&self) -> usize {
        self.trials.iter().map(|t| t.1.len()).sum()
    }

    pub(super) fn ids(&self) -> Vec<u64> {
        self.trials.iter().map(|t| t.0).collect()
    }

    fn name(&self, what: &str) -> String {
        format!("stride.{}.{}.{}.{what}", self.bytes, self.step, self.operation.token())
    }
}

/// What was measured: by operation, working set and step, ascending.
fn points(record: &Record, asked: &[Asked], scale: &Scale) -> Vec<Point> {
    let step_ns = step_ticks(record) as f64 * scale.tick_ns;
    asked
        .iter()
        .filter_map(|&(bytes, step, operation)| {
            let of = |r: &&crate::record::TrialRun| {
                let point = (r.trial.bytes, r.trial.step, r.trial.operation);
                point == (bytes, step, operation) && !r.trial.unfaulted
            };
            let (mut trials, mut grain, mut lap) = (Vec::new(), 0.0f64, 0.0f64);
            for run in record.of(PatternKind::Stride).filter(of) {
                let t = &run.trial;
                trials.push((t.id, run.ticks_per_op().map(|ticks| ticks * scale.tick_ns).collect()));
                grain = grain.max(step_ns / t.loads as f64);
                lap = lap.max(3.0 * t.loads as f64 * t.samples as f64 / t.cells() as f64);
            }
            let groups: Vec<Vec<f64>> = trials.iter().map(|t: &(u64, Vec<f64>)| t.1.clone()).collect();
            let i = grouped_interval(&groups)?;
            let time = grained(i, grain);
            Some(Point { bytes, step, operation, trials, time, lap })
        })
        .collect()
}

/// The line of the level nearest to the core, and who says so.
fn line(record: &Record) -> (u64, String) {
    let claims = decode(&record.facts).claims;
    let data = claims.iter().filter(|c| c.holds.data() && c.line.is_some());
    let claimed = data.min_by_key(|c| c.level).and_then(|c| Some((c.line?, c.source.token())));
    match claimed.filter(|(line, _)| line.is_power_of_two()) {
        Some((line, source)) => (line, format!("a line of {line} bytes, as {source} claims")),
        None => (ASSUMED_LINE, format!("a line of {ASSUMED_LINE} bytes, assumed: nobody claims one")),
    }
}

/// The rows of a point; `first` is the one with the smallest step.
fn rows(point: &Point, first: &Point, line: u64, who: &str, report: &mut Report) {
    let (count, ids) = (point.count(), point.ids());
    let mut row = measured(point.name("time_per_access"), point.time, "ns", count, &ids);
    if point.lap < 1.0 {
        row.notes.push(match 100.0 * point.lap {
            share if share < 1.0 => "a trial times less than 1 % of a lap".to_owned(),
            share => format!("a trial times {share:.0} % of a lap"),
        });
    }
    if point.bytes / point.step < UNROLL {
        row.notes.push(format!("a lap has fewer than {UNROLL} accesses: beginning it is part of their time"));
    }
    report.findings.push(row);
    let in_a_line = (line / point.step).max(1);
    let per_line = point.time.scaled(in_a_line as f64);
    let mut row = measured(point.name("time_per_line"), per_line, "ns", count, &ids);
    row.notes.push(who.to_owned());
    report.findings.push(row);
    if point.step != first.step
        && let Some(ratio) = quotient(point.time, first.time)
    {
        report.findings.push(measured(point.name("ratio"), ratio, "", count, &[ids, first.ids()].concat()));
    }
}

/// The figure that the study printed: a lap at the smallest step over a lap at 64 bytes.
fn study_ratio(points: &[Point], report: &mut Report) {
    let any = points.iter().any(|p| p.operation == Operation::Rmw);
    let Some(operation) = points.first().map(|p| if any { Operation::Rmw } else { p.operation }) else {
        return;
    };
    let of = || points.iter().filter(|p| p.operation == operation);
    let Some(bytes) = of().map(|p| p.bytes).max() else { return };
    let Some(small) = of().find(|p| p.bytes == bytes && p.step < STUDY_STEP) else { return };
    let Some(large) = of().find(|p| p.bytes == bytes && p.step == STUDY_STEP) else { return };
    let Some(each) = quotient(small.time, large.time) else { return };
    let ratio = each.scaled(STUDY_STEP as f64 / small.step as f64);
    let trials = [small.ids(), large.ids()].concat();
    let mut row = measured("stride.ratio", ratio, "", small.count() + large.count(), &trials);
    row.notes.push(format!(
        "a lap of {} at a step of {} over one at {STUDY_STEP}, {}",
        size(bytes as f64),
        small.step,
        small.operation.token()
    ));
    report.findings.push(row);
}

/// Points that were asked for and not measured.
fn missing(asked: &[Asked], points: &[Point], report: &mut Report) {
    let mut lost: Vec<String> = Vec::new();
    for &(bytes, step, operation) in asked {
        if points.iter().all(|p| (p.bytes, p.step, p.operation) != (bytes, step, operation)) {
            lost.push(format!("{} at {step} ({})", size(bytes as f64), operation.token()));
        }
    }
    let more = match lost.len() {
        0 => return,
        n if n > 4 => format!(" and {} more", n - 4),
        _ => String::new(),
    };
    lost.truncate(4);
    report.warnings.push(Warning {
        token: "short-budget",
        text: format!("not measured within the budget, the memory or the step: {}{more}", lost.join(", ")),
        remedy: "give it a larger --budget, or ask for smaller sizes or fewer --steps".into(),
    });
}
