//! A second model, as slow and plain as it can be: the rules of `machines/README.md` written down
//! once more, with vectors and linear searches, sharing nothing with the crate but `Description`.

use std::collections::BTreeMap;
use std::ops::Range;

use fathom_model::Kind;
use fathom_model::description::{
    Description, Frames, Holds, Inclusion, Index, Level, Replacement, Through, Time, Tlb, WalkFrom, Write,
};
use fathom_probe::chain::Bijection;
use fathom_probe::machine::Attribute;

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn scramble(x: u64) -> u64 {
    let x = x.wrapping_add(GOLDEN);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The documented streams of draws: purposes 1 (level), 2 (TLB), 3 (spread), 6 (frames).
struct Dice(u64);

impl Dice {
    fn new(seed: u64, purpose: u64, number: u64) -> Dice {
        Dice(scramble(seed ^ scramble(purpose << 56 ^ number)))
    }

    fn throw(&mut self, sides: u64) -> u64 {
        let value = scramble(self.0);
        self.0 = self.0.wrapping_add(GOLDEN);
        ((u128::from(value) * u128::from(sides)) >> 64) as u64
    }
}

/// What one way holds.
#[derive(Clone, Copy)]
struct Slot {
    block: (u64, u64),
    dirty: bool,
    used: u64,
    filled: u64,
}

/// One set-associative store. A block is identified by (page kind, number).
struct Store {
    sets: Vec<Vec<Option<Slot>>>,
    /// Tree bits by set, lower and upper end of the node's ways: true points to the upper half.
    tree: BTreeMap<(usize, usize, usize), bool>,
    referenced: Vec<Vec<bool>>,
    /// The ages of SRRIP and QLRU.
    ages: Vec<Vec<u32>>,
    policy: Replacement,
    index: Index,
    /// What a hashed index divides by.
    divisor: u64,
    dice: Dice,
    moment: u64,
    refills: u64,
    writebacks: u64,
}

impl Store {
    fn new(sets: u64, ways: u32, policy: Replacement, index: Index, dice: Dice) -> Store {
        Store {
            sets: vec![vec![None; ways as usize]; sets as usize],
            tree: BTreeMap::new(),
            referenced: vec![vec![false; ways as usize]; sets as usize],
            ages: vec![vec![3; ways as usize]; sets as usize],
            policy,
            index,
            divisor: if index == Index::Hashed { primitive(sets) } else { 1 },
            dice,
            moment: 0,
            refills: 0,
            writebacks: 0,
        }
    }

    fn place(&self, block: (u64, u64)) -> (usize, Option<usize>) {
        let sets = self.sets.len() as u64;
        let set = match self.index {
            Index::Bits => block.1 % sets,
            Index::Hashed => remainder(block.1, self.divisor, sets),
        } as usize;
        let way = self.sets[set].iter().position(|slot| slot.is_some_and(|s| s.block == block));
        (set, way)
    }

    fn slot(&mut self, block: (u64, u64)) -> Option<&mut Slot> {
        let (set, way) = self.place(block);
        self.sets[set][way?].as_mut()
    }

    fn used(&mut self, set: usize, way: usize, by_a_fill: bool) {
        self.moment += 1;
        self.sets[set][way].as_mut().unwrap().used = self.moment;
        self.referenced[set][way] = true;
        if self.policy == Replacement::BitPlru && self.referenced[set].iter().all(|&r| r) {
            self.referenced[set].fill(false);
            self.referenced[set][way] = true;
        }
        self.ages[set][way] = match self.policy {
            Replacement::Srrip if by_a_fill => 2,
            Replacement::Qlru if by_a_fill => 1,
            _ => 0,
        };
        if self.policy == Replacement::Qlru {
            let others = |(w, age): (usize, &mut u32)| (w != way).then_some(*age);
            let oldest = self.ages[set].iter_mut().enumerate().filter_map(others).max().unwrap_or(3);
            self.ages[set]
                .iter_mut()
                .enumerate()
                .for_each(|(w, a)| *a += if w == way { 0 } else { 3 - oldest });
        }
        self.point_away(set, way, 0, self.sets[set].len().next_power_of_two());
    }

    fn point_away(&mut self, set: usize, way: usize, low: usize, high: usize) {
        if high - low < 2 {
            return;
        }
        let middle = (low + high) / 2;
        self.tree.insert((set, low, high), way < middle);
        if way < middle {
            self.point_away(set, way, low, middle);
        } else {
            self.point_away(set, way, middle, high);
        }
    }

    fn pointed_to(&self, set: usize, low: usize, high: usize) -> usize {
        if high - low < 2 {
            return low;
        }
        let middle = (low + high) / 2;
        let upper = self.tree.get(&(set, low, high)).copied().unwrap_or(false);
        if upper && middle < self.sets[set].len() {
            self.pointed_to(set, middle, high)
        } else {
            self.pointed_to(set, low, middle)
        }
    }

    fn look(&mut self, block: (u64, u64)) -> bool {
        let (set, way) = self.place(block);
        if let Some(way) = way {
            self.used(set, way, false);
        }
        way.is_some()
    }

    fn victim(&mut self, set: usize) -> usize {
        let ways = self.sets[set].len();
        let oldest = |store: &Store, age: fn(&Slot) -> u64| {
            (0..ways).min_by_key(|&w| age(store.sets[set][w].as_ref().unwrap())).unwrap()
        };
        match self.policy {
            Replacement::Lru => oldest(self, |s| s.used),
            Replacement::Fifo => oldest(self, |s| s.filled),
            Replacement::Random => self.dice.throw(ways as u64) as usize,
            Replacement::NotMruRandom if ways == 1 => 0,
            Replacement::NotMruRandom => {
                let latest = (0..ways).max_by_key(|&w| self.sets[set][w].unwrap().used);
                let others: Vec<usize> = (0..ways).filter(|&w| Some(w) != latest).collect();
                others[self.dice.throw(others.len() as u64) as usize]
            }
            Replacement::TreePlru => self.pointed_to(set, 0, ways.next_power_of_two()),
            Replacement::Nru => {
                if self.referenced[set].iter().all(|&r| r) {
                    self.referenced[set].fill(false);
                }
                self.referenced[set].iter().position(|&r| !r).unwrap()
            }
            Replacement::NruRandom => {
                if self.referenced[set].iter().all(|&r| r) {
                    self.referenced[set].fill(false);
                }
                let clear: Vec<usize> = (0..ways).filter(|&w| !self.referenced[set][w]).collect();
                clear[self.dice.throw(clear.len() as u64) as usize]
            }
            // The only way is the last one used, whose bit is set.
            Replacement::BitPlru => self.referenced[set].iter().position(|&r| !r).unwrap_or(0),
            Replacement::Srrip | Replacement::Qlru => loop {
                if let Some(way) = self.ages[set].iter().position(|&age| age == 3) {
                    break way;
                }
                self.ages[set].iter_mut().for_each(|age| *age += 1);
            },
        }
    }

    /// Puts a block in; what had to go.
    fn put(&mut self, block: (u64, u64), dirty: bool) -> Option<Slot> {
        let (set, _) = self.place(block);
        self.refills += 1;
        let free = match self.policy {
            Replacement::Qlru => self.sets[set].iter().rposition(Option::is_none),
            _ => self.sets[set].iter().position(Option::is_none),
        };
        let way = free.unwrap_or_else(|| self.victim(set));
        let old = self.sets[set][way];
        self.moment += 1;
        self.sets[set][way] = Some(Slot { block, dirty, used: 0, filled: self.moment });
        self.used(set, way, true);
        self.writebacks += u64::from(old.is_some_and(|s| s.dirty));
        old
    }

    fn drop(&mut self, block: (u64, u64)) -> Option<Slot> {
        let (set, way) = self.place(block);
        self.referenced[set][way?] = false;
        let old = self.sets[set][way?].take();
        self.writebacks += u64::from(old.is_some_and(|s| s.dirty));
        old
    }
}

/// The remainder of a polynomial over GF(2) by another of log2(sets) degrees: long division.
fn remainder(mut number: u64, by: u64, sets: u64) -> u64 {
    for shift in (0..40).rev() {
        number ^= if number >= sets << shift { by << shift } else { 0 };
    }
    number
}

/// The smallest polynomial of log2(sets) degrees by which the powers of x are all different.
fn primitive(sets: u64) -> u64 {
    let is = |by: &u64| {
        let powers = std::iter::successors(Some(1), |&power| Some(remainder(power << 1, *by, sets)));
        powers.skip(1).take(sets as usize).position(|power| power == 1) == Some(sets as usize - 2)
    };
    (sets + 1..2 * sets).find(is).unwrap_or(1)
}

/// What an access did, to be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub level: Option<usize>,
    pub cost: u64,
    pub walked: bool,
}

