//! Reads a record of `fathom stride`: time per access and per line by working set, stride and operation.

use fathom_analysis::claims::decode;
use fathom_analysis::findings::{Basis, Finding, Item, Report, Warning, WarningKind};
use fathom_analysis::interval::{grouped_interval, median};
use fathom_analysis::metrics::stride as metrics;
use fathom_probe::machine::Operation;
use fathom_probe::machine::batch::stride::UNROLL;
use fathom_probe::pattern::{PatternKind, Stride};
use fathom_units::size;

use super::coarse_scan::CoarseScan;
use super::plan::{requested, sizes};
use super::point::Point;
use super::request::Request;
use super::{ASSUMED_LINE, NAME, STUDY_STRIDE, first_touch, lines, prefetch};
use crate::claims;
use crate::clock::resolution_ticks;
use crate::disturbance;
use crate::reading::{clocks, disturbance_rows, measured, new_report, refuse_all};
use crate::record::Record;
use crate::scale::{Scale, clock_is_usable};

/// Reads a record. The report depends on the record alone.
#[must_use]
pub fn read(record: &Record) -> Report {
    let mut report = new_report(record, NAME);
    if !clock_is_usable(record) {
        refuse_all(record, "every time of a sweep", &mut report);
        return report;
    }
    let scale = Scale::of(record);
    let coarse_scan = CoarseScan::of(record, &scale);
    let sizes = sizes(record, coarse_scan.as_ref());
    let requested = requested(record, &sizes);
    let points = points(record, &requested, &scale);
    let repeats: Vec<Vec<f64>> =
        points.iter().map(|p| p.trials.iter().filter_map(|t| median(&t.1)).collect()).collect();
    disturbance_rows(&disturbance::judge(record, &scale.cycle_ticks, &repeats), &mut report);
    clocks(record, &scale, &mut report);
    let line = Line::of(record);
    for point in &points {
        let first = points.iter().find(|p| (p.bytes, p.operation) == (point.bytes, point.operation));
        rows(point, first.unwrap_or(point), line, &mut report);
    }
    lines::rows(record, &points, coarse_scan.as_ref(), &mut report);
    if let Some(coarse_scan) = &coarse_scan {
        coarse_scan.rows(&sizes, record, &mut report);
    }
    study_ratio(&points, &mut report);
    first_touch::rows(record, &scale, &requested, &points, &mut report);
    prefetch::rows(record, &scale, &mut report);
    missing(record, &requested, &points, &mut report);
    report.findings.extend(claims::rows(&decode(&record.facts)));
    report
}

/// Returns the measured points, by operation, working set and stride, ascending.
fn points(record: &Record, requested: &[Request], scale: &Scale) -> Vec<Point> {
    let clock_ns = resolution_ticks(record) as f64 * scale.tick_ns;
    requested
        .iter()
        .filter_map(|&(bytes, stride, operation)| {
            let of = |r: &&crate::record::TrialRun| {
                (r.trial.memory.bytes, r.trial.memory.stride) == (bytes, stride)
                    && r.trial.is::<Stride>(|stride| !stride.first_touch && stride.operation == operation)
            };
            let (mut trials, mut resolution, mut lap) = (Vec::new(), 0.0f64, 0.0f64);
            for run in record.of(PatternKind::Stride).filter(of) {
                let t = &run.trial;
                trials.push((t.id, run.ticks_per_op().map(|ticks| ticks * scale.tick_ns).collect()));
                resolution = resolution.max(clock_ns / t.loads as f64);
                lap = lap.max(3.0 * t.loads as f64 * t.samples as f64 / t.memory.cells() as f64);
            }
            let groups: Vec<Vec<f64>> = trials.iter().map(|t: &(u64, Vec<f64>)| t.1.clone()).collect();
            let i = grouped_interval(&groups)?;
            let time = i.with_resolution(resolution);
            Some(Point { bytes, stride, operation, trials, time, lap })
        })
        .collect()
}

/// The line of the nearest level.
#[derive(Clone, Copy)]
struct Line {
    bytes: u64,
    /// The source that claims it; `None` if assumed.
    source: Option<&'static str>,
}

impl Line {
    fn of(record: &Record) -> Line {
        let claims = decode(&record.facts).claims;
        let data = claims.iter().filter(|c| c.holds.data() && c.line.is_some());
        let claimed = data.min_by_key(|c| c.level).and_then(|c| Some((c.line?, c.source.token())));
        match claimed.filter(|(line, _)| line.is_power_of_two()) {
            Some((bytes, source)) => Line { bytes, source: Some(source) },
            None => Line { bytes: ASSUMED_LINE, source: None },
        }
    }

