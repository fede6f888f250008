//! Accesses of programs and traces, in batches: virtual addresses of any value, with kind, size and instruction.
//!
//! A source (a trace reader, a simulator's plugin) collects [`Access`]es of one CPU, a few thousand at a time, and passes
//! them to [`Model::accesses`]. The model is asked for [`Detail::Counts`] (which lines of which levels; no translation,
//! no time) or for [`Detail::Full`]. What the nearest level and the nearest TLB serve is only counted. For every other
//! access the caller's function gets the access's index in the batch and its [`Outcome`]: what is reported by function,
//! object or line is made there.
//!
//! ```
//! use fathom_model::{Access, Detail, Model, catalog};
//!
//! let description = catalog::load("bcm2837").expect("embedded").expect("valid");
//! let mut model = Model::new(&description, 1);
//! let batch: Vec<Access> = (0..4096).map(|n| Access::load(0x7fff_0000_0000 + 8 * n, 8).at(0x40_0000)).collect();
//! let (mut misses, mut walks) = (0, 0);
//! model.accesses(0, Detail::Full, &batch, |_index, outcome| {
//!     misses += u64::from(outcome.level != Some(1));
//!     walks += u64::from(outcome.walked);
//! })?;
//! assert_eq!((misses, walks), (512, 8));
//! # Ok::<(), fathom_probe::machine::Refusal>(())
//! ```
//!
//! Addresses are placed in the machine's memory in chunks at their first use, in the order of that use. A chunk is what one
//! table of the last level maps, or less in small memories ([`Model::chunk_bytes`]); the bits of an address within its
//! chunk are kept, so that sets of TLBs and caches, neighbourhood of descriptors and stride conflicts are those of the
//! virtual addresses. [`Model::back_with_huge_pages`] puts a range in huge pages, [`Model::give_attribute`] makes it device or
//! non-cacheable memory.
//!
//! An access that crosses a line of its nearest level is one access for each line. CPUs are kept coherent as
//! `machines/README.md` says. Batches of several CPUs follow each other in the order of the calls; the clock of each CPU
//! is its own.

use std::collections::HashMap;
use std::ops::Range;

use fathom_probe::machine::{Attribute, Refusal};

use super::Model;
use super::batch::{Piece, Pieces};
use super::guest::PAGE_SHIFT;
use super::outcome::{Detail, Kind, Outcome};
use crate::hierarchy::{MEMORY, Path};
use crate::uncached::{WINDOW, place};

/// An access of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Virtual address.
    pub address: u64,
    /// Address of the instruction; 0 if it is not known. The model does not use it.
    pub pc: u64,
    /// Number of bytes, from 1.
    pub bytes: u16,
    /// Address space: programs with different numbers share no memory. On a machine of a guest ([`Model::of_guest`]), the number of
    /// the physical page instead.
    pub space: u32,
    /// Instructions that the thread has begun since its load or store before, this one's own included: 0 for another access of the same
    /// instruction, and for fetches; 1 for every load and store if they are not counted. Those of accesses that were left out because they change
    /// nothing ([`Model::idle_repeats`]) are included. The model does not use it.
    pub instructions: u32,
    /// Load, store or fetch of an instruction.
    pub kind: Kind,
}

impl Access {
    /// Returns a load in address space 0 of an unknown instruction.
    #[must_use]
    pub fn load(address: u64, bytes: u16) -> Access {
        Access { address, pc: 0, bytes, space: 0, instructions: 1, kind: Kind::Load }
    }

    /// Returns such a store.
    #[must_use]
    pub fn store(address: u64, bytes: u16) -> Access {
        Access { kind: Kind::Store, ..Access::load(address, bytes) }
    }

    /// Returns such a fetch of an instruction.
    #[must_use]
    pub fn fetch(address: u64, bytes: u16) -> Access {
        Access { kind: Kind::Fetch, instructions: 0, ..Access::load(address, bytes) }
    }

    /// Returns the same access by the instruction at `pc`.
    #[must_use]
    pub fn at(self, pc: u64) -> Access {
        Access { pc, ..self }
    }
}

/// The most bytes of a chunk: what a last-level table of 512 base pages of 4 KiB maps.
const CHUNK: u64 = 2 << 20;
/// The fewest chunks that the memory for a program is divided into, unless a page is larger.
const CHUNKS: u64 = 128;
/// Entries of the table of chunks used last.
const RECENT: usize = 64;
/// Accesses that are made together, at least.
const PIECES: usize = 4096;

/// The places of chunks of programs.
#[derive(Clone, Debug, Default)]
pub(super) struct Spaces {
    /// log2 of the bytes in a chunk; 0 before the first use.
    shift: u32,
    pub(super) chunks: HashMap<(u32, u64), u64>,
    /// Chunks by their low bits: address space and number, and the offset of its place. Only a shortcut.
    recent: Vec<(u32, u64, u64)>,
    /// Chunks taken in base pages and in huge pages.
    taken: [u64; 2],
    /// Accesses to be made. Empty between batches.
    pieces: Vec<Piece>,
}

