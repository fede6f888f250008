//! Page tables and translation.

use super::*;

impl Reference {
    /// Returns the physical address. The first half of the arena, of which the second part is in order beside huge pages, and its last eighth are
    /// in base pages, each with its own frames.
    pub(super) fn physical(&self, address: u64) -> u64 {
        let page = self.d.memory.pages[0];
        let (half, tail) = (self.arena / 2 / page, self.arena / 8 * 7 / page);
        let scattered = if self.d.memory.pages.len() > 1 { half / 2 } else { half };
        let (part, first, pages) = match address / page {
            number if number < scattered => (0, 0, scattered),
            number if number >= tail => (1, tail, self.arena / page - tail),
            _ => return address,
        };
        if self.d.memory.frames == Frames::Contiguous {
            return address;
        }
        // The unreduced first draw of the stream.
        let key = scramble(Dice::new(self.seed, 6, part).0);
        (first + Bijection::new(pages, key).at(address / page - first)) * page + address % page
    }

    /// Returns the address of the descriptor that a walk reads at `depth`, counted from the last level.
    pub(super) fn descriptor(&self, window: u64, huge: bool, page: u64, number: u64, depth: u32) -> u64 {
        let base = self.d.memory.pages[0];
        let entries = base / 8;
        let walk = self.d.walk.as_ref().unwrap();
        let table_bytes = |page: u64, depth: u32| {
            let descriptors = (self.arena / page) / entries.pow(depth) + 1;
            (descriptors * 8).div_ceil(base) * base
        };
        // Tables of base pages come first, then those of huge pages, then those of the next window.
        let largest = *self.d.memory.pages.last().unwrap();
        let span = |page: u64| (0..walk.fetches).map(|k| table_bytes(page, k)).sum::<u64>();
        let mut start = self.arena + window * (span(base) + span(largest));
        if huge {
            start += (0..walk.fetches).map(|k| table_bytes(base, k)).sum::<u64>();
        }
        start += (0..depth).map(|k| table_bytes(page, k)).sum::<u64>();
        start + number / entries.pow(depth) * 8
    }

    /// Returns the time of a translation, and whether it needed a walk.
    pub(super) fn translate(&mut self, cpu: u32, window: u64, address: u64, now: u64) -> (u64, bool) {
        let huge = self.huge.contains(&address);
        self.translate_page(cpu, window, huge, address, now)
    }

    /// The same for the page of an address in base pages or in huge ones.
    pub(super) fn translate_page(
        &mut self,
        cpu: u32,
        window: u64,
        huge: bool,
        address: u64,
        now: u64,
    ) -> (u64, bool) {
        let base = self.d.memory.pages[0];
        let page = if huge { *self.d.memory.pages.last().unwrap() } else { base };
        let all = (self.arena / base).next_power_of_two();
        let able: Vec<usize> =
            (0..self.d.tlbs.len()).filter(|&t| self.d.tlbs[t].pages.contains(&page)).collect();
        // Entries: a large page is one block, or one block for each base page of it.
        let split = |t: usize| huge && self.d.tlbs[t].splits.is_some();
        let blocks: Vec<(usize, (u64, u64))> = able
            .iter()
            .map(|&t| match split(t) {
                true => (t, (2, window * all + address / base)),
                false => (t, (u64::from(huge), window * all + address / page)),
            })
            .collect();
        let all_split = !able.is_empty() && able.iter().all(|&t| split(t));
        let hit = blocks.iter().find(|&&(t, block)| self.tlb(t, cpu).look(block)).map(|&(t, _)| t);
        let nearest = !able.is_empty() && hit == able.first().copied();
        self.tlb_misses += u64::from(!self.d.tlbs.is_empty() && !nearest);
        for &(t, block) in blocks.iter().take_while(|&&(t, _)| Some(t) != hit) {
            self.tlb(t, cpu).put(block, false);
        }
        if let Some(t) = hit {
            return (self.units(self.d.tlbs[t].latency), false);
        }
        if self.d.walk.is_none() {
            return (0, false);
        }
        if all_split {
            // A kernel's pieces may have more numbers than one window.
            let number = window * all + address / base;
            return (self.walk(cpu, number / all, false, number % all, now), true);
        }
        (self.walk(cpu, window, huge, address / page, now), true)
    }

    /// What a walk takes.
    pub(super) fn walk(&mut self, cpu: u32, window: u64, huge: bool, number: u64, now: u64) -> u64 {
        let page = if huge { *self.d.memory.pages.last().unwrap() } else { self.d.memory.pages[0] };
        let walk = self.d.walk.clone().unwrap();
        *self.walks.entry(cpu).or_default() += 1;
        let mut cost = self.units(walk.latency);
        for depth in 0..walk.fetches {
            let at = self.descriptor(window, huge, page, number, depth);
            let hit_level = match &walk.from {
                WalkFrom::Level(name) => {
                    let path: Vec<usize> =
                        self.path(false).into_iter().skip_while(|&l| self.level(l).name != *name).collect();
                    self.read(cpu, &path, at)
                }
                _ => None,
            };
            self.reads += u64::from(hit_level.is_none());
            self.far_descriptors += u64::from(hit_level.is_none_or(|level| self.level(level).shared));
            cost += self.time_of(hit_level, now + cost, at);
        }
        cost
    }
}
