//! First-touch sweeps: page faults inside the timed run. The difference from sweeps of mapped memory is the kernel's
//! page fault handling.

use fathom_analysis::findings::{Basis, Finding, Report};
use fathom_analysis::interval::{Interval, grouped_interval, median_interval};
use fathom_analysis::metrics::stride as metrics;
use fathom_probe::machine::Operation;
use fathom_probe::pattern::{Memory, PatternKind, Stride, Trial};

use super::options::Options;
use super::point::Point;
use super::request::{Request, SAMPLES};
use crate::clock::resolution_ticks;
use crate::reading::measured;
use crate::record::{Record, TrialRun};
use crate::scale::Scale;

/// Pages touched by the first runs of a trial's samples together, approximately: enough faults for a median.
const TOUCHED_PAGES: u64 = 256;
/// Samples per trial, at most.
const MAX_SAMPLES: u64 = 50;

/// Returns one trial per point, if requested. At most one lap is touched for the first time, so n and 2n together are
/// one lap. n is a number of whole pages, so that twice as many accesses cause twice as many faults.
pub(super) fn trials(record: &Record, requested: &[Request]) -> Vec<Trial> {
    if !Options::of(record).first_touch {
        return Vec::new();
    }
    let page = Scale::of(record).base;
    let one = |&(bytes, stride, operation): &Request| {
        let cells = if stride < page { bytes / page * (page / stride) } else { bytes / stride };
        let loads = if stride < page { bytes / page / 3 * (page / stride) } else { cells / 3 };
        let pages = if stride < page { loads * stride / page } else { loads };
        (loads > 0).then(|| Trial {
            memory: Memory::of(bytes, stride),
            loads,
            samples: (TOUCHED_PAGES / pages).clamp(SAMPLES, MAX_SAMPLES),
            warm: 0,
            ..Trial::of(Stride { first_touch: true, ..Stride::of(operation) })
        })
    };
    requested.iter().filter_map(one).collect()
}

/// Adds the findings of first touches; `points` are the same accesses to mapped memory.
pub(super) fn rows(
    record: &Record,
    scale: &Scale,
    requested: &[Request],
    points: &[Point],
    report: &mut Report,
) {
    let clock_ns = resolution_ticks(record) as f64 * scale.tick_ns;
    for &(bytes, stride, operation) in requested {
        let of = |r: &&TrialRun| {
            (r.trial.memory.bytes, r.trial.memory.stride) == (bytes, stride)
                && r.trial.is::<Stride>(|stride| stride.first_touch && stride.operation == operation)
        };
        let runs: Vec<&TrialRun> = record.of(PatternKind::Stride).filter(of).collect();
        let times: Vec<Vec<f64>> =
            runs.iter().map(|r| r.ticks_per_op().map(|t| t * scale.tick_ns).collect()).collect();
        let Some(time) = grouped_interval(&times) else { continue };
        let resolution = runs.iter().map(|r| clock_ns / r.trial.loads as f64).fold(0.0, f64::max) / 2.0;
        let time = Interval { value: time.value, low: time.low - resolution, high: time.high + resolution };
        let (count, ids) = (times.concat().len(), runs.iter().map(|r| r.trial.id).collect::<Vec<_>>());
        let at = [bytes.into(), stride.into(), operation.token().into()];
        let mut row = measured(metrics::STRIDE_FIRST_TOUCH_TIME_PER_ACCESS.at(at), time, "ns", count, &ids);
        if operation == Operation::Read {
            row.notes.push("memory that is only read maps to the kernel's zero page".into());
        }
        report.findings.push(row);
        let page = runs[0].done.as_ref().map_or(scale.base, |done| done.page_bytes).max(1);
        let faults: Vec<f64> = runs.iter().flat_map(|r| faults(r, page)).collect();
        if let Some(i) = median_interval(&faults) {
            let key = metrics::STRIDE_FIRST_TOUCH_FAULTS_PER_PAGE.at(at);
            report.findings.push(measured(key, i, "", faults.len(), &ids));
        }
        let mapped = points.iter().find(|p| (p.bytes, p.stride, p.operation) == (bytes, stride, operation));
        if let Some(mapped) = mapped {
            let added = difference(time, mapped.time).scaled((page / stride).max(1) as f64);
            let trials = [ids, mapped.ids()].concat();
            let key = metrics::STRIDE_FIRST_TOUCH_ADDED_PER_PAGE.at(at);
            let row = measured(key, added, "ns", count, &trials);
            report.findings.push(Finding { basis: Basis::Derived, ..row });
        }
    }
}

/// Returns the page faults per page of the first run of each sample, as counted by the kernel.
fn faults(run: &TrialRun, page: u64) -> impl Iterator<Item = f64> + '_ {
    let pages =
        run.trial.or_default::<Stride>().sweep(&run.trial.memory, 0).pages(run.trial.loads, page).max(1)
            as f64;
    run.samples.iter().map(move |s| s.end as f64 / pages)
}

/// Subtracts two intervals, combining their errors.
fn difference(a: Interval, b: Interval) -> Interval {
    let value = a.value - b.value;
    let down = (a.value - a.low).hypot(b.high - b.value);
    Interval { value, low: value - down, high: value + (a.high - a.value).hypot(b.value - b.low) }
}
