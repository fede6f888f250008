//! The block of a `stress --vm` worker as glibc's `malloc` and `free` treat it, with every C library.
//!
//! A request of at least the mmap threshold is mapped, and unmapped when it is freed; a smaller one comes from the
//! heap. Freeing a mapped block raises the threshold to its size and the trim threshold to twice that
//! (`M_MMAP_THRESHOLD` in mallopt(3); glibc 2.42, malloc/malloc.c, `__libc_free`), so that the next block of that
//! size is on the heap and stays there when it is freed: its pages fault in the first two rounds and never again.
//! Blocks above the threshold's own limit are mapped and fault in every round. Both C libraries of Linux that Fathom
//! is built with would else differ: musl maps every large block.

use std::io;

use super::block::Block;

/// The threshold at the start: `DEFAULT_MMAP_THRESHOLD` of mallopt(3).
const FIRST: usize = 128 << 10;
/// The size above which freeing raises nothing: `DEFAULT_MMAP_THRESHOLD_MAX` of mallopt(3), 4 MiB times the size of
/// a long on 64-bit systems and 512 KiB on others.
pub(crate) const MAX_BLOCK_BYTES: usize =
    if cfg!(target_pointer_width = "64") { 4 << 20 << 3 } else { 512 << 10 };
/// A chunk's size field, in front of each block.
const HEADER: usize = size_of::<usize>();

/// An allocator for one block at a time, always of the same size.
pub(crate) struct Allocator {
    bytes: usize,
    page: usize,
    threshold: usize,
    /// The heap's memory, once there is some.
    heap: Option<Block>,
    /// The block that is mapped now.
    mapped: Option<Block>,
}

impl Allocator {
    pub(crate) fn new(bytes: usize, page: usize) -> Allocator {
        Allocator { bytes, page, threshold: FIRST, heap: None, mapped: None }
    }

    /// The block, as `malloc` would give it.
    pub(crate) fn allocate(&mut self) -> io::Result<&mut Block> {
        let place = if self.keeps() { &mut self.heap } else { &mut self.mapped };
        match place {
            Some(block) => Ok(block),
            None => Ok(place.insert(Block::map(self.bytes)?)),
        }
    }

    /// Is the next block from the heap, where it stays?
    pub(crate) fn keeps(&self) -> bool {
        self.request() < self.threshold
    }

    /// A request with its header, in steps of two words (`request2size`).
    fn request(&self) -> usize {
        (self.bytes + HEADER).next_multiple_of(2 * HEADER)
    }

    /// What `free` does of it.
    pub(crate) fn free(&mut self) {
        if self.mapped.take().is_some() {
            let chunk = (self.request() + HEADER).next_multiple_of(self.page);
            if chunk > self.threshold && chunk <= MAX_BLOCK_BYTES {
                self.threshold = chunk;
            }
        }
    }
}
