//! Pages that share a frame: dependent loads at a stride through memory in which every word is the same.
//!
//! A chain needs a separate link in every page, and here all pages are one frame. So the address of each load is the
//! address of the previous load plus the stride, plus the loaded word minus the word of unwritten memory, which is
//! zero. A load then waits for the one before it, as in a chase, and a load of anything else leaves the cells. Compared
//! with a chase, each access adds two additions and the test for the end of the lap, a few cycles.

use alloc::vec::Vec;

use super::super::counters::counters;
use super::super::{Trial, TrialOutput};
use crate::machine::{Machine, Mapping, Ops, Refusal};
use crate::rows::{Rows, Sample};

/// Instructions per load, other than the load: two additions, a comparison, and the branch back.
const OPS_PER_LOAD: Ops = Ops { alu: 3, branch: 1 };

/// The cells, and the value that each of them reads as; in bytes of the arena.
#[derive(Clone, Copy, Debug)]
struct Lap {
    base: u64,
    end: u64,
    stride: u64,
    unwritten: u64,
}

/// Makes `n` loads from the cell at `at` and returns the offset of the next cell. `None` if a load left the cells.
#[inline(always)]
fn body<M: Machine + ?Sized>(machine: &mut M, lap: &Lap, at: u64, n: u64) -> Option<u64> {
    let mut at = at;
    for _ in 0..n {
        let cell = machine.cell(at)?;
        let loaded = machine.follow(cell);
        at = at.wrapping_add(lap.stride).wrapping_add(machine.offset(loaded).wrapping_sub(lap.unwritten));
        if at == lap.end {
            at = lap.base;
        }
        machine.charge(OPS_PER_LOAD);
    }
    let inside = (lap.base..lap.end).contains(&at) && (at - lap.base).is_multiple_of(lap.stride);
    inside.then_some(at)
}

/// Runs a stride over pages that share frames. Warms, then times n loads and 2n more per sample, starting where the
/// previous sample ended. In each sample `end` and `end2` are the numbers of the next cells.
///
/// # Errors
/// The machine's refusal of the memory.
pub(super) fn run<M: Machine>(machine: &mut M, trial: &Trial, frames: u64) -> Result<TrialOutput, Refusal> {
    let written = || Refusal::new("a word of the shared pages differs from unwritten memory", "");
    let Mapping { base, page_bytes, .. } = machine.map_shared(&trial.request(1), frames)?;
    let first = machine.cell(base).ok_or_else(written)?;
    let value = machine.peek(first);
    let end = base + trial.memory.cells() * trial.memory.stride;
    let lap = Lap { base, end, stride: trial.memory.stride, unwritten: machine.offset(value) };
    let mut at = body(machine, &lap, base, trial.warm).ok_or_else(written)?;
    let mut samples = Vec::with_capacity(trial.samples as usize);
    for _ in 0..trial.samples {
        samples.push(timed(machine, &lap, &mut at, trial).ok_or_else(written)?);
    }
    Ok(TrialOutput::of(Rows::of_samples(trial.id, samples), page_bytes, base))
}

/// Takes one sample: n loads, then 2n more.
fn timed<M: Machine>(machine: &mut M, lap: &Lap, at: &mut u64, trial: &Trial) -> Option<Sample> {
    let n = trial.loads;
    let before = counters(machine, trial);
    let a = machine.now();
    let middle = body(machine, lap, *at, n)?;
    let b = machine.now();
    let between = counters(machine, trial);
    let b2 = machine.now();
    let last = body(machine, lap, middle, 2 * n)?;
    let c = machine.now();
    let after = counters(machine, trial);
    *at = last;
    let (cycles, misses) = before.since(&between, &after);
    let number = |at: u64| (at - lap.base) / lap.stride;
    Some(Sample {
        ticks: b.since(a),
        ticks2: c.since(b2),
        end: number(middle),
        end2: number(last),
        cycles,
        misses,
    })
}

/// Checks the numbers of the next cells. Each depends on all words loaded before.
pub(super) fn verify(trial: &Trial, samples: &[Sample]) -> Vec<usize> {
    let cells = trial.memory.cells();
    if cells > 2 && (2 * trial.loads).is_multiple_of(cells) {
        return (0..samples.len()).collect();
    }
    let mut position = trial.warm;
    let mut next = |n: u64| {
        position = position.wrapping_add(n);
        position % cells
    };
    let ends: Vec<(u64, u64)> = samples.iter().map(|_| (next(trial.loads), next(2 * trial.loads))).collect();
    (0..samples.len()).filter(|&i| (samples[i].end, samples[i].end2) != ends[i]).collect()
}
