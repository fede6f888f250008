//! Translation in loads of the last tier, from the curve's walk with four times its spacing.
//!
//! The curve visits half of a page's lines one after the other, so each of their loads carries an equal part of one translation: with four times the
//! spacing, four times that part. What the loads of both walks differ by is the translation in a load, and what opening a row of memory adds to its
//! first load, too. The pairs visit pages in another order: near the ends of caches each of their walks reads page tables that the
//! curve finds in a cache, because neighbouring pages share their lines. And they end where page tables of the largest
//! working sets still fit.

use std::collections::BTreeMap;

use fathom_analysis::tiers::Reading;
use fathom_probe::pattern::{PatternKind, Trial, Walk};

use super::translation::{Translation, on_pages, translation_at};
use crate::record::Record;
use crate::scale::{At, Scale};

/// Spacing of the second walk, in spacings of the curve.
const WIDER: u64 = 4;
/// Number of working sets that are measured so.
const SIZES: usize = 3;
/// Standard errors by which the translation of smaller working sets may exceed what was measured.
const Z: f64 = 3.0;
/// Smallest ratio of the largest one to them: the last tier is read from three octaves.
const RANGE: u64 = 8;

/// Returns whether this trial is the curve's walk with the wider spacing.
fn is_wider(scale: &Scale, trial: &Trial) -> bool {
    trial.kind() == PatternKind::Chase
        && trial.memory.stride == stride(scale)
        && trial.memory.page == scale.pages()
        && trial.pattern.walk() == Walk::windows(scale.window)
        && trial.beside.streams.is_empty()
}

/// Returns the bytes between the cells of the wider walk.
pub(super) fn stride(scale: &Scale) -> u64 {
    WIDER * scale.stride
}

fn wider(record: &Record, scale: &Scale) -> Vec<At> {
    scale.gather(record, PatternKind::Chase, |trial| is_wider(scale, trial))
}

/// Returns the working sets whose translation the wider walk would tell, the largest first: those of the last tier in which so few lines fill no cache
/// either.
pub(super) fn missing(record: &Record, scale: &Scale, curve: &[At], reading: &Reading) -> Vec<u64> {
    let (Some(last), Some(tier)) = (curve.last(), reading.tiers.last()) else { return Vec::new() };
    let had = wider(record, scale);
    let is_of_memory = |at: &&At| {
        at.bytes >= last.bytes / RANGE
            && at.bytes as f64 >= WIDER as f64 * tier.begin
            && scale.stride_at(at.bytes) == scale.stride
    };
    let sizes: Vec<u64> = curve.iter().filter(is_of_memory).map(|at| at.bytes).collect();
    let step = sizes.len().div_ceil(SIZES).max(1);
    let chosen = sizes.into_iter().rev().step_by(step);
    chosen.filter(|bytes| had.iter().all(|at| at.bytes != *bytes)).collect()
}

/// Returns the translation of the curve's points, also between whole pages: what was measured so instead of what the pairs tell, from the smallest of
/// these working sets on, and twice as much in points with twice the spacing.
pub(super) fn with_measured(
    translation: Translation,
    record: &Record,
    scale: &Scale,
    curve: &[At],
) -> Translation {
    if translation.is_empty() {
        return translation;
    }
    let spacings = spacings(record, scale);
    let spacing = |at: &At| spacings.get(&at.bytes).copied().unwrap_or(1.0);
    // In one order, larger working sets never need less translation.
    let mut most = f64::INFINITY;
    let mut measured = Translation::new();
    for at in wider(record, scale) {
        let Some(point) = curve.iter().find(|point| point.bytes == at.bytes) else { continue };
        let apart = WIDER as f64 - spacing(point);
        let added = ((at.time() - point.time()) / apart).max(0.0);
        most = most.min(added + Z * at.error().hypot(point.error()) / apart);
        measured.push((at.bytes as f64, added));
    }
    let from = measured.first().map_or(f64::INFINITY, |at| at.0);
    let of_pairs = translation.into_iter().filter(|at| at.0 < from);
    let of_pairs =
        of_pairs.flat_map(|(bytes, cost)| on_pages(bytes as u64 / scale.base, scale.base, cost.min(most)));
    let known: Translation = of_pairs.chain(measured).collect();
    let Some(from) = curve.iter().find(|at| spacing(at) > 1.0).map(|at| at.bytes as f64) else {
        return known;
    };
    let own = curve.iter().filter(|at| at.bytes as f64 >= from).map(|at| {
        let bytes = at.bytes as f64;
        (bytes, spacing(at) * translation_at(&known, bytes))
    });
    known.iter().copied().filter(|at| at.0 < from).chain(own).collect()
}

/// Returns the spacing of each working set of the curve, in its usual one, where that is what its points have.
fn spacings(record: &Record, scale: &Scale) -> BTreeMap<u64, f64> {
    let points = record.of(PatternKind::Chase).map(|run| &run.trial).filter(|trial| scale.is_point(trial));
    let mut least = BTreeMap::new();
    for trial in points {
        let memory = &trial.memory;
        let spacing = memory.stride as f64 / scale.stride_at(memory.bytes) as f64;
        least
            .entry(memory.bytes)
            .and_modify(|known: &mut f64| *known = known.min(spacing))
            .or_insert(spacing);
    }
    least
}
