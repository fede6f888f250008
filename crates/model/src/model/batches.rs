//! Batch forms of sweeps and copies.

use fathom_probe::machine::batch::copy::{self, Copying, EXTRA_SOURCE_CELLS};
use fathom_probe::machine::batch::stride::{self, Part, Sweep, UNROLL};
use fathom_probe::machine::{Operation, Refusal};

use super::Model;
use crate::uncached::{WINDOW, place};

/// Returns the bytes of a sweep's access at the `nth` cell of a part, from 0; 0 if the access of the previous cell
/// covers it.
fn bytes_at(sweep: &Sweep, part: &Part, nth: u64) -> u64 {
    if sweep.operation == Operation::Set && sweep.stride == 8 { pair(part.count, nth) } else { 8 }
}

/// Returns the bytes of an access at the `nth` of `count` consecutive cells that are accessed in pairs; an odd cell is
/// first.
fn pair(count: u64, nth: u64) -> u64 {
    match nth.checked_sub(count % 2) {
        None => 8,
        Some(nth) if nth.is_multiple_of(2) => 16,
        Some(_) => 0,
    }
}

impl Model {
    pub(crate) fn sweep_through(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<u64> {
        let Some(first) = self.arena.continued_sweep(sweep, from) else {
            return match sweep.operation {
                Operation::Set => self.set_anywhere(sweep, from, n),
                _ if self.controls.flush => self.flush_anywhere(sweep, from, n),
                _ => stride::body(self, sweep, from, n),
            };
        };
        let mut values = first.initialised(from % sweep.cells);
        let initial = first.initialised(0);
        let mut sum = 0u64;
        let (single, unrolled) = (stride::loop_ops(sweep, 1), stride::loop_ops(sweep, UNROLL));
        for part in sweep.parts(from, n) {
            let mut at = part.offset;
            if part.offset == sweep.base {
                values = initial;
            }
            let odd = part.count % UNROLL;
            for nth in 1..=part.count {
                self.access_cell(sweep, at, bytes_at(sweep, &part, nth - 1));
                sum = sum.wrapping_add(sweep.base + 8 * values.word);
                values.advance();
                at += sweep.stride;
                if nth <= odd {
                    self.charge(single);
                } else if (nth - odd).is_multiple_of(UNROLL) {
                    self.charge(unrolled);
                }
            }
        }
        self.arena.reach(from.wrapping_add(n));
        Some(if sweep.operation == Operation::Read { sum } else { 0 })
    }

    /// Stores two cells at a time, over any contents.
    fn set_anywhere(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<u64> {
        let (single, unrolled) = (stride::loop_ops(sweep, 1), stride::loop_ops(sweep, UNROLL));
        for part in sweep.parts(from, n) {
            let end = part.offset + (part.count - 1) * sweep.stride + 8;
            if !self.arena.is_mapped(part.offset, end) || !part.offset.is_multiple_of(8) {
                return None;
            }
            for nth in 0..part.count {
                let at = part.offset + nth * sweep.stride;
                self.access_cell(sweep, at, bytes_at(sweep, &part, nth));
                self.arena.link(at, sweep.base + part.key);
            }
            (0..part.count % UNROLL).for_each(|_| self.charge(single));
            (0..part.count / UNROLL).for_each(|_| self.charge(unrolled));
        }
        Some(0)
    }

    /// Makes one access at a time, each with a flush, over any contents.
    fn flush_anywhere(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<u64> {
        let (mut sum, mut position) = (0u64, from);
        for part in sweep.parts(from, n) {
            for nth in 0..part.count {
                sum = sum.wrapping_add(stride::body(self, sweep, position, 1)?);
                self.maintain(part.offset + nth * sweep.stride, 8);
                position = position.wrapping_add(1);
            }
        }
        Some(sum)
    }

    pub(crate) fn warm_through(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<()> {
        if sweep.base >= WINDOW || self.controls.flush {
            return self.sweep_through(sweep, from, n).map(|_| ());
        }
        self.arena.continued_sweep(sweep, from)?;
        let (shift, max_accesses) = (self.narrowest_line(), self.idempotent_accesses());
        for part in sweep.parts(from, n) {
            let (mut last, mut times) = (None, 0);
            let mut at = part.offset;
            for nth in 0..part.count {
                if last != Some(at >> shift) {
                    (last, times) = (Some(at >> shift), 0);
                }
                let bytes = bytes_at(sweep, &part, nth);
                if times < max_accesses && bytes > 0 {
                    self.access_cell(sweep, at, bytes);
                    times += 1;
                }
                at += sweep.stride;
            }
        }
        self.arena.reach(from.wrapping_add(n));
        Some(())
    }

    pub(crate) fn copy_through(&mut self, copying: &Copying, from: u64, n: u64) -> Option<()> {
        let bytes = copying.cells.checked_mul(8)?;
        let source = copying.from.checked_add(bytes)?.checked_add(8 * EXTRA_SOURCE_CELLS)?;
        let aligned = copying.from.is_multiple_of(8) && copying.to.is_multiple_of(8);
        let mapped = self.arena.is_mapped(copying.from, source)
            && self.arena.is_mapped(copying.to, copying.to.checked_add(bytes)?);
        if !aligned || !mapped || place(copying.from).abs_diff(place(copying.to)) < bytes {
            return None;
        }
        for piece in copying.pieces(from, n) {
            for nth in 0..piece.count {
                let (at, to) = (piece.from + 8 * nth, piece.to + 8 * nth);
                let bytes = pair(piece.count, nth);
                if bytes > 0 {
                    self.wide_load(at, bytes);
                    self.wide_store(to, bytes);
                }
                let value = self.arena.next(at);
                self.arena.link(to, value);
            }
            self.charge(copy::loop_ops(piece.count));
        }
        Some(())
    }

    /// Makes one access of a sweep.
    #[inline(always)]
    fn access_cell(&mut self, sweep: &Sweep, offset: u64, bytes: u64) {
        let (operation, plain) = (sweep.operation, sweep.base < WINDOW && !self.controls.flush);
        if plain && bytes == 8 {
            if matches!(operation, Operation::Read | Operation::Rmw) {
                self.measured_load(offset);
            }
            if operation != Operation::Read {
                self.catch_up();
                self.store(0, offset);
            }
        } else if bytes > 0 {
            self.access_other(operation, offset, bytes);
        }
    }

    #[inline(never)]
    fn access_other(&mut self, operation: Operation, offset: u64, bytes: u64) {
        if matches!(operation, Operation::Read | Operation::Rmw) {
            self.wide_load(offset, bytes);
        }
        if operation != Operation::Read {
            self.wide_store(offset, bytes);
        }
        if self.controls.flush {
            self.maintain(offset, bytes);
        }
    }

    /// Refuses if the cost of cleaning and invalidating lines is not described.
    pub(crate) fn maintainable(&self) -> Result<(), Refusal> {
        let missing = || {
            let remedy = "set `maintain` in [core]";
            Refusal::new("the description has no cost of cleaning and invalidating a line", remedy)
        };
        self.description.core.maintain.map(|_| ()).ok_or_else(missing)
    }
}
