//! The arena's memory, accessed through its windows.
//!
//! # Why a cell may be followed without a check
//!
//! [`MetalCell`] is an offset, and its field is private to this module. `follow` reads a word (8 bytes, on 32-bit ARM the
//! low 4 of 8) at the first window's address plus the offset and returns it as a cell, with no comparison in between, as
//! the host's arena does (crates/host/src/arena.rs). That is sound because of these facts, which this module alone
//! ensures:
//!
//! 1. *Only checked offsets.* A `MetalCell` is made in two places: [`Arena::cell`], which checks that the offset is a
//!    multiple of 8 below [`OFFSETS_END`] and that its block of memory was zeroed, and [`Arena::follow`].
//! 2. *Only cells are stored.* [`Arena::link`], [`Arena::sweep`] and [`Arena::copy`] store 8 aligned bytes, or twice
//!    8: the offset of a cell, or the content of another cell. A modifying sweep stores a cell with some of its bits
//!    3 to 9 flipped: another multiple of 8 in the same kibibyte, so in the same block.
//! 3. *Everything else is zero.* A block is zeroed, down to memory, before its first cell is returned
//!    ([`Arena::prepare`]). All its lines in caches are invalidated before, so it reads as zero through every window.
//!    Zero is the first cell, and block 0, which contains it, is zeroed when the arena is opened.
//! 4. *Everything is readable.* All windows are mapped, readable and writable, from `mmu::enable` on, forever.
//! 5. *What is read was once written.* Several windows map the same memory with different attributes, which may break
//!    coherency: a load through one may return the content before a store through another (DDI 0487, "Mismatched
//!    memory attributes"). That content is a link or zero, by 2 and 3. Loads and stores of an aligned word are
//!    single-copy atomic ("Requirements for single-copy atomicity"; DDI 0406C, A3.5.3), so no load returns parts of two
//!    values. On 32-bit ARM the other word of a link is always zero, because offsets are below 4 GiB. The
//!    maintenance between uses determines which value it returns (`crate::windows::Blocks`), and the proof of every
//!    measurement checks it.
//! 6. *One core.* See the head of `super`. There is one arena, and no reference into it is ever made.
//!
//! So by induction every cell that exists is a multiple of 8 below [`OFFSETS_END`], in a block that was zeroed.

use fathom_loops::Instructions as _;
use fathom_probe::machine::batch::copy::{Copying, EXTRA_SOURCE_CELLS};
use fathom_probe::machine::batch::stride::{KEYS, Sweep};
use fathom_probe::machine::{MapRequest, Mapping, Refusal};

use super::arch::{Loops, cache};
use crate::arch::tables::BLOCK_BYTES;
use crate::windows::{Blocks, FIRST_ADDRESS, Maintenance, OFFSETS_END, Window, WindowAttribute};

/// A place in the arena: an offset from the first window's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MetalCell(usize);

impl MetalCell {
    #[inline(always)]
    pub(super) fn offset(self) -> u64 {
        self.0 as u64
    }
}

/// Size of a link, bytes.
const LINK_BYTES: u64 = 8;

/// The arena.
pub(super) struct Arena {
    blocks: Blocks,
}

/// Returns the address of an offset.
#[inline(always)]
fn at(offset: u64) -> *mut u8 {
    core::ptr::with_exposed_provenance_mut::<u8>(FIRST_ADDRESS as usize).wrapping_add(offset as usize)
}

impl Arena {
    /// Opens the arena with its first cell; the memory's old content does not matter.
    pub(super) fn open() -> Arena {
        let mut arena = Arena { blocks: Blocks::default() };
        arena.prepare(0, 0xff);
        arena
    }

    /// Returns the virtual address of an offset, if it is in the arena.
    pub(super) fn address(offset: u64) -> Option<u64> {
        (offset < OFFSETS_END).then_some(FIRST_ADDRESS + offset)
    }

    /// Begins a trial.
    pub(super) fn begin(&mut self) {
        self.blocks.begin();
    }

    /// Maps a request in the window of an attribute.
    pub(super) fn map(
        &mut self,
        request: &MapRequest,
        attribute: WindowAttribute,
    ) -> Result<Mapping, Refusal> {
        let mapping = Window { attribute, pages: request.pages }.place(request)?;
        for block in Blocks::indices(&mapping) {
            self.prepare(block, attribute.byte());
        }
        Ok(mapping)
    }

