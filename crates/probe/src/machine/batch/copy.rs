//! The copy: every cell of one buffer to the same cell of another, ascending and wrapping.
//!
//! Each lap copies from 16 bytes further on than the one before, cyclically over [`SHIFTS`], so that what a lap
//! leaves is not what the one before left.

use super::stride::{Sweep, UNROLL};
use crate::machine::{Machine, Operation, Ops};

/// Beginnings in the source from which laps copy. More would catch a lost lap with more certainty than 7 in 8 a run,
/// and make the source longer than the destination by more than two lines.
pub const SHIFTS: u64 = 8;

/// Cells from a beginning to the next: 16 bytes, so that accesses of 16 bytes lie alike in all laps.
const SHIFT: u64 = 2;

/// Cells that the source has beyond the destination's, rounded up to whole lines of 64 bytes.
pub const BEYOND: u64 = SHIFTS * SHIFT;

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

#[cfg(test)]
mod tests;
