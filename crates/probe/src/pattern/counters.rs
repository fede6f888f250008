//! The machine's counters around a timed run.

use super::trial::Trial;
use crate::machine::Machine;

/// Counter values, if the machine has counters.
#[derive(Clone, Copy, Default)]
pub(super) struct Counted {
    cycles: Option<u64>,
    misses: Option<u64>,
}

/// Reads the counter `cycles` and, if the trial requests it, the refills of a level.
pub(super) fn counters<M: Machine>(machine: &mut M, trial: &Trial) -> Counted {
    let counts = machine.counters().unwrap_or_default();
    Counted {
        cycles: counts.into_iter().find(|c| c.name == "cycles").map(|c| c.value),
        misses: if trial.counted > 0 { machine.refills(trial.counted) } else { None },
    }
}

/// Increases of a counter over n and over 2n operations, if it exists.
pub(super) type RunCounts = Option<(u64, u64)>;

impl Counted {
    /// Returns the increases from this reading over the two runs of a sample.
    pub(super) fn since(self, between: Counted, after: Counted) -> (RunCounts, RunCounts) {
        let over =
            |a: Option<u64>, b: Option<u64>, c: Option<u64>| Some((b?.wrapping_sub(a?), c?.wrapping_sub(b?)));
        (over(self.cycles, between.cycles, after.cycles), over(self.misses, between.misses, after.misses))
    }
}
