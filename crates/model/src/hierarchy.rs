//! The cache levels: which level serves an access, which levels are filled, and where evicted lines go.
//!
//! The rules, which the tests implement a second time, independently and naively:
//!
//! * A read looks the line up from the nearest level outwards; the first level that holds it serves it. Every level
//!   passed that is not exclusive is filled, outermost first.
//! * An exclusive level is filled only by evictions of its nearer neighbour. When it serves a read and a nearer level
//!   is filled, the line moves, with its dirty flag.
//! * A store ends at the level that serves it if no level passed can allocate. Otherwise the nearest level passed that
//!   allocates reads the line, as above, and the store ends there. A write-back level then marks the line dirty; a
//!   write-through level passes the store on, whole.
//! * An eviction from an inclusive level also removes the line from the nearer levels, or from those of them that hold
//!   data. A dirty line that is evicted, or a store passed on, goes outwards to the first level that holds the line or
//!   allocates on a write.
//! * Write-backs and stores passed on take no time: they are buffered.

use crate::cache::{Cache, DIRTY, STALE};
use crate::description::{self, Description, Holds, Inclusion, Write};
use crate::rng::{Rng, Use};
use crate::time::Scale;

mod coherence;
mod events;
pub(crate) mod passes;

pub use coherence::Sharing;
pub use events::{Event, Loss};

/// The index of memory, in place of a level's index.
pub(crate) const MEMORY: usize = usize::MAX;

/// A level of the description, reduced to what the hierarchy needs.
#[derive(Clone, Debug)]
struct Level {
    shift: u32,
    /// Latency in units.
    latency: u64,
    through: bool,
    allocate: bool,
    inclusive: bool,
    exclusive: bool,
    shared: bool,
    /// The next level outwards on every path through this one.
    next: usize,
    /// The nearer levels; for an inclusive level, those that it includes.
    nearer: Vec<usize>,
}

/// One level of an agent's path, with the data that a read needs.
#[derive(Clone, Copy, Debug)]
struct Step {
    level: usize,
    cache: usize,
    shift: u32,
    /// Whether a clean line can be evicted silently: the level is not inclusive, and the next one not exclusive.
    silent: bool,
}

/// The two paths through the levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    Data,
    Code,
}

/// The levels of all CPUs.
#[derive(Clone, Debug)]
pub(crate) struct Hierarchy {
    levels: Vec<Level>,
    /// All caches. Those of a CPU are created when it first runs.
    caches: Vec<Cache>,
    /// Index in `caches` of level `l` of agent `a`, at `a * levels + l`.
    slots: Vec<usize>,
    agents: usize,
    data: Vec<usize>,
    code: Vec<usize>,
    /// The steps of every agent, data path before code path.
    steps: Vec<Step>,
    /// Whether lines move inwards by copy only: no exclusive level, and no entry known to be stale.
    copies: bool,
    seed: u64,
    /// Lines written back to memory, and stores that reached it.
    pub memory_writes: u64,
    /// Entries removed from nearer levels because an inclusive level evicted the line.
    pub purges: u64,
    /// What CPUs have done to one another's lines, by level: transfers and upgrades of a run are the sums.
    sharing: Vec<Sharing>,
    /// CPUs that have lost a line to a store of another one, each time once for all of their levels.
    invalidations: u64,
    /// What has happened to lines, if it is kept.
    events: Option<Vec<Event>>,
}

impl Hierarchy {
    pub fn new(description: &Description, seed: u64, scale: Scale) -> Hierarchy {
        let on = |path: Holds| {
            let serves =
                move |l: &&(usize, &description::Level)| l.1.holds == path || l.1.holds == Holds::Unified;
            description
                .levels
                .iter()
                .enumerate()
                .collect::<Vec<_>>()
                .iter()
                .filter(serves)
                .map(|l| l.0)
                .collect()
        };
        let (data, code): (Vec<usize>, Vec<usize>) = (on(Holds::Data), on(Holds::Instructions));
        let copies = description.levels.iter().all(|l| l.inclusion != Inclusion::Exclusive);
        let levels = description.levels.iter().enumerate();
        let levels = levels
            .map(|(index, level)| {
                let paths = [&data, &code].into_iter().filter(|p| p.contains(&index));
                let of_data = level.inclusion == Inclusion::InclusiveData;
                let included = paths.clone().filter(|p| !of_data || **p == data);
                let mut nearer: Vec<usize> =
                    included.flat_map(|p| p.iter().copied().filter(|&l| l < index)).collect();
                nearer.sort_unstable();
                nearer.dedup();
                let next = paths.flat_map(|p| p.iter().copied()).filter(|&l| l > index).min();
                Level {
                    shift: level.line.trailing_zeros(),
                    latency: scale.units(level.latency),
                    through: level.write == Write::Through,
                    allocate: level.allocate,
                    inclusive: matches!(level.inclusion, Inclusion::Inclusive | Inclusion::InclusiveData),
                    exclusive: level.inclusion == Inclusion::Exclusive,
                    shared: level.shared,
                    next: next.unwrap_or(MEMORY),
                    nearer,
                }
            })
            .collect();
        Hierarchy {
            levels,
            caches: Vec::new(),
            slots: Vec::new(),
            agents: 0,
            data,
            code,
            steps: Vec::new(),
            copies,
            seed,
            memory_writes: 0,
            purges: 0,
            sharing: vec![Sharing::default(); description.levels.len()],
            invalidations: 0,
            events: None,
        }
    }

