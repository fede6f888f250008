//! Un-faulted sweeps: the first touch of fresh memory inside the timed run, beside the same in memory that is
//! there. The difference is what the kernel does at a page fault.

use fathom_analysis::findings::{Basis, Finding, Report};
use fathom_analysis::interval::{Interval, grouped_interval, median_interval};
use fathom_analysis::metrics::stride as metrics;
use fathom_probe::machine::Operation;
use fathom_probe::pattern::{Memory, PatternKind, Stride, Trial};

use super::options::Options;
use super::point::Point;
use super::request::{Request, SAMPLES};
use crate::clock::step_ticks;
use crate::reading::measured;
use crate::record::{Record, TrialRun};
use crate::scale::Scale;

/// Pages that the samples of a trial touch in their first runs together, about: enough faults for a median.
const PAGES: u64 = 256;
/// Samples a trial, at most.
const MAX_SAMPLES: u64 = 50;

/// One trial of each point, where they were asked for. A lap at most is touched for the first time, so n and 2n
/// together are one, and n is of whole pages, so that twice as many accesses meet twice as many faults.
pub(super) fn trials(record: &Record, requested: &[Request]) -> Vec<Trial> {
    if !Options::of(record).first_touch {
        return Vec::new();
    }
    let page = Scale::of(record).base;
    let one = |&(bytes, step, operation): &Request| {
        let cells = if step < page { bytes / page * (page / step) } else { bytes / step };
        let loads = if step < page { bytes / page / 3 * (page / step) } else { cells / 3 };
        let pages = if step < page { loads * step / page } else { loads };
        (loads > 0).then(|| Trial {
            memory: Memory::of(bytes, step),
            loads,
            samples: (PAGES / pages).clamp(SAMPLES, MAX_SAMPLES),
            warm: 0,
            ..Trial::of(Stride { first_touch: true, ..Stride::of(operation) })
        })
    };
    requested.iter().filter_map(one).collect()
}

/// The rows of every point that was touched for the first time; `points` are the same in memory that was there.
pub(super) fn rows(
    record: &Record,
    scale: &Scale,
    requested: &[Request],
    points: &[Point],
    report: &mut Report,
) {
    let clock_ns = step_ticks(record) as f64 * scale.tick_ns;
    for &(bytes, step, operation) in requested {
        let of = |r: &&TrialRun| {
            (r.trial.memory.bytes, r.trial.memory.stride) == (bytes, step)
                && r.trial.is::<Stride>(|stride| stride.first_touch && stride.operation == operation)
        };
        let runs: Vec<&TrialRun> = record.of(PatternKind::Stride).filter(of).collect();
        let times: Vec<Vec<f64>> =
            runs.iter().map(|r| r.ticks_per_op().map(|t| t * scale.tick_ns).collect()).collect();
        let Some(time) = grouped_interval(&times) else { continue };
        let grain = runs.iter().map(|r| clock_ns / r.trial.loads as f64).fold(0.0, f64::max) / 2.0;
        let time = Interval { value: time.value, low: time.low - grain, high: time.high + grain };
        let (count, ids) = (times.concat().len(), runs.iter().map(|r| r.trial.id).collect::<Vec<_>>());
        let at = [bytes.into(), step.into(), operation.token().into()];
        let mut row = measured(metrics::STRIDE_FIRST_TOUCH_TIME_PER_ACCESS.at(at), time, "ns", count, &ids);
        if operation == Operation::Read {
            row.notes.push("fresh memory that is only read is the kernel's one page of zeros".into());
        }
        report.findings.push(row);
        let page = runs[0].done.as_ref().map_or(scale.base, |done| done.page_bytes).max(1);
        let faults: Vec<f64> = runs.iter().flat_map(|r| faults(r, page)).collect();
        if let Some(i) = median_interval(&faults) {
            let key = metrics::STRIDE_FIRST_TOUCH_FAULTS_PER_PAGE.at(at);
            report.findings.push(measured(key, i, "", faults.len(), &ids));
        }
        let there = points.iter().find(|p| (p.bytes, p.stride, p.operation) == (bytes, step, operation));
        if let Some(there) = there {
            let added = less(time, there.time).scaled((page / step).max(1) as f64);
            let trials = [ids, there.ids()].concat();
            let key = metrics::STRIDE_FIRST_TOUCH_ADDED_PER_PAGE.at(at);
            let row = measured(key, added, "ns", count, &trials);
            report.findings.push(Finding { basis: Basis::Derived, ..row });
        }
    }
}

/// Page faults a page of the first run of each sample, as the kernel counted them.
fn faults(run: &TrialRun, page: u64) -> impl Iterator<Item = f64> + '_ {
    let pages =
        run.trial.or_default::<Stride>().sweep(&run.trial.memory, 0).pages(run.trial.loads, page).max(1)
            as f64;
    run.samples.iter().map(move |s| s.end as f64 / pages)
}

/// One time less another, each end's error by its own half of the intervals.
fn less(a: Interval, b: Interval) -> Interval {
    let value = a.value - b.value;
    let down = (a.value - a.low).hypot(b.high - b.value);
    Interval { value, low: value - down, high: value + (a.high - a.value).hypot(b.value - b.low) }
}
