//! Budgets: what a plan may spend, in the coin of its machine.

use crate::record::Record;
use fathom_probe::machine::ClockTrust;
use fathom_probe::rows::Done;

/// Simulated accesses that stand for one millisecond of budget on a model. So the default ten seconds
/// are 40 million accesses, a few seconds of computing; a model's plan depends on nothing else.
pub const ACCESSES_PER_MS: u64 = 4_000;

/// What may be spent in all, and what has been. Nanoseconds on hardware, accesses on a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// All of it.
    pub total: u64,
    /// What the record's trials have cost.
    pub spent: u64,
    /// Is it counted in accesses?
    pub modelled: bool,
}

impl Budget {
    /// The budget of `ms` milliseconds, less what `record` has spent.
    #[must_use]
    pub fn of(record: &Record, ms: u64) -> Budget {
        let modelled = record.trust == Some(ClockTrust::Modelled);
        let cost = |d: &Done| if modelled { d.watch.accesses } else { d.spent_ns };
        // A record may come from anywhere: its sums must not overflow.
        let done = record.trials.iter().filter_map(|r| r.done.as_ref());
        let spent = done.map(cost).fold(0, u64::saturating_add);
        let total = ms.saturating_mul(if modelled { ACCESSES_PER_MS } else { 1_000_000 });
        Budget { total, spent, modelled }
    }

    /// All of it, ms: as it was given.
    #[must_use]
    pub fn ms(&self) -> u64 {
        self.total / if self.modelled { ACCESSES_PER_MS } else { 1_000_000 }
    }

    /// What is left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.total.saturating_sub(self.spent)
    }

    /// A share of the whole.
    #[must_use]
    pub fn share(&self, of: f64) -> u64 {
        (self.total as f64 * of) as u64
    }
}