    /// Creates the caches of a new agent, CPU `cpu`, and returns the agent's number.
    pub fn add_agent(&mut self, description: &Description, cpu: u32) -> usize {
        let agent = self.agents;
        for (index, level) in description.levels.iter().enumerate() {
            if level.shared && agent > 0 {
                self.slots.push(self.slots[index]);
                continue;
            }
            let number = (index as u64) << 32 | if level.shared { 0 } else { u64::from(cpu) };
            let rng = Rng::new(self.seed, Use::Level, number);
            self.slots.push(self.caches.len());
            self.caches.push(Cache::new(level.sets(), level.ways, level.replacement, level.index, rng));
        }
        self.agents += 1;
        for &level in self.data.iter().chain(&self.code) {
            let Level { shift, inclusive, next, .. } = self.levels[level];
            let silent = !inclusive && (next == MEMORY || !self.levels[next].exclusive);
            let cache = self.slots[agent * self.levels.len() + level];
            self.steps.push(Step { level, cache, shift, silent });
        }
        agent
    }

    /// Returns log2 of the bytes of the shortest line of a level for data; of a word if there is none.
    pub fn shortest_data_line(&self) -> u32 {
        self.data.iter().map(|&level| self.levels[level].shift).min().unwrap_or(3)
    }

    /// Returns whether both have the same state, counters excepted.
    pub fn state_equals(&self, other: &Hierarchy) -> bool {
        let caches = self.caches.iter().zip(&other.caches);
        self.copies == other.copies && caches.fold(true, |same, (a, b)| same && a.state_equals(b))
    }

    /// Adds the counts since `before` another `times` times.
    pub fn repeat_counts(&mut self, before: &Hierarchy, times: u64) {
        self.caches.iter_mut().zip(&before.caches).for_each(|(cache, was)| cache.repeat_counts(was, times));
        self.memory_writes += (self.memory_writes - before.memory_writes) * times;
        self.purges += (self.purges - before.purges) * times;
        self.repeat_sharing(before, times);
    }

    /// Empties every cache.
    pub fn empty(&mut self) {
        self.caches.iter_mut().for_each(Cache::empty);
    }

    /// Returns the cache of level `level` of `agent`.
    pub fn cache(&self, agent: usize, level: usize) -> &Cache {
        &self.caches[self.slots[agent * self.levels.len() + level]]
    }

    /// Takes `taken` ways of each set of a level away; 0 returns them. Their lines are evicted.
    pub fn take_ways(&mut self, agent: usize, level: usize, taken: usize) {
        let shift = self.levels[level].shift;
        for old in self.cache_mut(agent, level).leave(taken) {
            self.evicted(agent, level, u64::from(old.number) << shift, old.flags);
        }
    }

    #[inline(always)]
    fn cache_mut(&mut self, agent: usize, level: usize) -> &mut Cache {
        &mut self.caches[self.slots[agent * self.levels.len() + level]]
    }

    #[inline(always)]
    fn path(&self, path: Path) -> &[usize] {
        match path {
            Path::Data => &self.data,
            Path::Code => &self.code,
        }
    }

    /// Returns the latency of a level in units.
    #[inline(always)]
    pub fn latency(&self, level: usize) -> u64 {
        self.levels[level].latency
    }

    /// Returns the nearest level on a path, if it is private, so that no other CPU changes its replacement order.
    pub fn private_nearest(&self, path: Path) -> Option<usize> {
        self.nearest(path).filter(|&l| !self.levels[l].shared)
    }

    /// Returns the nearest level on a path.
    pub fn nearest(&self, path: Path) -> Option<usize> {
        self.path(path).first().copied()
    }

    /// Returns whether all CPUs share a level.
    pub fn is_shared(&self, level: usize) -> bool {
        self.levels.get(level).is_some_and(|level| level.shared)
    }