/// The naive machine.
pub struct Reference {
    d: Description,
    seed: u64,
    /// (level, owner): the owner of a shared one is CPU 0.
    caches: BTreeMap<(usize, u32), Store>,
    tlbs: BTreeMap<(usize, u32), Store>,
    clocks: BTreeMap<u32, u64>,
    walks: BTreeMap<u32, u64>,
    spread: Dice,
    open_rows: BTreeMap<u64, u64>,
    huge: Range<u64>,
    arena: u64,
    several: bool,
    /// What gathers, by CPU, the oldest first.
    gathering: BTreeMap<u32, Vec<u64>>,
    pub reads: u64,
    pub writes: u64,
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
            spread: Dice::new(seed, 3, 0),
            open_rows: BTreeMap::new(),
            huge,
            arena,
            several: false,
            gathering: BTreeMap::new(),
            reads: 0,
            writes: 0,
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

    /// The next level outwards from `level`.
    fn outwards(&self, level: usize) -> Option<usize> {
        let holds = self.level(level).holds;
        let meets = |other: &usize| {
            let far = self.level(*other).holds;
            far == holds || far == Holds::Unified
        };
        (level + 1..self.d.levels.len()).find(meets)
    }

    /// Levels nearer than `level` whose lines may be in it.
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

    /// The first level of `path` that holds an address, its use noted.
    fn search(&mut self, cpu: u32, path: &[usize], address: u64) -> Option<usize> {
        path.iter().copied().find(|&level| {
            let block = self.block(level, address);
            self.cache(level, cpu).look(block)
        })
    }

