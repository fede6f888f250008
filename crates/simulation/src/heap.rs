//! Blocks of a program's heap: which allocation site an address belongs to at the time of an access.
//!
//! A site is the instruction that has called the allocator. Addresses are used again after `free`, so that only the order of
//! accesses and blocks tells which site an access is about.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Allocation sites of a program, at most: the last one stands for all further ones.
pub const MAX_SITES: u32 = 1 << 16;

/// What happens to a block of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HeapEvent {
    /// Memory belongs to the site of this number from now on.
    Allocated {
        /// First virtual address.
        address: u64,
        /// Bytes that were asked for.
        bytes: u64,
        /// Number of the site.
        site: u32,
    },
    /// The block that begins at this virtual address is given back.
    Freed(u64),
}

/// The block that an address is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Number of its site.
    pub site: u32,
    /// Bytes from its start, at most 4 GiB.
    pub offset: u32,
}

impl Owner {
    /// No block of the heap.
    pub const NONE: Owner = Owner { site: u32::MAX, offset: 0 };

    /// Returns site and offset, if there is a block.
    pub fn known(self) -> Option<(u32, u32)> {
        (self != Owner::NONE).then_some((self.site, self.offset))
    }
}

/// What the blocks of a site add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteCounts {
    /// Number of blocks.
    pub blocks: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Bytes of those that are in use.
    pub live: u64,
    /// The most bytes that were in use at the same time.
    pub peak: u64,
    /// Loads and stores.
    pub accesses: u64,
}

/// A block.
#[derive(Clone, Copy, Debug)]
struct Block {
    start: u64,
    bytes: u64,
    site: u32,
}

impl Block {
    fn has(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.bytes
    }
}

/// The blocks that are in use, and the counts of all.
#[derive(Debug)]
pub(crate) struct Heap {
    /// By first address.
    blocks: BTreeMap<u64, Block>,
    /// The block of the last access, which the next one is often in, too.
    last: Block,
    sites: Vec<SiteCounts>,
}

impl Heap {
    pub fn new() -> Heap {
        Heap { blocks: BTreeMap::new(), last: Block { start: 0, bytes: 0, site: 0 }, sites: Vec::new() }
    }

    /// Takes an event, after all accesses before it.
    pub fn take(&mut self, event: HeapEvent) {
        self.last.bytes = 0;
        match event {
            HeapEvent::Freed(address) => self.free(address),
            HeapEvent::Allocated { address, bytes, site } => {
                // What was in use there has been given back without notice.
                let end = address.saturating_add(bytes.max(1));
                let before = self.blocks.range(..address).next_back().filter(|(_, block)| block.has(address));
                let gone = before.into_iter().chain(self.blocks.range(address..end)).map(|(&start, _)| start);
                for start in gone.collect::<Vec<_>>() {
                    self.free(start);
                }
                let site = site.min(MAX_SITES - 1);
                self.blocks.insert(address, Block { start: address, bytes, site });
                let known = self.sites.len().max(site as usize + 1);
                self.sites.resize(known, SiteCounts::default());
                let of = &mut self.sites[site as usize];
                of.blocks += 1;
                of.bytes = of.bytes.saturating_add(bytes);
                of.live = of.live.saturating_add(bytes);
                of.peak = of.peak.max(of.live);
            }
        }
    }

    fn free(&mut self, address: u64) {
        if let Some(block) = self.blocks.remove(&address) {
            let of = &mut self.sites[block.site as usize];
            of.live = of.live.saturating_sub(block.bytes);
        }
    }

    /// Returns whether no block has been in use yet.
    pub fn is_unused(&self) -> bool {
        self.sites.is_empty()
    }

    /// Returns the block of an access, and counts the access.
    pub fn access(&mut self, address: u64) -> Owner {
        if !self.last.has(address) {
            let before = self.blocks.range(..=address).next_back();
            let Some((_, block)) = before.filter(|(_, block)| block.has(address)) else { return Owner::NONE };
            self.last = *block;
        }
        let Block { start, site, .. } = self.last;
        self.sites[site as usize].accesses += 1;
        Owner { site, offset: u32::try_from(address - start).unwrap_or(u32::MAX) }
    }

    /// Returns the counts by number of the site.
    pub fn counts(&self) -> &[SiteCounts] {
        &self.sites
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocated(address: u64, bytes: u64, site: u32) -> HeapEvent {
        HeapEvent::Allocated { address, bytes, site }
    }

    #[test]
    fn addresses_belong_to_the_block_that_is_in_use() {
        let mut heap = Heap::new();
        assert!(heap.is_unused());
        heap.take(allocated(0x1000, 32, 0));
        heap.take(allocated(0x1040, 16, 1));
        let site = |heap: &mut Heap, address| heap.access(address).known();
        assert_eq!(site(&mut heap, 0xfff), None);
        assert_eq!(site(&mut heap, 0x101f), Some((0, 31)));
        assert_eq!(site(&mut heap, 0x1020), None, "what the allocator keeps between blocks");
        assert_eq!(site(&mut heap, 0x1048), Some((1, 8)));
        heap.take(HeapEvent::Freed(0x1000));
        assert_eq!(site(&mut heap, 0x1010), None);
        heap.take(allocated(0x1000, 16, 2));
        assert_eq!(site(&mut heap, 0x1008), Some((2, 8)));
        heap.take(HeapEvent::Freed(0x1008));
        assert_eq!(site(&mut heap, 0x1008), Some((2, 8)), "no block begins there");
    }

    #[test]
    fn counts_are_of_all_blocks_and_the_peak_is_what_was_in_use_at_once() {
        let mut heap = Heap::new();
        for n in 0..10 {
            heap.take(allocated(0x1000 * n, 100, 0));
            heap.access(0x1000 * n + 99);
            if n % 2 == 1 {
                heap.take(HeapEvent::Freed(0x1000 * n));
            }
        }
        // Two of them are there without having been freed: a large block covers what three had.
        heap.take(allocated(0, 0x5000, 1));
        let counts = heap.counts();
        assert_eq!(counts[0], SiteCounts { blocks: 10, bytes: 1000, live: 200, peak: 600, accesses: 10 });
        assert_eq!((counts[1].blocks, counts[1].peak), (1, 0x5000));
        heap.take(allocated(1, 1, u32::MAX));
        assert_eq!(heap.counts().len(), MAX_SITES as usize, "the number of a stranger's trace");
    }
}
