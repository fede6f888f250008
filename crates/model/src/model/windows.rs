//! Accesses through windows: memory that is not write-back, with any width.

use fathom_probe::machine::{Attribute, Refusal};

use super::Model;
use crate::hierarchy::{MEMORY, Path};
use crate::uncached::{self, RAW, place, window};

impl Model {
    /// Returns the window of memory of an attribute, or of the MAIR byte that is set instead, its behaviour and its
    /// MAIR byte.
    pub(crate) fn window_for(&self, attribute: Attribute) -> Result<(usize, Attribute, u8), Refusal> {
        let described = &self.description.uncached;
        if let Some(byte) = self.controls.mair {
            return Ok((RAW, uncached::behaviour_of_byte(described, byte)?, byte));
        }
        let window = uncached::window_of(attribute);
        Ok((window, uncached::behaviour(described, attribute)?, self.windows.bytes[window]))
    }

    /// Uses a range of the arena through its window from now on. Parts that were used with another attribute are
    /// cleaned and invalidated, which takes no time.
    pub(crate) fn take(&mut self, range: std::ops::Range<u64>, behaves: Attribute, byte: u8) {
        let number = window(range.start);
        if self.windows.bytes[number] != byte {
            // The translations of the window change.
            self.flush_all();
        }
        (self.windows.behaves[number], self.windows.bytes[number]) = (Some(behaves), byte);
        for (start, end) in self.windows.take(place(range.start), place(range.end), byte) {
            self.drain_all();
            for (physical, bytes) in self.frames.pieces(start, end - start) {
                self.hierarchy.clean_invalidate(physical, bytes);
            }
        }
        self.forget_lines();
    }

    /// Writes out all gathered stores.
    fn drain_all(&mut self) {
        for agent in &mut self.agents {
            self.hierarchy.memory_writes += agent.buffers.empty();
        }
    }

    /// Cleans and invalidates the lines of a range of the arena, at the described cost per line.
    pub(crate) fn maintain(&mut self, offset: u64, bytes: u64) {
        let pieces = self.frames.pieces(place(offset), bytes);
        pieces.into_iter().for_each(|(physical, bytes)| self.maintain_physical(physical, bytes));
    }

    /// Cleans and invalidates lines by physical address, after gathered stores to them have been written out.
    pub(crate) fn maintain_physical(&mut self, physical: u64, bytes: u64) {
        let (shift, last) = (self.narrowest_line(), physical + bytes.max(1) - 1);
        let lines = (last >> shift) - (physical >> shift) + 1;
        self.wait_for(0, physical, bytes);
        self.hierarchy.clean_invalidate(physical, bytes);
        self.forget_lines();
        self.advance(lines * self.maintain);
    }

    /// Loads 8 or 16 bytes on CPU 0 through the window of the offset.
    pub(crate) fn wide_load(&mut self, offset: u64, bytes: u64) {
        self.catch_up();
        for (offset, bytes) in accesses(offset, bytes) {
            if offset < uncached::WINDOW {
                self.load::<true>(0, offset);
            } else {
                self.load_through(0, offset, bytes);
            }
        }
    }

    /// Stores 8 or 16 bytes on CPU 0 through the window of the offset.
    pub(crate) fn wide_store(&mut self, offset: u64, bytes: u64) {
        self.catch_up();
        for (offset, bytes) in accesses(offset, bytes) {
            if offset < uncached::WINDOW {
                self.store(0, offset);
            } else {
                self.store_through(0, offset, bytes);
            }
        }
    }

    pub(super) fn load_through(&mut self, agent: usize, offset: u64, bytes: u64) -> usize {
        let behaves = self.enter(agent, offset, false);
        self.load_as(agent, behaves, self.frames.of(place(offset)), bytes)
    }

    pub(super) fn store_through(&mut self, agent: usize, offset: u64, bytes: u64) -> usize {
        let behaves = self.enter(agent, offset, true);
        self.store_as(agent, behaves, self.frames.of(place(offset)), bytes)
    }

    /// Counts and translates an access through a window. Returns the behaviour of the window.
    fn enter(&mut self, agent: usize, offset: u64, store: bool) -> Attribute {
        self.begin(agent, place(offset), store);
        let number = window(offset);
        if self.paging.costs {
            let page = self.paging.page(place(offset));
            self.translate_page(agent, self.paging.in_window(page, number as u32), None);
        }
        self.forget_lines();
        self.windows.behaves.get(number).copied().flatten().unwrap_or_default()
    }

    /// Loads from physical memory after translation, with its cost. Returns the level that served it.
    pub(super) fn load_as(&mut self, agent: usize, behaves: Attribute, physical: u64, bytes: u64) -> usize {
        match behaves {
            Attribute::WriteBack | Attribute::WriteThrough => {
                let level = self.hierarchy.read(agent, Path::Data, 0, physical);
                if level == MEMORY && behaves == Attribute::WriteThrough {
                    self.wait_for(agent, physical, bytes);
                }
                self.pay_for_data(agent, level, physical);
                return level;
            }
            Attribute::NormalNc => {
                self.wait_for(agent, physical, bytes);
                self.agents[agent].clock += self.costs.load;
            }
            Attribute::Device => self.agents[agent].clock += self.costs.device_load,
        }
        self.memory.reads += 1;
        MEMORY
    }

    /// Stores to physical memory after translation, with its cost. Returns the level that served it.
    pub(super) fn store_as(&mut self, agent: usize, behaves: Attribute, physical: u64, bytes: u64) -> usize {
        let mut level = MEMORY;
        match behaves {
            Attribute::WriteBack => return self.store_cached(agent, physical),
            Attribute::WriteThrough => level = self.hierarchy.pass_store(agent, Path::Data, physical),
            Attribute::NormalNc => {}
            Attribute::Device => {
                self.hierarchy.memory_writes += 1;
                self.agents[agent].clock += self.costs.device_store;
                return MEMORY;
            }
        }
        let own = &mut self.agents[agent];
        let mut left = 0;
        for block in blocks(physical, bytes, self.costs.gather) {
            left += own.buffers.store(block, self.costs.buffers);
        }
        own.clock += self.costs.store + left * self.costs.drain;
        self.hierarchy.memory_writes += left;
        level
    }

    /// Waits until gathered stores to a range have been written out.
    fn wait_for(&mut self, agent: usize, physical: u64, bytes: u64) {
        let own = &mut self.agents[agent];
        let left: u64 = blocks(physical, bytes, self.costs.gather).map(|block| own.buffers.wait(block)).sum();
        own.clock += left * self.costs.drain;
        self.hierarchy.memory_writes += left;
    }
}

/// Returns the blocks that contain a range.
fn blocks(physical: u64, bytes: u64, shift: u32) -> std::ops::RangeInclusive<u64> {
    physical >> shift..=(physical + bytes.max(1) - 1) >> shift
}

/// Returns the core's accesses for `bytes` bytes: 16 bytes where aligned to 16, otherwise 8.
pub(super) fn accesses(offset: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let (mut at, end) = (offset, offset + bytes.max(1));
    std::iter::from_fn(move || {
        let widest = if at.is_multiple_of(16) && end - at >= 16 { 16 } else { 8 - at % 8 };
        let piece = (at, widest.min(end.checked_sub(at).filter(|left| *left > 0)?));
        at += piece.1;
        Some(piece)
    })
}
