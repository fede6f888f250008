//! The model: CPUs with their clocks over shared cache levels and one memory.

mod accesses;
mod batch;
mod batches;
mod dma;
mod guest;
mod issue;
mod load;
mod neighbours;
mod outcome;
mod pay;
mod spaced;
mod streams;
mod totals;
mod trace;
mod traced;
mod wakeup;
mod windows;

pub use accesses::Access;
pub use guest::{GUEST_BATCH, GUEST_PAGE};
pub use issue::GuestTranslation;
pub use outcome::{Detail, Kind, Outcome};
pub use totals::{LevelTotals, Totals};
pub use traced::Traced;

use fathom_probe::machine::{Attribute, Controls, Ops, Refusal};

use crate::arena::Arena;
use crate::description::{Description, Holds};
use crate::frames::Frames;
use crate::hierarchy::{Event, Hierarchy, MEMORY, Path};
use crate::memory::Memory;
use crate::prefetch::{Prefetch, Runs};
use crate::time::{Scale, Timer, UNITS_PER_CYCLE};
use crate::translate::{Fetches, Page, Paging, Tlbs};
use crate::uncached::{Buffers, Costs, Windows, place};
use accesses::Spaces;
use guest::Guest;
use load::RunningLoad;
use neighbours::Neighbours;
use streams::Running;
use wakeup::Sleeper;

/// A CPU that has run.
#[derive(Clone, Debug)]
struct Agent {
    cpu: u32,
    clock: u64,
    /// Time of loads and stores of write-back memory beyond that of hits, in units. Accesses that gather, or that are not cached, are
    /// not in it.
    stalled: u64,
    tlbs: Tlbs,
    /// The line of the last load, by its address in the arena, if it was in the nearest level and nothing has changed
    /// there since. Under the policies for which this is kept, a second load of it changes no state.
    last_line: u64,
    /// Cost of a second load of it in units, translation included.
    repeat_cost: u64,
    /// Buffers of gathering stores.
    buffers: Buffers,
    /// Runs of adjacent lines.
    runs: Runs,
}

const NO_LINE: u64 = u64::MAX;

/// The simulated machine of a description. Deterministic for a description and a seed.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) description: Description,
    seed: u64,
    agents: Vec<Agent>,
    pub(crate) hierarchy: Hierarchy,
    pub(crate) memory: Memory,
    paging: Paging,
    pub(crate) arena: Arena,
    frames: Frames,
    pub(crate) timer: Timer,
    /// Cost of one operation and of one taken branch, in units.
    ops: (u64, u64),
    streams: Vec<Running>,
    /// Memory that batches use.
    scratch: Option<Box<batch::Scratch>>,
    /// Places of programs' addresses.
    spaces: Spaces,
    /// The pages of a guest, if the machine is one's.
    guest: Option<Box<Guest>>,
    /// The workers of a load.
    load: Option<Box<RunningLoad>>,
    /// Users of the machine that take parts of it in bursts.
    neighbours: Option<Box<Neighbours>>,
    /// Whether streams, workers or neighbours run.
    co_running: bool,
    /// Whether the counters have stalls.
    pub(crate) has_stalls: bool,
    /// Time of a load and of a store that the nearest level serves, in units, without translation.
    hits: [u64; 2],
    /// Descriptors that walks have read from a level that CPUs share, or from memory.
    shared_fetches: u64,
    pub(crate) accesses: u64,
    /// log2 of the nearest data level's line.
    filter_shift: u32,
    /// Latency of the nearest data level in units, if the shortcut for the last line is exact: the level is private,
    /// and a load after a fill changes no state. (Policies for which only a load after a hit changes nothing have no
    /// shortcut. The test for that would slow all other loads by a twentieth.)
    filter_latency: Option<u64>,
    /// Whether several CPUs access addresses that the caller chooses, and so may share lines.
    sharing: bool,
    /// The nearest data level, and the cost in units of a buffered store that hits there, if described.
    buffered: Option<(usize, u64)>,
    /// Cost in units of cleaning and invalidating a line.
    maintain: u64,
    pub(crate) windows: Windows,
    costs: Costs,
    /// Runs of adjacent lines, if they are prefetched.
    prefetch: Option<Prefetch>,
    pub(crate) controls: Controls,
    /// The sleeping task, between [`wake_begin`](fathom_probe::machine::Wake::wake_begin) and its end.
    sleeper: Option<Sleeper>,
    /// The state of a trial's transfers, until the next trial's.
    link: Option<dma::Link>,
}

