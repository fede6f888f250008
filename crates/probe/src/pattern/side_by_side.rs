//! Chains side by side: how many loads a core has under way at the same time.

use alloc::format;
use alloc::vec::Vec;

use super::memory::wrong;
use super::{Definition, Keys, Loads, Trial, TrialOutput, Work, arcs};
use crate::chain::Chain;
use crate::machine::batch::together::{CHAINS, CHAINS_TEXT};
use crate::machine::{Machine, Refusal};
use crate::rows::{Done, Rows};
use crate::wire::WireError;

/// Loads that overlap at least, for the estimate of the time: an out-of-order core of the last ten years has more.
const OVERLAPPING: u64 = 8;

/// Dependent loads along several chains, one of each in turn, over packed lines in random order.
///
/// `trial.loads` are the steps in the first run of a sample, each one load of every chain. Untimed loads before the first
/// sample (`trial.warm`) are those of one chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SideBySide {
    /// Numbers of chains: each sample has the next of them, from the first again after the last.
    pub chains: Vec<u64>,
}

impl SideBySide {
    /// Returns the number of chains of sample `nth`, from 0.
    #[must_use]
    pub fn chains_of(&self, nth: usize) -> u64 {
        self.chains.get(nth % self.chains.len().max(1)).copied().unwrap_or(1)
    }
}

impl Definition for SideBySide {
    const QUESTION: Option<&'static str> = Some("overlap");
    const TIME_GROWS: bool = true;

    fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError> {
        keys.list("chains", &mut self.chains)
    }

    fn check(&self, trial: &Trial) -> Result<(), WireError> {
        trial.memory.check_packed()?;
        let known = |chains: &u64| CHAINS.contains(chains);
        let Some(most) = self.chains.iter().max().filter(|_| self.chains.iter().all(known)) else {
            return wrong(format!("pattern=side-by-side needs a list chains= of numbers from{CHAINS_TEXT}"));
        };
        arcs::check(trial, *most)
    }

    fn chain(&self, trial: &Trial, _: u64, base: u64, _: u64) -> Option<Chain> {
        Some(arcs::chain(trial, base))
    }

    fn work(&self, trial: &Trial) -> Work {
        let one_by_one = |nth| (self.chains_of(nth) / OVERLAPPING).max(1);
        let times: u64 = (0..trial.samples as usize).map(one_by_one).sum();
        Work::Loads(Loads::packed(trial, trial.warm + arcs::arc(trial) * times, 1))
    }

    fn run<M: Machine>(&self, machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
        machine.chase_together(&mut [], 0)?;
        let steps = |machine: &mut M, _, cells: &mut [M::Cell], n| machine.chase_together(cells, n);
        arcs::run(machine, self, trial, |nth| self.chains_of(nth), steps)
    }

    fn verify(&self, trial: &Trial, rows: &Rows, done: &Done) -> Vec<usize> {
        arcs::verify(trial, rows, done, self, |nth| self.chains_of(nth))
    }
}
