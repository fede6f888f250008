//! The arena's memory, through its windows.
//!
//! # Why a cell may be followed without a check
//!
//! [`MetalCell`] is an offset, and its field is private to this module. `follow` reads 8 bytes at the first window's
//! address plus the offset and returns them as a cell, with no comparison in between, as the host's arena does
//! (crates/host/src/arena.rs). That is sound because of these facts, each kept here and nowhere else:
//!
//! 1. *Only checked offsets.* A `MetalCell` is made in two places: [`Arena::cell`], which checks that the offset is
//!    a multiple of 8 below [`LENGTH`] and that the block of memory behind it was zeroed, and [`Arena::follow`].
//! 2. *Only cells are stored.* [`Arena::link`], [`Arena::sweep`] and [`Arena::copy`] store 8 aligned bytes, or twice
//!    8: the offset of a cell, or what another cell held. What a modifying sweep stores is a cell with some of its
//!    bits 3 to 9 flipped: another multiple of 8 in the same kibibyte, so in the same block.
//! 3. *Everything else is zero.* A block is zeroed before the first cell in it is handed out ([`Arena::prepare`]),
//!    down to memory, after everything that caches held of it was dropped: through every window it reads as zero.
//!    Zero is the first cell, and block 0, in which it lies, is zeroed when the arena is made.
//! 4. *Everything is readable.* All windows are mapped, readable and writable, from `mmu::enable` on, forever.
//! 5. *What is read was once written.* Several windows show the same memory with different attributes, which may
//!    cost coherency: a load through one may bring what was there before a store through another (DDI 0487,
//!    "Mismatched memory attributes"). What was there before is a link or zero, by 2 and 3: loads and stores of 8
//!    aligned bytes are single-copy atomic ("Requirements for single-copy atomicity"), so no load brings parts of
//!    two. Which of them it is, the maintenance between uses decides (`crate::windows::Blocks`), and every
//!    measurement's proof checks.
//! 6. *One core.* See the head of `super`. There is one arena, and no reference into it is ever made.
//!
//! So by induction every cell that exists is a multiple of 8 below [`LENGTH`], in a block that was zeroed.

use fathom_loops::Instructions as _;
use fathom_loops::aarch64::Aarch64;
use fathom_probe::machine::batch::copy::{Copying, EXTRA_SOURCE_CELLS};
use fathom_probe::machine::batch::stride::{KEYS, Sweep};
use fathom_probe::machine::{MapRequest, Mapping, Refusal};

use super::cache;
use crate::tables::BLOCK;
use crate::windows::{Blocks, FIRST, LENGTH, Need, Treatment, Window};

/// A place in the arena: an offset from the first window's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MetalCell(u64);

impl MetalCell {
    #[inline(always)]
    pub(super) fn offset(self) -> u64 {
        self.0
    }
}

/// Bytes in a link.
const LINK: u64 = 8;

/// The arena.
pub(super) struct Arena {
    blocks: Blocks,
}

/// The address of an offset.
#[inline(always)]
fn at(offset: u64) -> *mut u8 {
    core::ptr::with_exposed_provenance_mut::<u8>(FIRST as usize).wrapping_add(offset as usize)
}

impl Arena {
    /// The arena with its first cell; nothing else is assumed of its memory.
    pub(super) fn open() -> Arena {
        let mut arena = Arena { blocks: Blocks::default() };
        arena.prepare(0, 0xff);
        arena
    }

    /// The virtual address of an offset, if that is in the arena.
    pub(super) fn address(offset: u64) -> Option<u64> {
        (offset < LENGTH).then_some(FIRST + offset)
    }

    /// A trial begins.
    pub(super) fn begin(&mut self) {
        self.blocks.begin();
    }

    /// Grants a wish in the window of a treatment.
    pub(super) fn map(&mut self, request: &MapRequest, treatment: Treatment) -> Result<Mapping, Refusal> {
        let mapping = Window { treatment, pages: request.pages }.place(request)?;
        for block in Blocks::of(&mapping) {
            self.prepare(block, treatment.byte());
        }
        Ok(mapping)
    }

