//! The machine's counters around a timed run.

use alloc::vec::Vec;

use super::trial::Trial;
use crate::machine::{Count, CountedEvent, Machine};
use crate::rows::EventCount;

/// Counter values, if the machine has counters.
pub(super) struct Counted {
    misses: Option<u64>,
    counts: Vec<Count>,
}

/// Reads all counters and, if the trial requests it, the refills of a level.
pub(super) fn counters<M: Machine>(machine: &mut M, trial: &Trial) -> Counted {
    Counted {
        counts: machine.counters().unwrap_or_default(),
        misses: if trial.counted > 0 { machine.refills(trial.counted) } else { None },
    }
}

/// Increases of a counter over n and over 2n operations, if it exists.
pub(super) type RunCounts = Option<(u64, u64)>;

fn increases(before: Option<u64>, between: Option<u64>, after: Option<u64>) -> RunCounts {
    Some((between?.wrapping_sub(before?), after?.wrapping_sub(between?)))
}

impl Counted {
    fn cycles(&self) -> Option<u64> {
        self.counts.iter().find(|count| count.name == "cycles").map(|count| count.value)
    }

    fn of(&self, event: CountedEvent) -> Option<u64> {
        self.counts.iter().find(|count| count.event == Some(event)).map(|count| count.value)
    }

    /// Returns the increases of cycles and misses from this reading over the two runs of a sample.
    pub(super) fn since(&self, between: &Counted, after: &Counted) -> (RunCounts, RunCounts) {
        (
            increases(self.cycles(), between.cycles(), after.cycles()),
            increases(self.misses, between.misses, after.misses),
        )
    }
}

/// Events during the runs of all samples of a trial.
pub(super) enum Events {
    /// They are not requested.
    Unread,
    /// They are requested, and no sample was taken yet.
    Requested,
    /// Sums over the samples so far, of the events that were counted in each of them.
    Sums(Vec<EventCount>),
}

impl Events {
    /// Adds a sample: the readings before its first run, between both, and after the second.
    pub(super) fn add(&mut self, before: &Counted, between: &Counted, after: &Counted) {
        if matches!(self, Events::Requested) {
            let events = before.counts.iter().filter_map(|count| count.event);
            *self = Events::Sums(events.map(EventCount::none_of).collect());
        }
        let Events::Sums(sums) = self else { return };
        sums.retain_mut(|sum| {
            let of = |counted: &Counted| counted.of(sum.event);
            let Some((first, second)) = increases(of(before), of(between), of(after)) else { return false };
            (sum.count, sum.count2) = (sum.count.wrapping_add(first), sum.count2.wrapping_add(second));
            true
        });
    }

    /// Returns the sums; empty if they are not requested.
    pub(super) fn sums(self) -> Vec<EventCount> {
        if let Events::Sums(sums) = self { sums } else { Vec::new() }
    }
}
