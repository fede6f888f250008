//! Reference model: the rules of `machines/README.md` implemented a second time, as simply as possible, with vectors
//! and
//! linear searches. It shares only `Description` with the crate.

#[path = "reference/load.rs"]
pub mod load;
#[path = "reference/sharing.rs"]
mod sharing;
#[path = "reference/store.rs"]
mod store;
#[path = "reference/time.rs"]
mod time;
#[path = "reference/translation.rs"]
mod translation;

use std::collections::BTreeMap;
use std::ops::Range;

use fathom_model::Kind;
use fathom_model::description::{
    Description, Frames, Holds, Inclusion, Index, Level, Through, Time, Tlb, WalkFrom, Write,
};
use fathom_probe::chain::Bijection;
use fathom_probe::machine::Attribute;
use store::{Dice, Store, scramble};

/// Observable result of an access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub level: Option<usize>,
    pub cost: u64,
    pub walked: bool,
    pub tlb_missed: bool,
}

/// Reference machine.
pub struct Reference {
    d: Description,
    seed: u64,
    /// Keyed by (level, owner). The owner of a shared level is CPU 0.
    caches: BTreeMap<(usize, u32), Store>,
    tlbs: BTreeMap<(usize, u32), Store>,
    clocks: BTreeMap<u32, u64>,
    walks: BTreeMap<u32, u64>,
    /// Translations that the nearest TLB of any CPU did not have.
    tlb_misses: u64,
    /// Time of CPU 0's loads and stores of write-back memory beyond hits, in units.
    stalled: u64,
    spread: Dice,
    /// Runs of adjacent lines by CPU, the one used last last: the last line, and the step to the next one (0: not known).
    runs: BTreeMap<u32, Vec<(i64, i64)>>,
    open_rows: BTreeMap<u64, u64>,
    huge: Range<u64>,
    arena: u64,
    several: bool,
    /// Gathering blocks by CPU, oldest first.
    gathering: BTreeMap<u32, Vec<u64>>,
    pub reads: u64,
    pub writes: u64,
    /// By level: lines that stores of other CPUs took, loads of what another CPU had modified, stores to what others had, too. After
    /// the last level: the same of all levels.
    sharing: Vec<[u64; 3]>,
    /// Descriptors that came from a shared level or from memory.
    pub far_descriptors: u64,
}

impl Reference {
    pub fn new(d: &Description, seed: u64, arena: u64, huge: Range<u64>) -> Reference {
        Reference {
            d: d.clone(),
            seed,
            caches: BTreeMap::new(),
            tlbs: BTreeMap::new(),
            clocks: BTreeMap::new(),
            walks: BTreeMap::new(),
            tlb_misses: 0,
            stalled: 0,
            spread: Dice::new(seed, 3, 0),
            runs: BTreeMap::new(),
            open_rows: BTreeMap::new(),
            huge,
            arena,
            several: false,
            gathering: BTreeMap::new(),
            reads: 0,
            writes: 0,
            sharing: vec![[0; 3]; d.levels.len() + 1],
            far_descriptors: 0,
        }
    }

    fn units(&self, time: Time) -> u64 {
        ((time.cycles + time.ns * self.d.core.clock_hz / 1e9) * 4096.0).round() as u64
    }

    fn level(&self, level: usize) -> &Level {
        &self.d.levels[level]
    }

    fn cache(&mut self, level: usize, cpu: u32) -> &mut Store {
        let described = &self.d.levels[level];
        let owner = if described.shared { 0 } else { cpu };
        let seed = self.seed;
        self.caches.entry((level, owner)).or_insert_with(|| {
            let dice = Dice::new(seed, 1, (level as u64) << 32 | u64::from(owner));
            let sets = described.size / described.line / u64::from(described.ways);
            Store::new(sets, described.ways, described.replacement, described.index, dice)
        })
    }

    fn tlb(&mut self, index: usize, cpu: u32) -> &mut Store {
        let Tlb { entries, ways, replacement, .. } = self.d.tlbs[index];
        let seed = self.seed;
        self.tlbs.entry((index, cpu)).or_insert_with(|| {
            let dice = Dice::new(seed, 2, (index as u64) << 32 | u64::from(cpu));
            Store::new(u64::from(entries / ways), ways, replacement, Index::Bits, dice)
        })
    }

    fn path(&self, code: bool) -> Vec<usize> {
        let other = if code { Holds::Data } else { Holds::Instructions };
        (0..self.d.levels.len()).filter(|&l| self.level(l).holds != other).collect()
    }

    fn block(&self, level: usize, address: u64) -> (u64, u64) {
        (0, address / self.level(level).line)
    }

