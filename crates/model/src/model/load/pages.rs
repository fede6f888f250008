//! Memory of a worker: the pages of its block, and the frames that they get.

use std::ops::Range;

use fathom_probe::chain::Bijection;

use crate::description::{Description, Frames};
use crate::rng::{Rng, Use};

/// A page without a frame.
const NONE: u32 = u32::MAX;

/// The pages of a worker's block. A page that is touched for the first time gets the frame that the worker has
/// released last (Linux keeps the pages that a CPU has freed in a list and takes the last one first,
/// `free_unref_page_commit` in mm/page_alloc.c), and at first the next unused one.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    /// First address of the block.
    start: u64,
    page: u64,
    /// The frame of each page.
    frames: Vec<u32>,
    /// Free frames; the last one is taken first.
    free: Vec<u32>,
}

/// A page that is being allocated.
#[derive(Clone, Debug)]
pub(super) struct Fresh {
    /// Offset of the access in the block.
    pub offset: u64,
    /// Address of its frame.
    pub physical: u64,
    /// Bytes that are cleared.
    pub cleared: u64,
}

/// Returns the frames of a range of addresses, in the order of the addresses.
pub(super) fn frames(description: &Description, range: Range<u64>, page: u64, seed: u64) -> Vec<u32> {
    let (first, count) = (range.start / page, (range.end - range.start) / page);
    let scattered = description.memory.frames == Frames::Scattered && count > 0;
    let places = scattered.then(|| Bijection::new(count, Rng::new(seed, Use::LoadFrames, 0).next()));
    let frame = |n: u64| (first + places.as_ref().map_or(n, |places| places.at(n))) as u32;
    (0..count).map(frame).collect()
}

impl Pages {
    /// Creates the pages of a block, mapped or not.
    pub fn new(start: u64, page: u64, frames: &[u32], mapped: bool) -> Pages {
        match mapped {
            true => Pages { start, page, frames: frames.to_vec(), free: Vec::new() },
            false => {
                let free = frames.iter().rev().copied().collect();
                Pages { start, page, frames: vec![NONE; frames.len()], free }
            }
        }
    }

    fn index(&self, offset: u64) -> usize {
        (offset / self.page) as usize
    }

    /// Returns the virtual address of an offset.
    pub fn address(&self, offset: u64) -> u64 {
        self.start + offset
    }

    /// Returns the physical address of an offset; `None` if its page is not mapped.
    pub fn physical(&self, offset: u64) -> Option<u64> {
        let frame = self.frames[self.index(offset)];
        (frame != NONE).then(|| u64::from(frame) * self.page + offset % self.page)
    }

    /// Takes a frame for the page of an offset. There are as many frames as pages.
    pub fn allocate(&mut self, offset: u64) -> Fresh {
        let frame = self.free.pop().unwrap_or_default();
        Fresh { offset, physical: u64::from(frame) * self.page, cleared: 0 }
    }

    /// Maps a page that was allocated.
    pub fn map(&mut self, fresh: &Fresh) {
        let index = self.index(fresh.offset);
        self.frames[index] = (fresh.physical / self.page) as u32;
    }

    /// Unmaps the page of an offset. Returns its frame; `None` if it was not mapped.
    pub fn release(&mut self, offset: u64) -> Option<u32> {
        let index = self.index(offset);
        let frame = std::mem::replace(&mut self.frames[index], NONE);
        if frame == NONE {
            return None;
        }
        self.free.push(frame);
        Some(frame)
    }
}
