//! Whether lines are longer than 128 bytes.
//!
//! The order of the latency curve keeps the cells of a line of up to 128 bytes half a lap apart. In a longer line two cells
//! are visited in the same window, so the second one hits in a nearer level: all farther levels look too fast. The packed
//! halves of the TLB pairs have half as many cells, so the same working set takes longer there.

use fathom_analysis::interval::quantile;
use fathom_probe::pattern::PatternKind;

use super::{At, PAIR_STRIDE, STRIDE, Scale};
use crate::record::Record;

/// Smallest relative difference of the two spacings. A line of 256 bytes makes up to half of the loads hits.
const MIN_DIFFERENCE: f64 = 0.06;
/// Largest relative difference of the points on both sides of a packed half: the curve is level there.
const MAX_SLOPE: f64 = 0.03;
/// Smallest number of packed halves that must be slower.
pub(crate) const MIN_SLOWER: usize = 2;

/// The same where others use the machine: the points of a level part of the curve differ by more.
const MAX_SLOPE_DISTURBED: f64 = 0.1;
/// Times of the smallest working set from which on a point is beyond the first level. Levels are 1.3 apart, and in a line of 256
/// bytes half of the loads hit.
const BEYOND_FIRST: f64 = 1.15;
/// Smallest number of packed halves beyond the first level where others use the machine.
const MIN_HALVES: usize = 4;
/// Share of these halves that need not be slower: bursts of others meet the points of the curve beside them.
const UNDECIDED: f64 = 0.2;
/// Relative difference of the others. Of 45 described machines with neighbours and without such lines, one exceeded it (six
/// halves in splintered pages), and none of 11 records of x86-64 guests; of 15 with such lines, 9 did.
const MIN_CONSISTENT: f64 = 0.02;

/// A packed half on a level part of the curve.
struct Half {
    /// Its time, relative to the slower point beside it.
    ratio: f64,
    /// The faster point beside it, relative to the smallest working set.
    level: f64,
}

/// Returns whether working sets on level parts of the curve take longer with twice the spacing: where others use the machine,
/// nearly all beyond the first level; else most of those beyond the first one that does.
pub(super) fn found(record: &Record, scale: &Scale) -> bool {
    if !record.is_exact() {
        return consistently_slower(&halves(record, scale, MAX_SLOPE_DISTURBED));
    }
    let halves = halves(record, scale, MAX_SLOPE);
    let slower: Vec<bool> = halves.iter().map(|half| half.ratio > 1.0 + MIN_DIFFERENCE).collect();
    let Some(first) = slower.iter().position(|slower| *slower) else { return false };
    let count = slower[first..].iter().filter(|slower| **slower).count();
    count >= MIN_SLOWER && 2 * count > slower.len() - first
}

fn consistently_slower(halves: &[Half]) -> bool {
    let beyond = halves.iter().filter(|half| half.level >= BEYOND_FIRST);
    let mut ratios: Vec<f64> = beyond.map(|half| half.ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let share = |of: f64| quantile(&ratios, of).unwrap_or(0.0) - 1.0;
    ratios.len() >= MIN_HALVES && share(UNDECIDED) > MIN_CONSISTENT && share(0.5) > MIN_DIFFERENCE
}

/// Returns the packed halves on parts of the curve that are level within `max_slope`, ascending in bytes.
fn halves(record: &Record, scale: &Scale, max_slope: f64) -> Vec<Half> {
    let curve = scale.latency_curve(record);
    let pairs = scale.pairs_in(record, scale.base_pages());
    let packed =
        scale.gather(record, PatternKind::Chase, |t| scale.is_packed(t) && t.memory.stride == PAIR_STRIDE);
    let first = curve.first().map_or(f64::INFINITY, At::time);
    let half = |packed: &At| {
        let (low, high) =
            around(&curve, packed.bytes).filter(|(low, high)| *high <= low * (1.0 + max_slope))?;
        // The packed half has one translation per half page of its lines, the curve half as many. Huge pages may be in pieces.
        let pages = packed.bytes / scale.base;
        let miss = pairs.iter().filter(|p| p.pages <= pages).map(|p| p.extra).fold(0.0, f64::max);
        let translation = miss / (scale.base / STRIDE / 2) as f64;
        Some(Half { ratio: (packed.time() - translation) / high, level: low / first })
    };
    packed.iter().filter_map(half).collect()
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

/// Returns the shorter and the longer time of the points on both sides of a working set.
fn around(curve: &[At], bytes: u64) -> Option<(f64, f64)> {
    let after = curve.partition_point(|at| at.bytes < bytes);
    let (before, after) = (curve.get(after.checked_sub(1)?)?, curve.get(after)?);
    Some((before.time().min(after.time()), before.time().max(after.time())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Halves of a first level, and then of these ratios.
    fn of(ratios: &[f64]) -> Vec<Half> {
        let first = (0..6).map(|_| Half { ratio: 1.0, level: 1.0 });
        first.chain(ratios.iter().map(|ratio| Half { ratio: *ratio, level: 2.0 })).collect()
    }

    #[test]
    fn halves_of_long_lines_are_slower_nearly_everywhere() {
        assert!(consistently_slower(&of(&[0.9, 1.3, 1.2, 1.04, 1.5, 1.3])));
        assert!(!consistently_slower(&of(&[1.3, 1.2, 1.3])), "three do not decide");
    }

    /// Memory that others slow down in bursts: 8 of 13 halves met one, and the points beside them did not.
    #[test]
    fn bursts_are_no_long_lines() {
        assert!(!consistently_slower(&of(&[[1.0; 5].as_slice(), &[1.49; 8]].concat())));
        assert!(!consistently_slower(&of(&[1.0, 1.01, 0.99, 1.03, 1.0])));
    }
}
