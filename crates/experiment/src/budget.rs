//! The budget of a plan: time on hardware, simulated accesses on a model.

use crate::record::Record;
use fathom_probe::rows::Done;

/// Simulated accesses that count as one millisecond of budget on a model. The default of a survey, 40 seconds, is 160 million
/// accesses; most plans end before: 58 million on average on 200 random machines, ten seconds of computing (EPYC, Zen 3). A model's plan depends on nothing else.
pub const ACCESSES_PER_MS: u64 = 4_000;

/// The same of a description with neighbours: as on hardware, each trial has more samples and is repeated in three rounds.
pub const ACCESSES_PER_MS_BESIDE_NEIGHBOURS: u64 = 8_000;

/// The total budget and the part spent. Nanoseconds on hardware, accesses on a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The whole budget.
    pub total: u64,
    /// Cost of the record's trials.
    pub spent: u64,
    /// Whether it is counted in accesses.
    pub modelled: bool,
    /// Whether a repeated trial gives the same times, as on a description without neighbours.
    pub exact: bool,
    /// Units of the budget in a millisecond.
    per_ms: u64,
}

impl Budget {
    /// Returns the budget of `ms` milliseconds, less the cost of the trials in `record`.
    #[must_use]
    pub fn of(record: &Record, ms: u64) -> Budget {
        let modelled = record.is_modelled();
        let cost = |d: &Done| if modelled { d.watch.accesses } else { d.spent_ns };
        // A record may come from anywhere: its sums must not overflow.
        let done = record.trials.iter().filter_map(|r| r.done.as_ref());
        let spent = done.map(cost).fold(0, u64::saturating_add);
        let exact = record.is_exact();
        let per_ms = match (modelled, exact) {
            (true, true) => ACCESSES_PER_MS,
            (true, false) => ACCESSES_PER_MS_BESIDE_NEIGHBOURS,
            (false, _) => 1_000_000,
        };
        Budget { total: ms.saturating_mul(per_ms), spent, modelled, exact, per_ms }
    }

    /// Returns the whole budget in ms, as it was given.
    #[must_use]
    pub fn ms(&self) -> u64 {
        self.total / self.per_ms
    }

    /// Returns the rest.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.total.saturating_sub(self.spent)
    }

    /// Returns a share of the whole.
    #[must_use]
    pub fn share(&self, of: f64) -> u64 {
        (self.total as f64 * of) as u64
    }
}
