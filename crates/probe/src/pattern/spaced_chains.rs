//! Two chains side by side with instructions between their loads: how many instructions a core has in flight (the method of Henry Wong's
//! "Measuring Reorder Buffer Capacity", 2013).
//!
//! The loads of a step do not depend on each other. They overlap if the core can hold all instructions from the one to the other: a step
//! takes the time of one load then, and of two if there are more instructions between them.

use alloc::format;
use alloc::vec::Vec;

use super::memory::wrong;
use super::{Definition, Keys, Loads, Trial, TrialOutput, Work, arcs};
use crate::chain::Chain;
use crate::machine::batch::spaced::{FILLERS, FILLERS_TEXT};
use crate::machine::{Machine, Refusal};
use crate::rows::{Done, Rows};
use crate::wire::WireError;

/// Number of chains.
const CHAINS: u64 = 2;

/// Dependent loads along two chains, one of each in turn, over packed lines in random order, with instructions between them that access
/// nothing.
///
/// `trial.loads` are the steps in the first run of a sample, each one load of both chains. Untimed loads before the first sample
/// (`trial.warm`) are those of one chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpacedChains {
    /// Numbers of instructions between a load and the next: each sample has the next of them, from the first again after the last.
    pub fillers: Vec<u64>,
}

impl SpacedChains {
    /// Returns the instructions between the loads of sample `nth`, from 0.
    #[must_use]
    pub fn fillers_of(&self, nth: usize) -> u64 {
        self.fillers.get(nth % self.fillers.len().max(1)).copied().unwrap_or(*FILLERS.start())
    }
}

impl Definition for SpacedChains {
    const QUESTION: Option<&'static str> = Some("window");
    const TIME_GROWS: bool = true;

    fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError> {
        keys.list("fillers", &mut self.fillers)
    }

    fn check(&self, trial: &Trial) -> Result<(), WireError> {
        trial.memory.check_packed()?;
        if self.fillers.is_empty() || !self.fillers.iter().all(|fillers| FILLERS.contains(fillers)) {
            return wrong(format!("pattern=spaced-chains needs a list fillers= of {FILLERS_TEXT}"));
        }
        arcs::check(trial, CHAINS)
    }

    fn chain(&self, trial: &Trial, _: u64, base: u64, _: u64) -> Option<Chain> {
        Some(arcs::chain(trial, base))
    }

    fn work(&self, trial: &Trial) -> Work {
        Work::Loads(Loads::packed(trial, trial.warm + CHAINS * arcs::arc(trial) * trial.samples, 1))
    }

    fn run<M: Machine>(&self, machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
        machine.chase_spaced(&mut [], 0, 0)?;
        let steps = |machine: &mut M, nth, cells: &mut [M::Cell], n| {
            machine.chase_spaced(cells, self.fillers_of(nth), n)
        };
        arcs::run(machine, self, trial, |_| CHAINS, steps)
    }

    fn verify(&self, trial: &Trial, rows: &Rows, done: &Done) -> Vec<usize> {
        arcs::verify(trial, rows, done, self, |_| CHAINS)
    }
}