    fn is(&self, level: usize, inclusion: Inclusion) -> bool {
        self.level(level).inclusion == inclusion
    }

    /// Returns the next level outwards from `level`.
    fn outwards(&self, level: usize) -> Option<usize> {
        let holds = self.level(level).holds;
        let meets = |other: &usize| {
            let far = self.level(*other).holds;
            far == holds || far == Holds::Unified
        };
        (level + 1..self.d.levels.len()).find(meets)
    }

    /// Returns the levels nearer than `level` whose lines may be in it.
    fn inwards(&self, level: usize) -> Vec<usize> {
        let holds = self.level(level).holds;
        (0..level).filter(|&l| holds == Holds::Unified || self.level(l).holds == holds).collect()
    }

    fn insert(&mut self, cpu: u32, level: usize, address: u64, dirty: bool) {
        let through = self.level(level).write == Write::Through;
        let block = self.block(level, address);
        let old = self.cache(level, cpu).put(block, dirty && !through);
        if let Some(old) = old {
            self.leaves(cpu, level, old.block.1 * self.level(level).line, old.dirty);
        }
        if dirty && through {
            self.send_out(cpu, self.outwards(level), address);
        }
    }

    fn leaves(&mut self, cpu: u32, level: usize, address: u64, dirty: bool) {
        let mut dirty = dirty;
        let data_only = self.is(level, Inclusion::InclusiveData);
        if data_only || self.is(level, Inclusion::Inclusive) {
            let mut found = false;
            for inner in self.inwards(level) {
                if data_only && self.level(inner).holds == Holds::Instructions {
                    continue;
                }
                let everyone = self.level(level).shared && !self.level(inner).shared;
                let all: Vec<u32> = self.clocks.keys().copied().collect();
                let owners = if everyone { all } else { vec![cpu] };
                for owner in owners {
                    found |= self.drop_all(owner, inner, address, self.level(level).line);
                }
            }
            if found && !dirty {
                self.cache(level, cpu).writebacks += 1;
            }
            dirty |= found;
        }
        match self.outwards(level) {
            Some(next) if self.is(next, Inclusion::Exclusive) => {
                let block = self.block(next, address);
                if !self.cache(next, cpu).look(block) {
                    self.insert(cpu, next, address, dirty);
                } else if dirty {
                    self.store_ends(cpu, next, address);
                }
            }
            next if dirty => self.send_out(cpu, next, address),
            _ => {}
        }
    }

    fn drop_all(&mut self, cpu: u32, level: usize, address: u64, bytes: u64) -> bool {
        let line = self.level(level).line;
        let mut dirty = false;
        let mut at = address / line * line;
        while at < address + bytes {
            let block = self.block(level, at);
            dirty |= self.cache(level, cpu).drop(block).is_some_and(|s| s.dirty);
            at += line;
        }
        dirty
    }

    fn send_out(&mut self, cpu: u32, to: Option<usize>, address: u64) {
        let Some(level) = to else {
            self.writes += 1;
            return;
        };
        let through = self.level(level).write == Write::Through;
        let block = self.block(level, address);
        let here = if self.cache(level, cpu).look(block) {
            if !through {
                self.cache(level, cpu).slot(block).unwrap().dirty = true;
            }
            true
        } else if self.level(level).allocate && !self.is(level, Inclusion::Exclusive) {
            self.insert(cpu, level, address, !through);
            true
        } else {
            false
        };
        if !here || through {
            self.send_out(cpu, self.outwards(level), address);
        }
    }

    fn store_ends(&mut self, cpu: u32, level: usize, address: u64) {
        if self.level(level).write == Write::Through {
            return self.send_out(cpu, self.outwards(level), address);
        }
        let block = self.block(level, address);
        self.cache(level, cpu).slot(block).unwrap().dirty = true;
    }

    /// Returns the first level of `path` that holds an address, and records the use.
    fn search(&mut self, cpu: u32, path: &[usize], address: u64) -> Option<usize> {
        path.iter().copied().find(|&level| {
            let block = self.block(level, address);
            self.cache(level, cpu).look(block)
        })
    }

    /// Moves a line from the level that holds it into the levels of `into`, outermost first.
    fn bring(&mut self, cpu: u32, into: &[usize], found: Option<usize>, address: u64) {
        let takers: Vec<usize> =
            into.iter().copied().filter(|&l| !self.is(l, Inclusion::Exclusive)).rev().collect();
        let mut dirty = false;
        if let Some(level) = found
            && self.is(level, Inclusion::Exclusive)
            && !takers.is_empty()
        {
            let block = self.block(level, address);
            let slot = self.cache(level, cpu).slot(block).unwrap();
            // A transfer between levels is not a write-back.
            dirty = std::mem::take(&mut slot.dirty);
            self.cache(level, cpu).drop(block);
        }
        for level in takers {
            self.insert(cpu, level, address, dirty);
            dirty = false;
        }
    }

