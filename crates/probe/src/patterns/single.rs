//! Single loads: one timed load, or a few dependent ones, among many untimed ones.
//!
//! A mean hides what a load meets; a histogram of single loads shows it (study S4). Between two timed loads
//! the chain goes on untimed for `trial.loads`, so that what the timing itself brings into the caches (a clock
//! reading, a sample stored) is as far away as any other lap's work, and the next timed load is another one.

use super::TrialOutput;
use crate::chain::Chain;
use crate::machine::{Machine, Refusal};
use crate::wire::{Sample, Trial};

/// Runs a trial of the pattern `single`.
///
/// In each sample `ticks` is the time between two readings of the clock with `trial.timed` dependent loads
/// between them, `ticks2` that between two readings with nothing between; `end` is the cell that the untimed
/// loads reached, `end2` the one that the timed ones did.
///
/// # Errors
/// The machine's refusal of the memory.
pub fn measure<M: Machine>(machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
    super::chase::on_chain(machine, trial, one)
}

fn one<M: Machine>(machine: &mut M, chain: &Chain, cell: &mut M::Cell, trial: &Trial) -> Option<Sample> {
    let empty = machine.now();
    let begin = machine.now();
    let ticks2 = begin.since(empty);
    // The last of the untimed loads go the timed ones' way: what that way itself needs (the stack, the clock's
    // own lines, its code) was evicted by the chase where the working set is larger than the first level, and
    // would be fetched between the two readings. Measured: 60 cycles too much at an L2 hit.
    let rehearsal = if trial.timed <= trial.loads { trial.timed } else { 0 };
    let mut reached = machine.chase(*cell, trial.loads - rehearsal);
    let (mut ticks, mut last) = (0, reached);
    for round in u64::from(rehearsal == 0)..2 {
        if round == 1 {
            reached = last;
        }
        (ticks, last) = timed(machine, reached, trial.timed);
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

/// The time of `n` dependent loads, and where they end.
#[inline(always)]
pub(super) fn timed<M: Machine>(machine: &mut M, from: M::Cell, n: u64) -> (u64, M::Cell) {
    // The loop of the batch would be most of what one load takes.
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
