//! The stride: independent accesses at a stride through a buffer, ascending and wrapping.
//!
//! The contents verify the work. A reading sweep reports the sum of what it loaded. For a writing or modifying sweep
//! the cells are read afterwards, untimed. Memory that was released reads as zero in any case; there the kernel's count
//! of page faults verifies the work.

use alloc::format;
use alloc::vec::Vec;

use super::counters::counters;
use super::memory::wrong;
use super::{Definition, Keys, Memory, Trial, TrialOutput, Work};
use crate::machine::batch::stride::{Sweep, outside};
use crate::machine::{Machine, Operation, Refusal};
use crate::rows::{Done, Rows, Sample};
use crate::wire::WireError;

mod first_touch;
mod shared;

/// Independent accesses at a stride through packed cells, ascending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stride {
    /// The operation on each cell.
    pub operation: Operation,
    /// Whether the buffer is released before each sample, so that the timed runs touch every page for the first time.
    pub first_touch: bool,
    /// Frames that back all pages of a reading stride, page i in frame i modulo this. They were never written to. 0 if
    /// every page has a separate frame.
    pub frames: u64,
}

impl Stride {
    /// Creates a stride with this operation over ordinary memory.
    #[must_use]
    pub fn of(operation: Operation) -> Stride {
        Stride { operation, ..Stride::default() }
    }

    /// Returns the sweep over a buffer that starts at arena offset `base`.
    #[must_use]
    pub fn sweep(&self, memory: &Memory, base: u64) -> Sweep {
        Sweep { base, stride: memory.stride, cells: memory.cells(), operation: self.operation }
    }
}

impl Definition for Stride {
    const TIME_GROWS: bool = true;
    const MAY_FLUSH: bool = true;

    fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError> {
        keys.token("op", &mut self.operation)?;
        keys.flag("first_touch", &mut self.first_touch)?;
        keys.int("frames", &mut self.frames)
    }

    fn check(&self, trial: &Trial) -> Result<(), WireError> {
        trial.memory.check_packed()?;
        let operation = self.operation.token();
        if self.operation.copies() {
            return wrong(format!(
                "op={operation} is for pattern=copy: a stride reads, writes, modifies or sets"
            ));
        }
        if self.frames > 0 && self.operation != Operation::Read {
            return wrong(format!("frames={} is for op=read, not op={operation}", self.frames));
        }
        // A sample of first touches must not wrap.
        let (needs, cells) = (3 * trial.loads, trial.memory.cells());
        if self.first_touch && needs > cells {
            return wrong(format!(
                "first_touch=1 needs {needs} cells (three times loads), but there are {cells}"
            ));
        }
        Ok(())
    }

    fn operation(&self) -> Operation {
        self.operation
    }

    fn work(&self, trial: &Trial) -> Work {
        let (timed, warm) = (3 * trial.loads * trial.samples, trial.warm);
        match (self.operation, self.first_touch) {
            (Operation::Read, true) => Work::FirstTouches { faults: 1, passes: 0 },
            // A modified cell is read, then stored to.
            (Operation::Rmw, true) => Work::FirstTouches { faults: 2, passes: 1 },
            (_, true) => Work::FirstTouches { faults: 1, passes: 1 },
            (Operation::Read, _) => Work::Sweep { timed, warm, each: 1, passes: 1 },
            (Operation::Rmw, _) => Work::Sweep { timed, warm, each: 2, passes: 2 },
            _ => Work::Sweep { timed, warm, each: 1, passes: 2 },
        }
    }

    /// Warms, then times n accesses and 2n more per sample, starting where the previous sample ended. In each sample
    /// `end` and `end2` verify the two runs: the sum of the words read, or the word that is now in the last cell
    /// accessed. For a writing sweep, `end2` of the last sample is [`Sweep::contents`] of the whole buffer as read
    /// back.
    fn run<M: Machine>(&self, machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
        if self.frames > 0 {
            return shared::run(machine, trial, self.frames);
        }
        let mapping = machine.map(&trial.request(1))?;
        let sweep = self.sweep(&trial.memory, mapping.base);
        if self.first_touch {
            return first_touch::run(machine, trial, &sweep, &mapping);
        }
        machine.initialise_sweep(&sweep, trial.seed)?;
        // The warm-up is part of lap 0, repeated as needed. A partial lap ends where the samples begin.
        let mut remaining = trial.warm;
        while remaining > 0 {
            let n = remaining.min(sweep.cells);
            machine.warm(&sweep, sweep.cells - n, n).ok_or_else(outside)?;
            remaining -= n;
        }
        let mut reached = sweep.cells;
        let mut samples = Vec::with_capacity(trial.samples as usize);
        for _ in 0..trial.samples {
            samples.push(timed(machine, &sweep, &mut reached, trial).ok_or_else(outside)?);
        }
        if sweep.operation != Operation::Read
            && let Some(last) = samples.last_mut()
        {
            last.end2 = contents_of_buffer(machine, &sweep).ok_or_else(outside)?;
        }
        Ok(TrialOutput::of(Rows::of_samples(trial.id, samples), mapping.page_bytes, mapping.base))
    }