impl Spaces {
    /// Forgets the chunks used last.
    pub(super) fn forget_recent(&mut self) {
        self.recent = vec![(u32::MAX, u64::MAX, 0); RECENT];
    }
}

impl Model {
    /// Returns the bytes of a chunk (see the head of this module: addresses are placed chunk by chunk).
    #[must_use]
    pub fn chunk_bytes(&self) -> u64 {
        let fits = (self.arena.base.bytes / CHUNKS).max(self.arena.base.page).min(CHUNK);
        1 << fits.ilog2()
    }

    /// Puts chunks of a range that have not been used yet in huge pages, from now on.
    ///
    /// # Errors
    /// A [`Refusal`] if the machine has no huge pages, its memory is exhausted, or a part of the range is in use.
    pub fn back_with_huge_pages(&mut self, space: u32, range: Range<u64>) -> Result<(), Refusal> {
        self.place_chunks(space, range, 1, Attribute::WriteBack)
    }

    /// Gives chunks of a range that have not been used yet an attribute, from now on.
    ///
    /// # Errors
    /// A [`Refusal`] if the machine does not describe the attribute, its memory is exhausted, or a part of the range is in
    /// use.
    pub fn give_attribute(
        &mut self,
        space: u32,
        range: Range<u64>,
        attribute: Attribute,
    ) -> Result<(), Refusal> {
        self.place_chunks(space, range, 0, attribute)
    }

    fn place_chunks(
        &mut self,
        space: u32,
        range: Range<u64>,
        huge: usize,
        attribute: Attribute,
    ) -> Result<(), Refusal> {
        let (window, behaves, byte) = self.window_for(attribute)?;
        self.spaces.shift = self.chunk_bytes().trailing_zeros();
        let shift = self.spaces.shift;
        for number in range.start >> shift..=(range.end.max(1) - 1) >> shift {
            if self.spaces.chunks.contains_key(&(space, number)) {
                let reason = format!("{:#x} is in use already", number << shift);
                return Err(Refusal::new(reason, "say how memory is mapped before its first access"));
            }
            let offset = self.new_place(huge)? + window as u64 * WINDOW;
            self.take(offset..offset + (1 << shift), behaves, byte);
            self.spaces.chunks.insert((space, number), offset);
        }
        Ok(())
    }

    /// Returns the place of a new chunk.
    fn new_place(&mut self, huge: usize) -> Result<u64, Refusal> {
        let part = match huge {
            0 => self.arena.base,
            _ => self.arena.huge.ok_or_else(|| {
                Refusal::new(
                    "the description has one page size only",
                    "add a second size to `pages` in [memory]",
                )
            })?,
        };
        let bytes = 1u64 << self.spaces.shift;
        let first = part.start.next_multiple_of(bytes);
        let place = first + (self.spaces.taken[huge] << self.spaces.shift);
        if place + bytes > part.start + part.bytes {
            let most =
                (part.start + part.bytes).saturating_sub(first) >> self.spaces.shift << self.spaces.shift;
            let reason =
                format!("the program uses more memory than is described: {most} bytes, in chunks of {bytes}");
            return Err(Refusal::new(reason, "raise `size` in [memory]"));
        }
        self.spaces.taken[huge] += 1;
        Ok(place)
    }

    /// Creates the table of chunks before the first access.
    #[inline(always)]
    pub(super) fn prepare_spaces(&mut self) {
        if self.spaces.recent.is_empty() {
            self.spaces.shift =
                if self.guest.is_some() { PAGE_SHIFT } else { self.chunk_bytes().trailing_zeros() };
            self.spaces.forget_recent();
        }
    }

    /// Returns the offset in the arena of a virtual address, which gets a place at its first use.
    #[inline(always)]
    pub(super) fn placed(&mut self, space: u32, address: u64) -> Result<u64, Refusal> {
        let number = address >> self.spaces.shift;
        let recent = self.spaces.recent[number as usize % RECENT];
        let start = match recent {
            (known, chunk, start) if known == space && chunk == number => start,
            _ => self.find_place(space, number)?,
        };
        Ok(start + (address & ((1 << self.spaces.shift) - 1)))
    }

    #[inline(never)]
    fn find_place(&mut self, space: u32, number: u64) -> Result<u64, Refusal> {
        let start = match self.spaces.chunks.get(&(space, number)) {
            Some(&start) => start,
            None if self.guest.is_some() => self.guest_page(space, number)?,
            None => {
                let start = self.new_place(0)?;
                self.spaces.chunks.insert((space, number), start);
                start
            }
        };
        self.spaces.recent[number as usize % RECENT] = (space, number, start);
        Ok(start)
    }

