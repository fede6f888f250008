//! The copy: every cell of one buffer to the same cell of another, ascending and wrapping.
//!
//! One buffer has the trial's attribute, the other is in write-back memory. The work is proven by contents: the
//! source is laid with words whose sum is known without adding it up, and each lap copies from 16 bytes further on
//! than the one before, round and round over [`SHIFTS`], so that what a lap leaves is not what the one before left.
//! The last cell that a run copies to holds another word before it, and at the end all of the destination is summed
//! up, when the clock is not running.

use alloc::vec::Vec;

use super::TrialOutput;
use super::stride::{Sweep, UNROLL};
use crate::machine::{Attribute, Machine, MapRequest, Operation, Ops, Refusal};
use crate::wire::{Sample, Trial};

/// Beginnings in the source from which laps copy. More would catch a lost lap with more certainty than 7 in 8 a run,
/// and make the source longer than the destination by more than two lines.
pub const SHIFTS: u64 = 8;

/// Cells from a beginning to the next: 16 bytes, so that accesses of 16 bytes lie alike in all laps.
const SHIFT: u64 = 2;

/// Cells that the source has beyond the destination's, rounded up to whole lines of 64 bytes.
pub const BEYOND: u64 = SHIFTS * SHIFT;

/// Lines of any granule of write-back here (64 bytes on the Cortex-A53 and A72, pairs of them on some servers): two
/// buffers with different attributes share none.
const APART: u64 = 128;

/// Bytes from the beginning of a mapping to its second buffer, where each has `cells` cells and the source's more;
/// `None` where that is more than a number holds.
pub(crate) fn half(cells: u64) -> Option<u64> {
    cells.checked_add(BEYOND)?.checked_mul(8)?.checked_next_multiple_of(APART)
}

/// Two buffers of cells, 8 bytes each and packed, the source longer by [`BEYOND`]. Positions count cells of the
/// destination: position p is cell `p % cells` in lap `p / cells`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copying {
    /// Where the source begins in the arena, bytes.
    pub from: u64,
    /// Where the destination begins in the arena, bytes.
    pub to: u64,
    /// Cells of the destination, at least 1.
    pub cells: u64,
}

/// Neighbouring cells that one lap copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Arena offset of the first in the source, bytes.
    pub from: u64,
    /// The same in the destination.
    pub to: u64,
    /// How many.
    pub count: u64,
}

impl Copying {
    /// The source as a sweep that reads it: how it is laid.
    #[must_use]
    pub fn source(&self) -> Sweep {
        let cells = self.cells.saturating_add(BEYOND);
        Sweep { base: self.from, stride: 8, cells, operation: Operation::Read }
    }

    /// The pieces, a lap each, of `n` cells from position `from`.
    pub fn pieces(&self, from: u64, n: u64) -> impl Iterator<Item = Piece> + use<> {
        let copying = *self;
        let to = Sweep { base: self.to, stride: 8, cells: self.cells, operation: Operation::Write };
        let mut lap = from / self.cells;
        to.parts(from, n).map(move |part| {
            let first = part.offset - copying.to;
            let from = copying.from + 8 * shift(lap) + first;
            lap = lap.wrapping_add(1);
            Piece { from, to: part.offset, count: part.count }
        })
    }

    /// The modulus of sums: see [`Sweep::prime`].
    #[must_use]
    pub fn prime(&self) -> u64 {
        self.source().prime()
    }

    /// The word, counted from the source's beginning, that the last cell holds which is copied to before position
    /// `reached`.
    #[must_use]
    pub fn last(&self, reached: u64, seed: u64) -> u64 {
        let last = reached.wrapping_sub(1);
        self.source().initialised(shift(last / self.cells) + last % self.cells, seed).word
    }

    /// The sum of the words of the destination at position `reached`, a lap at least, modulo [`Copying::prime`].
    #[must_use]
    pub fn sum(&self, reached: u64, seed: u64) -> u64 {
        let (lap, index) = (reached / self.cells, reached % self.cells);
        let sum = |lap: u64, from: u64, n: u64| self.source().sum(shift(lap) + from, n, seed);
        (sum(lap, 0, index) + sum(lap.wrapping_sub(1), index, self.cells - index)) % self.prime()
    }
}

/// Cells from the source's beginning to where lap `lap` begins.
fn shift(lap: u64) -> u64 {
    lap % SHIFTS * SHIFT
}

/// The loop, with a check of each cell: `n` cells from position `from`; `None` when a buffer leaves the machine's
/// memory.
pub fn body<M: Machine + ?Sized>(machine: &mut M, copying: &Copying, from: u64, n: u64) -> Option<()> {
    for piece in copying.pieces(from, n) {
        for i in 0..piece.count {
            let at = machine.cell(piece.from + 8 * i)?;
            let to = machine.cell(piece.to + 8 * i)?;
            let held = machine.follow(at);
            machine.link(to, held);
        }
        machine.charge(turns(piece.count));
    }
    Some(())
}

