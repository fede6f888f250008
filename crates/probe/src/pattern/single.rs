//! Single loads: one timed load, or a few dependent ones, among many untimed ones.
//!
//! A mean hides the outcomes of individual loads; a histogram of single loads shows them (study S4). Between two timed
//! loads, `trial.loads` untimed loads of the chain follow. So the lines of the timing itself (a clock reading, a stored
//! sample) are as old as those of any other work, and the next timed load accesses another cell.

use alloc::vec::Vec;

use super::memory::{within, wrong};
use super::{Definition, Groups, Keys, Loads, Trial, TrialOutput, Walk, Work, dependent};
use crate::chain::{Chain, Layout};
use crate::machine::{Machine, Refusal};
use crate::rows::{Done, Rows, Sample};
use crate::wire::WireError;

/// Enough for a clock of 1 us over an L1 hit of 1 ns.
const MAX_TIMED: u64 = 1 << 16;

/// One timed load, or a few, after every `loads` untimed ones of a chase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Single {
    /// The chain's order.
    pub walk: Walk,
    /// Groups of the cells; packed with a period of 0.
    pub groups: Groups,
    /// Dependent loads that one sample times: 1, or more if the clock is coarse.
    pub timed: u64,
}

impl Default for Single {
    fn default() -> Single {
        Single { walk: Walk::default(), groups: Groups::default(), timed: 1 }
    }
}

impl Single {
    /// Returns single loads of cells in these groups, in random order.
    #[must_use]
    pub fn of(groups: Groups) -> Single {
        Single { groups, ..Single::default() }
    }

    fn is_packed(&self) -> bool {
        self.groups.period == 0
    }
}

impl Definition for Single {
    const QUESTION: Option<&'static str> = Some("single loads");

    fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError> {
        self.walk.keys(keys)?;
        keys.int("timed", &mut self.timed)?;
        self.groups.keys(keys)
    }

    fn check(&self, trial: &Trial) -> Result<(), WireError> {
        within("timed", self.timed, 1, MAX_TIMED)?;
        self.walk.check(&trial.memory, 1)?;
        if !self.is_packed() {
            return self.groups.check(&trial.memory);
        }
        if self.groups != Groups::default() {
            return wrong("group= and offset= need a period=".into());
        }
        trial.memory.check_packed()
    }

    fn extent(&self, trial: &Trial, _: u64) -> Option<u64> {
        if self.is_packed() {
            return trial.memory.cells().checked_mul(trial.memory.stride);
        }
        self.groups.extent(&trial.memory)
    }

    fn chain(&self, trial: &Trial, _: u64, base: u64, _: u64) -> Option<Chain> {
        let (cells, stride) = (trial.memory.cells(), trial.memory.stride);
        let layout = if self.is_packed() { Layout::Packed } else { self.groups.layout() };
        let base = base + self.groups.offset;
        Some(Chain::new(base, cells, stride, layout, self.walk.chain_order(1), trial.seed))
    }

    fn walk(&self) -> Walk {
        self.walk
    }

    fn groups(&self) -> Groups {
        self.groups
    }

    fn work(&self, trial: &Trial) -> Work {
        let count = trial.warm + (trial.loads + self.timed) * trial.samples;
        Work::Loads(match self.is_packed() {
            true => Loads::packed(trial, count, 1),
            false => Loads::apart(trial.memory.cells(), count),
        })
    }

    /// Takes the samples. In each, `ticks` is the time between two readings of the clock with `timed` dependent loads
    /// between them, and `ticks2` that between two readings with nothing between. `end` is the cell after the untimed
    /// loads, `end2` the cell after the timed ones.
    fn run<M: Machine>(&self, machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
        let loads = (trial.loads, self.timed);
        dependent::on_chain(machine, self, trial, |machine, chain, cell| sample(machine, chain, cell, loads))
    }

    fn verify(&self, trial: &Trial, rows: &Rows, done: &Done) -> Vec<usize> {
        dependent::verify(self, trial, rows, done, (trial.loads, self.timed))
    }
}

/// Takes one sample: `loads` untimed loads, then `n` timed ones.
fn sample<M: Machine>(
    machine: &mut M,
    chain: &Chain,
    cell: &mut M::Cell,
    (loads, n): (u64, u64),
) -> Option<Sample> {
    let empty = machine.now();
    let begin = machine.now();
    let ticks2 = begin.since(empty);
    // The last of the untimed loads run through the same code as the timed ones. If the working set is larger than the
    // first level, the chase has evicted what that code needs (the stack, the clock's lines, its instructions). They
    // would be fetched between the two readings. Measured: 60 cycles too much at an L2 hit.
    let rehearsal = if n <= loads { n } else { 0 };
    let mut reached = machine.chase(*cell, loads - rehearsal);
    let (mut ticks, mut last) = (0, reached);
    for pass in u64::from(rehearsal == 0)..2 {
        if pass == 1 {
            reached = last;
        }
        (ticks, last) = timed(machine, reached, n);
    }
    *cell = last;
    Some(Sample {
        ticks,
        ticks2,
        end: chain.number_at(machine.offset(reached))?,
        end2: chain.number_at(machine.offset(last))?,
        ..Sample::default()
    })
}

/// Returns the time of `n` dependent loads, and where they end.
#[inline(always)]
pub(super) fn timed<M: Machine>(machine: &mut M, from: M::Cell, n: u64) -> (u64, M::Cell) {
    // The batch loop would take longer than one load.
    if n == 1 {
        let a = machine.now();
        let last = machine.follow(from);
        let b = machine.now();
        (b.since(a), last)
    } else {
        let a = machine.now();
        let last = machine.chase(from, n);
        let b = machine.now();
        (b.since(a), last)
    }
}
