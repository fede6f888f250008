//! Conflicts: dependent loads of cells that may share a set.

use alloc::vec::Vec;

use super::{Definition, Groups, Keys, Loads, Trial, TrialOutput, Walk, Work, dependent};
use crate::chain::Chain;
use crate::machine::{Machine, Refusal};
use crate::rows::{Done, Rows};
use crate::wire::WireError;

/// Dependent loads along a chain over cells `period` bytes apart, or groups of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conflict {
    /// The chain's order.
    pub walk: Walk,
    /// Groups of the cells.
    pub groups: Groups,
}

impl Conflict {
    /// Returns conflicts of cells in these groups, in random order.
    #[must_use]
    pub fn of(groups: Groups) -> Conflict {
        Conflict { groups, ..Conflict::default() }
    }
}

impl Definition for Conflict {
    fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError> {
        self.walk.keys(keys)?;
        self.groups.keys(keys)
    }

    fn check(&self, trial: &Trial) -> Result<(), WireError> {
        self.groups.check(&trial.memory)?;
        self.walk.check(&trial.memory, 1)
    }

    fn extent(&self, trial: &Trial, _: u64) -> Option<u64> {
        self.groups.extent(&trial.memory)
    }

    fn chain(&self, trial: &Trial, _: u64, base: u64, _: u64) -> Option<Chain> {
        let (cells, stride) = (trial.memory.cells(), trial.memory.stride);
        let (base, layout) = (base + self.groups.offset, self.groups.layout());
        Some(Chain::new(base, cells, stride, layout, self.walk.chain_order(1), trial.seed))
    }

    fn walk(&self) -> Walk {
        self.walk
    }

    fn groups(&self) -> Groups {
        self.groups
    }

    fn work(&self, trial: &Trial) -> Work {
        Work::Loads(Loads::apart(trial.memory.cells(), trial.warm + 3 * trial.loads * trial.samples))
    }

    fn run<M: Machine>(&self, machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
        dependent::run(machine, self, trial)
    }

    fn verify(&self, trial: &Trial, rows: &Rows, done: &Done) -> Vec<usize> {
        dependent::verify(self, trial, rows, done, dependent::runs(trial))
    }
}
