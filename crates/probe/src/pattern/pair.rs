//! Pairs of loads: whether the first load also fetches the line of the second.

use alloc::format;
use alloc::vec::Vec;

use super::memory::wrong;
use super::{Definition, Groups, Keys, Loads, Trial, TrialOutput, Work, dependent};
use crate::chain::{Chain, Order};
use crate::machine::{Machine, Refusal};
use crate::rows::{Done, Rows};
use crate::wire::WireError;

/// Dependent loads of two cells a stride apart, then of the next pair, a `period` further.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// Bytes from one pair to the next.
    pub period: u64,
    /// Bytes from the start of the mapping to the first cell.
    pub offset: u64,
}

impl Definition for Pair {
    fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError> {
        keys.int("period", &mut self.period)?;
        keys.int("offset", &mut self.offset)
    }

    fn check(&self, trial: &Trial) -> Result<(), WireError> {
        self.groups().check(&trial.memory)?;
        if !trial.memory.cells().is_multiple_of(2) {
            return wrong(format!(
                "bytes={} must be an even number of cells of stride bytes",
                trial.memory.bytes
            ));
        }
        Ok(())
    }

    fn extent(&self, trial: &Trial, _: u64) -> Option<u64> {
        self.groups().extent(&trial.memory)
    }

    fn chain(&self, trial: &Trial, _: u64, base: u64, _: u64) -> Option<Chain> {
        let (cells, stride) = (trial.memory.cells(), trial.memory.stride);
        let layout = self.groups().layout();
        Some(Chain::new(base + self.offset, cells, stride, layout, Order::Groups(2), trial.seed))
    }

    fn groups(&self) -> Groups {
        Groups { period: self.period, group: 2, offset: self.offset }
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
