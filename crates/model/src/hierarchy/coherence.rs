//! Coherence: CPUs snoop each other; non-coherent DMA engines do not. Cache maintenance.

use super::{Cache, DIRTY, Event, Hierarchy, Loss, MEMORY, Path, STALE};

/// What CPUs have done to one another's lines in private levels: of one of these levels, or of all of them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// Of a level: lines that stores of other CPUs have invalidated there. Of all levels: CPUs that have lost a line so, each time
    /// once for all of their levels.
    pub invalidated: u64,
    /// Loads and fetches of a line that another CPU had modified. Of a level: in that CPU's cache of this level, and in none nearer to it.
    pub transfers: u64,
    /// Stores to a line that the CPU itself and others had, clean: those lose it. Of a level: the nearest one in which the CPU had it.
    pub upgrades: u64,
}

impl Sharing {
    /// Returns the counts since `before`.
    pub(crate) fn since(self, before: Sharing) -> Sharing {
        Sharing {
            invalidated: self.invalidated - before.invalidated,
            transfers: self.transfers - before.transfers,
            upgrades: self.upgrades - before.upgrades,
        }
    }

    fn add(&mut self, more: Sharing, times: u64) {
        self.invalidated += more.invalidated * times;
        self.transfers += more.transfers * times;
        self.upgrades += more.upgrades * times;
    }
}

impl Hierarchy {
    /// Returns what CPUs have done to one another's lines in a level.
    pub fn sharing_of(&self, level: usize) -> Sharing {
        self.sharing[level]
    }

    /// Returns the same of all levels together.
    pub fn sharing(&self) -> Sharing {
        let sum = |of: fn(&Sharing) -> u64| self.sharing.iter().map(of).sum();
        Sharing {
            invalidated: self.invalidations,
            transfers: sum(|of| of.transfers),
            upgrades: sum(|of| of.upgrades),
        }
    }

    /// Adds the counts of [`Hierarchy::sharing`] since `before` another `times` times.
    pub(super) fn repeat_sharing(&mut self, before: &Hierarchy, times: u64) {
        self.sharing.iter_mut().zip(&before.sharing).for_each(|(of, was)| of.add(of.since(*was), times));
        self.invalidations += (self.invalidations - before.invalidations) * times;
    }

    /// Marks all cached lines of a range as stale, after a device has written to memory.
    pub fn written_behind(&mut self, address: u64, bytes: u64) {
        // From now on the source of a line matters.
        self.copies = false;
        self.each_held(address, bytes, |cache, number| cache.mark(number, STALE));
    }

    /// Returns whether memory has the newest version of a range: no cache holds a dirty line of it.
    pub fn memory_is_current(&mut self, address: u64, bytes: u64) -> bool {
        let mut dirty = false;
        self.each_held(address, bytes, |cache, number| {
            dirty |= cache.flags(number).unwrap_or(0) & DIRTY != 0
        });
        !dirty
    }

    /// Visits every cached line of a range.
    fn each_held(&mut self, address: u64, bytes: u64, mut visit: impl FnMut(&mut Cache, u32)) {
        for (slot, &index) in self.slots.iter().enumerate() {
            let shift = self.levels[slot % self.levels.len()].shift;
            for number in address >> shift..=(address + bytes.max(1) - 1) >> shift {
                let cache = &mut self.caches[index];
                if cache.flags(number as u32).is_some() {
                    visit(cache, number as u32);
                }
            }
        }
    }

    /// Writes back and invalidates the lines of a range in every cache.
    pub fn clean_invalidate(&mut self, address: u64, bytes: u64) {
        self.maintain(address, bytes, true, true);
    }

    /// Writes back the dirty lines of a range if `clean`, and invalidates its lines in every cache if `invalidate`.
    /// Returns the number of lines of the largest line size that were written back.
    pub fn maintain(&mut self, address: u64, bytes: u64, clean: bool, invalidate: bool) -> u64 {
        let widest = self.levels.iter().map(|l| l.shift).max().unwrap_or(0);
        let mut written = 0;
        for block in address >> widest..=(address + bytes.max(1) - 1) >> widest {
            let mut dirty = 0;
            for slot in 0..self.slots.len() {
                let (index, shift) = (self.slots[slot], self.levels[slot % self.levels.len()].shift);
                let cache = &mut self.caches[index];
                let first = (block << widest).max(address >> shift << shift) >> shift;
                let last = (((block + 1) << widest) - 1).min(address + bytes.max(1) - 1) >> shift;
                for number in first..=last {
                    let number = number as u32;
                    let had = match invalidate {
                        true => cache.remove(number).unwrap_or(0) & DIRTY,
                        false => cache.unmark(number, DIRTY) & DIRTY,
                    };
                    cache.writebacks += u64::from(clean && had != 0);
                    dirty |= had;
                }
            }
            written += u64::from(clean && dirty != 0);
        }
        self.memory_writes += written;
        written
    }

    /// Returns the flags of the line of an address in every cache that holds it.
    fn flags_of(&self, address: u64) -> impl Iterator<Item = u32> {
        let agents = self.slots.chunks(self.levels.len().max(1));
        let all = agents.flat_map(|slots| slots.iter().zip(&self.levels));
        all.filter_map(move |(&index, level)| self.caches[index].flags((address >> level.shift) as u32))
    }