    fn read(&mut self, cpu: u32, path: &[usize], address: u64) -> Option<usize> {
        let found = self.search(cpu, path, address);
        let passed: Vec<usize> = path.iter().copied().take_while(|&l| Some(l) != found).collect();
        self.bring(cpu, &passed, found, address);
        found
    }

    fn write(&mut self, cpu: u32, path: &[usize], address: u64) -> Option<usize> {
        let found = self.search(cpu, path, address);
        let passed: Vec<usize> = path.iter().copied().take_while(|&l| Some(l) != found).collect();
        let taker = passed.iter().position(|&l| self.level(l).allocate && !self.is(l, Inclusion::Exclusive));
        match taker {
            Some(nearest) => {
                self.bring(cpu, &passed[nearest..], found, address);
                if found.is_none() {
                    self.reads += 1;
                }
                self.store_ends(cpu, passed[nearest], address);
            }
            None => match found {
                Some(level) => self.store_ends(cpu, level, address),
                None => self.writes += 1,
            },
        }
        found
    }

    /// Updates copies of other CPUs before an access.
    fn snoop(&mut self, cpu: u32, address: u64, store: bool) {
        let private: Vec<usize> = (0..self.d.levels.len()).filter(|&l| !self.level(l).shared).collect();
        let grain = private.iter().map(|&l| self.level(l).line).max().unwrap_or(1);
        let start = address / grain * grain;
        let others: Vec<u32> = self.clocks.keys().copied().filter(|&c| c != cpu).collect();
        self.count_sharing((cpu, &others), &private, address, (start, grain), store);
        for other in others {
            let mut dirty = false;
            for &level in &private {
                if store {
                    dirty |= self.drop_all(other, level, start, grain);
                    continue;
                }
                let line = self.level(level).line;
                for at in (start..start + grain).step_by(line as usize) {
                    let block = self.block(level, at);
                    let cleaned =
                        self.cache(level, other).slot(block).is_some_and(|s| std::mem::take(&mut s.dirty));
                    self.cache(level, other).writebacks += u64::from(cleaned);
                    dirty |= cleaned;
                }
            }
            if dirty {
                let shared = self.path(false).into_iter().find(|&l| self.level(l).shared);
                self.send_out(other, shared, start);
            }
        }
    }

    /// Accesses 8 bytes through the window of an attribute.
    pub fn access(&mut self, cpu: u32, requested: Attribute, virtual_address: u64, kind: Kind) -> Seen {
        let windows = [Attribute::WriteBack, Attribute::WriteThrough, Attribute::NormalNc, Attribute::Device];
        let window = windows.iter().position(|w| *w == requested).unwrap() as u64;
        let address = self.physical(virtual_address);
        // CPU 0 exists from the start. The order in which other CPUs are added is the order in which the crate purges
        // them. It does not affect the remaining state.
        self.clocks.entry(0).or_default();
        let mut now = *self.clocks.entry(cpu).or_default();
        self.several |= cpu != 0;
        if self.several {
            self.snoop(cpu, address, kind == Kind::Store);
        }
        let (before, missed) = (now, self.tlb_misses);
        let (translation, walked) = self.translate(cpu, window, virtual_address, now);
        now += translation;
        let downgraded = self.d.uncached.write_through == Some(Through::NormalNc);
        let treated =
            if requested == Attribute::WriteThrough && downgraded { Attribute::NormalNc } else { requested };
        let (level, cost) = match (treated, kind) {
            (Attribute::WriteBack, _) | (_, Kind::Fetch) => self.cached(cpu, address, kind, now),
            (Attribute::WriteThrough, Kind::Load) => self.load_written_through(cpu, address, now),
            (Attribute::WriteThrough, Kind::Store) => {
                let path = self.path(false);
                let held: Vec<usize> = path
                    .into_iter()
                    .filter(|&level| {
                        let block = self.block(level, address);
                        self.cache(level, cpu).look(block)
                    })
                    .collect();
                (held.first().copied(), self.gathered(cpu, address))
            }
            (Attribute::NormalNc, Kind::Load) => {
                self.reads += 1;
                (None, self.drained(cpu, address) + self.units(self.d.uncached.load.unwrap()))
            }
            (Attribute::NormalNc, Kind::Store) => (None, self.gathered(cpu, address)),
            (Attribute::Device, Kind::Load) => {
                self.reads += 1;
                (None, self.units(self.d.uncached.device.clone().unwrap().load))
            }
            (Attribute::Device, Kind::Store) => {
                self.writes += 1;
                (None, self.units(self.d.uncached.device.clone().unwrap().store))
            }
        };
        now += cost;
        self.clocks.insert(cpu, now);
        if cpu == 0 && requested == Attribute::WriteBack && kind != Kind::Fetch {
            let beyond = (now - before).wrapping_sub(self.hit(virtual_address, kind));
            self.stalled = self.stalled.wrapping_add(beyond);
        }
        Seen { level, cost: now - before, walked, tlb_missed: self.tlb_misses > missed }
    }