impl Model {
    /// Creates the machine of a description.
    ///
    /// # Panics
    /// If the description fails its [`check`](Description::check). One that was parsed from a file has passed it.
    #[must_use]
    pub fn new(description: &Description, seed: u64) -> Model {
        if let Err(flaw) = description.check() {
            panic!("a model of an impossible description: {flaw}");
        }
        let scale = Scale::new(description);
        let arena = Arena::new(description);
        let huge = arena.huge.map_or(0..0, |part| part.start..part.start + part.bytes);
        let hierarchy = Hierarchy::new(description, seed, scale);
        let nearest = hierarchy.private_nearest(Path::Data);
        let first = description.levels.iter().position(|l| l.holds != Holds::Instructions);
        let mut model = Model {
            description: description.clone(),
            seed,
            agents: Vec::new(),
            memory: Memory::new(description, seed, scale),
            paging: Paging::new(description, arena.bytes, huge, scale),
            frames: Frames::new(description, &arena, seed),
            arena,
            timer: Timer::new(description, seed),
            ops: (scale.units(description.core.alu), scale.units(description.core.branch)),
            streams: Vec::new(),
            scratch: None,
            spaces: Spaces::default(),
            guest: None,
            load: None,
            neighbours: None,
            co_running: !description.neighbours.is_empty(),
            has_stalls: false,
            hits: [0; 2],
            shared_fetches: 0,
            accesses: 0,
            filter_shift: nearest.map_or(0, |level| hierarchy.line_shift(level)),
            filter_latency: nearest
                .filter(|&level| description.levels[level].replacement.use_after_fill_is_idempotent())
                .map(|level| hierarchy.latency(level)),
            sharing: false,
            buffered: first.zip(description.core.store.map(|t| scale.units(t))),
            maintain: description.core.maintain.map_or(0, |t| scale.units(t)),
            windows: Windows::new(),
            costs: Costs::new(description, scale),
            prefetch: Prefetch::new(description, scale),
            controls: Controls::default(),
            sleeper: None,
            link: None,
            hierarchy,
        };
        model.agent_of(0);
        let [load, store, _] = model.hit_costs();
        model.hits = [load, store].map(|cost| cost - model.translation_hit_cost());
        model.neighbours = Neighbours::new(description, seed, model.timer.units_hz);
        model
    }

    /// Returns its description.
    #[must_use]
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Returns the clock of CPU 0, in units of 1 / [`UNITS_PER_CYCLE`] core cycle.
    #[must_use]
    pub fn clock(&self) -> u64 {
        self.agents[0].clock
    }

    /// Has the counters tell stalls from now on, as processors do that have such an event: cycles of CPU 0's loads and stores of
    /// write-back memory beyond hits of the nearest level and TLB.
    pub fn count_stalls(&mut self) {
        self.has_stalls = true;
    }

    /// Returns the stalls of CPU 0, in units of 1 / [`UNITS_PER_CYCLE`] core cycle. A farther TLB that is faster than a nearer one takes
    /// from them.
    #[must_use]
    pub fn stalled(&self) -> u64 {
        (self.agents[0].stalled as i64).max(0) as u64
    }

    /// Returns the bytes of the arena, which contains all mappings. Page tables are after it.
    #[must_use]
    pub fn arena_bytes(&self) -> u64 {
        self.arena.bytes
    }

    /// Returns the agent of CPU `cpu`, and creates it at the first call.
    fn agent_of(&mut self, cpu: u32) -> usize {
        if let Some(known) = self.agents.iter().position(|a| a.cpu == cpu) {
            return known;
        }
        let agent = self.hierarchy.add_agent(&self.description, cpu);
        let tlbs = Tlbs::new(&self.description, self.seed, cpu);
        self.agents.push(Agent {
            cpu,
            clock: 0,
            stalled: 0,
            tlbs,
            last_line: NO_LINE,
            repeat_cost: 0,
            buffers: Buffers::default(),
            runs: Runs::default(),
        });
        agent
    }

    /// Empties every cache and TLB, so that a trial starts cold.
    pub(crate) fn flush_all(&mut self) {
        self.hierarchy.empty();
        for agent in &mut self.agents {
            agent.tlbs.empty();
            agent.last_line = NO_LINE;
            agent.runs = Runs::default();
        }
    }