    /// Returns whether the line of an address is dirty in a cache; `None` if no cache holds it.
    pub fn held(&self, address: u64) -> Option<bool> {
        Some(self.flags_of(address).reduce(|all, one| all | one)? & DIRTY != 0)
    }

    /// Returns whether a cache holds the line of an address.
    pub fn holds(&self, address: u64) -> bool {
        self.flags_of(address).next().is_some()
    }

    /// Fills a line into the last level on the data path, as a device does that writes into it (cache stashing).
    pub fn stash(&mut self, agent: usize, address: u64) {
        if let Some(&level) = self.data.last()
            && !self.touch(agent, level, address)
        {
            self.fill(agent, level, address, 0);
        }
    }

    /// Writes back all dirty lines of the levels for data and empties these levels. Returns their capacity in lines,
    /// and the number of dirty lines.
    pub fn flush(&mut self) -> (u64, u64) {
        let (mut lines, mut dirty, mut seen) = (0, 0, Vec::new());
        for (slot, &index) in self.slots.iter().enumerate() {
            if !self.data.contains(&(slot % self.levels.len())) || seen.contains(&index) {
                continue;
            }
            seen.push(index);
            let cache = &mut self.caches[index];
            let (all, had) = cache.lines(DIRTY);
            cache.empty();
            cache.writebacks += had;
            (lines, dirty) = (lines + all, dirty + had);
        }
        self.memory_writes += dirty;
        (lines, dirty)
    }

    /// Returns whether the nearest level of an agent's path that holds the line of `address` has a stale version.
    pub fn is_stale(&self, agent: usize, path: Path, address: u64) -> bool {
        let held =
            |&level: &usize| self.cache(agent, level).flags((address >> self.levels[level].shift) as u32);
        !self.copies && self.path(path).iter().find_map(held).is_some_and(|flags| flags & STALE != 0)
    }

    /// Keeps CPUs coherent before `agent` accesses `address`: dirty copies of other CPUs are written back, and before a
    /// store their copies are invalidated. It takes no time (additive model).
    pub fn snoop(&mut self, agent: usize, address: u64, store: bool) {
        let granule = self.levels.iter().filter(|l| !l.shared).map(|l| l.shift).max().unwrap_or(0);
        let base = address >> granule << granule;
        let common = self.data.iter().copied().find(|&l| self.levels[l].shared).unwrap_or(MEMORY);
        let (mut modified, mut all_lost) = (None, 0);
        for other in (0..self.agents).filter(|&o| o != agent) {
            let (mut flags, mut lost) = (0, 0);
            for level in 0..self.levels.len() {
                if self.levels[level].shared {
                    continue;
                }
                let purges = self.purges;
                let had = if store {
                    self.remove_range(other, level, base, 1 << granule, Loss::Invalidated)
                } else {
                    self.clean_range(other, level, base, 1 << granule)
                };
                self.sharing[level].invalidated += self.purges - purges;
                lost += self.purges - purges;
                if !store && had & DIRTY != 0 {
                    modified = modified.or(Some(level));
                }
                flags |= had;
            }
            self.invalidations += u64::from(lost > 0);
            all_lost += lost;
            if flags & DIRTY != 0 {
                self.write_out(other, common, base, 0);
            }
        }
        if let Some(level) = modified {
            self.sharing[level].transfers += 1;
        }
        if all_lost > 0
            && let Some(level) = self.private_holder(agent, address)
        {
            self.sharing[level].upgrades += 1;
        }
    }

    /// Returns the nearest private level for data in which an agent has the line of an address.
    fn private_holder(&self, agent: usize, address: u64) -> Option<usize> {
        let mut private = self.data.iter().copied().filter(|&level| !self.levels[level].shared);
        private.find(|&level| {
            let number = (address >> self.levels[level].shift) as u32;
            self.cache(agent, level).flags(number).is_some()
        })
    }

    /// Removes the lines of a range from one cache. Returns the flags found.
    pub(super) fn remove_range(
        &mut self,
        agent: usize,
        level: usize,
        address: u64,
        bytes: u64,
        how: Loss,
    ) -> u32 {
        let shift = self.levels[level].shift;
        let mut flags = 0;
        for number in address >> shift..=(address + bytes - 1) >> shift {
            let cache = self.cache_mut(agent, level);
            if let Some(had) = cache.remove(number as u32) {
                flags |= had;
                cache.writebacks += u64::from(had & DIRTY);
                self.purges += 1;
                self.happened(|| Event::Lost { agent, level, address: number << shift, how });
            }
        }
        flags
    }

    /// Clears the dirty flags of a range in one cache. Returns the flags that were set.
    fn clean_range(&mut self, agent: usize, level: usize, address: u64, bytes: u64) -> u32 {
        let shift = self.levels[level].shift;
        let cache = self.cache_mut(agent, level);
        let mut flags = 0;
        for number in address >> shift..=(address + bytes - 1) >> shift {
            let had = cache.unmark(number as u32, DIRTY);
            cache.writebacks += u64::from(had);
            flags |= had;
        }
        flags
    }
}
