//! The line as sweeps see it: the step from which on the time of an access stops growing.

use fathom_analysis::findings::{Basis, Finding, Item, Report};
use fathom_analysis::interval::Interval;
use fathom_analysis::metrics::stride as metrics;
use fathom_probe::machine::{ClockTrust, Operation};

use super::coarse_scan::CoarseScan;
use super::point::Point;
use crate::reading::{measured, number};
use crate::record::Record;

/// A time that grows by less from a step to twice that does not grow: translation adds up to a tenth.
const GROWS: f64 = 1.12;
/// Steps beyond this are not asked, bytes: no line is longer, and pages begin to tell.
const MAX_LINE_STRIDE: u64 = 256;
/// From the smallest step to that one it grows by this where lines are brought at all: as between tiers.
const BROUGHT: f64 = 1.25;
/// An access that takes less than this share of a dependent load is overlapped or fetched ahead: what is seen is
/// how much a second can be brought, and nothing of lines.
const HIDDEN: f64 = 0.5;

/// A row for each working set whose reads bring lines from farther than the nearest level.
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
        if doubling && last.stride == MAX_LINE_STRIDE && last.time.value >= BROUGHT * first.time.value {
            report.findings.push(row(record, bytes, &reads, coarse_scan));
        }
    }
}

/// The row of one working set; without a number where it is not told.
fn row(record: &Record, bytes: u64, reads: &[&Point], coarse_scan: Option<&CoarseScan>) -> Finding {
    let grows = |pair: &[&Point]| pair[1].time.value >= GROWS * pair[0].time.value;
    let count: usize = reads.iter().map(|p| p.count()).sum();
    let ids: Vec<u64> = reads.iter().flat_map(|p| p.ids()).collect();
    let key = metrics::STRIDE_LINE.at([bytes.into()]);
    // After the last step that was followed by growth.
    let line =
        reads.windows(2).rposition(grows).map(|at| reads[at + 1]).filter(|p| p.stride < MAX_LINE_STRIDE);
    let why = match line {
        None => Some(format!("the time goes on growing up to a step of {MAX_LINE_STRIDE} bytes")),
        Some(line) => hidden(record, line, coarse_scan),
    };
    let Some(line) = line.filter(|_| why.is_none()) else {
        let mut row = number(key, f64::NAN, "bytes");
        if let Some(line) = line {
            row.detail.set(metrics::HIDDEN_AT, Item::Number(line.stride as f64));
        }
        (row.count, row.trials) = (count as u64, ids);
        row.notes.extend(why.map(|why| format!("the line is not told: {why}")));
        return row;
    };
    // Longer than the last step that still brought several accesses per line, and no longer than this one.
    let end = line.stride as f64;
    let mut row = measured(key, Interval { value: end, low: end / 2.0, high: end }, "bytes", count, &ids);
    row.basis = Basis::Bounds;
    row.notes.push("the line, as these sweeps see it: an access takes no longer from this stride on".into());
    row
}

/// Why the step at which the time stops growing is no line's end; none where it is one.
fn hidden(record: &Record, line: &Point, coarse_scan: Option<&CoarseScan>) -> Option<String> {
    let stops = format!("the time stops growing at a stride of {} bytes", line.stride);
    match coarse_scan.and_then(|coarse_scan| coarse_scan.time(line.bytes)) {
        Some(load) if line.time.value < HIDDEN * load => Some(format!(
            "{stops}, but an access takes {:.1} ns there and a dependent load {load:.1}: what the core overlaps \
             and fetches ahead hides where lines end",
            line.time.value
        )),
        // A model overlaps nothing.
        None if record.trust != Some(ClockTrust::Modelled) => {
            Some(format!("{stops}, and without dependent loads beside it prefetch may be what stops it"))
        }
        _ => None,
    }
}
