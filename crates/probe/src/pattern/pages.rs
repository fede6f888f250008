//! One line per page: dependent loads that each need another translation.

use alloc::vec::Vec;

use super::{Definition, Keys, Loads, Trial, TrialOutput, Walk, Work, dependent};
use crate::chain::{Chain, Layout};
use crate::machine::{Machine, Refusal};
use crate::rows::{Done, Rows};
use crate::wire::WireError;

/// Dependent loads along a chain with one line per page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// The chain's order.
    pub walk: Walk,
}

impl Pages {
    /// Creates a pattern with one line per page, walked in this order.
    pub fn over(walk: impl Into<Walk>) -> Pages {
        Pages { walk: walk.into() }
    }
}

impl Definition for Pages {
    const QUESTION: Option<&'static str> = Some("TLBs");
    const TIME_GROWS: bool = true;

    fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError> {
        self.walk.keys(keys)
    }

    fn check(&self, trial: &Trial) -> Result<(), WireError> {
        trial.memory.check_packed()?;
        self.walk.check(&trial.memory)
    }

    fn extent(&self, trial: &Trial, page_bytes: u64) -> Option<u64> {
        trial.memory.cells().checked_mul(page_bytes.max(trial.memory.stride))
    }

    fn chain(&self, trial: &Trial, _: u64, base: u64, page_bytes: u64) -> Option<Chain> {
        let (cells, stride) = (trial.memory.cells(), trial.memory.stride);
        let layout = Layout::OnePerPage { page: page_bytes.max(stride) };
        Some(Chain::new(base, cells, stride, layout, self.walk.chain_order(), trial.seed))
    }

    fn walk(&self) -> Walk {
        self.walk
    }

    fn work(&self, trial: &Trial) -> Work {
        let count = trial.warm + 3 * trial.loads * trial.samples;
        Work::Loads(Loads { one_per_page: true, ..Loads::packed(trial, count, 1) })
    }

    fn run<M: Machine>(&self, machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
        dependent::run(machine, self, trial)
    }

    fn verify(&self, trial: &Trial, rows: &Rows, done: &Done) -> Vec<usize> {
        dependent::verify(self, trial, rows, done, dependent::runs(trial))
    }
}
