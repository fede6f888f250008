//! Memory that the kernel and this process share.

use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::AtomicU64;

use crate::perf::Counter;

/// Memory that the kernel shares: bytes that are written in a circle, and for a ring a page before them.
#[derive(Debug)]
pub(super) struct Shared {
    start: *mut u8,
    /// Bytes before the circle.
    before: usize,
    /// Bytes of the circle, a power of two.
    bytes: usize,
}

impl Shared {
    /// Maps the memory of an event at this offset.
    pub(super) fn map(event: &Counter, offset: usize, before: usize, bytes: usize) -> io::Result<Shared> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: a new mapping of a perf event, at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                before + bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Shared { start: start.cast(), before, bytes })
    }

    /// Memory that no kernel writes, for tests.
    #[cfg(test)]
    pub(super) fn planted(before: usize, bytes: usize) -> Shared {
        let (all, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping of no file, at an address that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), before + bytes, all, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Shared { start: start.cast(), before, bytes }
    }

    /// Writes into the circle from a position on, for tests.
    #[cfg(test)]
    pub(super) fn plant(&self, from: u64, data: &[u8]) {
        for (at, byte) in (from..).zip(data) {
            // SAFETY: the place is in the circle, which only the test uses.
            unsafe { self.start.add(self.before + (at % self.bytes as u64) as usize).write(*byte) };
        }
    }

    /// Returns the size of the circle, bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Returns where the circle ends, bytes from the begin of the mapping.
    pub(super) fn end(&self) -> usize {
        self.before + self.bytes
    }

    /// Returns a word of a ring's first page, at a multiple of 8 below its size.
    pub(super) fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.before);
        // SAFETY: the first page of the mapping is live as long as `self`, callers name offsets in it that are aligned to 8, and the
        // kernel accesses them as single words.
        unsafe { AtomicU64::from_ptr(self.start.add(offset).cast()) }
    }

    /// Returns `bytes` bytes of the circle from a position on, which may go round its end.
    pub(super) fn copy(&self, from: u64, bytes: usize) -> Vec<u8> {
        let begin = (from % self.bytes as u64) as usize;
        let bytes = bytes.min(self.bytes);
        let straight = bytes.min(self.bytes - begin);
        let mut copy = vec![0; bytes];
        for (at, part) in [(begin, 0..straight), (0, straight..bytes)] {
            // SAFETY: `at + part.len()` is not beyond the size of the circle, which begins at `before`; the destination is as long as
            // the part. The kernel does not write between tail and head.
            unsafe {
                let data = self.start.add(self.before + at);
                std::ptr::copy_nonoverlapping(data, copy[part.clone()].as_mut_ptr(), part.len());
            }
        }
        copy
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is its own, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.cast(), self.before + self.bytes) };
    }
}

/// Maps so many bytes, a power of two; fewer, but not less than `least`, if they may not be locked.
pub(super) fn map_locked(
    bytes: usize,
    least: usize,
    map: impl Fn(usize) -> io::Result<Shared>,
) -> io::Result<Shared> {
    let mut bytes = bytes;
    loop {
        let error = match map(bytes) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => error,
            mapped => return mapped,
        };
        if bytes / 2 < least {
            let what = format!("{} KiB for each CPU may not be locked ({error})", bytes >> 10);
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, what));
        }
        bytes /= 2;
    }
}
