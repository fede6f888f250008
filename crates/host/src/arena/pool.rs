//! Pages outside the arena, of which some are moved into it once their frames are known.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use super::{Arena, unmap};

/// Base pages, present and zero. A page that was moved is no longer part of it.
pub(crate) struct Pool {
    base: NonNull<u8>,
    /// Bytes of a page.
    page: usize,
    /// Whether each page is still in the pool.
    held: Vec<bool>,
}

impl Pool {
    /// Maps that many pages of `page` bytes, the kernel's own page size, and touches each.
    pub(crate) fn new(pages: u64, page: u64) -> io::Result<Pool> {
        let too_long = || io::Error::from(io::ErrorKind::OutOfMemory);
        let (pages, page) = (usize::try_from(pages).map_err(|_| too_long())?, page as usize);
        let length = pages.checked_mul(page).filter(|&bytes| bytes > 0).ok_or_else(too_long)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory that anything else uses.
        let raw = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0) };
        let base = NonNull::new(raw.cast::<u8>()).filter(|_| raw != libc::MAP_FAILED);
        let base = base.ok_or_else(io::Error::last_os_error)?;
        let pool = Pool { base, page, held: vec![true; pages] };
        // A kernel without transparent huge pages rejects the advice, and does not need it.
        // SAFETY: the advice changes neither contents nor access of the mapping made above.
        unsafe { libc::madvise(raw, length, libc::MADV_NOHUGEPAGE) };
        for n in 0..pages {
            // SAFETY: inside the mapping, which only this function knows. A zero replaces a zero.
            unsafe { pool.base.as_ptr().add(n * page).write_volatile(0) };
        }
        Ok(pool)
    }

    /// Returns the addresses of all its pages.
    pub(crate) fn addresses(&self) -> Range<u64> {
        let start = self.base.as_ptr().addr() as u64;
        start..start + (self.held.len() * self.page) as u64
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for (n, _) in self.held.iter().enumerate().filter(|(_, held)| **held) {
            // SAFETY: a page of this mapping that was not moved; nothing else uses it. The addresses of moved ones may be in use
            // by others.
            unsafe { unmap(self.base.as_ptr().add(n * self.page), self.page) };
        }
    }
}

impl Arena {
    /// Moves the pages `from` of a pool to `at`, in place of as many pages there, whose contents are lost.
    pub(crate) fn move_in(&mut self, at: u64, pool: &mut Pool, from: Range<usize>) -> io::Result<()> {
        let bytes = (from.len() * pool.page) as u64;
        let range = self.checked_range(at..at + bytes)?;
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let held = pool.held.get(from.clone()).is_some_and(|held| held.iter().all(|held| *held));
        if !held || !range.start.is_multiple_of(pool.page as u64) {
            return Err(invalid());
        }
        // SAFETY: the pages are the pool's and hold zeros, which are cells (fact 3 of the arena's argument); nothing else refers to
        // them. They replace pages of this reservation, and stay readable and writable (fact 4).
        let result = unsafe {
            libc::mremap(
                pool.base.as_ptr().add(from.start * pool.page).cast(),
                bytes as usize,
                bytes as usize,
                libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
                self.base.as_ptr().add(range.start as usize),
            )
        };
        if result == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            // The kernel may have unmapped the place already. The pool's pages are still there.
            self.map_anonymous(range);
            return Err(error);
        }
        pool.held[from].fill(false);
        Ok(())
    }
}
