//! The copy: every cell of one buffer to the same cell of another, ascending and wrapping.
//!
//! Each lap starts 16 bytes further in the source than the one before, cyclically over [`SHIFTS`], so that consecutive
//! laps leave different contents.

use super::stride::{Sweep, UNROLL};
use crate::machine::{Machine, Operation, Ops};

/// Number of source offsets from which laps copy. With 8, a lost lap is detected with a probability of 7 in 8 per run.
/// More would make the source longer than the destination by more than two lines.
pub const SHIFTS: u64 = 8;

/// Cells between two source offsets: 16 bytes, so that accesses of 16 bytes are aligned the same in all laps.
const SHIFT: u64 = 2;

/// Cells of the source beyond those of the destination, rounded up to whole lines of 64 bytes.
pub const EXTRA_SOURCE_CELLS: u64 = SHIFTS * SHIFT;

/// Two buffers of cells, 8 bytes each and packed, the source longer by [`EXTRA_SOURCE_CELLS`]. Positions count cells of
/// the destination: position p is cell `p % cells` in lap `p / cells`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copying {
    /// Start of the source in the arena, bytes.
    pub from: u64,
    /// Start of the destination in the arena, bytes.
    pub to: u64,
    /// Cells of the destination, at least 1.
    pub cells: u64,
}

/// Consecutive cells that one lap copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Arena offset of the first source cell, bytes.
    pub from: u64,
    /// Arena offset of the first destination cell, bytes.
    pub to: u64,
    /// Number of cells.
    pub count: u64,
}

impl Copying {
    /// Returns the source as a sweep that reads it, which defines its initial words.
    #[must_use]
    pub fn source(&self) -> Sweep {
        let cells = self.cells.saturating_add(EXTRA_SOURCE_CELLS);
        Sweep { base: self.from, stride: 8, cells, operation: Operation::Read }
    }

    /// Returns the pieces, one per lap, of `n` cells from position `from`.
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

    /// Returns the modulus of sums (see [`Sweep::prime`]).
    #[must_use]
    pub fn prime(&self) -> u64 {
        self.source().prime()
    }

    /// Returns the word, counted from the source's start, in the last cell that is copied to before position `reached`.
    #[must_use]
    pub fn last(&self, reached: u64, seed: u64) -> u64 {
        let last = reached.wrapping_sub(1);
        self.source().initialised(shift(last / self.cells) + last % self.cells, seed).word
    }

    /// Returns the sum of the destination's words at position `reached` modulo [`Copying::prime`]. `reached` is at
    /// least one lap.
    #[must_use]
    pub fn sum(&self, reached: u64, seed: u64) -> u64 {
        let (lap, index) = (reached / self.cells, reached % self.cells);
        let sum = |lap: u64, from: u64, n: u64| self.source().sum(shift(lap) + from, n, seed);
        (sum(lap, 0, index) + sum(lap.wrapping_sub(1), index, self.cells - index)) % self.prime()
    }
}

/// Returns the first source cell of lap `lap`.
fn shift(lap: u64) -> u64 {
    lap % SHIFTS * SHIFT
}

/// Copies `n` cells from position `from` and checks each cell. Returns `None` if a buffer exceeds the machine's memory.
pub fn body<M: Machine + ?Sized>(machine: &mut M, copying: &Copying, from: u64, n: u64) -> Option<()> {
    for piece in copying.pieces(from, n) {
        for i in 0..piece.count {
            let at = machine.cell(piece.from + 8 * i)?;
            let to = machine.cell(piece.to + 8 * i)?;
            let value = machine.follow(at);
            machine.link(to, value);
        }
        machine.charge(loop_ops(piece.count));
    }
    Some(())
}

/// Returns the instructions of a copy of `n` cells, other than loads and stores: two addresses for every two cells, and
/// a decrement and a branch per iteration.
#[must_use]
pub fn loop_ops(n: u64) -> Ops {
    let iterations = n.div_ceil(UNROLL);
    Ops { alu: iterations + n, branch: iterations }
}

#[cfg(test)]
mod tests;
