//! Anonymous memory that is mapped and unmapped directly, independent of the C library.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;

/// Private anonymous memory of this process, unmapped when this is dropped.
pub(crate) struct Block {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a `Block` owns its mapping as a `Vec` owns its memory: nothing else knows the address.
unsafe impl Send for Block {}

/// Byte that is written, as in `stress`.
pub(crate) const MARK_BYTE: u8 = b'Z';

impl Block {
    /// Maps at least one page and at most what a slice may span. Its pages are allocated when they are touched.
    pub(crate) fn map(bytes: usize) -> io::Result<Block> {
        if isize::try_from(bytes).is_err() {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        let bytes = bytes.max(1);
        // SAFETY: a new private mapping at an address of the kernel's choice touches no memory that is in use.
        let raw = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        match NonNull::new(raw.cast::<u8>()) {
            Some(start) if raw != libc::MAP_FAILED => Ok(Block { start, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Forbids huge pages in it. A kernel without huge pages rejects the advice, which is harmless.
    pub(crate) fn base_pages(&self) {
        self.advise(0..self.bytes, libc::MADV_NOHUGEPAGE);
    }

    /// Returns whole pages of the range to the system: the next touch faults and finds zeros.
    pub(crate) fn release(&mut self, range: Range<usize>) {
        self.advise(range, libc::MADV_DONTNEED);
    }

    fn advise(&self, range: Range<usize>, advice: i32) {
        let (from, until) = (range.start.min(self.bytes), range.end.min(self.bytes));
        // SAFETY: the range is inside this mapping. The advices change its contents at most, to zeros, and the caller
        // of that advice has exclusive access.
        unsafe { libc::madvise(self.start.as_ptr().add(from).cast(), until.saturating_sub(from), advice) };
    }

    /// Returns its whole words.
    pub(crate) fn words(&mut self) -> &mut [u64] {
        // SAFETY: the mapping is page-aligned, readable, writable, holds initialised bytes (zeros at first), and
        // lives as long as the block, which is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.bytes / 8) }
    }

    /// Writes a byte every `stride` bytes, from the first on.
    pub(crate) fn mark(&mut self, range: Range<usize>, stride: usize) {
        for at in (range.start..range.end.min(self.bytes)).step_by(stride.max(1)) {
            // SAFETY: `at` is below the mapping's length.
            unsafe { self.start.as_ptr().add(at).write_volatile(MARK_BYTE) };
        }
    }

    /// Returns whether these bytes have the written value.
    pub(crate) fn has_marks(&self, range: Range<usize>, stride: usize) -> bool {
        (range.start..range.end.min(self.bytes)).step_by(stride.max(1)).all(|at| {
            // SAFETY: `at` is below the mapping's length.
            unsafe { self.start.as_ptr().add(at).read_volatile() == MARK_BYTE }
        })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this block alone, and nothing borrows from it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
