//! Whether a level has lines shorter than the spacing of the latency curve, and sets that are all used nevertheless.
//!
//! With lines of 32 bytes the curve touches every second line. If the number of sets is a power of two, every second set
//! stays empty, and the level ends where it should. With another number of sets, or a hashed index, all sets are used, and
//! the level seems to hold twice its size. A chase with half the spacing in a working set that seems to fit takes longer
//! there: it is half the level too large. Beside neighbours that is tried several times.
//!
//! Where farther levels have lines of 256 bytes, the curve has twice the spacing, and lines of 64 bytes are shorter. The true end is not measured then:
//! with half the spacing, the farther levels would look too fast.

use fathom_analysis::interval::median;
use fathom_probe::pattern::{PatternKind, Trial, Walk};

use super::{At, STRIDE, Scale};
use crate::record::Record;

/// Share of a level's apparent capacity that the dense chase takes: all of it fits with any replacement but random, and
/// none of twice as many lines does.
const DENSE_SHARE: f64 = 0.8;
/// Smallest such share: a level of half the size misses in all loads with LRU, and in a third of them with random replacement.
const MIN_DENSE_SHARE: f64 = 0.6;
/// Smallest ratio of the dense chase to an exclusive level with short lines and the nearer ones together: one that is hardly larger misses in few loads.
const MIN_BEYOND: f64 = 1.05;

/// Returns the least and the most that the dense chase takes in a level that seems to end at `end` bytes, behind one that ends at `nearer`: if it is
/// exclusive, twice the size is seen of its own part only.
pub(crate) fn dense_range(nearer: f64, end: f64) -> (f64, f64) {
    let short = f64::midpoint(nearer, end);
    let most = (DENSE_SHARE * end).max(f64::midpoint(short, end));
    ((MIN_DENSE_SHARE * end).max(MIN_BEYOND * short).min(most), most)
}

/// Largest working set of a dense point: half a million cells, of the forty million loads of a default budget.
const MAX_DENSE_BYTES: u64 = 16 << 20;

/// Smallest relative difference of the two spacings. Levels are at least 1.3 apart in latency, and a working set 1.6 times
/// as large as a level with random replacement misses in more than half of its loads: 1.15.
const MIN_DIFFERENCE: f64 = 0.06;

/// Number of trials with each spacing where others use the machine.
pub(crate) const DENSE_TRIALS: usize = 3;

/// Largest working set that is tested so where others use the machine: a trial of it takes two hundredths of the default budget, and slow bursts of
/// memory look like levels beyond.
pub(crate) const MAX_DISTURBED_BYTES: u64 = 64 << 20;

/// Part of the curve that is measured with half the spacing, in working sets of the dense chase that found it: from below
/// the true capacity (0.6) to beyond the rises at both, under random replacement four times the apparent one.
const PART: (f64, f64) = (0.4, 5.0);

/// A level with short lines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Short {
    /// Working set of the dense chase, bytes.
    pub(crate) bytes: u64,
    /// Whether the curve has twice the spacing, because other lines are long.
    spaced_widely: bool,
}

impl Short {
    /// Returns the working sets that are measured with half the spacing; `None` if that takes too long, or would not show the farther levels.
    pub(crate) fn part(&self) -> Option<(u64, u64)> {
        let end = |factor: f64| (self.bytes as f64 * factor) as u64;
        let is_measured = !self.spaced_widely && end(PART.1) <= MAX_DENSE_BYTES;
        is_measured.then(|| (end(PART.0), end(PART.1)))
    }
}

/// Returns the levels with short lines, from the dense chases and the curve.
pub(super) fn found(record: &Record, scale: &Scale) -> Vec<Short> {
    let curve = scale.latency_curve(record);
    let trials = if record.is_exact() { 1 } else { DENSE_TRIALS };
    let slower = |dense: &At| {
        let same = curve.iter().find(|at| at.bytes == dense.bytes)?;
        let is_tested = dense.trials.len() >= trials && same.trials.len() >= trials;
        let short = Short { bytes: dense.bytes, spaced_widely: scale.stride > STRIDE };
        (is_tested && is_slower(dense, same)).then_some(short)
    };
    scale.dense(record).iter().filter_map(slower).collect()
}

/// Returns whether the dense chase takes longer. A burst may meet all trials of one spacing but one: the shortest times have to agree.
fn is_slower(dense: &At, same: &At) -> bool {
    let least = |at: &At| at.steady.iter().filter_map(|group| median(group)).fold(f64::INFINITY, f64::min);
    let ratio = (dense.time() / same.time()).min(least(dense) / least(same));
    ratio > 1.0 + MIN_DIFFERENCE
}

impl Scale {
    /// Returns the bytes between the cells of a dense chase.
    pub(crate) fn dense_stride(&self) -> u64 {
        self.stride / 2
    }

    /// Returns the bytes between the cells of the latency curve at a working set.
    pub(crate) fn stride_at(&self, bytes: u64) -> u64 {
        let short = self.short_lines.iter().filter_map(Short::part);
        let dense = short.into_iter().any(|(from, to)| (from..=to).contains(&bytes));
        if dense { self.dense_stride() } else { self.stride }
    }

    /// Returns the short lines of a level with this apparent capacity, if its true end was not measured.
    pub(crate) fn unmeasured_short_lines(&self, capacity: f64) -> Option<Short> {
        let of = |short: &&Short| (0.5..=1.0).contains(&(short.bytes as f64 / capacity));
        self.short_lines.iter().filter(|short| short.part().is_none()).find(of).copied()
    }

    /// Returns whether a level of a described machine with this apparent capacity is too large for the test for short lines beside neighbours.
    pub(crate) fn is_untested_for_short_lines(&self, capacity: f64) -> bool {
        self.has_described_neighbours() && DENSE_SHARE * capacity > MAX_DISTURBED_BYTES as f64
    }

    /// Returns the chases of the curve's walk with half its spacing.
    pub(crate) fn dense(&self, record: &Record) -> Vec<At> {
        self.gather(record, PatternKind::Chase, |trial: &Trial| {
            trial.memory.stride == self.dense_stride()
                && trial.memory.page == self.pages()
                && trial.pattern.walk() == Walk::windows(self.window)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_chase_is_larger_than_a_level_of_short_lines() {
        assert_eq!(dense_range(0.0, 1000.0), (600.0, 800.0), "half of what it seems to hold");
        // The nearer level holds 500, so that one with short lines ends at 750.
        assert_eq!(dense_range(500.0, 1000.0), (787.5, 875.0));
        // A victim buffer: 910 of 1000.
        let (least, most) = dense_range(820.0, 1000.0);
        assert!(910.0 < least && least <= most && most < 1000.0, "{least} to {most}");
    }
}
