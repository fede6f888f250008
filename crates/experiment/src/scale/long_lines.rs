//! Whether lines are longer than 128 bytes.
//!
//! The order of the latency curve keeps the cells of a line of up to 128 bytes half a lap apart. In a longer line two cells
//! are visited in the same window, so the second one hits in a nearer level: all farther levels look too fast. The packed
//! halves of the TLB pairs have half as many cells, so the same working set takes longer there.

use fathom_probe::pattern::PatternKind;

use super::{At, PAIR_STRIDE, STRIDE, Scale};
use crate::record::Record;

/// Smallest relative difference of the two spacings. A line of 256 bytes makes up to half of the loads hits.
const MIN_DIFFERENCE: f64 = 0.06;
/// Largest relative difference of the points on both sides of a packed half: the curve is level there.
const MAX_SLOPE: f64 = 0.03;
/// Smallest number of packed halves that must be slower.
const MIN_SLOWER: usize = 2;

/// Returns whether working sets on level parts of the curve take longer with twice the spacing, in most of those beyond
/// the first one that does.
pub(super) fn found(record: &Record, scale: &Scale) -> bool {
    let curve = scale.latency_curve(record);
    let pairs = scale.pairs_in(record, fathom_probe::machine::Pages::Base);
    let packed =
        scale.gather(record, PatternKind::Chase, |t| scale.is_packed(t) && t.memory.stride == PAIR_STRIDE);
    let slower: Vec<bool> = packed
        .iter()
        .filter_map(|packed| {
            let level = level(&curve, packed.bytes)?;
            // In base pages the packed half has one translation per half page of its lines, the curve half as many.
            let pages = if scale.huge.is_some() { 0 } else { packed.bytes / scale.base };
            let miss = pairs.iter().filter(|p| p.pages <= pages).map(|p| p.extra).fold(0.0, f64::max);
            let translation = miss / (scale.base / STRIDE / 2) as f64;
            Some(packed.time() - translation > level * (1.0 + MIN_DIFFERENCE))
        })
        .collect();
    let Some(first) = slower.iter().position(|slower| *slower) else { return false };
    let count = slower[first..].iter().filter(|slower| **slower).count();
    count >= MIN_SLOWER && 2 * count > slower.len() - first
}

/// Returns whether a packed half is faster than the curve on both sides of it. Where the number of sets is not a power of two,
/// or the index is hashed, a level holds more of the packed bytes.
pub(super) fn packed_are_faster(record: &Record, scale: &Scale) -> bool {
    let curve = scale.latency_curve(record);
    let packed =
        scale.gather(record, PatternKind::Chase, |t| scale.is_packed(t) && t.memory.stride == PAIR_STRIDE);
    let faster = |packed: &At| {
        around(&curve, packed.bytes).is_some_and(|(low, _)| packed.time() * (1.0 + MIN_DIFFERENCE) < low)
    };
    packed.iter().any(faster)
}

/// Returns the time of a load at this working set, if the points next to it are level.
fn level(curve: &[At], bytes: u64) -> Option<f64> {
    around(curve, bytes).filter(|(low, high)| *high <= low * (1.0 + MAX_SLOPE)).map(|(_, high)| high)
}

/// Returns the shorter and the longer time of the points on both sides of a working set.
fn around(curve: &[At], bytes: u64) -> Option<(f64, f64)> {
    let after = curve.partition_point(|at| at.bytes < bytes);
    let (before, after) = (curve.get(after.checked_sub(1)?)?, curve.get(after)?);
    Some((before.time().min(after.time()), before.time().max(after.time())))
}
