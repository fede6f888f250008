//! The machine's own counters around a timed run.

use super::trial::Trial;
use crate::machine::Machine;

/// What the machine's counters read, where it has them.
#[derive(Clone, Copy, Default)]
pub(super) struct Counted {
    cycles: Option<u64>,
    misses: Option<u64>,
}

/// Reads the counter `cycles` and, where the trial asks for it, the refills of a level.
pub(super) fn counters<M: Machine>(machine: &mut M, trial: &Trial) -> Counted {
    let counts = machine.counters().unwrap_or_default();
    Counted {
        cycles: counts.into_iter().find(|c| c.name == "cycles").map(|c| c.value),
        misses: if trial.counted > 0 { machine.refills(trial.counted) } else { None },
    }
}

/// What a counter counted over n and over 2n operations, where there is one.
pub(super) type OverBoth = Option<(u64, u64)>;

impl Counted {
    /// The increases from this reading over the two runs of a sample.
    pub(super) fn since(self, between: Counted, after: Counted) -> (OverBoth, OverBoth) {
        let over =
            |a: Option<u64>, b: Option<u64>, c: Option<u64>| Some((b?.wrapping_sub(a?), c?.wrapping_sub(b?)));
        (over(self.cycles, between.cycles, after.cycles), over(self.misses, between.misses, after.misses))
    }
}