    /// Returns whether a store ends in a level, whether it hits or misses there.
    pub fn keeps_stores(&self, level: usize) -> bool {
        self.levels[level].allocate && !self.levels[level].through
    }

    /// Returns whether a level passes stores on.
    pub fn passes_stores(&self, level: usize) -> bool {
        self.levels[level].through
    }

    /// Returns log2 of the bytes of a level's line.
    pub fn line_shift(&self, level: usize) -> u32 {
        self.levels[level].shift
    }

    /// Looks up the line of `address` in a level and records the use. Returns whether it hit.
    #[inline(always)]
    fn touch(&mut self, agent: usize, level: usize, address: u64) -> bool {
        let number = (address >> self.levels[level].shift) as u32;
        self.cache_mut(agent, level).touch(number)
    }

    /// Returns the range of an agent's steps of a path.
    #[inline(always)]
    fn steps_of(&self, agent: usize, path: Path) -> (usize, usize) {
        let start = agent * (self.data.len() + self.code.len());
        match path {
            Path::Data => (start, start + self.data.len()),
            Path::Code => (start + self.data.len(), start + self.data.len() + self.code.len()),
        }
    }

    /// Reads `address` from position `from` of the path. Returns the level that serves it.
    #[inline(always)]
    pub fn read(&mut self, agent: usize, path: Path, from: usize, address: u64) -> usize {
        let (start, end) = self.steps_of(agent, path);
        if start + from >= end {
            return MEMORY;
        }
        let step = self.steps[start + from];
        if self.caches[step.cache].touch((address >> step.shift) as u32) {
            return step.level;
        }
        if self.copies {
            self.copy_inwards(agent, (start + from, end), address)
        } else {
            self.read_beyond(agent, path, from, address)
        }
    }

    /// Completes a read that missed in its first level, if lines move by copy only.
    #[inline(never)]
    fn copy_inwards(&mut self, agent: usize, steps: (usize, usize), address: u64) -> usize {
        let (first, end) = steps;
        let mut holder = first + 1;
        while holder < end {
            let step = self.steps[holder];
            if self.caches[step.cache].touch((address >> step.shift) as u32) {
                break;
            }
            holder += 1;
        }
        for index in (first..holder).rev() {
            let step = self.steps[index];
            let old = self.caches[step.cache].fill((address >> step.shift) as u32, 0);
            if let Some(old) = old
                && !(step.silent && old.flags == 0)
            {
                self.evicted(agent, step.level, u64::from(old.number) << step.shift, old.flags);
            }
        }
        if holder < end { self.steps[holder].level } else { MEMORY }
    }

    /// Completes such a read if the line may have to be moved from its holder, or may be stale.
    fn read_beyond(&mut self, agent: usize, path: Path, from: usize, address: u64) -> usize {
        let holder = self.first_holder(agent, path, from + 1, address);
        self.fetch(agent, path, from, holder, address);
        self.path(path).get(holder).copied().unwrap_or(MEMORY)
    }

    /// Returns the position of the first level from `from` on that holds a line, and records the use there.
    fn first_holder(&mut self, agent: usize, path: Path, from: usize, address: u64) -> usize {
        let mut position = from;
        while let Some(&level) = self.path(path).get(position) {
            if self.touch(agent, level, address) {
                break;
            }
            position += 1;
        }
        position
    }

    /// Copies or moves a line from position `holder` of the path into every level from `from` on.
    fn fetch(&mut self, agent: usize, path: Path, from: usize, holder: usize, address: u64) {
        let mut flags = 0;
        if let Some(&level) = self.path(path).get(holder) {
            let number = (address >> self.levels[level].shift) as u32;
            let nearer = self.path(path)[from..holder].iter();
            let taken = self.levels[level].exclusive && nearer.copied().any(|l| !self.levels[l].exclusive);
            let cache = self.cache_mut(agent, level);
            flags = if taken {
                cache.remove(number).unwrap_or(0)
            } else {
                cache.flags(number).unwrap_or(0) & STALE
            };
        }
        for position in (from..holder).rev() {
            let level = self.path(path)[position];
            if !self.levels[level].exclusive {
                self.fill(agent, level, address, flags);
                flags &= STALE;
            }
        }
    }

    /// Fills a line into a level that lacks it. Dirty data that a write-through level cannot keep go on outwards.
    fn fill(&mut self, agent: usize, level: usize, address: u64, flags: u32) {
        let Level { shift, through, next, .. } = self.levels[level];
        let number = (address >> shift) as u32;
        let kept = if through { flags & !DIRTY } else { flags };
        if let Some(old) = self.cache_mut(agent, level).fill(number, kept) {
            let old_address = u64::from(old.number) << shift;
            self.happened(|| Event::Lost { agent, level, address: old_address, how: Loss::Replaced });
            self.evicted(agent, level, old_address, old.flags);
        }
        if flags != kept {
            self.write_out(agent, next, address, flags);
        }
    }

