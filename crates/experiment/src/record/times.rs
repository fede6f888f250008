//! Times of a trial's samples per operation.

use fathom_analysis::interval::median;
use fathom_probe::pattern::Work;
use fathom_probe::rows::Sample;

use super::TrialRun;

/// Smallest part of a lap that is timed as a whole. Two readings of a clock of 100 ns each are 4 ps of each load in three such parts.
const MIN_PART: u64 = 16_384;

impl TrialRun {
    /// Returns the ticks of every timed load less an empty reading of the clock, for patterns that time single loads.
    pub(crate) fn single_ticks(&self) -> impl Iterator<Item = f64> + '_ {
        self.samples.iter().map(|s| s.ticks as f64 - s.ticks2 as f64)
    }

    /// Drops all samples of a trial whose 2n operations took less time than its n, in the median.
    pub(super) fn keep_possible_times(&mut self) {
        let doubled = self.trial.pattern.time_grows();
        let n = self.trial.loads as f64;
        let more = |s: &Sample| (s.ticks2 as f64 - s.ticks as f64) / n;
        let times: Vec<f64> =
            self.samples.iter().map(more).filter(|ticks| doubled && ticks.is_finite()).collect();
        self.contradicted = median(&times).filter(|ticks| *ticks < 0.0);
        if self.contradicted.is_some() {
            self.samples.clear();
        }
    }

    /// Returns the ticks per operation of every sample: the 2n run less the n run, over n, in which every fixed cost cancels. Of dependent loads
    /// along part of a lap: both runs, over 3n. They are different parts, and where only some windows of a working set miss, their difference may
    /// show none of these misses, or twice as many.
    pub fn ticks_per_op(&self) -> impl Iterator<Item = f64> + '_ {
        self.samples.iter().map(|s| self.per_op(s.ticks as f64, s.ticks2 as f64))
    }

    /// Returns the ticks per operation if the n run took `once` and the 2n run `twice`.
    pub(crate) fn per_op(&self, once: f64, twice: f64) -> f64 {
        let n = self.trial.loads as f64;
        let is_part = self.trial.loads >= MIN_PART && self.trial.loads < self.trial.memory.cells();
        if is_part && matches!(self.trial.work(), Work::Loads(_)) {
            (once + twice) / (3.0 * n)
        } else {
            (twice - once) / n
        }
    }
}