/// What the loops over `n` cells are charged beside loads and stores: the two addresses once for every two cells,
/// and a decrement and a branch a turn.
#[must_use]
pub fn turns(n: u64) -> Ops {
    let turns = n.div_ceil(UNROLL);
    Ops { alu: turns + n, branch: turns }
}

fn outside() -> Refusal {
    Refusal::new("the copy reaches outside the mapped memory", "ask for fewer bytes")
}

/// Runs a trial of the pattern `copy`: one lap untimed, more where the trial warms for longer, then n cells timed
/// and 2n more, from where the last one stopped.
///
/// In each sample `end` and `end2` are the words, counted from the source's beginning, that the last cell of each
/// run then holds; `end2` of the last sample is the sum of all words of the destination.
///
/// # Errors
/// The machine's refusal of the memory.
pub fn measure<M: Machine>(machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
    // Equal wishes but for the attribute may share physical memory: the plain buffer is the second half of its
    // own mapping, the other one the first half of its.
    let request = trial.request(1);
    let plain = machine.map(&MapRequest { attribute: Attribute::WriteBack, ..request })?;
    let mapping = if trial.is_plain() { plain } else { machine.map(&request)? };
    let second = plain.base + half(trial.cells()).ok_or_else(outside)?;
    let copying = match trial.operation {
        Operation::CopyFrom => trial.copying(mapping.base, second),
        _ => trial.copying(second, mapping.base),
    };
    machine.initialise_sweep(&copying.source(), trial.seed)?;
    erase(machine, &copying).ok_or_else(outside)?;
    let mut left = trial.warm.max(copying.cells);
    while left > 0 {
        let n = left.min(copying.cells);
        machine.copy(&copying, copying.cells - n, n).ok_or_else(outside)?;
        left -= n;
    }
    let mut reached = copying.cells;
    let mut samples = Vec::with_capacity(trial.samples as usize);
    for _ in 0..trial.samples {
        samples.push(timed(machine, &copying, &mut reached, trial).ok_or_else(outside)?);
    }
    if let Some(last) = samples.last_mut() {
        last.end2 = found(machine, &copying).ok_or_else(outside)?;
    }
    Ok(TrialOutput::of(samples, mapping.page_bytes, mapping.base))
}

/// Leaves the source's first cell in every cell of the destination, so that what was not copied is seen.
fn erase<M: Machine>(machine: &mut M, copying: &Copying) -> Option<()> {
    let first = machine.cell(copying.from)?;
    for number in 0..copying.cells {
        let at = machine.cell(copying.to + 8 * number)?;
        machine.link(at, first);
    }
    Some(())
}

/// One sample: n cells, then 2n more.
fn timed<M: Machine>(machine: &mut M, copying: &Copying, reached: &mut u64, trial: &Trial) -> Option<Sample> {
    let (from, n) = (*reached, trial.loads);
    let (middle, to) = (from.wrapping_add(n), from.wrapping_add(3 * n));
    evict(machine, copying, middle, trial.seed)?;
    let before = super::counters(machine, trial);
    let a = machine.now();
    machine.copy(copying, from, n)?;
    let b = machine.now();
    let between = super::counters(machine, trial);
    let end = word(machine, copying, middle)?;
    evict(machine, copying, to, trial.seed)?;
    let b2 = machine.now();
    machine.copy(copying, middle, 2 * n)?;
    let c = machine.now();
    let after = super::counters(machine, trial);
    let end2 = word(machine, copying, to)?;
    *reached = to;
    let (cycles, misses) = before.since(between, after);
    Some(Sample { ticks: b.since(a), ticks2: c.since(b2), end, end2, cycles, misses })
}

/// Stores another word than it will hold into the last cell that a run to position `to` copies to.
fn evict<M: Machine>(machine: &mut M, copying: &Copying, to: u64, seed: u64) -> Option<()> {
    let other = (copying.last(to, seed) + 1) % copying.prime().max(2);
    let at = machine.cell(copying.to + 8 * (to.wrapping_sub(1) % copying.cells))?;
    let wrong = machine.cell(copying.from + 8 * other)?;
    machine.link(at, wrong);
    Some(())
}

/// The word that the last cell of a run to position `to` holds.
fn word<M: Machine>(machine: &mut M, copying: &Copying, to: u64) -> Option<u64> {
    held(machine, copying, to.wrapping_sub(1) % copying.cells)
}

fn held<M: Machine>(machine: &mut M, copying: &Copying, number: u64) -> Option<u64> {
    let cell = machine.cell(copying.to + 8 * number)?;
    let held = machine.peek(cell);
    Some(machine.offset(held).wrapping_sub(copying.from) / 8)
}

/// The sum of all words of the destination; wraps.
fn found<M: Machine>(machine: &mut M, copying: &Copying) -> Option<u64> {
    let mut sum = 0u64;
    for number in 0..copying.cells {
        sum = sum.wrapping_add(held(machine, copying, number)?);
    }
    Some(sum)
}

#[cfg(test)]
mod tests;