    /// Brings a line from where it was found into the levels of `into`, outermost first.
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
            // Handing over is no write-back.
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

    fn memory_time(&mut self, now: u64, address: u64) -> u64 {
        let memory = self.d.memory.clone();
        let mut cost = self.units(memory.latency);
        if let Some(rows) = memory.rows {
            let row = address / rows.row;
            let bank = row % u64::from(rows.banks);
            if self.open_rows.insert(bank, row) == Some(row) {
                cost = self.units(rows.open);
            }
        }
        let spread = self.units(memory.spread);
        if spread > 0 {
            cost = cost - spread.min(cost) + self.spread.throw(2 * spread + 1);
        }
        if let Some(refresh) = memory.refresh {
            let (every, takes) = (self.units(refresh.every), self.units(refresh.takes));
            let left = every - now % every;
            if left <= takes {
                cost += left;
            }
        }
        cost
    }

    fn time_of(&mut self, answered: Option<usize>, now: u64, address: u64) -> u64 {
        match answered {
            Some(level) => self.units(self.level(level).latency),
            None => self.memory_time(now, address),
        }
    }

    /// The physical address: the first half of the arena and what is behind seven eighths of it are in base
    /// pages, each with its frames to itself.
    fn physical(&self, address: u64) -> u64 {
        let page = self.d.memory.pages[0];
        let (half, tail) = (self.arena / 2 / page, self.arena / 8 * 7 / page);
        let (part, first, pages) = match address / page {
            number if number < half => (0, 0, half),
            number if number >= tail => (1, tail, self.arena / page - tail),
            _ => return address,
        };
        if self.d.memory.frames == Frames::Contiguous {
            return address;
        }
        // The stream's first draw, whole.
        let key = scramble(Dice::new(self.seed, 6, part).0);
        (first + Bijection::new(pages, key).at(address / page - first)) * page + address % page
    }

    /// Where a walk finds descriptor `depth`, counted from the last level.
    fn descriptor(&self, window: u64, huge: bool, page: u64, number: u64, depth: u32) -> u64 {
        let base = self.d.memory.pages[0];
        let entries = base / 8;
        let walk = self.d.walk.as_ref().unwrap();
        let table_bytes = |page: u64, depth: u32| {
            let descriptors = (self.arena / page) / entries.pow(depth) + 1;
            (descriptors * 8).div_ceil(base) * base
        };
        // Tables for base pages, then for huge ones; then the next window's.
        let largest = *self.d.memory.pages.last().unwrap();
        let span = |page: u64| (0..walk.fetches).map(|k| table_bytes(page, k)).sum::<u64>();
        let mut start = self.arena + window * (span(base) + span(largest));
        if huge {
            start += (0..walk.fetches).map(|k| table_bytes(base, k)).sum::<u64>();
        }
        start += (0..depth).map(|k| table_bytes(page, k)).sum::<u64>();
        start + number / entries.pow(depth) * 8
    }

