//! The arena: one reserved range of addresses that contains every cell.
//!
//! # Why a cell may be followed without a check
//!
//! [`HostCell`] is an offset, and its field is private to this module. `follow` reads a word (8 bytes, on 32-bit
//! machines the low 4 of 8) at `base + offset` and returns it as a cell, with no comparison in between. That is sound
//! because of six facts, which this module alone ensures:
//!
//! 1. *Only checked offsets.* A `HostCell` is made in two places: [`Arena::cell`], which checks that `offset` is a
//!    multiple of 8 and that `offset + 8` is within the reservation, and [`Arena::follow`].
//! 2. *Only cells are stored.* The safe ways to write into the arena are [`Arena::link`], [`Arena::sweep_loops`] and
//!    [`Arena::copy_loops`]. They store 8 aligned bytes, or twice 8: the offset of a cell, or the content of another
//!    cell. Links are aligned to their own size, so two links never overlap in part, and a link is read as it was
//!    written. A modifying sweep stores a cell with some of its bits 3 to 9 flipped. That is another multiple of 8 in
//!    the same kibibyte, and a reservation is a whole number of kibibytes, so it is a cell too.
//! 3. *Everything else is zero.* The mapping is private, anonymous and backed by no file, except for driver buffers,
//!    which [`Arena::map_buffer`] zeroes before they are read. Memory that was never linked, and memory released with
//!    `MADV_DONTNEED`, reads as zero (`madvise(2)`, `mmap(2)`). Populating writes zeros into memory that held zeros.
//!    Zero is the first cell, and the first cell is valid because a reservation is never shorter than a page.
//! 4. *Everything is readable.* The whole reservation is `PROT_READ | PROT_WRITE` from the start, so following a cell
//!    in an unpopulated page faults a zero page in; there are no holes. Nothing unmaps or protects any part while the
//!    `Arena` lives. Dropping it needs it by value, when no `follow` can be running.
//! 5. *One length for a process.* A cell does not name its arena, so a cell of one `Host` may be given to another
//!    `Host` in the same process. All arenas of a process have the same length (`LENGTH` below), hence fact 1 holds
//!    in each of them.
//! 6. *One thread.* An `Arena` holds a raw pointer: it is neither `Send` nor `Sync`, so no other thread reads or
//!    writes the range at the same time. No reference into the range is ever made.
//!
//! So by induction every cell that exists is a multiple of 8 with 8 readable bytes at it.

pub(crate) mod pool;

use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use fathom_probe::machine::Operation;
use fathom_probe::machine::batch::copy::{Copying, EXTRA_SOURCE_CELLS};
use fathom_probe::machine::batch::stride::{KEYS, Sweep};

use crate::arch::{Architecture as _, Cpu};

/// A place in the arena that holds one 8-byte link: an offset that [`crate::Host`] has checked or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCell(usize);

impl HostCell {
    /// Returns the distance from the start of the arena, bytes.
    pub(crate) fn offset(self) -> u64 {
        self.0 as u64
    }
}

/// Size of a link, bytes.
const LINK_BYTES: u64 = 8;

/// Length of every arena in this process, once the first is made: see fact 5 above.
static LENGTH: Mutex<Option<u64>> = Mutex::new(None);

/// One reserved, private, zero-filled range of addresses.
pub(crate) struct Arena {
    base: NonNull<u8>,
    length: u64,
}