    /// Puts `pages` pages from `base` on in the frames of the first `frames` of them: page `i` in the frame of page `i
    /// % frames`, as many read-only mappings share one page of zeros. `base` is the start of a mapped page. Caches use
    /// physical addresses and then see `frames` pages; TLBs and walks see `pages`. Caches and TLBs are empty
    /// afterwards.
    ///
    /// The next successful [`map`](fathom_probe::machine::Machine::map) undoes it, and so does another alias. It is for
    /// memory that is only read: contents are stored by the arena's addresses, not by frames.
    ///
    /// # Errors
    /// A [`Refusal`] if `base` is not the start of a page, a page of the range is not mapped, or `frames` is not from 1
    /// to `pages`.
    pub fn alias(&mut self, base: u64, pages: u64, frames: u64) -> Result<(), Refusal> {
        let page = self.arena.page_at(base);
        if frames == 0 || frames > pages {
            let remedy = format!("use 1 to {pages} frames");
            return Err(Refusal::new(format!("{pages} pages cannot be in {frames} frames"), remedy));
        }
        let end = pages.checked_mul(page).and_then(|bytes| bytes.checked_add(base));
        let Some(end) = end.filter(|&end| base.is_multiple_of(page) && self.arena.is_mapped(base, end))
        else {
            let reason = format!("{pages} pages of {page} bytes from {base} on are not all mapped");
            return Err(Refusal::new(reason, "request whole pages of one mapping"));
        };
        self.frames.alias(place(base)..place(end), frames * page);
        self.flush_all();
        Ok(())
    }

    /// Removes the alias, so that every page has a separate frame.
    pub(crate) fn unalias(&mut self) {
        if self.frames.unalias() {
            self.flush_all();
        }
    }

    /// Returns the TLBs of CPU 0.
    pub(crate) fn tlbs(&self) -> &Tlbs {
        &self.agents[0].tlbs
    }

    /// Returns the number of consecutive accesses to a line after which more of them change no state (see
    /// [`use_after_fill_is_idempotent`](crate::description::Replacement::use_after_fill_is_idempotent)).
    pub(crate) fn idempotent_accesses(&self) -> u32 {
        let levels = self.description.levels.iter().map(|l| l.replacement);
        let mut all = levels.chain(self.description.tlbs.iter().map(|t| t.replacement));
        if all.all(|policy| policy.use_after_fill_is_idempotent()) { 1 } else { 2 }
    }

    /// Returns log2 of the bytes of the shortest line of any level; of a word if there is none.
    pub(crate) fn narrowest_line(&self) -> u32 {
        self.description.levels.iter().map(|l| l.line.trailing_zeros()).min().unwrap_or(3)
    }

    /// Advances the clock of CPU 0.
    #[inline(always)]
    pub(crate) fn advance(&mut self, units: u64) {
        self.agents[0].clock += units;
    }

    /// Charges operations to CPU 0.
    #[inline(always)]
    pub(crate) fn charge(&mut self, ops: Ops) {
        self.advance(ops.alu * self.ops.0 + ops.branch * self.ops.1);
    }

    /// Loads an address. Without `FULL` the load is neither translated nor timed.
    #[inline(always)]
    pub(crate) fn load<const FULL: bool>(&mut self, agent: usize, address: u64) {
        let own = &mut self.agents[agent];
        if address >> self.filter_shift == own.last_line {
            self.accesses += 1;
            own.clock += if FULL { own.repeat_cost } else { 0 };
        } else {
            self.load_line::<FULL>(agent, address);
        }
    }

    /// Loads from another line than the last one.
    #[inline(always)]
    fn load_line<const FULL: bool>(&mut self, agent: usize, address: u64) -> usize {
        self.begin(agent, address, false);
        let begun = self.agents[agent].clock;
        if FULL {
            self.translate(agent, address);
        }
        let physical = self.frames.of(address);
        let purges = self.hierarchy.purges;
        let level = self.hierarchy.read(agent, Path::Data, 0, physical);
        if self.hierarchy.purges != purges {
            self.forget_lines();
        }
        if FULL {
            self.pay_for_data(agent, level, physical);
            self.count_stall(agent, begun, self.hits[0]);
        } else if level == MEMORY {
            self.memory.reads += 1;
        }
        let Some(latency) = self.filter_latency else { return level };
        let own = &mut self.agents[agent];
        // If no TLB can hold the page, every load walks, and none repeats.
        let repeats = !FULL || !self.paging.costs || own.tlbs.last != Page::NONE;
        own.last_line = if repeats { address >> self.filter_shift } else { NO_LINE };
        own.repeat_cost = own.tlbs.last_cost + latency;
        level
    }

    /// Counts an access, and keeps CPUs coherent if they may share its line.
    #[inline(always)]
    fn begin(&mut self, agent: usize, address: u64, store: bool) {
        self.accesses += 1;
        if self.sharing {
            self.hierarchy.snoop(agent, self.frames.of(address), store);
        }
    }

    /// Discards the last lines, because the nearest levels may have changed.
    #[cold]
    fn forget_lines(&mut self) {
        for agent in &mut self.agents {
            agent.last_line = NO_LINE;
        }
    }