    /// Checks each run's sum or the word in its last cell and, if the buffer was written to, its contents at the end.
    /// If the contents are wrong, no sample of the trial is verified.
    fn verify(&self, trial: &Trial, rows: &Rows, done: &Done) -> Vec<usize> {
        let Rows::Samples(samples) = rows else { return rows.all() };
        let samples = samples.list.as_slice();
        let sweep = self.sweep(&trial.memory, 0);
        match (self.frames, self.first_touch) {
            (0, true) => first_touch::verify(trial, &sweep, samples, done.page_bytes),
            (0, false) => verify_contents(trial, &sweep, samples),
            _ => shared::verify(trial, samples),
        }
    }
}

fn verify_contents(trial: &Trial, sweep: &Sweep, samples: &[Sample]) -> Vec<usize> {
    let mut reached = sweep.cells;
    let run = |reached: &mut u64, n: u64| {
        let from = *reached;
        *reached = from.wrapping_add(n);
        match sweep.operation {
            Operation::Read => sweep.sum(from, n, trial.seed),
            _ => sweep.expected_word(reached.wrapping_sub(1) % sweep.cells, *reached),
        }
    };
    // The closed form gives a sum modulo the prime only.
    let reduced = |end: u64| if sweep.operation == Operation::Read { end % sweep.prime() } else { end };
    let mut bad = Vec::new();
    for (i, sample) in samples.iter().enumerate() {
        let (end, mut end2) = (run(&mut reached, trial.loads), run(&mut reached, 2 * trial.loads));
        let last = i + 1 == samples.len() && sweep.operation != Operation::Read;
        if last {
            end2 = sweep.contents(reached);
            if sample.end2 != end2 {
                return (0..samples.len()).collect();
            }
        }
        if reduced(sample.end) != end || reduced(sample.end2) != end2 {
            bad.push(i);
        }
    }
    bad
}

/// Takes one sample: n accesses, then 2n more.
fn timed<M: Machine>(machine: &mut M, sweep: &Sweep, reached: &mut u64, trial: &Trial) -> Option<Sample> {
    let (from, n) = (*reached, trial.loads);
    let (middle, to) = (from.wrapping_add(n), from.wrapping_add(3 * n));
    let before = counters(machine, trial);
    let a = machine.now();
    let first = machine.sweep(sweep, from, n)?;
    let b = machine.now();
    let between = counters(machine, trial);
    // Here and not after both runs, which may access the same cell.
    let end = proof(machine, sweep, middle, n, first)?;
    let b2 = machine.now();
    let second = machine.sweep(sweep, middle, 2 * n)?;
    let c = machine.now();
    let after = counters(machine, trial);
    *reached = to;
    let (cycles, misses) = before.since(&between, &after);
    Some(Sample {
        ticks: b.since(a),
        ticks2: c.since(b2),
        end,
        end2: proof(machine, sweep, to, 2 * n, second)?,
        cycles,
        misses,
    })
}

/// Returns the value that verifies a run of `n` accesses that reached position `to` and whose sum is `sum`.
fn proof<M: Machine>(machine: &mut M, sweep: &Sweep, to: u64, n: u64, sum: u64) -> Option<u64> {
    match sweep.operation {
        Operation::Read => Some(sum.wrapping_sub(n.wrapping_mul(sweep.base)) / 8),
        _ => word(machine, sweep, to.wrapping_sub(1) % sweep.cells),
    }
}

/// Returns the word in a cell, counted from the buffer's start.
fn word<M: Machine>(machine: &mut M, sweep: &Sweep, number: u64) -> Option<u64> {
    Some(link_at(machine, sweep, number)?.wrapping_sub(sweep.base) / 8)
}

/// Returns the arena offset that a cell links to.
fn link_at<M: Machine>(machine: &mut M, sweep: &Sweep, number: u64) -> Option<u64> {
    let cell = machine.cell(sweep.base + number * sweep.stride)?;
    let value = machine.peek(cell);
    Some(machine.offset(value))
}

/// Returns [`Sweep::contents`] as read back.
fn contents_of_buffer<M: Machine>(machine: &mut M, sweep: &Sweep) -> Option<u64> {
    let mut sum = 0u64;
    for number in 0..sweep.cells {
        sum = sum.wrapping_add((number + 1).wrapping_mul(word(machine, sweep, number)?));
    }
    Some(sum)
}
