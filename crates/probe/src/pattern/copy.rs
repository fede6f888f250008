//! The copy: every cell of one buffer to the same cell of another, ascending and wrapping.
//!
//! One buffer has the trial's attribute, the other is in write-back memory. The contents verify the work: the source is
//! initialised with words whose sum is known in closed form, and consecutive laps leave different contents. The last
//! cell that a run copies to holds another word before the run. At the end the destination is summed, untimed.

use alloc::format;
use alloc::vec::Vec;

use super::counters::counters;
use super::memory::wrong;
use super::{Definition, Keys, Trial, TrialOutput, Work};
use crate::machine::batch::copy::{Copying, EXTRA_SOURCE_CELLS};
use crate::machine::{Attribute, Machine, MapRequest, Operation, Refusal};
use crate::rows::{Done, Rows, Sample};
use crate::wire::WireError;

/// The largest write-back granule (64 bytes on the Cortex-A53 and A72, pairs of lines on some servers): two buffers
/// with different attributes share no granule.
const SEPARATION_BYTES: u64 = 128;

/// Returns the bytes from the start of a mapping to its second buffer, for `cells` cells and the additional ones of the
/// source; `None` on overflow.
fn second_buffer(cells: u64) -> Option<u64> {
    cells.checked_add(EXTRA_SOURCE_CELLS)?.checked_mul(8)?.checked_next_multiple_of(SEPARATION_BYTES)
}

/// Copies between a buffer of the trial's attribute and one in write-back memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Direction: to or from the buffer of the attribute.
    pub operation: Operation,
}

impl Default for Copy {
    /// Returns an invalid operation, because a line must state the direction.
    fn default() -> Copy {
        Copy { operation: Operation::Read }
    }
}

impl Definition for Copy {
    const TIME_GROWS: bool = true;

    fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError> {
        keys.token("op", &mut self.operation)
    }

    fn check(&self, trial: &Trial) -> Result<(), WireError> {
        if self.operation.copies() && trial.memory.stride == 8 {
            return Ok(());
        }
        wrong(format!(
            "op={} stride={} is not valid for pattern=copy: it needs op=copy_to or copy_from, and stride=8",
            self.operation.token(),
            trial.memory.stride
        ))
    }

    /// Includes the half of each mapping that is reserved for the other buffer, with another attribute.
    fn extent(&self, trial: &Trial, _: u64) -> Option<u64> {
        second_buffer(trial.memory.cells())?.checked_mul(2)
    }

    fn operation(&self) -> Operation {
        self.operation
    }

    fn work(&self, trial: &Trial) -> Work {
        Work::Sweep { timed: 3 * trial.loads * trial.samples, warm: trial.warm, each: 2, passes: 2 }
    }

    /// Copies one lap untimed, or `warm` cells if that is more. Then each sample times n cells and 2n more, starting
    /// where the previous one ended.
    ///
    /// In each sample `end` and `end2` are the words, counted from the source's start, in the last cell of each run.
    /// `end2` of the last sample is the sum of all words of the destination.
    fn run<M: Machine>(&self, machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
        // Requests that differ in the attribute only may share physical memory. So the plain buffer is the second half
        // of its mapping, and the other buffer the first half of its mapping.
        let request = trial.request(1);
        let plain = machine.map(&MapRequest { attribute: Attribute::WriteBack, ..request })?;
        let mapping = if trial.is_plain() { plain } else { machine.map(&request)? };
        let cells = trial.memory.cells();
        let second = plain.base + second_buffer(cells).ok_or_else(outside)?;
        let copying = match self.operation {
            Operation::CopyFrom => Copying { from: mapping.base, to: second, cells },
            _ => Copying { from: second, to: mapping.base, cells },
        };
        machine.initialise_sweep(&copying.source(), trial.seed)?;
        erase(machine, &copying).ok_or_else(outside)?;
        let mut remaining = trial.warm.max(cells);
        while remaining > 0 {
            let n = remaining.min(cells);
            machine.copy(&copying, cells - n, n).ok_or_else(outside)?;
            remaining -= n;
        }
        let mut reached = cells;
        let mut samples = Vec::with_capacity(trial.samples as usize);
        for _ in 0..trial.samples {
            samples.push(timed(machine, &copying, &mut reached, trial).ok_or_else(outside)?);
        }
        if let Some(last) = samples.last_mut() {
            last.end2 = sum_of_destination(machine, &copying).ok_or_else(outside)?;
        }
        Ok(TrialOutput::of(Rows::of_samples(trial.id, samples), mapping.page_bytes, mapping.base))
    }

