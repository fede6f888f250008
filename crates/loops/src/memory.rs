//! Memory accesses by address: a sweep of single cells, and a copy of two cells at a time.
//!
//! Volatile or in assembly throughout, because the accesses are measured: none may be omitted, merged or moved.

use fathom_probe::machine::Operation;
use fathom_probe::machine::batch::copy::Copying;
use fathom_probe::machine::batch::stride::{Sweep, UNROLL};
use fathom_probe::machine::batch::unrolled;

use crate::Instructions;

/// Size of a cell, bytes.
const CELL_BYTES: u64 = 8;

/// Pairs of cells in one iteration of the loops of pairs.
const PAIRS_PER_ITERATION: usize = UNROLL as usize / 2;

/// Batch form of the stride, see [`fathom_probe::machine::batch::stride::body`]: `n` accesses from position `from`,
/// of cells whose arena begins at `base`. Returns the sum of the loaded values (wraps), or `None` for an operation
/// that copies, which is not a sweep.
///
/// # Safety
/// Every cell of `sweep` is 8 readable and writable bytes, aligned to 8, at its offset from `base`, and nothing else
/// accesses it at the same time. Each may hold `sweep.base + key`, and its content with the bits of `key` flipped,
/// for every `key` that is a multiple of 8 below `8 * KEYS`.
#[inline(always)]
pub unsafe fn sweep<I: Instructions>(base: *mut u8, sweep: &Sweep, from: u64, n: u64) -> Option<u64> {
    if sweep.operation == Operation::Set && sweep.stride == CELL_BYTES {
        // SAFETY: the caller's promise; the cells are contiguous.
        unsafe { set_parts::<I>(base, sweep, from, n) };
        return Some(0);
    }
    let mut sum = 0u64;
    for part in sweep.parts(from, n) {
        let at = base.wrapping_add(part.offset as usize);
        let (step, count) = (sweep.stride as usize, part.count);
        // SAFETY: `parts` limits `count` to the remaining cells of the lap, which are the caller's. The value stored
        // is `sweep.base` plus a key, or the old content with a key's bits flipped.
        unsafe {
            match sweep.operation {
                Operation::Read => sum = sum.wrapping_add(read(at, step, count)),
                Operation::Rmw => flip(at, step, count, part.key),
                // Cells that are not contiguous cannot be stored in pairs.
                Operation::Write | Operation::Set => write(at, step, count, sweep.base + part.key),
                Operation::CopyTo | Operation::CopyFrom => return None,
            }
        }
    }
    Some(sum)
}

/// Batch form of the copy, see [`fathom_probe::machine::batch::copy::body`]: `n` cells from position `from`, in an
/// arena that begins at `base`. If the buffers overlap, cells that were already overwritten are copied with their new
/// content.
///
/// # Safety
/// All cells of `copying`, including the source's cells beyond the destination's, are 8 readable and writable bytes,
/// aligned to 8, at their offset from `base`. Nothing else accesses them at the same time. Each cell of the
/// destination may hold the content of any cell of the source.
#[inline(always)]
pub unsafe fn copy<I: Instructions>(base: *mut u8, copying: &Copying, from: u64, n: u64) {
    for piece in copying.pieces(from, n) {
        let (from, to) = (base.wrapping_add(piece.from as usize), base.wrapping_add(piece.to as usize));
        // SAFETY: a piece is inside both buffers, whose cells are the caller's.
        unsafe { copy_neighbours::<I>(from, to, piece.count) };
    }
}

/// Calls `one` for `count` cells from `at`, as [`fathom_probe::machine::batch::stride::body`] does: the odd ones
/// first.
///
/// The address of the next cell is computed and not read. It may wrap beyond the last cell, where it is not used.
#[inline(always)]
fn each(at: *mut u8, step: usize, count: u64, mut one: impl FnMut(*mut u64)) {
    let mut at = at;
    unrolled::<{ UNROLL as usize }>(count, || {
        one(at.cast());
        at = at.wrapping_add(step);
    });
}