    /// What a translation takes, and whether it walked.
    fn translate(&mut self, cpu: u32, window: u64, address: u64, now: u64) -> (u64, bool) {
        let huge = self.huge.contains(&address);
        let page = if huge { *self.d.memory.pages.last().unwrap() } else { self.d.memory.pages[0] };
        let number = address / page;
        let all = (self.arena / self.d.memory.pages[0]).next_power_of_two();
        let block = (u64::from(huge), window * all + number);
        let able: Vec<usize> =
            (0..self.d.tlbs.len()).filter(|&t| self.d.tlbs[t].pages.contains(&page)).collect();
        let hit = able.iter().copied().find(|&t| self.tlb(t, cpu).look(block));
        for &t in able.iter().take_while(|&&t| Some(t) != hit) {
            self.tlb(t, cpu).put(block, false);
        }
        if let Some(t) = hit {
            return (self.units(self.d.tlbs[t].latency), false);
        }
        let Some(walk) = self.d.walk.clone() else { return (0, false) };
        *self.walks.entry(cpu).or_default() += 1;
        let mut cost = self.units(walk.latency);
        for depth in 0..walk.fetches {
            let at = self.descriptor(window, huge, page, number, depth);
            let answered = match &walk.from {
                WalkFrom::Level(name) => {
                    let path: Vec<usize> =
                        self.path(false).into_iter().skip_while(|&l| self.level(l).name != *name).collect();
                    self.read(cpu, &path, at)
                }
                _ => None,
            };
            self.reads += u64::from(answered.is_none());
            cost += self.time_of(answered, now + cost, at);
        }
        (cost, true)
    }

    /// Other CPUs' copies before an access.
    fn snoop(&mut self, cpu: u32, address: u64, store: bool) {
        let private: Vec<usize> = (0..self.d.levels.len()).filter(|&l| !self.level(l).shared).collect();
        let grain = private.iter().map(|&l| self.level(l).line).max().unwrap_or(1);
        let start = address / grain * grain;
        let others: Vec<u32> = self.clocks.keys().copied().filter(|&c| c != cpu).collect();
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

    /// An access of 8 bytes to memory that is mapped with an attribute, in that attribute's window.
    pub fn access(&mut self, cpu: u32, requested: Attribute, virtual_address: u64, kind: Kind) -> Seen {
        let windows = [Attribute::WriteBack, Attribute::WriteThrough, Attribute::NormalNc, Attribute::Device];
        let window = windows.iter().position(|w| *w == requested).unwrap() as u64;
        let address = self.physical(virtual_address);
        // CPU 0 is there from the beginning; the order in which others come is the order in which
        // the crate purges them, and makes no difference to what is left.
        self.clocks.entry(0).or_default();
        let mut now = *self.clocks.entry(cpu).or_default();
        self.several |= cpu != 0;
        if self.several {
            self.snoop(cpu, address, kind == Kind::Store);
        }
        let before = now;
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
        Seen { level, cost: now - before, walked }
    }

    /// An access through the caches at `now`: who answered, and what it takes.
    fn cached(&mut self, cpu: u32, address: u64, kind: Kind, now: u64) -> (Option<usize>, u64) {
        let path = self.path(kind == Kind::Fetch);
        if kind == Kind::Store {
            let level = self.write(cpu, &path, address);
            if let (Some(cost), true) = (self.d.core.store, level.is_some() && level == path.first().copied())
            {
                return (level, self.units(cost));
            }
            return (level, self.time_of(level, now, address));
        }
        let level = self.read(cpu, &path, address);
        self.reads += u64::from(level.is_none());
        (level, self.time_of(level, now, address))
    }

    fn load_written_through(&mut self, cpu: u32, address: u64, now: u64) -> (Option<usize>, u64) {
        let path = self.path(false);
        let level = self.read(cpu, &path, address);
        if level.is_some() {
            return (level, self.time_of(level, now, address));
        }
        self.reads += 1;
        let waited = self.drained(cpu, address);
        (None, waited + self.time_of(None, now + waited, address))
    }

    /// What a store that gathers takes.
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

    /// What it takes until the block of an address has left, if it gathers.
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

    /// The counters under the names that the model gives them.
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
