//! The chase: dependent loads along a chain over packed lines.

use alloc::format;
use alloc::vec::Vec;

use super::counters::Events;
use super::{Definition, Keys, Loads, OrderKind, Trial, TrialOutput, Walk, Work, dependent};
use crate::chain::{Chain, Layout};
use crate::machine::{Machine, Refusal};
use crate::rows::{Done, Rows};
use crate::splitmix::mix;
use crate::wire::WireError;

/// Dependent loads along a chain over packed lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chase {
    /// The chain's order.
    pub walk: Walk,
    /// Whether the machine's counters are read around each run, and the events reported.
    pub events: bool,
}

impl Chase {
    /// Creates a chase in this order.
    pub fn over(walk: impl Into<Walk>) -> Chase {
        Chase { walk: walk.into(), events: false }
    }

    fn walked_once(&self) -> bool {
        self.walk.order == OrderKind::Repermuted
    }
}

impl Definition for Chase {
    const QUESTION: Option<&'static str> = Some("capacities");
    const TIME_GROWS: bool = true;

    fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError> {
        self.walk.keys(keys)?;
        keys.flag("events", &mut self.events)
    }

    /// Checks also that a chain that is walked once does not wrap.
    fn check(&self, trial: &Trial) -> Result<(), WireError> {
        trial.memory.check_packed()?;
        self.walk.check_cells(&trial.memory, 1)?;
        let (needs, cells) = (trial.warm + 3 * trial.loads, trial.memory.cells());
        if self.walked_once() && needs > cells {
            return super::memory::wrong(format!(
                "order=repermuted needs {needs} cells (warm and three times loads), but there are {cells}"
            ));
        }
        Ok(())
    }

    /// Returns the chain of a sample: another one for each sample with the order `repermuted`, otherwise the same.
    fn chain(&self, trial: &Trial, nth: u64, base: u64, _: u64) -> Option<Chain> {
        let seed = if self.walked_once() { mix(trial.seed ^ mix(nth)) } else { trial.seed };
        let (cells, stride) = (trial.memory.cells(), trial.memory.stride);
        Some(Chain::new(base, cells, stride, Layout::Packed, self.walk.chain_order(1), seed))
    }

    fn walk(&self) -> Walk {
        self.walk
    }

    fn work(&self, trial: &Trial) -> Work {
        // A chain that is walked once is written and warmed for each sample.
        let times = if self.walked_once() { trial.samples } else { 1 };
        Work::Loads(Loads::packed(trial, trial.warm * times + 3 * trial.loads * trial.samples, times))
    }

    fn run<M: Machine>(&self, machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
        let events = if self.events { Events::Requested } else { Events::Unread };
        dependent::run_counting(machine, self, trial, events)
    }

    fn verify(&self, trial: &Trial, rows: &Rows, done: &Done) -> Vec<usize> {
        dependent::verify(self, trial, rows, done, dependent::runs(trial))
    }
}
