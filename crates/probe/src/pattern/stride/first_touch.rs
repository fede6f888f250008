//! First touches: a stride through memory that is given back before each sample.

use alloc::vec::Vec;

use super::super::counters::counters;
use super::super::{Trial, TrialOutput};
use super::held_at;
use crate::machine::batch::stride::{Sweep, outside, triangle};
use crate::machine::{Machine, Mapping, Operation, Refusal};
use crate::rows::{Rows, Sample};

/// Samples of memory that is given back before each: n accesses, then 2n more, none to a cell that another one
/// of the sample was to.
///
/// `end` is the number of page faults in the first run, and so is `end2` in the second where the sweep reads;
/// where it writes, [`touched`] of both.
pub(super) fn run<M: Machine>(
    machine: &mut M,
    trial: &Trial,
    sweep: &Sweep,
    mapping: &Mapping,
) -> Result<TrialOutput, Refusal> {
    let mut samples = Vec::with_capacity(trial.samples as usize);
    for _ in 0..trial.samples {
        machine.give_back(mapping)?;
        samples.push(first_touch(machine, sweep, trial).ok_or_else(outside)?);
    }
    // Nobody reckons with what the last sample left.
    machine.give_back(mapping)?;
    Ok(TrialOutput::of(Rows::samples(trial.id, samples), mapping.page_bytes, mapping.base))
}

fn first_touch<M: Machine>(machine: &mut M, sweep: &Sweep, trial: &Trial) -> Option<Sample> {
    let n = trial.loads;
    // Lap 1: lap 0 leaves everything as it is.
    let (from, middle) = (sweep.cells, sweep.cells + n);
    let fresh = machine.watch().faults;
    let before = counters(machine, trial);
    let a = machine.now();
    let first = machine.sweep(sweep, from, n)?;
    let b = machine.now();
    let between = counters(machine, trial);
    let reached = machine.watch().faults;
    let b2 = machine.now();
    let second = machine.sweep(sweep, middle, 2 * n)?;
    let c = machine.now();
    let after = counters(machine, trial);
    let faults = [reached.wrapping_sub(fresh), machine.watch().faults.wrapping_sub(reached)];
    let [end, end2] = match sweep.operation {
        // What was not zero was not fresh.
        Operation::Read if first != 0 || second != 0 => [0, 0],
        Operation::Read => faults,
        _ => [faults[0], left(machine, sweep, 3 * n)?],
    };
    let (cycles, misses) = before.since(between, after);
    Some(Sample { ticks: b.since(a), ticks2: c.since(b2), end, end2, cycles, misses })
}

/// What the first `n` cells of fresh memory hold once lap 1 has come by: in words its number, each times the
/// cell's number counted from 1; wraps.
fn touched(n: u64) -> u64 {
    triangle(n)
}

/// The same as it is found. A store leaves a word counted from the buffer's beginning; a flip of what read as
/// the machine's first cell one counted from that.
fn left<M: Machine>(machine: &mut M, sweep: &Sweep, n: u64) -> Option<u64> {
    let from = if sweep.operation == Operation::Rmw { 0 } else { sweep.base };
    let mut sum = 0u64;
    for number in 0..n {
        let word = held_at(machine, sweep, number)?.wrapping_sub(from) / 8;
        sum = sum.wrapping_add((number + 1).wrapping_mul(word));
    }
    Some(sum)
}

/// Fresh memory reads as zero wherever it is read, so a sum of it proves nothing; that each page which is touched for the
/// first time faults does, and the kernel counted. What was stored is looked at besides.
pub(super) fn verify(trial: &Trial, sweep: &Sweep, samples: &[Sample], page_bytes: u64) -> Vec<usize> {
    let proven = |sample: &Sample| {
        let (first, all) = (sweep.pages(trial.loads, page_bytes), sweep.pages(3 * trial.loads, page_bytes));
        let second = match sweep.operation {
            Operation::Read => sample.end2 >= all - first,
            _ => sample.end2 == touched(3 * trial.loads),
        };
        sample.end >= first && second
    };
    (0..samples.len()).filter(|i| !proven(&samples[*i])).collect()
}