    /// Checks the word in the last cell of each run, which was another word before, and the sum of the destination at
    /// the end.
    fn verify(&self, trial: &Trial, rows: &Rows, _: &Done) -> Vec<usize> {
        let Rows::Samples(samples) = rows else { return rows.all() };
        let copying = Copying { from: 0, to: 0, cells: trial.memory.cells() };
        let mut reached = copying.cells;
        let mut run = |n: u64| {
            reached = reached.wrapping_add(n);
            (reached, copying.last(reached, trial.seed))
        };
        let mut bad = Vec::new();
        for (i, sample) in samples.list.iter().enumerate() {
            let ((_, end), (reached, end2)) = (run(trial.loads), run(2 * trial.loads));
            let last = i + 1 == samples.list.len();
            if last && sample.end2 % copying.prime() != copying.sum(reached, trial.seed) {
                return rows.all();
            }
            if sample.end != end || (!last && sample.end2 != end2) {
                bad.push(i);
            }
        }
        bad
    }
}

fn outside() -> Refusal {
    Refusal::new("the copy reaches outside the mapped memory", "request fewer bytes")
}

/// Stores the source's first cell in every cell of the destination, so that cells that are not copied are detected.
fn erase<M: Machine>(machine: &mut M, copying: &Copying) -> Option<()> {
    let first = machine.cell(copying.from)?;
    for number in 0..copying.cells {
        let at = machine.cell(copying.to + 8 * number)?;
        machine.link(at, first);
    }
    Some(())
}

/// Takes one sample: n cells, then 2n more.
fn timed<M: Machine>(machine: &mut M, copying: &Copying, reached: &mut u64, trial: &Trial) -> Option<Sample> {
    let (from, n) = (*reached, trial.loads);
    let (middle, to) = (from.wrapping_add(n), from.wrapping_add(3 * n));
    overwrite(machine, copying, middle, trial.seed)?;
    let before = counters(machine, trial);
    let a = machine.now();
    machine.copy(copying, from, n)?;
    let b = machine.now();
    let between = counters(machine, trial);
    let end = word(machine, copying, middle)?;
    overwrite(machine, copying, to, trial.seed)?;
    let b2 = machine.now();
    machine.copy(copying, middle, 2 * n)?;
    let c = machine.now();
    let after = counters(machine, trial);
    let end2 = word(machine, copying, to)?;
    *reached = to;
    let (cycles, misses) = before.since(&between, &after);
    Some(Sample { ticks: b.since(a), ticks2: c.since(b2), end, end2, cycles, misses })
}

/// Stores a word that differs from the expected one in the last cell of a run to position `to`.
fn overwrite<M: Machine>(machine: &mut M, copying: &Copying, to: u64, seed: u64) -> Option<()> {
    let other = (copying.last(to, seed) + 1) % copying.prime().max(2);
    let at = machine.cell(copying.to + 8 * (to.wrapping_sub(1) % copying.cells))?;
    let wrong = machine.cell(copying.from + 8 * other)?;
    machine.link(at, wrong);
    Some(())
}

/// Returns the word in the last cell of a run to position `to`.
fn word<M: Machine>(machine: &mut M, copying: &Copying, to: u64) -> Option<u64> {
    word_at(machine, copying, to.wrapping_sub(1) % copying.cells)
}

fn word_at<M: Machine>(machine: &mut M, copying: &Copying, number: u64) -> Option<u64> {
    let cell = machine.cell(copying.to + 8 * number)?;
    let value = machine.peek(cell);
    Some(machine.offset(value).wrapping_sub(copying.from) / 8)
}

/// Returns the sum of all words of the destination; wraps.
fn sum_of_destination<M: Machine>(machine: &mut M, copying: &Copying) -> Option<u64> {
    let mut sum = 0u64;
    for number in 0..copying.cells {
        sum = sum.wrapping_add(word_at(machine, copying, number)?);
    }
    Some(sum)
}
