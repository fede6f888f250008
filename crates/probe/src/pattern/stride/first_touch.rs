//! First touches: a stride through memory that is released before each sample.

use alloc::vec::Vec;

use super::super::counters::counters;
use super::super::{Trial, TrialOutput};
use super::link_at;
use crate::machine::batch::stride::{Sweep, outside, triangle};
use crate::machine::{Machine, Mapping, Operation, Refusal};
use crate::rows::{Rows, Sample};

/// Takes samples of memory that is released before each: n accesses, then 2n more, each to another cell.
///
/// `end` is the number of page faults in the first run. `end2` is that in the second run if the sweep reads, or the
/// contents of both runs ([`touched`]) if it writes.
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
    // Releases what the last sample left.
    machine.give_back(mapping)?;
    Ok(TrialOutput::of(Rows::of_samples(trial.id, samples), mapping.page_bytes, mapping.base))
}

fn first_touch<M: Machine>(machine: &mut M, sweep: &Sweep, trial: &Trial) -> Option<Sample> {
    let n = trial.loads;
    // Lap 1, because lap 0 changes nothing.
    let (from, middle) = (sweep.cells, sweep.cells + n);
    let initial = machine.watch().faults;
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
    let faults = [reached.wrapping_sub(initial), machine.watch().faults.wrapping_sub(reached)];
    let [end, end2] = match sweep.operation {
        // A word that is not zero was not fresh.
        Operation::Read if first != 0 || second != 0 => [0, 0],
        Operation::Read => faults,
        _ => [faults[0], contents(machine, sweep, 3 * n)?],
    };
    let (cycles, misses) = before.since(&between, &after);
    Some(Sample { ticks: b.since(a), ticks2: c.since(b2), end, end2, cycles, misses })
}

/// Returns the expected contents of the first `n` cells of fresh memory after lap 1: the lap's number in words, 1,
/// times the cell's number counted from 1, summed; wraps.
fn touched(n: u64) -> u64 {
    triangle(n)
}

/// Returns the same sum as read back. A store leaves a word counted from the buffer's start; a flip of a word that read
/// as the machine's first cell leaves one counted from that cell.
fn contents<M: Machine>(machine: &mut M, sweep: &Sweep, n: u64) -> Option<u64> {
    let from = if sweep.operation == Operation::Rmw { 0 } else { sweep.base };
    let mut sum = 0u64;
    for number in 0..n {
        let word = link_at(machine, sweep, number)?.wrapping_sub(from) / 8;
        sum = sum.wrapping_add((number + 1).wrapping_mul(word));
    }
    Some(sum)
}

/// Verifies the samples. Fresh memory reads as zero, so a sum verifies nothing. But each page faults when it is touched
/// for the first time, and the kernel counts faults. Stored words are checked too.
pub(super) fn verify(trial: &Trial, sweep: &Sweep, samples: &[Sample], page_bytes: u64) -> Vec<usize> {
    let verified = |sample: &Sample| {
        let (first, all) = (sweep.pages(trial.loads, page_bytes), sweep.pages(3 * trial.loads, page_bytes));
        let second = match sweep.operation {
            Operation::Read => sample.end2 >= all - first,
            _ => sample.end2 == touched(3 * trial.loads),
        };
        sample.end >= first && second
    };
    (0..samples.len()).filter(|i| !verified(&samples[*i])).collect()
}
