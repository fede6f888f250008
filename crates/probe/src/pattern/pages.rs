//! Some lines per page: dependent loads that need another translation each, or every second one.

use alloc::vec::Vec;

use super::memory::within;
use super::{Definition, Keys, Loads, Trial, TrialOutput, Walk, Work, dependent};
use crate::chain::{Chain, Layout};
use crate::machine::{Machine, Refusal};
use crate::rows::{Done, Rows};
use crate::wire::WireError;

/// Maximum number of cells in a page: the pages of 4 KiB in one of 1 GiB.
const MAX_PER_PAGE: u64 = 1 << 18;

/// Dependent loads along a chain with one line per page, or in each of several equal parts of it: as many parts of a huge page as it has base
/// pages have the same lines as one line in each base page.
///
/// With two, the order decides how often a page is used: in random order both are half a lap apart, and each needs the
/// translation again; in the order `pairs` the second follows the first. The lines are the same. With more, the orders `passes` and
/// `passes-of-pairs` do so with all pages between two visits of a page, however many lines it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// The chain's order.
    pub walk: Walk,
    /// Cells in a page, each in a part of its own.
    pub per_page: u64,
}

impl Default for Pages {
    fn default() -> Pages {
        Pages { walk: Walk::default(), per_page: 1 }
    }
}

impl Pages {
    /// Creates a pattern with one line per page, walked in this order.
    pub fn over(walk: impl Into<Walk>) -> Pages {
        Pages { walk: walk.into(), ..Pages::default() }
    }
}

impl Pages {
    /// Returns the bytes of a page for each cell.
    fn cell_bytes(&self, trial: &Trial, page_bytes: u64) -> u64 {
        (page_bytes / self.per_page.max(1)).max(trial.memory.stride)
    }
}

impl Definition for Pages {
    const QUESTION: Option<&'static str> = Some("TLBs");
    const TIME_GROWS: bool = true;

    fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError> {
        self.walk.keys(keys)?;
        keys.int("per_page", &mut self.per_page)
    }

    fn check(&self, trial: &Trial) -> Result<(), WireError> {
        trial.memory.check_packed()?;
        within("per_page", self.per_page, 1, MAX_PER_PAGE)?;
        self.walk.check(&trial.memory, self.per_page)
    }

    fn extent(&self, trial: &Trial, page_bytes: u64) -> Option<u64> {
        trial.memory.cells().checked_mul(self.cell_bytes(trial, page_bytes))
    }

    fn chain(&self, trial: &Trial, _: u64, base: u64, page_bytes: u64) -> Option<Chain> {
        let (cells, stride) = (trial.memory.cells(), trial.memory.stride);
        let layout = Layout::OnePerPage { page: self.cell_bytes(trial, page_bytes) };
        Some(Chain::new(base, cells, stride, layout, self.walk.chain_order(self.per_page), trial.seed))
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
