//! Exact machines without huge pages, in random frames: each working set in several placements.

use super::Planner;
use super::scan::MIN_BYTES;
use crate::scale::At;
use crate::scale::placed::placements_differ;

/// Working sets of an octave that are measured in several placements.
const PER_OCTAVE: f64 = 3.0;
/// Placements of a working set of this many base pages, so that their mean misses are off by 0.04 of a step; in proportion fewer
/// of a larger one. A cache that just holds x pages in W ways has x / W colours. Half of its loads miss then, with a standard deviation of
/// 0.4 / sqrt(x / W) (Poisson distributed pages, 8 ways).
const PLACEMENTS_OF_ONE_PAGE: f64 = 700.0;
/// Most placements of a working set.
const MAX_PLACEMENTS: f64 = 8.0;
/// Largest such working set, bytes: larger ones have many colours, and take most of the budget.
const MAX_PLACED: u64 = 12 << 20;
/// Relative departure from the first tier where the working sets begin.
const DEPARTURE: f64 = 1.02;

/// Working sets that show whether placements differ, of this many bytes at most.
const SECOND: (usize, u64) = (5, 1 << 20);

impl Planner<'_> {
    /// Returns whether frames were found to be random.
    pub(super) fn has_random_frames(&self) -> bool {
        self.exact() && self.scale.huge.is_none() && placements_differ(self.latency_curve)
    }

    /// Returns the working sets of the curve that do not fit in the first tier.
    fn departed(&self) -> impl Iterator<Item = &At> {
        let first = self.latency_curve.first().map_or(0.0, At::time);
        let slow = move |at: &At| at.groups.iter().flatten().any(|time| *time > DEPARTURE * first);
        self.latency_curve.iter().filter(move |at| slow(at))
    }

    /// Returns whether there are working sets to measure in a second placement.
    pub(super) fn has_second_placements(&self) -> bool {
        !self.second().is_empty()
    }

    /// Returns the first working sets that do not fit in the first tier; more of them if the pages of the curve depend on it: caches of many ways
    /// hide the placement of the first ones.
    fn second(&self) -> Vec<u64> {
        let count = if self.scale.slower_huge.is_some() { usize::MAX } else { SECOND.0 };
        let small = self.departed().map(|at| at.bytes).take_while(|bytes| *bytes <= SECOND.1);
        small.take(count).collect()
    }

    /// Schedules a second placement of the first working sets that do not fit in the first tier.
    pub(super) fn second_placements(&mut self) {
        if !self.exact() || self.scale.huge.is_some() {
            return;
        }
        for bytes in self.second() {
            self.step(bytes);
        }
    }

    /// Schedules placements of working sets from the end of the first tier on, the first of each before the second of any.
    pub(super) fn placements(&mut self) {
        let Some(from) = self.departed().map(|at| at.bytes).next() else { return };
        let last = self.latency_curve.last().map_or(0, |at| at.bytes.min(MAX_PLACED));
        let (base, stride) = (self.scale.base as f64, self.scale.stride);
        let wanted = |bytes: u64| {
            (PLACEMENTS_OF_ONE_PAGE * base / bytes as f64).ceil().clamp(1.0, MAX_PLACEMENTS) as usize
        };
        let had = |bytes: u64| {
            self.latency_curve.iter().find(|at| at.bytes == bytes).map_or(0, |at| at.trials.len())
        };
        let sizes = Self::octaves(MIN_BYTES, last, PER_OCTAVE).filter(|bytes| 2 * bytes > from);
        let sizes = sizes.map(|bytes| bytes / stride * stride);
        let missing: Vec<(u64, std::ops::Range<usize>)> =
            sizes.map(|bytes| (bytes, had(bytes)..wanted(bytes))).collect();
        for nth in 0..MAX_PLACEMENTS as usize {
            for (bytes, _) in missing.iter().filter(|(_, missing)| missing.contains(&nth)) {
                self.step(*bytes);
            }
        }
    }
}
