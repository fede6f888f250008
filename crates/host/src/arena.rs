//! The arena: one reserved range of addresses in which every cell lives.
//!
//! # Why a cell may be followed without a check
//!
//! [`HostCell`] is an offset, and its field is private to this module. `follow` reads 8 bytes at
//! `base + offset` and returns them as a cell, with no comparison in between. That is sound because of
//! six facts, each kept here and nowhere else:
//!
//! 1. *Only checked offsets.* A `HostCell` is made in two places: [`Arena::cell`], which checks that
//!    `offset` is a multiple of 8 and that `offset + 8` is within the reservation, and
//!    [`Arena::follow`].
//! 2. *Only cells are stored.* The safe ways to write into the arena are [`Arena::link`],
//!    [`Arena::sweep_loops`] and [`Arena::copy_loops`], which store 8 aligned bytes, or twice 8: the offset of a
//!    cell, or what another cell held. Links are aligned to their own
//!    size, so two links never overlap in part, and a link that is read is a link as it was written. What a
//!    modifying sweep stores is a cell with some of its bits 3 to 9 flipped: another multiple of 8 in the
//!    same kibibyte, and a reservation is a whole number of kibibytes, so it is a cell too.
//! 3. *Everything else is zero.* The mapping is private, anonymous and backed by no file but where a driver lends
//!    memory, which [`Arena::borrow`] zeroes before anybody reads it: memory
//!    that was never linked, and memory given back with `MADV_DONTNEED`, reads as zero (`madvise(2)`,
//!    `mmap(2)`), and populating writes zeros into memory that held zeros. Zero is the first cell, and
//!    the first cell is valid because a reservation is never shorter than a page.
//! 4. *Everything is readable.* The whole reservation is `PROT_READ | PROT_WRITE` from the start, so a
//!    cell that lies in a page that nobody populated faults a zero page in; it cannot hit a hole.
//!    Nothing unmaps or protects any part while the `Arena` lives; dropping it needs it by value, when
//!    no `follow` can be running.
//! 5. *One length for a process.* A cell does not name its arena, so a cell of one `Host` may be given
//!    to another `Host` in the same process. All arenas of a process have the same length (`LENGTH`
//!    below), hence fact 1 holds in each of them.
//! 6. *One thread.* An `Arena` holds a raw pointer: it is neither `Send` nor `Sync`, so no other
//!    thread reads or writes the range while this one does. No reference into the range is ever made.
//!
//! So by induction every cell that exists is a multiple of 8 with 8 readable bytes behind it.

use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use fathom_probe::machine::Operation;
use fathom_probe::machine::batch::copy::{Copying, EXTRA_SOURCE_CELLS};
use fathom_probe::machine::batch::stride::{KEYS, Sweep};

use crate::arch::{Architecture as _, Cpu};

/// A place in the arena that holds one 8-byte link: an offset that [`crate::Host`] has checked or has
/// itself written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCell(u64);

impl HostCell {
    /// Bytes from the start of the arena.
    pub(crate) fn offset(self) -> u64 {
        self.0
    }
}

/// Bytes in a link.
const LINK: u64 = 8;

/// The one length of every arena in this process, once the first is made: see fact 5 above.
static LENGTH: Mutex<Option<u64>> = Mutex::new(None);

/// One reserved, private, zero-filled range of addresses.
pub(crate) struct Arena {
    base: NonNull<u8>,
    length: u64,
}