    /// Handles a line that a fill has displaced from `level`.
    #[inline(never)]
    fn evicted(&mut self, agent: usize, level: usize, address: u64, flags: u32) {
        let Level { inclusive, next, .. } = self.levels[level];
        let mut flags = flags;
        if inclusive {
            let nearer = self.purge_nearer(agent, level, address);
            if nearer & DIRTY > flags & DIRTY {
                self.cache_mut(agent, level).writebacks += 1;
            }
            flags |= nearer;
        }
        if next != MEMORY && self.levels[next].exclusive {
            self.hand_over(agent, next, address, flags);
        } else if flags & DIRTY != 0 {
            self.write_out(agent, next, address, flags);
        }
    }

    /// Passes an evicted line to an exclusive level.
    fn hand_over(&mut self, agent: usize, level: usize, address: u64, flags: u32) {
        if self.touch(agent, level, address) {
            // Only if the level is shared and has another CPU's copy.
            let number = (address >> self.levels[level].shift) as u32;
            self.cache_mut(agent, level).mark(number, flags & STALE);
            if flags & DIRTY != 0 {
                self.end_store(agent, level, address);
            }
        } else {
            self.fill(agent, level, address, flags);
        }
    }

    /// Removes a line of `level` from all nearer levels. Returns the flags found there.
    fn purge_nearer(&mut self, agent: usize, level: usize, address: u64) -> u32 {
        let bytes = 1u64 << self.levels[level].shift;
        let everyone = self.levels[level].shared;
        let mut flags = 0;
        for index in 0..self.levels[level].nearer.len() {
            let nearer = self.levels[level].nearer[index];
            let agents = match (everyone, self.levels[nearer].shared) {
                (true, false) => 0..self.agents,
                _ => agent..agent + 1,
            };
            for owner in agents {
                flags |= self.remove_range(owner, nearer, address, bytes, Loss::Included);
            }
        }
        flags
    }

    /// Stores to `address`. Returns the level that serves it, and whether a level read the line for it.
    pub fn store(&mut self, agent: usize, path: Path, address: u64) -> (usize, bool) {
        let holder = self.first_holder(agent, path, 0, address);
        let takes = |&position: &usize| {
            let level = &self.levels[self.path(path)[position]];
            level.allocate && !level.exclusive
        };
        let allocating = (0..holder).find(takes);
        let served_by = self.path(path).get(holder).copied().unwrap_or(MEMORY);
        match allocating {
            Some(allocating) => {
                self.fetch(agent, path, allocating, holder, address);
                let level = self.path(path)[allocating];
                self.end_store(agent, level, address);
            }
            None if served_by == MEMORY => self.memory_writes += 1,
            None => self.end_store(agent, served_by, address),
        }
        (served_by, allocating.is_some())
    }

    /// Passes a store to memory. Levels that hold its line are updated but keep nothing else: write-through memory.
    /// Returns the nearest level that holds it.
    pub fn pass_store(&mut self, agent: usize, path: Path, address: u64) -> usize {
        let mut nearest = MEMORY;
        for position in 0..self.path(path).len() {
            let level = self.path(path)[position];
            if self.touch(agent, level, address) && nearest == MEMORY {
                nearest = level;
            }
        }
        nearest
    }

    /// Ends a store at a level that holds its line.
    fn end_store(&mut self, agent: usize, level: usize, address: u64) {
        let Level { shift, through, next, .. } = self.levels[level];
        if through {
            return self.write_out(agent, next, address, 0);
        }
        let number = (address >> shift) as u32;
        self.cache_mut(agent, level).mark(number, DIRTY);
    }

    /// Writes data outwards from `level`: into the first level that holds the line or allocates for it.
    fn write_out(&mut self, agent: usize, mut level: usize, address: u64, flags: u32) {
        while level != MEMORY {
            let Level { shift, through, allocate, exclusive, next, .. } = self.levels[level];
            let kept = if through { flags & STALE } else { flags & STALE | DIRTY };
            self.happened(|| Event::Written { agent, level, address });
            if self.touch(agent, level, address) {
                self.cache_mut(agent, level).mark((address >> shift) as u32, kept);
                if !through {
                    return;
                }
            } else if allocate && !exclusive {
                self.fill(agent, level, address, kept);
                if !through {
                    return;
                }
            }
            level = next;
        }
        self.memory_writes += 1;
    }
}
