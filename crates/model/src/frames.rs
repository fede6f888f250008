//! Frames: the physical page of each page of the arena.
//!
//! TLBs and page walks use addresses of the arena, caches and memory use physical ones. If frames are contiguous and
//! there is no alias, the two are equal and nothing is looked up.

use std::ops::Range;

use fathom_probe::chain::Bijection;

use crate::arena::{Arena, Part};
use crate::description::{self, Description};
use crate::rng::{Rng, Use};

/// Map from pages of the arena to physical pages.
#[derive(Clone, Debug)]
pub(crate) struct Frames {
    /// Whether every address equals its physical address.
    identity: bool,
    /// log2 of the bytes in a base page.
    shift: u32,
    /// The parts in base pages, if those are scattered; each has separate frames.
    scattered: Vec<Scattered>,
    alias: Option<Alias>,
    /// The frames of a guest's pages, by number, if the machine is a guest's.
    guest: Option<Vec<u32>>,
    /// Number of changes.
    version: u64,
}

#[derive(Clone, Debug)]
struct Scattered {
    range: Range<u64>,
    pages: Bijection,
}

/// A range whose pages are in the frames of its first `bytes`, cyclically.
#[derive(Clone, Debug)]
struct Alias {
    range: Range<u64>,
    bytes: u64,
}

impl Frames {
    pub fn new(description: &Description, arena: &Arena, seed: u64) -> Frames {
        let parts = match description.memory.frames {
            description::Frames::Contiguous => Vec::new(),
            description::Frames::Scattered => vec![arena.base, arena.streams],
        };
        let scatter = |(number, part): (usize, &Part)| Scattered {
            range: part.start..part.start + part.bytes,
            pages: Bijection::new(part.bytes / part.page, Rng::new(seed, Use::Frames, number as u64).next()),
        };
        let scattered: Vec<Scattered> = parts.iter().enumerate().map(scatter).collect();
        let shift = arena.base.page.trailing_zeros();
        Frames { identity: scattered.is_empty(), shift, scattered, alias: None, guest: None, version: 1 }
    }

    /// Returns the physical address of an address of the arena.
    #[inline(always)]
    pub fn of(&self, address: u64) -> u64 {
        if self.identity { address } else { self.look_up(address) }
    }

    #[cold]
    #[inline(never)]
    fn look_up(&self, address: u64) -> u64 {
        let mut address = address;
        if let Some(guest) = &self.guest {
            let frame = guest.get((address >> self.shift) as usize).copied().unwrap_or_default();
            return u64::from(frame) << self.shift | address & ((1 << self.shift) - 1);
        }
        if let Some(alias) = &self.alias
            && alias.range.contains(&address)
        {
            address = alias.range.start + (address - alias.range.start) % alias.bytes;
        }
        let Some(part) = self.scattered.iter().find(|part| part.range.contains(&address)) else {
            return address;
        };
        let inside = address - part.range.start;
        let frame = part.pages.at(inside >> self.shift);
        part.range.start + (frame << self.shift | inside & ((1 << self.shift) - 1))
    }

    /// Returns whether every address equals its physical address.
    pub fn is_identity(&self) -> bool {
        self.identity
    }

    /// Returns a number that changes when frames do.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns log2 of the bytes in the smallest page.
    pub fn page_shift(&self) -> u32 {
        self.shift
    }

    /// Returns the physical pieces of a range of the arena, as addresses and bytes.
    pub fn pieces(&self, start: u64, bytes: u64) -> Vec<(u64, u64)> {
        if self.identity {
            return vec![(start, bytes)];
        }
        let page = 1 << self.shift;
        let (mut at, end) = (start, start + bytes);
        let mut pieces = Vec::new();
        while at < end {
            let next = (at / page * page + page).min(end);
            pieces.push((self.of(at), next - at));
            at = next;
        }
        pieces
    }

    /// Makes the frames those of a guest's pages, none of which is known yet.
    pub fn begin_guest(&mut self) {
        (self.identity, self.guest) = (false, Some(Vec::new()));
        self.version += 1;
    }

    /// Puts a guest's page, at an address of the arena, in a frame.
    pub fn put(&mut self, address: u64, frame: u32) {
        let page = (address >> self.shift) as usize;
        if let Some(guest) = &mut self.guest {
            guest.resize(guest.len().max(page + 1), 0);
            guest[page] = frame;
        }
    }

    /// Puts every page of `range` in the frames of its first `bytes`, in place of an earlier alias.
    pub fn alias(&mut self, range: Range<u64>, bytes: u64) {
        (self.identity, self.alias) = (false, Some(Alias { range, bytes }));
        self.version += 1;
    }

    /// Removes the alias. Returns whether there was one.
    pub fn unalias(&mut self) -> bool {
        self.identity = self.scattered.is_empty();
        self.version += 1;
        self.alias.take().is_some()
    }
}