impl Arena {
    /// Reserves `length` bytes (a multiple of `align`) at an address that is a multiple of `align`, a
    /// power of two. Where so much cannot be had, half is tried, and so on down to `least`. In a process
    /// that already has an arena, the length is that one's.
    pub(crate) fn reserve(length: u64, least: u64, align: u64) -> io::Result<Arena> {
        // A poisoned lock only says that another thread panicked between two lines below; the value is
        // still either absent or true.
        let mut known = LENGTH.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fixed) = *known {
            return Arena::map(fixed, align);
        }
        let mut length = length.max(least).next_multiple_of(align);
        loop {
            match Arena::map(length, align) {
                Ok(arena) => {
                    *known = Some(length);
                    return Ok(arena);
                }
                Err(error) if length / 2 < least => return Err(error),
                Err(_) => length = (length / 2).next_multiple_of(align),
            }
        }
    }

    fn map(length: u64, align: u64) -> io::Result<Arena> {
        let too_long = || io::Error::from(io::ErrorKind::OutOfMemory);
        let with_slack =
            usize::try_from(length.checked_add(align).ok_or_else(too_long)?).map_err(|_| too_long())?;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory that
        // anything else in this process uses.
        let raw = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                with_slack,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if raw == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let raw = raw.cast::<u8>();
        let before = raw.align_offset(align as usize);
        let after = with_slack - before - length as usize;
        // SAFETY: `before <= align`, so `raw + before` and `raw + before + length` lie inside the mapping
        // of `length + align` bytes made above; the two ends that are unmapped are whole pages (align and
        // length are multiples of the page size) and nothing has used them.
        let base = unsafe {
            let base = raw.add(before);
            unmap(raw, before);
            unmap(base.add(length as usize), after);
            base
        };
        let base = NonNull::new(base).ok_or_else(too_long)?;
        let arena = Arena { base, length };
        // Gigabytes of links in a core file help nobody. A refusal of the advice is harmless.
        let _ = arena.advise(0..length, libc::MADV_DONTDUMP);
        Ok(arena)
    }

    /// Bytes reserved.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The address of offset 0, for looking the range up in `/proc/self/smaps`.
    pub(crate) fn address(&self) -> u64 {
        self.base.as_ptr().addr() as u64
    }

    /// The cell at `offset`, if it is aligned and inside the reservation (fact 1).
    #[inline]
    pub(crate) fn cell(&self, offset: u64) -> Option<HostCell> {
        let fits = offset.checked_add(LINK).is_some_and(|end| end <= self.length);
        (fits && offset.is_multiple_of(LINK)).then_some(HostCell(offset))
    }

    /// The load: one `[base + offset]` and nothing else.
    ///
    /// Volatile, because the loads themselves are the product: none may be left out, merged or moved.
    #[inline(always)]
    pub(crate) fn follow(&self, at: HostCell) -> HostCell {
        // SAFETY: by facts 1 to 5 of the module's argument `at.0` is a multiple of 8 and `at.0 + 8` is
        // inside the live, readable reservation at `base`, which is page-aligned; what is read is, by
        // facts 2 and 3, the offset of a cell or zero, so the answer is a valid cell again.
        HostCell(unsafe { self.base.as_ptr().add(at.0 as usize).cast::<u64>().read_volatile() })
    }

    /// Stores the link `at -> to`.
    #[inline(always)]
    pub(crate) fn link(&mut self, at: HostCell, to: HostCell) {
        // SAFETY: as in `follow`, the 8 bytes at `at` are inside the live, writable reservation; they are
        // aligned, so no other link is cut; what is stored is a cell (fact 2). `&mut self` and fact 6
        // exclude any other access.
        unsafe { self.base.as_ptr().add(at.0 as usize).cast::<u64>().write_volatile(to.0) }
    }

    /// The batch form of the stride, see [`fathom_probe::machine::batch::stride::body`]: the same accesses, the whole
    /// buffer checked once instead of each cell.
    ///
    /// Never inlined, so that it is compiled with this crate, optimised in every profile: what is inlined into
    /// the generic patterns is compiled with whoever uses them, and took twice the time in a debug build. And
    /// this is the function whose machine code a test looks at.
    #[inline(never)]
    pub(crate) fn sweep_loops(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<u64> {
        self.holds(sweep)?;
        // SAFETY: by `holds`, every cell of the sweep is a multiple of 8 inside the live reservation, with 8 bytes
        // behind it. `base + key`, which is stored, is a cell: `holds` again; key is a multiple of 8 below a kibibyte,
        // so a flip keeps cells cells (fact 2). `&mut self` and fact 6 exclude other accesses.
        unsafe { fathom_loops::sweep::<Cpu>(self.base.as_ptr(), sweep, from, n) }
    }

    /// [`Arena::sweep_loops`] with every line cleaned and invalidated right after its access, one by one.
    #[inline(never)]
    pub(crate) fn flushed_loops(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<u64> {
        self.holds(sweep)?;
        let mut sum = 0u64;
        for part in sweep.parts(from, n) {
            let to = self.cell(sweep.base + part.key)?;
            for i in 0..part.count {
                let at = self.cell(part.offset + i * sweep.stride)?;
                match sweep.operation {
                    Operation::Read => sum = sum.wrapping_add(self.follow(at).0),
                    Operation::Write | Operation::Set => self.link(at, to),
                    // A flip keeps cells cells: see `sweep_loops`.
                    Operation::Rmw => self.link(at, HostCell(self.follow(at).0 ^ part.key)),
                    Operation::CopyTo | Operation::CopyFrom => return None,
                }
                self.flush_cell(at);
            }
        }
        Some(sum)
    }

    /// Cleans and invalidates the line of a cell, and waits for it.
    #[inline(always)]
    fn flush_cell(&mut self, at: HostCell) {
        // SAFETY: as in `follow`, the cell lies in the live reservation.
        unsafe { Cpu::flush_line(self.base.as_ptr().add(at.0 as usize)) };
        Cpu::flush_barrier();
    }

    /// Cleans and invalidates the lines of `bytes` bytes from `offset`; `None` where they leave the arena.
    pub(crate) fn flush(&mut self, offset: u64, bytes: u64) -> Option<()> {
        for at in (0..bytes).step_by(Cpu::LINE) {
            let at = self.cell(offset.checked_add(at)? / LINK * LINK)?;
            self.flush_cell(at);
        }
        Some(())
    }

    /// The batch form of the copy, see [`fathom_probe::machine::batch::copy::body`]: both buffers checked once.
    #[inline(never)]
    pub(crate) fn copy_loops(&mut self, copying: &Copying, from: u64, n: u64) -> Option<()> {
        let bytes = copying.cells.checked_add(EXTRA_SOURCE_CELLS)?.checked_mul(LINK)?;
        for base in [copying.from, copying.to] {
            self.cell(base)?;
            self.cell(base.checked_add(bytes)?.checked_sub(LINK)?)?;
        }
        if copying.from.abs_diff(copying.to) < bytes {
            return None;
        }
        // SAFETY: both buffers, the source with all beginnings of laps, are aligned cells inside the live
        // reservation, checked above. What is copied are links, and a link may stand anywhere (fact 2). `&mut self`
        // and fact 6 exclude other accesses.
        unsafe { fathom_loops::copy::<Cpu>(self.base.as_ptr(), copying, from, n) };
        Some(())
    }

    /// Are all of a sweep's cells, and all that it may store, cells of this arena?
    fn holds(&self, sweep: &Sweep) -> Option<()> {
        let last = sweep.cells.checked_sub(1)?.checked_mul(sweep.stride)?.checked_add(sweep.base)?;
        self.cell(last)?;
        self.cell(sweep.base)?;
        self.cell(sweep.base.checked_add(LINK * (KEYS - 1))?)?;
        (sweep.stride.is_multiple_of(LINK) && self.length.is_multiple_of(LINK * KEYS)).then_some(())
    }

    /// Puts a driver's memory, what of its file is from `offset` on, instead of `range`, whole pages, and zeroes
    /// it, 8 bytes a store: a driver's mapping may allow no other, and what was there is no cell (fact 3).
    pub(crate) fn borrow(&mut self, range: Range<u64>, file: &impl AsRawFd, offset: u64) -> io::Result<()> {
        let range = self.checked(range)?;
        let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        let length = (range.end - range.start) as usize;
        // SAFETY: MAP_FIXED replaces pages of this reservation, which nothing else uses, in one step; they stay
        // readable and writable (fact 4). The offsets that lie there are cells, and none is followed before the
        // loop below has made all that can be read there zero. Whoever else writes to the driver's memory, a device or
        // another who opened it without the lock that `driver_buffer` takes, could break fact 2 later: that is for whoever lends it to
        // see to (docs/method/cacheability.md).
        let answer = unsafe {
            libc::mmap(
                self.base.as_ptr().add(range.start as usize).cast(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED,
                file.as_raw_fd(),
                offset,
            )
        };
        if answer == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            self.restore(range);
            return Err(error);
        }
        for at in range.step_by(LINK as usize) {
            if let Some(cell) = self.cell(at) {
                self.link(cell, HostCell(0));
            }
        }
        Ok(())
    }

    /// Puts anonymous memory where a driver's is not wanted or could not be mapped: the kernel takes the old pages away
    /// before it asks the driver. A range that is not of the arena is left alone.
    pub(crate) fn restore(&mut self, range: Range<u64>) {
        let Ok(Range { start, end }) = self.checked(range) else { return };
        let length = (end - start) as usize;
        // SAFETY: as in `borrow`; new anonymous pages are zero, and so hold the first cell (fact 3).
        let answer = unsafe {
            libc::mmap(
                self.base.as_ptr().add(start as usize).cast(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        // A hole in the arena would be a load from anywhere (fact 4).
        if answer == libc::MAP_FAILED {
            std::process::abort();
        }
    }

    /// Backs `range` with memory. `page` is the kernel's own page, the distance at which touching is enough.
    ///
    /// `range` must never have been populated before, or have been released since: its bytes are zero,
    /// and zeros are what is written.
    pub(crate) fn populate(&mut self, range: Range<u64>, page: u64) -> io::Result<()> {
        let range = self.checked(range)?;
        // Since Linux 5.14 the kernel populates in one call and returns an error where a touch would end
        // in SIGBUS. Older kernels say EINVAL, and emulators ignore the advice: the touches below then
        // do the work, and where the call has done it they cost next to nothing.
        match self.advise(range.clone(), libc::MADV_POPULATE_WRITE) {
            Err(error) if error.raw_os_error() != Some(libc::EINVAL) => return Err(error),
            _ => {}
        }
        let mut at = range.start;
        while at < range.end
            && let Some(cell) = self.cell(at)
        {
            // A zero where a zero is: see fact 3 and this function's condition. Should a caller break the
            // condition, a link is replaced by the first cell, which is wrong and still sound.
            self.link(cell, HostCell(0));
            at += page.max(LINK);
        }
        Ok(())
    }

    /// Gives the memory of `range` back; it reads as zero afterwards, so cells in it stay valid.
    pub(crate) fn release(&mut self, range: Range<u64>) -> io::Result<()> {
        let range = self.checked(range)?;
        let length = (range.end - range.start) as usize;
        // SAFETY: unlocking changes no contents; the range is inside the reservation. Locked memory
        // cannot be released, so it is unlocked first; memory that was not locked is left as it is.
        unsafe { libc::munlock(self.base.as_ptr().add(range.start as usize).cast(), length) };
        self.advise(range, libc::MADV_DONTNEED)
    }

    /// Locks `range` into memory, so that nothing swaps it out. (Compaction may still move it, where
    /// `vm.compact_unevictable_allowed` is 1; that shows as faults and in the spread.)
    pub(crate) fn lock(&self, range: Range<u64>) -> io::Result<()> {
        let range = self.checked(range)?;
        let length = (range.end - range.start) as usize;
        // SAFETY: locking changes no contents; the range is inside the reservation.
        let answer = unsafe { libc::mlock(self.base.as_ptr().add(range.start as usize).cast(), length) };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Passes one advice about `range` to the kernel. Private advice values only: see SAFETY.
    fn advise(&self, range: Range<u64>, advice: libc::c_int) -> io::Result<()> {
        let length = (range.end - range.start) as usize;
        // SAFETY: the range is inside the reservation (all callers are in this module and pass checked
        // ranges). The advices used are DONTDUMP, POPULATE_WRITE, COLLAPSE, HUGEPAGE and NOHUGEPAGE, which
        // keep contents and access, and DONTNEED, after which private anonymous memory reads as zero.
        let answer =
            unsafe { libc::madvise(self.base.as_ptr().add(range.start as usize).cast(), length, advice) };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Asks that `range` is backed by base pages only.
    pub(crate) fn forbid_huge(&self, range: Range<u64>) -> io::Result<()> {
        self.advise(self.checked(range)?, libc::MADV_NOHUGEPAGE)
    }

    /// Asks that `range` is backed by huge pages.
    pub(crate) fn advise_huge(&self, range: Range<u64>) -> io::Result<()> {
        self.advise(self.checked(range)?, libc::MADV_HUGEPAGE)
    }

    /// Asks for huge pages at once, in memory that was populated without (Linux 6.1).
    pub(crate) fn collapse(&self, range: Range<u64>) -> io::Result<()> {
        /// `MADV_COLLAPSE` of include/uapi/asm-generic/mman-common.h.
        const MADV_COLLAPSE: libc::c_int = 25;
        self.advise(self.checked(range)?, MADV_COLLAPSE)
    }

    /// `range`, if it is inside the reservation and not empty.
    fn checked(&self, range: Range<u64>) -> io::Result<Range<u64>> {
        if range.start < range.end && range.end <= self.length && range.start.is_multiple_of(LINK) {
            Ok(range)
        } else {
            Err(io::Error::from(io::ErrorKind::InvalidInput))
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this base and length and is unmapped once; cells
        // that outlive it can only be followed in another arena, of the same length (fact 5).
        unsafe { unmap(self.base.as_ptr(), self.length as usize) }
    }
}

/// Unmaps `length` bytes; nothing when that is zero.
///
/// # Safety
/// The range is whole pages of a mapping of this module, and nothing uses it afterwards.
unsafe fn unmap(at: *mut u8, length: usize) {
    if length != 0 {
        // SAFETY: the caller's promise. An error would leave the addresses reserved, which harms nobody.
        unsafe { libc::munmap(at.cast(), length) };
    }
}

#[cfg(test)]
mod tests;