    /// Adds a note with the line size to a finding.
    fn add_note(self, row: &mut Finding) {
        let bytes = self.bytes;
        row.detail.set(metrics::LINE_BYTES, Item::Number(bytes as f64));
        row.notes.push(match self.source {
            Some(source) => {
                row.detail.set(metrics::LINE_SOURCE, Item::Token(source.to_owned()));
                format!("a line of {bytes} bytes, as claimed by {source}")
            }
            None => format!("a line of {bytes} bytes, assumed: no source claims one"),
        });
    }
}

/// Adds the findings of a point; `first` is the one with the smallest stride.
fn rows(point: &Point, first: &Point, line: Line, report: &mut Report) {
    let (count, ids) = (point.count(), point.ids());
    let mut row = measured(point.key(&metrics::STRIDE_TIME_PER_ACCESS), point.time, "ns", count, &ids);
    if point.lap < 1.0 {
        row.detail.set(metrics::LAP_SHARE, Item::Number(point.lap));
        row.notes.push(match 100.0 * point.lap {
            share if share < 1.0 => "a trial times less than 1 % of a lap".to_owned(),
            share => format!("a trial times {share:.0} % of a lap"),
        });
    }
    if point.bytes / point.stride < UNROLL {
        row.notes.push(format!(
            "a lap has fewer than {UNROLL} accesses: their time includes the start of the lap"
        ));
    }
    report.findings.push(row);
    let accesses_per_line = (line.bytes / point.stride).max(1);
    let per_line = point.time.scaled(accesses_per_line as f64);
    let mut row = measured(point.key(&metrics::STRIDE_TIME_PER_LINE), per_line, "ns", count, &ids);
    row.basis = Basis::Derived;
    line.add_note(&mut row);
    report.findings.push(row);
    if point.stride != first.stride
        && let Some(ratio) = point.time.ratio_to(first.time)
    {
        let trials = [ids, first.ids()].concat();
        let row = measured(point.key(&metrics::STRIDE_RATIO), ratio, "", count, &trials);
        report.findings.push(Finding { basis: Basis::Derived, ..row });
    }
}

/// Adds the figure that study S3 printed: the ratio of a lap at the smallest stride to a lap at 64 bytes.
fn study_ratio(points: &[Point], report: &mut Report) {
    let any = points.iter().any(|p| p.operation == Operation::Rmw);
    let Some(operation) = points.first().map(|p| if any { Operation::Rmw } else { p.operation }) else {
        return;
    };
    let of = || points.iter().filter(|p| p.operation == operation);
    let Some(bytes) = of().map(|p| p.bytes).max() else { return };
    let Some(small) = of().find(|p| p.bytes == bytes && p.stride < STUDY_STRIDE) else { return };
    let Some(large) = of().find(|p| p.bytes == bytes && p.stride == STUDY_STRIDE) else { return };
    let Some(each) = small.time.ratio_to(large.time) else { return };
    let ratio = each.scaled(STUDY_STRIDE as f64 / small.stride as f64);
    let trials = [small.ids(), large.ids()].concat();
    let mut row = measured(&metrics::STRIDE_LAPS_RATIO, ratio, "", small.count() + large.count(), &trials);
    row.basis = Basis::Derived;
    row.notes.push(format!(
        "a lap of {} at a stride of {} compared with one at {STUDY_STRIDE}, {}",
        size(bytes as f64),
        small.stride,
        small.operation.token()
    ));
    report.findings.push(row);
}

/// Warns of requested points that were not measured. Contradictory measurements are refused elsewhere.
fn missing(record: &Record, requested: &[Request], points: &[Point], report: &mut Report) {
    let mut lost: Vec<String> = Vec::new();
    let refused = |point: Request| {
        let of = |r: &crate::record::TrialRun| {
            (r.trial.memory.bytes, r.trial.memory.stride, r.trial.pattern.operation()) == point
        };
        record.trials.iter().any(|r| r.contradicted.is_some() && of(r))
    };
    for &(bytes, stride, operation) in requested {
        if !refused((bytes, stride, operation))
            && points.iter().all(|p| (p.bytes, p.stride, p.operation) != (bytes, stride, operation))
        {
            lost.push(format!("{} at {stride} ({})", size(bytes as f64), operation.token()));
        }
    }
    let more = match lost.len() {
        0 => return,
        n if n > 4 => format!(" and {} more", n - 4),
        _ => String::new(),
    };
    lost.truncate(4);
    report.warnings.push(Warning {
        kind: WarningKind::BudgetExhausted,
        text: format!("not measured within the budget, the memory or the stride: {}{more}", lost.join(", ")),
        remedy: "give it a larger --budget, smaller sizes or fewer --strides".into(),
    });
}
