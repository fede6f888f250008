//! Allocator that treats the block of a `stress --vm` worker like glibc's `malloc` and `free`, with every C library.
//!
//! A request of at least the mmap threshold is mapped, and unmapped when it is freed; a smaller one comes from the
//! heap. Freeing a mapped block raises the threshold to its size and the trim threshold to twice that
//! (`M_MMAP_THRESHOLD` in mallopt(3); glibc 2.42, malloc/malloc.c, `__libc_free`). The next block of that size is
//! then on the heap and stays there when it is freed: its pages fault in the first two passes and never again. Blocks
//! above the threshold's own limit are mapped and fault in every pass. Without this module, the two C libraries that
//! Fathom is built with on Linux would differ: musl maps every large block.

use std::io;

use super::block::Block;

/// Initial threshold: `DEFAULT_MMAP_THRESHOLD` of mallopt(3).
const INITIAL_THRESHOLD: usize = 128 << 10;
/// Size above which freeing does not raise the threshold: `DEFAULT_MMAP_THRESHOLD_MAX` of mallopt(3), 4 MiB times the
/// size of a long on 64-bit systems and 512 KiB on others.
pub(crate) const MAX_BLOCK_BYTES: usize =
    if cfg!(target_pointer_width = "64") { 4 << 20 << 3 } else { 512 << 10 };
/// Size field in front of each block.
const HEADER_BYTES: usize = size_of::<usize>();

/// An allocator for one block at a time, always of the same size.
pub(crate) struct Allocator {
    bytes: usize,
    page: usize,
    threshold: usize,
    /// Memory of the heap, once it is used.
    heap: Option<Block>,
    /// The block that is currently mapped.
    mapped: Option<Block>,
}

impl Allocator {
    pub(crate) fn new(bytes: usize, page: usize) -> Allocator {
        Allocator { bytes, page, threshold: INITIAL_THRESHOLD, heap: None, mapped: None }
    }

    /// Returns the block as `malloc` would.
    pub(crate) fn allocate(&mut self) -> io::Result<&mut Block> {
        let place = if self.is_on_heap() { &mut self.heap } else { &mut self.mapped };
        match place {
            Some(block) => Ok(block),
            None => Ok(place.insert(Block::map(self.bytes)?)),
        }
    }

    /// Returns whether the next block is on the heap, where it stays.
    pub(crate) fn is_on_heap(&self) -> bool {
        self.request() < self.threshold
    }

    /// Returns the request's size with its header, in units of two words (`request2size`).
    fn request(&self) -> usize {
        (self.bytes + HEADER_BYTES).next_multiple_of(2 * HEADER_BYTES)
    }

    /// Frees the block as `free` would.
    pub(crate) fn free(&mut self) {
        if self.mapped.take().is_some() {
            let chunk = (self.request() + HEADER_BYTES).next_multiple_of(self.page);
            if chunk > self.threshold && chunk <= MAX_BLOCK_BYTES {
                self.threshold = chunk;
            }
        }
    }
}