    /// Makes accesses of one CPU, in order. `seen` gets the index of each access that the nearest level or the nearest TLB
    /// did not serve, with its outcome, in order; an access that crosses lines is told for each of them.
    ///
    /// # Errors
    /// A [`Refusal`] if the machine has no such CPU, or no memory left for the addresses; the accesses before it have been
    /// made.
    pub fn accesses(
        &mut self,
        cpu: u32,
        detail: Detail,
        batch: &[Access],
        mut seen: impl FnMut(usize, Outcome),
    ) -> Result<(), Refusal> {
        let agent = self.known_agent(cpu)?;
        self.prepare_spaces();
        self.prepare_guest(batch.len());
        let mut pieces = std::mem::take(&mut self.spaces.pieces);
        let made = self.split(agent, detail, batch, &mut pieces, &mut seen);
        self.make(agent, detail, &mut pieces, &mut seen);
        self.spaces.pieces = pieces;
        made
    }

    /// Divides accesses at the lines of their nearest levels, and makes them. The last ones are left in `pieces`.
    fn split(
        &mut self,
        agent: usize,
        detail: Detail,
        batch: &[Access],
        pieces: &mut Vec<Piece>,
        seen: &mut impl FnMut(usize, Outcome),
    ) -> Result<(), Refusal> {
        let shifts = [Kind::Load, Kind::Store, Kind::Fetch].map(|kind| self.nearest_shift(kind));
        for (index, access) in batch.iter().enumerate() {
            let line = 1u64 << shifts[access.kind as usize];
            let (mut at, mut bytes) = (access.address, u64::from(access.bytes.max(1)));
            loop {
                let offset = self.placed(access.space, at)?;
                let here = bytes.min(line - at % line);
                if offset >= WINDOW && detail == Detail::Full {
                    self.make(agent, detail, pieces, seen);
                    if let Some(outcome) = self.one_access(agent, detail, (offset, here), access.kind) {
                        seen(index, outcome);
                    }
                } else {
                    pieces.push(Piece { place: place(offset), index: index as u32, kind: access.kind });
                }
                (at, bytes) = (at.wrapping_add(here), bytes - here);
                if bytes == 0 {
                    break;
                }
            }
            if pieces.len() >= PIECES {
                self.make(agent, detail, pieces, seen);
            }
        }
        Ok(())
    }

    /// Makes the accesses in `pieces`, and empties it.
    fn make(
        &mut self,
        agent: usize,
        detail: Detail,
        pieces: &mut Vec<Piece>,
        seen: &mut impl FnMut(usize, Outcome),
    ) {
        let mut told = |number: u64, outcome| seen(pieces[number as usize].index as usize, outcome);
        self.run_batch(agent, detail, &mut Pieces { pieces, next: 0 }, &mut told);
        pieces.clear();
    }

    /// Returns log2 of the line of the level nearest to a kind of access; of a word if there is none.
    pub(super) fn nearest_shift(&self, kind: Kind) -> u32 {
        let path = if kind == Kind::Fetch { Path::Code } else { Path::Data };
        self.hierarchy.nearest(path).map_or(3, |level| self.hierarchy.line_shift(level))
    }

    /// Makes one access. Returns its outcome unless the nearest level and the nearest TLB served it.
    pub(super) fn one_access(
        &mut self,
        agent: usize,
        detail: Detail,
        (offset, bytes): (u64, u64),
        kind: Kind,
    ) -> Option<Outcome> {
        let path = if kind == Kind::Fetch { Path::Code } else { Path::Data };
        let nearest = self.hierarchy.nearest(path);
        if detail == Detail::Counts {
            let level = self.count_one(agent, place(offset), kind);
            return (Some(level) != nearest).then_some(Outcome {
                level: (level != MEMORY).then_some(level),
                cost: 0,
                translation: 0,
                walked: false,
                tlb_missed: false,
                stale: false,
            });
        }
        let outcome = self.outcome_of(agent, offset, kind, bytes);
        (outcome.level != nearest || outcome.tlb_missed).then_some(outcome)
    }

    /// Makes an access to a place without translation and time, as to write-back memory. Returns the level that serves it.
    fn count_one(&mut self, agent: usize, place: u64, kind: Kind) -> usize {
        self.begin(agent, place, kind == Kind::Store);
        let physical = self.frames.of(place);
        let path = if kind == Kind::Fetch { Path::Code } else { Path::Data };
        let (level, read) = match kind {
            Kind::Store => self.hierarchy.store(agent, path, physical),
            _ => (self.hierarchy.read(agent, path, 0, physical), true),
        };
        self.forget_lines();
        self.memory.reads += u64::from(level == MEMORY && read);
        level
    }
}
