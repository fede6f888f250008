//! Line size from sweeps: the stride from which on the time of an access stops growing.

use fathom_analysis::findings::{Basis, Finding, Item, Report};
use fathom_analysis::interval::Interval;
use fathom_analysis::metrics::stride as metrics;
use fathom_probe::machine::Operation;

use super::coarse_scan::CoarseScan;
use super::point::Point;
use crate::reading::{measured, number};
use crate::record::Record;

/// Ratio of the times at two successive strides, below which the time does not grow: translation adds up to a tenth.
const MIN_GROWTH: f64 = 1.12;
/// Largest stride that is considered, bytes: no line is longer, and page effects begin.
const MAX_LINE_STRIDE: u64 = 256;
/// Minimum growth of the time from the smallest to the largest stride if lines are fetched at all: as between tiers.
const MIN_FETCH_GROWTH: f64 = 1.25;
/// Share of a dependent load's time below which an access is overlapped or prefetched: the sweep then shows bandwidth,
/// not lines.
const HIDDEN_SHARE: f64 = 0.5;

/// Adds a finding for each working set whose reads fetch lines from beyond the nearest level.
pub(super) fn rows(record: &Record, points: &[Point], coarse_scan: Option<&CoarseScan>, report: &mut Report) {
    let mut sizes: Vec<u64> = points.iter().map(|p| p.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for bytes in sizes {
        let of =
            |p: &&Point| p.bytes == bytes && p.operation == Operation::Read && p.stride <= MAX_LINE_STRIDE;
        let reads: Vec<&Point> = points.iter().filter(of).collect();
        let doubling = reads.windows(2).all(|pair| pair[1].stride == 2 * pair[0].stride);
        let (Some(first), Some(last)) = (reads.first(), reads.last()) else { continue };
        if doubling
            && last.stride == MAX_LINE_STRIDE
            && last.time.value >= MIN_FETCH_GROWTH * first.time.value
        {
            report.findings.push(row(record, bytes, &reads, coarse_scan));
        }
    }
}

/// Returns the finding of one working set; without a number if the line is unknown.
fn row(record: &Record, bytes: u64, reads: &[&Point], coarse_scan: Option<&CoarseScan>) -> Finding {
    let grows = |pair: &[&Point]| pair[1].time.value >= MIN_GROWTH * pair[0].time.value;
    let count: usize = reads.iter().map(|p| p.count()).sum();
    let ids: Vec<u64> = reads.iter().flat_map(|p| p.ids()).collect();
    let key = metrics::STRIDE_LINE.at([bytes.into()]);
    // After the last stride that was followed by growth.
    let line =
        reads.windows(2).rposition(grows).map(|at| reads[at + 1]).filter(|p| p.stride < MAX_LINE_STRIDE);
    let why = match line {
        None => Some(format!("the time grows up to a stride of {MAX_LINE_STRIDE} bytes")),
        Some(line) => hidden(record, line, coarse_scan),
    };
    let Some(line) = line.filter(|_| why.is_none()) else {
        let mut row = number(key, f64::NAN, "bytes");
        if let Some(line) = line {
            row.detail.set(metrics::HIDDEN_AT, Item::Number(line.stride as f64));
        }
        (row.count, row.trials) = (count as u64, ids);
        row.notes.extend(why.map(|why| format!("the line is unknown: {why}")));
        return row;
    };
    // Longer than the last stride with several accesses per line, and not longer than this one.
    let end = line.stride as f64;
    let mut row = measured(key, Interval { value: end, low: end / 2.0, high: end }, "bytes", count, &ids);
    row.basis = Basis::Bounds;
    row.notes.push("from sweeps: the time per access does not grow from this stride on".into());
    row
}

/// Returns why the stride at which the time stops growing does not show the line; `None` if it does.
fn hidden(record: &Record, line: &Point, coarse_scan: Option<&CoarseScan>) -> Option<String> {
    let stops = format!("the time stops growing at a stride of {} bytes", line.stride);
    match coarse_scan.and_then(|coarse_scan| coarse_scan.time(line.bytes)) {
        Some(load) if line.time.value < HIDDEN_SHARE * load => Some(format!(
            "{stops}, but an access takes {:.1} ns there and a dependent load {load:.1} ns: overlap and prefetch \
             hide the line",
            line.time.value
        )),
        // A model does not overlap accesses.
        None if !record.is_modelled() => Some(format!(
            "{stops}, possibly because of prefetch: no dependent loads were measured for comparison"
        )),
        _ => None,
    }
}