/// Loads `count` cells from `at`, `step` bytes apart, and returns their sum.
///
/// # Safety
/// At `at + i * step` are 8 readable bytes, aligned to 8, for all i below `count`.
#[inline(always)]
unsafe fn read(at: *mut u8, step: usize, count: u64) -> u64 {
    let mut sum = 0u64;
    // SAFETY: the caller's promise.
    each(at, step, count, |at| sum = sum.wrapping_add(unsafe { at.read_volatile() }));
    sum
}

/// Stores `value` to these cells.
///
/// # Safety
/// As for [`read`], writable and with nothing else accessing them; and each may hold `value`.
#[inline(always)]
unsafe fn write(at: *mut u8, step: usize, count: u64, value: u64) {
    // SAFETY: the caller's promise.
    each(at, step, count, |at| unsafe { at.write_volatile(value) });
}

/// Flips the bits of `key` in each of these cells: a load, an exclusive or, a store.
///
/// # Safety
/// As for `write`; and each may hold its content with these bits flipped.
#[inline(always)]
unsafe fn flip(at: *mut u8, step: usize, count: u64, key: u64) {
    // SAFETY: the caller's promise.
    each(at, step, count, |at| unsafe { at.write_volatile(at.read_volatile() ^ key) });
}

/// Executes the parts of a sweep that sets contiguous cells. A separate function, so that it does not affect the code
/// of the loops with one cell per access in a machine's function.
///
/// # Safety
/// As for [`sweep`], with contiguous cells.
#[inline(never)]
unsafe fn set_parts<I: Instructions>(base: *mut u8, sweep: &Sweep, from: u64, n: u64) {
    for part in sweep.parts(from, n) {
        // SAFETY: as in `sweep`.
        unsafe {
            set::<I>(base.wrapping_add(part.offset as usize), part.count, sweep.base + part.key);
        }
    }
}

/// Stores `value` into `count` contiguous cells from `at`, two per store; an odd one alone, first.
///
/// # Safety
/// They are writable, aligned to 8, and nothing else accesses them; and each may hold `value`.
#[inline(always)]
unsafe fn set<I: Instructions>(at: *mut u8, count: u64, value: u64) {
    let mut at = at;
    if count % 2 == 1 {
        // SAFETY: the first of the caller's cells.
        unsafe { at.cast::<u64>().write_volatile(value) };
        at = at.wrapping_add(CELL_BYTES as usize);
    }
    // SAFETY: these are the caller's remaining cells, two per call.
    unrolled::<PAIRS_PER_ITERATION>(count / 2, || unsafe {
        I::store_pair(at, value);
        at = at.wrapping_add(2 * CELL_BYTES as usize);
    });
}

/// Copies `count` contiguous cells, two per load and store; an odd one alone, first.
///
/// # Safety
/// Both are `count` cells, aligned to 8, that nothing else accesses, the destination's writable; and each cell of the
/// destination may hold the content of any cell of the source.
#[inline(always)]
unsafe fn copy_neighbours<I: Instructions>(from: *const u8, to: *mut u8, count: u64) {
    let (mut from, mut to) = (from, to);
    if count % 2 == 1 {
        // SAFETY: the first cell of each.
        unsafe { to.cast::<u64>().write_volatile(from.cast::<u64>().read_volatile()) };
        (from, to) = (from.wrapping_add(CELL_BYTES as usize), to.wrapping_add(CELL_BYTES as usize));
    }
    // SAFETY: these are the remaining cells, two per call.
    unrolled::<PAIRS_PER_ITERATION>(count / 2, || unsafe {
        I::move_pair(from, to);
        (from, to) = (from.wrapping_add(2 * CELL_BYTES as usize), to.wrapping_add(2 * CELL_BYTES as usize));
    });
}

#[cfg(test)]
mod tests;