    pub(crate) fn store(&mut self, agent: usize, address: u64) -> usize {
        self.begin(agent, address, true);
        let begun = self.agents[agent].clock;
        self.translate(agent, address);
        let level = self.store_cached(agent, self.frames.of(address));
        self.count_stall(agent, begun, self.hits[1]);
        level
    }

    /// Counts the time of an access that began at `begun` beyond that of a hit of the nearest level, which takes `hit`, and of the nearest
    /// TLB that can hold its page.
    #[inline(always)]
    fn count_stall(&mut self, agent: usize, begun: u64, hit: u64) {
        let own = &mut self.agents[agent];
        let beyond = (own.clock - begun).wrapping_sub(hit + own.tlbs.last_cost);
        own.stalled = own.stalled.wrapping_add(beyond);
    }

    /// Stores to write-back memory after translation.
    fn store_cached(&mut self, agent: usize, physical: u64) -> usize {
        let (level, read) = self.hierarchy.store(agent, Path::Data, physical);
        self.forget_lines();
        match self.buffered {
            Some((nearest, cost)) if nearest == level => self.agents[agent].clock += cost,
            _ => self.pay_for_data(agent, level, physical),
        }
        // A store without allocation in memory is charged as an access, but reads nothing.
        self.memory.reads -= u64::from(level == MEMORY && !read);
        level
    }

    fn fetch(&mut self, agent: usize, address: u64) -> usize {
        self.begin(agent, address, false);
        self.translate(agent, address);
        let physical = self.frames.of(address);
        let level = self.hierarchy.read(agent, Path::Code, 0, physical);
        self.forget_lines();
        self.pay(agent, level, physical);
        level
    }

    /// Charges the translation of an address.
    #[inline(always)]
    fn translate(&mut self, agent: usize, address: u64) {
        if !self.paging.costs {
            return;
        }
        let page = self.paging.page(address);
        self.translate_page(agent, page, None);
    }

    /// Charges the translation of a page. `descriptors` are the addresses of a guest's descriptors; `None` for the
    /// model's page tables.
    #[inline(always)]
    fn translate_page(&mut self, agent: usize, page: Page, descriptors: Option<&[u64]>) {
        let own = &mut self.agents[agent];
        if own.tlbs.last == page.key {
            own.clock += own.tlbs.last_cost;
        } else {
            self.translate_anew(agent, page, descriptors);
        }
    }

    /// Translates through the TLBs. A walk fetches the descriptors given, or those of the model's tables. Never
    /// inlined, to keep the loops of loads small.
    #[inline(never)]
    fn translate_anew(&mut self, agent: usize, page: Page, descriptors: Option<&[u64]>) {
        let own = &mut self.agents[agent];
        let before = own.clock;
        match self.paging.look_up(&mut own.tlbs, page) {
            Some(latency) => own.clock += latency,
            None => {
                own.tlbs.walks += 1;
                own.clock += self.paging.walk;
                self.walk(agent, page, descriptors);
            }
        }
        let own = &mut self.agents[agent];
        own.tlbs.anew = Some(own.clock - before);
    }

    /// Fetches the descriptors of a walk, one after the other.
    #[inline(never)]
    fn walk(&mut self, agent: usize, page: Page, descriptors: Option<&[u64]>) {
        for fetch in 0..self.paging.fetches(page) {
            let address = match descriptors {
                Some(given) => given.get(fetch).copied(),
                None => Some(self.paging.descriptor(page, fetch)),
            };
            let Some(address) = address else { break };
            if self.controls.tables == Attribute::NormalNc {
                self.load_as(agent, Attribute::NormalNc, address, 8);
                self.shared_fetches += 1;
                continue;
            }
            let level = match self.paging.from {
                Fetches::Path(position) => self.hierarchy.read(agent, Path::Data, position, address),
                Fetches::Memory | Fetches::Nowhere => MEMORY,
            };
            if let Fetches::Path(from) = self.paging.from {
                let served = (level != MEMORY).then_some(level);
                self.hierarchy.happened(|| Event::Walked { address, from, served });
            }
            self.shared_fetches += u64::from(level == MEMORY || self.hierarchy.is_shared(level));
            self.pay(agent, level, address);
        }
        self.forget_lines();
    }

    /// Loads on CPU 0, after co-running streams have caught up.
    #[inline(always)]
    pub(crate) fn measured_load(&mut self, address: u64) {
        self.catch_up();
        self.load::<true>(0, address);
    }

    /// Returns the core cycles that CPU 0 has run, rounded down.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        let stretched = self.neighbours.as_ref().map_or(0, |all| all.stretched);
        (self.clock() - stretched) / UNITS_PER_CYCLE
    }
}