impl Arena {
    /// Reserves `length` bytes (a multiple of `align`) at an address that is a multiple of `align`, a power of two.
    /// If the address space is too small, half is tried, and so on down to `min_length`. In a process that already
    /// has an arena, the length is that of the first one.
    pub(crate) fn reserve(length: u64, min_length: u64, align: u64) -> io::Result<Arena> {
        // A poisoned lock means only that another thread panicked while it held the lock; the value is still either
        // absent or correct.
        let mut known = LENGTH.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fixed) = *known {
            return Arena::map(fixed, align);
        }
        let mut length = length.max(min_length).next_multiple_of(align);
        loop {
            match Arena::map(length, align) {
                Ok(arena) => {
                    *known = Some(length);
                    return Ok(arena);
                }
                Err(error) if length / 2 < min_length => return Err(error),
                Err(_) => length = (length / 2).next_multiple_of(align),
            }
        }
    }

    fn map(length: u64, align: u64) -> io::Result<Arena> {
        let too_long = || io::Error::from(io::ErrorKind::OutOfMemory);
        // Of pointers, Rust computes distances up to `isize::MAX` only: half of a 32-bit address space.
        let with_slack = length.checked_add(align).filter(|&bytes| isize::try_from(bytes).is_ok());
        let with_slack = with_slack.ok_or_else(too_long)? as usize;
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
        // Gigabytes of links make a core file useless. A refusal of the advice is harmless.
        let _ = arena.advise(0..length, libc::MADV_DONTDUMP);
        Ok(arena)
    }

    /// Returns the reserved length, bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Returns the address of offset 0, by which `/proc/self/smaps` is searched.
    pub(crate) fn address(&self) -> u64 {
        self.base.as_ptr().addr() as u64
    }

    /// Returns the cell at `offset`, if it is aligned and inside the reservation (fact 1).
    #[inline]
    pub(crate) fn cell(&self, offset: u64) -> Option<HostCell> {
        let fits = offset.checked_add(LINK_BYTES).is_some_and(|end| end <= self.length);
        // A reservation is no longer than the address space.
        (fits && offset.is_multiple_of(LINK_BYTES)).then_some(HostCell(offset as usize))
    }

    /// The measured load: one `[base + offset]` and nothing else.
    ///
    /// Volatile, because the loads themselves are the purpose: none may be omitted, merged or moved.
    #[inline(always)]
    pub(crate) fn follow(&self, at: HostCell) -> HostCell {
        // SAFETY: by facts 1 to 5 of the module's argument `at.0` is a multiple of 8 and `at.0 + 8` is inside the
        // live, readable reservation at `base`, which is page-aligned. By facts 2 and 3 the value read is the offset
        // of a cell or zero, so the result is a valid cell again.
        HostCell(unsafe { self.base.as_ptr().add(at.0).cast::<usize>().read_volatile() })
    }

    /// Makes `n` steps along two chains, a load of each in turn, with `fillers` instructions between a load and the next
    /// ([`FILLERS`](fathom_probe::machine::batch::spaced::FILLERS)).
    #[inline(always)]
    pub(crate) fn follow_spaced(&self, cells: [HostCell; 2], fillers: u64, n: u64) -> [HostCell; 2] {
        let mut ends = cells.map(|cell| cell.0);
        if n > 0 {
            // SAFETY: as in `follow`: each offset is a cell's, and so is what is read there. `fillers` is within the loop's limits, by the
            // caller, and `n` is not 0.
            ends = unsafe { Cpu::chase_spaced(self.base.as_ptr(), ends, fillers as usize, n as usize) };
        }
        ends.map(HostCell)
    }

    /// Stores the link `at -> to`.
    #[inline(always)]
    pub(crate) fn link(&mut self, at: HostCell, to: HostCell) {
        // SAFETY: as in `follow`, the 8 bytes at `at` are inside the live, writable reservation. They are aligned, so
        // no other link is cut. The value stored is a cell (fact 2). `&mut self` and fact 6 exclude any other access.
        unsafe { self.base.as_ptr().add(at.0).cast::<usize>().write_volatile(to.0) }
    }

    /// Batch form of the stride, see [`fathom_probe::machine::batch::stride::body`]: the same accesses, with one
    /// check of the whole buffer instead of one per cell.
    ///
    /// Never inlined, so that it is compiled with this crate, optimised in every profile. Code that is inlined into
    /// the generic patterns is compiled with its caller, and took twice the time in a debug build. A test also
    /// inspects the machine code of this function.
    #[inline(never)]
    pub(crate) fn sweep_loops(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<u64> {
        self.check_sweep(sweep)?;
        // SAFETY: by `check_sweep`, every cell of the sweep is a multiple of 8 inside the live reservation. The
        // stored value `base + key` is a cell, also by `check_sweep`. A key is a multiple of 8 below a kibibyte,
        // so a flip of its bits keeps a cell a cell (fact 2). `&mut self` and fact 6 exclude other accesses.
        unsafe { fathom_loops::sweep::<Cpu>(self.base.as_ptr(), sweep, from, n) }
    }

    /// Variant of [`Arena::sweep_loops`] that cleans and invalidates each line directly after its access.
    #[inline(never)]
    pub(crate) fn flushed_loops(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<u64> {
        self.check_sweep(sweep)?;
        let mut sum = 0u64;
        for part in sweep.parts(from, n) {
            let to = self.cell(sweep.base + part.key)?;
            for i in 0..part.count {
                let at = self.cell(part.offset + i * sweep.stride)?;
                match sweep.operation {
                    Operation::Read => sum = sum.wrapping_add(self.follow(at).offset()),
                    Operation::Write | Operation::Set => self.link(at, to),
                    // A flip keeps a cell a cell: see `sweep_loops`.
                    Operation::Rmw => self.link(at, HostCell(self.follow(at).0 ^ part.key as usize)),
                    Operation::CopyTo | Operation::CopyFrom => return None,
                }
                self.flush_cell(at);
            }
        }
        Some(sum)
    }

    /// Cleans and invalidates the line of a cell, and waits for completion.
    #[inline(always)]
    fn flush_cell(&mut self, at: HostCell) {
        // SAFETY: as in `follow`, the cell is in the live reservation.
        unsafe { Cpu::flush_line(self.base.as_ptr().add(at.0)) };
        Cpu::flush_barrier();
    }

    /// Cleans and invalidates the lines of `bytes` bytes from `offset`; `None` if they are not all in the arena.
    pub(crate) fn flush(&mut self, offset: u64, bytes: u64) -> Option<()> {
        for at in (0..bytes).step_by(Cpu::LINE_BYTES) {
            let at = self.cell(offset.checked_add(at)? / LINK_BYTES * LINK_BYTES)?;
            self.flush_cell(at);
        }
        Some(())
    }

    /// Batch form of the copy, see [`fathom_probe::machine::batch::copy::body`]: one check of both buffers.
    #[inline(never)]
    pub(crate) fn copy_loops(&mut self, copying: &Copying, from: u64, n: u64) -> Option<()> {
        let bytes = copying.cells.checked_add(EXTRA_SOURCE_CELLS)?.checked_mul(LINK_BYTES)?;
        for base in [copying.from, copying.to] {
            self.cell(base)?;
            self.cell(base.checked_add(bytes)?.checked_sub(LINK_BYTES)?)?;
        }
        if copying.from.abs_diff(copying.to) < bytes {
            return None;
        }
        // SAFETY: both buffers, the source with the starts of all laps, are aligned cells inside the live
        // reservation, checked above. Only links are copied, and a link may be at any cell (fact 2). `&mut self` and
        // fact 6 exclude other accesses.
        unsafe { fathom_loops::copy::<Cpu>(self.base.as_ptr(), copying, from, n) };
        Some(())
    }

    /// Checks that all cells of a sweep, and all values that it may store, are cells of this arena.
    fn check_sweep(&self, sweep: &Sweep) -> Option<()> {
        let last = sweep.cells.checked_sub(1)?.checked_mul(sweep.stride)?.checked_add(sweep.base)?;
        self.cell(last)?;
        self.cell(sweep.base)?;
        self.cell(sweep.base.checked_add(LINK_BYTES * (KEYS - 1))?)?;
        (sweep.stride.is_multiple_of(LINK_BYTES) && self.length.is_multiple_of(LINK_BYTES * KEYS))
            .then_some(())
    }

    /// Maps a driver's buffer, its file from `offset` on, over `range`, whole pages. Zeroes it by stores of 8 bytes,
    /// because a driver's mapping may allow no other size and its old content is not a cell (fact 3).
    pub(crate) fn map_buffer(
        &mut self,
        range: Range<u64>,
        file: &impl AsRawFd,
        offset: u64,
    ) -> io::Result<()> {
        let range = self.checked_range(range)?;
        let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        let length = (range.end - range.start) as usize;
        // SAFETY: MAP_FIXED replaces pages of this reservation, which nothing else uses, in one step; they stay
        // readable and writable (fact 4). The offsets inside are cells, and none is followed before the loop below
        // has zeroed the whole range. A device, or a process that opened the buffer without the lock that
        // `driver_buffer` takes, could write to it and break fact 2 later. Preventing that is the duty of the
        // buffer's owner (docs/method/cacheability.md).
        let result = unsafe {
            libc::mmap(
                self.base.as_ptr().add(range.start as usize).cast(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED,
                file.as_raw_fd(),
                offset,
            )
        };
        if result == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            self.map_anonymous(range);
            return Err(error);
        }
        for at in range.step_by(LINK_BYTES as usize) {
            if let Some(cell) = self.cell(at) {
                // SAFETY: as in `link`. All 8 bytes: on a 32-bit machine a link is half of them.
                unsafe { self.base.as_ptr().add(cell.0).cast::<u64>().write_volatile(0) };
            }
        }
        Ok(())
    }

    /// Maps anonymous memory over a driver buffer that is no longer needed or could not be mapped: the kernel removes
    /// the old pages before it calls the driver. A range outside the arena is ignored.
    pub(crate) fn map_anonymous(&mut self, range: Range<u64>) {
        let Ok(Range { start, end }) = self.checked_range(range) else { return };
        let length = (end - start) as usize;
        // SAFETY: as in `map_buffer`; new anonymous pages are zero, and so hold the first cell (fact 3).
        let result = unsafe {
            libc::mmap(
                self.base.as_ptr().add(start as usize).cast(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        // A hole in the arena would break fact 4.
        if result == libc::MAP_FAILED {
            std::process::abort();
        }
    }

    /// Backs `range` with memory. `page` is the kernel's own page size: one touch per page suffices.
    ///
    /// `range` must never have been populated before, or have been released since. Its bytes are then zero, and only
    /// zeros are written.
    pub(crate) fn populate(&mut self, range: Range<u64>, page: u64) -> io::Result<()> {
        let range = self.checked_range(range)?;
        // Since Linux 5.14 the kernel populates in one call and returns an error where a touch would end in SIGBUS.
        // Older kernels return EINVAL, and emulators ignore the advice: the touches below then populate. After a
        // successful call they cost next to nothing.
        match self.advise(range.clone(), libc::MADV_POPULATE_WRITE) {
            Err(error) if error.raw_os_error() != Some(libc::EINVAL) => return Err(error),
            _ => {}
        }
        let mut at = range.start;
        while at < range.end
            && let Some(cell) = self.cell(at)
        {
            // Overwrites a zero with a zero: see fact 3 and this function's condition. If a caller breaks the
            // condition, a link is replaced by the first cell, which is wrong but still sound.
            self.link(cell, HostCell(0));
            at += page.max(LINK_BYTES);
        }
        Ok(())
    }

    /// Releases the memory of `range`; it reads as zero afterwards, so cells in it stay valid.
    pub(crate) fn release(&mut self, range: Range<u64>) -> io::Result<()> {
        let range = self.checked_range(range)?;
        let length = (range.end - range.start) as usize;
        // SAFETY: unlocking changes no contents; the range is inside the reservation. Locked memory
        // cannot be released, so it is unlocked first; memory that was not locked is left as it is.
        unsafe { libc::munlock(self.base.as_ptr().add(range.start as usize).cast(), length) };
        self.advise(range, libc::MADV_DONTNEED)
    }

    /// Locks `range` into memory, so that it is not swapped out. (Compaction may still move it if
    /// `vm.compact_unevictable_allowed` is 1; that shows as faults and in the spread.)
    pub(crate) fn lock(&self, range: Range<u64>) -> io::Result<()> {
        let range = self.checked_range(range)?;
        let length = (range.end - range.start) as usize;
        // SAFETY: locking changes no contents; the range is inside the reservation.
        let result = unsafe { libc::mlock(self.base.as_ptr().add(range.start as usize).cast(), length) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Passes one advice about `range` to the kernel. Private advice values only: see SAFETY.
    fn advise(&self, range: Range<u64>, advice: libc::c_int) -> io::Result<()> {
        let length = (range.end - range.start) as usize;
        // SAFETY: the range is inside the reservation (all callers are in this module and pass checked
        // ranges). The advices used are DONTDUMP, POPULATE_WRITE, COLLAPSE, HUGEPAGE and NOHUGEPAGE, which
        // keep contents and access, and DONTNEED, after which private anonymous memory reads as zero.
        let result =
            unsafe { libc::madvise(self.base.as_ptr().add(range.start as usize).cast(), length, advice) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Requests that `range` is backed by base pages only.
    pub(crate) fn forbid_huge(&self, range: Range<u64>) -> io::Result<()> {
        self.advise(self.checked_range(range)?, libc::MADV_NOHUGEPAGE)
    }

    /// Requests that `range` is backed by huge pages.
    pub(crate) fn advise_huge(&self, range: Range<u64>) -> io::Result<()> {
        self.advise(self.checked_range(range)?, libc::MADV_HUGEPAGE)
    }

    /// Requests huge pages at once, in memory that was populated without them (Linux 6.1).
    pub(crate) fn collapse(&self, range: Range<u64>) -> io::Result<()> {
        /// `MADV_COLLAPSE` of include/uapi/asm-generic/mman-common.h.
        const MADV_COLLAPSE: libc::c_int = 25;
        self.advise(self.checked_range(range)?, MADV_COLLAPSE)
    }

    /// Returns `range` if it is inside the reservation and not empty.
    fn checked_range(&self, range: Range<u64>) -> io::Result<Range<u64>> {
        if range.start < range.end && range.end <= self.length && range.start.is_multiple_of(LINK_BYTES) {
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

/// Unmaps `length` bytes; does nothing if that is zero.
///
/// # Safety
/// The range is whole pages of a mapping of this module, and nothing uses it afterwards.
unsafe fn unmap(at: *mut u8, length: usize) {
    if length != 0 {
        // SAFETY: the caller's promise. An error would only leave the addresses reserved.
        unsafe { libc::munmap(at.cast(), length) };
    }
}

#[cfg(test)]
mod tests;