    /// Makes a block fit for use under an attribute byte (facts 3 and 5).
    fn prepare(&mut self, block: usize, byte: u8) {
        // The first window is write-back, with offsets of its own for every block.
        let start = block as u64 * BLOCK;
        let need = self.blocks.take(block, byte);
        if need == Need::Nothing {
            return;
        }
        // SAFETY: the first window is mapped as a whole. By address, a line is found whatever the attribute of the
        // window that it was fetched or written through ("A64 Cache maintenance instructions"): the operation is on
        // the physical address.
        unsafe { cache::clean_invalidate(FIRST + start, BLOCK) };
        if need == Need::Zero {
            for offset in (start..start + BLOCK).step_by(16) {
                // SAFETY: aligned and inside the first window; nobody has a cell in a block that was never used.
                // Volatile, so that it stays before the maintenance.
                unsafe { Aarch64::store_pair(at(offset), 0) };
            }
            // SAFETY: as above.
            unsafe { cache::clean_invalidate(FIRST + start, BLOCK) };
        }
    }

    /// Cleans and invalidates the lines of a range.
    pub(super) fn maintain(&mut self, offset: u64, bytes: u64) -> Option<()> {
        (offset.checked_add(bytes)? <= LENGTH).then_some(())?;
        // SAFETY: all windows are mapped (fact 4).
        unsafe { cache::clean_invalidate(FIRST + offset, bytes) };
        Some(())
    }

    /// The cell at `offset` (fact 1).
    #[inline]
    pub(super) fn cell(&self, offset: u64) -> Option<MetalCell> {
        let sound = offset < LENGTH && offset.is_multiple_of(LINK) && self.blocks.is_used(offset);
        sound.then_some(MetalCell(offset))
    }

    /// The load: one `[base + offset]` and nothing else.
    #[inline(always)]
    pub(super) fn follow(&self, cell: MetalCell) -> MetalCell {
        // SAFETY: by the module's argument 8 readable bytes, aligned, that hold a cell. Volatile: the loads are the
        // product.
        MetalCell(unsafe { at(cell.0).cast::<u64>().read_volatile() })
    }

    /// Stores the link `from -> to`.
    #[inline(always)]
    pub(super) fn link(&mut self, from: MetalCell, to: MetalCell) {
        // SAFETY: as in `follow`; what is stored is a cell (fact 2).
        unsafe { at(from.0).cast::<u64>().write_volatile(to.0) }
    }

    /// Are `bytes` bytes from `base` all cells?
    fn holds(&self, base: u64, bytes: u64) -> Option<()> {
        let end = base.checked_add(bytes)?;
        let mut offset = base;
        // A cell in each block says that the block is used.
        while offset < end {
            self.cell(offset)?;
            offset = (offset / BLOCK + 1) * BLOCK;
        }
        (bytes >= LINK && bytes.is_multiple_of(LINK)).then_some(())
    }

    /// The batch form of the stride, see `fathom_probe::machine::batch::stride::body`.
    #[inline(never)]
    pub(super) fn sweep(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<u64> {
        let extent = sweep.cells.checked_sub(1)?.checked_mul(sweep.stride)?.checked_add(LINK)?;
        self.holds(sweep.base, extent.max(LINK * KEYS))?;
        sweep.stride.is_multiple_of(LINK).then_some(())?;
        // SAFETY: by `holds` all of the sweep's cells, and those that it stores (its base and a key below a kibibyte from
        // it), are cells. A flip keeps cells cells (fact 2).
        unsafe { fathom_loops::sweep::<Aarch64>(at(0), sweep, from, n) }
    }

    /// The batch form of the copy, see `fathom_probe::machine::batch::copy::body`.
    #[inline(never)]
    pub(super) fn copy(&mut self, copying: &Copying, from: u64, n: u64) -> Option<()> {
        let bytes = copying.cells.checked_add(EXTRA_SOURCE_CELLS)?.checked_mul(LINK)?;
        self.holds(copying.from, bytes)?;
        self.holds(copying.to, copying.cells.checked_mul(LINK)?)?;
        // SAFETY: both are cells, checked above. That they may overlap in memory changes what is copied and not that it
        // is links.
        unsafe { fathom_loops::copy::<Aarch64>(at(0), copying, from, n) };
        Some(())
    }
}