    /// Returns what a hit of the nearest level, and of the nearest TLB that can hold its page, takes.
    fn hit(&self, address: u64, kind: Kind) -> u64 {
        let pages = &self.d.memory.pages;
        let page = if self.huge.contains(&address) { pages[pages.len() - 1] } else { pages[0] };
        let tlb = self.d.tlbs.iter().find(|tlb| tlb.pages.contains(&page)).map(|tlb| self.units(tlb.latency));
        let level = match (self.path(false).first(), self.d.core.store) {
            (Some(_), Some(cost)) if kind == Kind::Store => self.units(cost),
            (Some(&level), _) => self.units(self.d.levels[level].latency),
            (None, _) => 0,
        };
        tlb.unwrap_or(0) + level
    }

    /// Returns CPU 0's stalls, in units.
    pub fn stalled(&self) -> u64 {
        (self.stalled as i64).max(0) as u64
    }

    /// Accesses an address through the caches at `now`. Returns the level that holds the line, and the time.
    fn cached(&mut self, cpu: u32, address: u64, kind: Kind, now: u64) -> (Option<usize>, u64) {
        let path = self.path(kind == Kind::Fetch);
        if kind == Kind::Store {
            let level = self.write(cpu, &path, address);
            if let (Some(cost), true) = (self.d.core.store, level.is_some() && level == path.first().copied())
            {
                return (level, self.units(cost));
            }
            return (level, self.time_of_data(cpu, level, now, address));
        }
        let level = self.read(cpu, &path, address);
        self.reads += u64::from(level.is_none());
        let time = match kind {
            Kind::Fetch => self.time_of(level, now, address),
            _ => self.time_of_data(cpu, level, now, address),
        };
        (level, time)
    }

    fn load_written_through(&mut self, cpu: u32, address: u64, now: u64) -> (Option<usize>, u64) {
        let path = self.path(false);
        let level = self.read(cpu, &path, address);
        if level.is_some() {
            return (level, self.time_of_data(cpu, level, now, address));
        }
        self.reads += 1;
        let waited = self.drained(cpu, address);
        (None, waited + self.time_of_data(cpu, None, now + waited, address))
    }

    /// Returns the time of a gathering store.
    fn gathered(&mut self, cpu: u32, address: u64) -> u64 {
        let how = self.d.uncached.gathering.clone().unwrap();
        let blocks = self.gathering.entry(cpu).or_default();
        let block = address / how.gather;
        if blocks.contains(&block) {
            return self.units(how.store);
        }
        blocks.push(block);
        if blocks.len() <= how.buffers as usize {
            return self.units(how.store);
        }
        blocks.remove(0);
        self.writes += 1;
        self.units(how.drain) + self.units(how.store)
    }

    /// Returns the time until the block of an address has been written out, if it is gathering.
    fn drained(&mut self, cpu: u32, address: u64) -> u64 {
        let how = self.d.uncached.gathering.clone().unwrap();
        let blocks = self.gathering.entry(cpu).or_default();
        let before = blocks.len();
        blocks.retain(|block| *block != address / how.gather);
        if blocks.len() == before {
            return 0;
        }
        self.writes += 1;
        self.units(how.drain)
    }

    /// Returns the counters with the names that the model uses.
    pub fn counters(&mut self) -> Vec<(String, u64)> {
        let mut counts = Vec::new();
        for level in 0..self.d.levels.len() {
            let name = self.level(level).name.clone();
            let cache = self.cache(level, 0);
            counts.push((format!("refill.{name}"), cache.refills));
            counts.push((format!("writeback.{name}"), cache.writebacks));
        }
        for t in 0..self.d.tlbs.len() {
            counts.push((format!("refill.tlb.{}", t + 1), self.tlb(t, 0).refills));
        }
        counts.push(("walks".into(), self.walks.get(&0).copied().unwrap_or(0)));
        counts.push(("memory.reads".into(), self.reads));
        counts.push(("memory.writes".into(), self.writes));
        counts
    }
}