    /// Prepares a block for use with an attribute byte (facts 3 and 5).
    fn prepare(&mut self, block: usize, byte: u8) {
        // The first window is write-back, and has a separate range of offsets for every block.
        let start = block as u64 * BLOCK_BYTES;
        let need = self.blocks.record_use(block, byte);
        if need == Maintenance::Nothing {
            return;
        }
        // SAFETY: the whole first window is mapped. Maintenance by address operates on the physical address, so it
        // affects a line regardless of the window through which it was fetched or written ("A64 Cache maintenance
        // instructions").
        unsafe { cache::clean_invalidate(FIRST_ADDRESS + start, BLOCK_BYTES) };
        if need == Maintenance::Zero {
            for offset in (start..start + BLOCK_BYTES).step_by(16) {
                // SAFETY: aligned and inside the first window; no cell exists in a block that was never used.
                // Volatile, so that it stays before the maintenance.
                unsafe { Loops::store_pair(at(offset), 0) };
            }
            // SAFETY: as above.
            unsafe { cache::clean_invalidate(FIRST_ADDRESS + start, BLOCK_BYTES) };
        }
    }

    /// Cleans and invalidates the lines of a range.
    pub(super) fn maintain(&mut self, offset: u64, bytes: u64) -> Option<()> {
        (offset.checked_add(bytes)? <= OFFSETS_END).then_some(())?;
        // SAFETY: all windows are mapped (fact 4).
        unsafe { cache::clean_invalidate(FIRST_ADDRESS + offset, bytes) };
        Some(())
    }

    /// Returns the cell at `offset` (fact 1).
    #[inline]
    pub(super) fn cell(&self, offset: u64) -> Option<MetalCell> {
        let sound = offset < OFFSETS_END && offset.is_multiple_of(LINK_BYTES) && self.blocks.is_used(offset);
        sound.then_some(MetalCell(offset as usize))
    }

    /// The measured load: one `[base + offset]` and nothing else.
    #[inline(always)]
    pub(super) fn follow(&self, cell: MetalCell) -> MetalCell {
        // SAFETY: by the module's argument 8 readable bytes, aligned, that contain a cell; both architectures are
        // little-endian, so its low word is the first. Volatile, because the loads themselves are the purpose.
        MetalCell(unsafe { at(cell.offset()).cast::<usize>().read_volatile() })
    }

    /// Stores the link `from -> to`.
    #[inline(always)]
    pub(super) fn link(&mut self, from: MetalCell, to: MetalCell) {
        // SAFETY: as in `follow`; the value stored is a cell (fact 2).
        unsafe { at(from.offset()).cast::<u64>().write_volatile(to.offset()) }
    }

    /// Checks that `bytes` bytes from `base` are all cells.
    fn check_range(&self, base: u64, bytes: u64) -> Option<()> {
        let end = base.checked_add(bytes)?;
        let mut offset = base;
        // One cell in each block shows that the block is used.
        while offset < end {
            self.cell(offset)?;
            offset = (offset / BLOCK_BYTES + 1) * BLOCK_BYTES;
        }
        (bytes >= LINK_BYTES && bytes.is_multiple_of(LINK_BYTES)).then_some(())
    }

    /// Batch form of the stride, see `fathom_probe::machine::batch::stride::body`.
    #[inline(never)]
    pub(super) fn sweep(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<u64> {
        let extent = sweep.cells.checked_sub(1)?.checked_mul(sweep.stride)?.checked_add(LINK_BYTES)?;
        self.check_range(sweep.base, extent.max(LINK_BYTES * KEYS))?;
        sweep.stride.is_multiple_of(LINK_BYTES).then_some(())?;
        // SAFETY: by `check_range` all of the sweep's cells, and those that it stores (its base plus a key below a
        // kibibyte), are cells. A flip keeps a cell a cell (fact 2).
        unsafe { fathom_loops::sweep::<Loops>(at(0), sweep, from, n) }
    }

    /// Batch form of the copy, see `fathom_probe::machine::batch::copy::body`.
    #[inline(never)]
    pub(super) fn copy(&mut self, copying: &Copying, from: u64, n: u64) -> Option<()> {
        let bytes = copying.cells.checked_add(EXTRA_SOURCE_CELLS)?.checked_mul(LINK_BYTES)?;
        self.check_range(copying.from, bytes)?;
        self.check_range(copying.to, copying.cells.checked_mul(LINK_BYTES)?)?;
        // SAFETY: both ranges are cells, checked above. If they overlap in memory, the copied values differ, but they
        // are still links.
        unsafe { fathom_loops::copy::<Loops>(at(0), copying, from, n) };
        Some(())
    }
}
