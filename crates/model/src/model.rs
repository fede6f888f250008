//! The model: agents with their clocks over shared levels and one memory.

mod batches;
mod dma;
mod issue;
mod streams;
mod trace;
mod wakeup;
mod windows;

pub use issue::GuestTranslation;
pub use trace::{Kind, Outcome};

use fathom_probe::machine::{Attribute, Controls, Ops, Refusal};

use crate::arena::Arena;
use crate::description::{Description, Holds};
use crate::frames::Frames;
use crate::hierarchy::{Hierarchy, MEMORY, Path};
use crate::memory::Memory;
use crate::time::{Scale, Timer, UNITS_PER_CYCLE};
use crate::translate::{Fetches, Page, Paging, Tlbs};
use crate::uncached::{Buffers, Costs, Windows, place};
use streams::Running;
use wakeup::Sleeper;

/// One CPU that has run.
#[derive(Clone, Debug)]
struct Agent {
    cpu: u32,
    clock: u64,
    tlbs: Tlbs,
    /// The line of the last load, by its address in the arena, when that was in the nearest level and nothing
    /// has happened there since. A second load of it changes no state under the policies where it is kept.
    last_line: u64,
    /// What a second load of it costs in units, translation included.
    repeat_cost: u64,
    /// Stores that gather.
    buffers: Buffers,
}

const NO_LINE: u64 = u64::MAX;

/// A described machine that runs. Deterministic for a description and a seed.
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
    /// What one operation and one taken branch cost, in units.
    ops: (u64, u64),
    streams: Vec<Running>,
    pub(crate) accesses: u64,
    /// log2 of the nearest data level's line.
    filter_shift: u32,
    /// That level's latency in units, where the last-line shortcut is exact: it is private, and a load that
    /// follows on a fill changes no state. (Under the policies where only a load after a hit changes none there
    /// is no shortcut: a check of which of the two it was costs all other loads a twentieth of their time.)
    filter_latency: Option<u64>,
    /// Whether CPUs have been given addresses of their own choosing, and so may share lines.
    sharing: bool,
    /// What a store costs that the nearest data level holds, in units, where it is described, and that level.
    buffered: Option<(usize, u64)>,
    /// What a line costs that is cleaned and invalidated, in units.
    maintain: u64,
    pub(crate) windows: Windows,
    costs: Costs,
    pub(crate) controls: Controls,
    /// What waits for its timer, between [`wake_begin`](fathom_probe::machine::Wake::wake_begin) and its end.
    sleeper: Option<Sleeper>,
    /// What the transfers of a trial run over, until another trial's do.
    link: Option<dma::Link>,
}

impl Model {
    /// The machine of a description.
    ///
    /// # Panics
    /// When the description fails its own [`check`](Description::check); one that was read from a
    /// file has passed it.
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
            accesses: 0,
            filter_shift: nearest.map_or(0, |level| hierarchy.line_shift(level)),
            filter_latency: nearest
                .filter(|&level| description.levels[level].replacement.rests_after_a_fill())
                .map(|level| hierarchy.latency(level)),
            sharing: false,
            buffered: first.zip(description.core.store.map(|t| scale.units(t))),
            maintain: description.core.maintain.map_or(0, |t| scale.units(t)),
            windows: Windows::new(),
            costs: Costs::new(description, scale),
            controls: Controls::default(),
            sleeper: None,
            link: None,
            hierarchy,
        };
        model.agent_of(0);
        model
    }

    /// The description that runs here.
    #[must_use]
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// CPU 0's clock, in units of 1 / [`UNITS_PER_CYCLE`] core cycle.
    #[must_use]
    pub fn clock(&self) -> u64 {
        self.agents[0].clock
    }

    /// Bytes of the arena, which mappings are parts of; page tables lie behind it.
    #[must_use]
    pub fn arena_bytes(&self) -> u64 {
        self.arena.bytes
    }

    /// The agent that CPU `cpu` is; it comes to be when first asked for.
    fn agent_of(&mut self, cpu: u32) -> usize {
        if let Some(known) = self.agents.iter().position(|a| a.cpu == cpu) {
            return known;
        }
        let agent = self.hierarchy.add_agent(&self.description, cpu);
        let tlbs = Tlbs::new(&self.description, self.seed, cpu);
        self.agents.push(Agent {
            cpu,
            clock: 0,
            tlbs,
            last_line: NO_LINE,
            repeat_cost: 0,
            buffers: Buffers::default(),
        });
        agent
    }

    /// Empties every cache and TLB: what a trial meets when its memory was laid long ago.
    pub(crate) fn flush_all(&mut self) {
        self.hierarchy.empty();
        for agent in &mut self.agents {
            agent.tlbs.empty();
            agent.last_line = NO_LINE;
        }
    }

    /// Lets `pages` pages from `base` on, which is the start of a page that is mapped, lie in the frames of
    /// the first `frames` of them: page `i` in the frame of page `i % frames`, as many read-only mappings
    /// share one page of zeros. Caches, which go by physical addresses, then see `frames` pages, TLBs and
    /// walks `pages`. Caches and TLBs are empty afterwards, as after any change of translations here.
    ///
    /// The next [`map`](fathom_probe::machine::Machine::map) that is granted undoes it, and so does another
    /// alias. It is meant for memory that is only read: what is laid or linked there is kept by the
    /// arena's addresses, not by frames.
    ///
    /// # Errors
    /// A [`Refusal`] when `base` is not the start of a page, a page of the range is not mapped, or `frames`
    /// is not from 1 to `pages`.
    pub fn alias(&mut self, base: u64, pages: u64, frames: u64) -> Result<(), Refusal> {
        let page = self.arena.page_at(base);
        if frames == 0 || frames > pages {
            let remedy = format!("from 1 to as many as there are pages: {pages}");
            return Err(Refusal::new(format!("{pages} pages cannot lie in {frames} frames"), remedy));
        }
        let end = pages.checked_mul(page).and_then(|bytes| bytes.checked_add(base));
        let Some(end) = end.filter(|&end| base.is_multiple_of(page) && self.arena.is_mapped(base, end))
        else {
            let reason = format!("{pages} pages of {page} bytes from {base} on are not all mapped");
            return Err(Refusal::new(reason, "ask for whole pages of one mapping"));
        };
        self.frames.alias(place(base)..place(end), frames * page);
        self.flush_all();
        Ok(())
    }

    /// Gives every page its own frame again.
    pub(crate) fn unalias(&mut self) {
        if self.frames.unalias() {
            self.flush_all();
        }
    }

    /// The TLBs of CPU 0.
    pub(crate) fn tlbs(&self) -> &Tlbs {
        &self.agents[0].tlbs
    }

    /// Accesses of one line in a row after which more of them change no state: see
    /// [`rests_after_a_fill`](crate::description::Replacement::rests_after_a_fill).
    pub(crate) fn accesses_to_rest(&self) -> u32 {
        let levels = self.description.levels.iter().map(|l| l.replacement);
        let mut all = levels.chain(self.description.tlbs.iter().map(|t| t.replacement));
        if all.all(|policy| policy.rests_after_a_fill()) { 1 } else { 2 }
    }

    /// log2 of the bytes in the narrowest line of any level; of a word where there is none.
    pub(crate) fn narrowest_line(&self) -> u32 {
        self.description.levels.iter().map(|l| l.line.trailing_zeros()).min().unwrap_or(3)
    }

    /// Lets time pass on CPU 0.
    #[inline(always)]
    pub(crate) fn advance(&mut self, units: u64) {
        self.agents[0].clock += units;
    }

    /// Charges operations to CPU 0.
    #[inline(always)]
    pub(crate) fn charge(&mut self, ops: Ops) {
        self.advance(ops.alu * self.ops.0 + ops.branch * self.ops.1);
    }

    /// A load; without `FULL` neither translated nor timed.
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

    /// A load of another line than the last.
    #[inline(always)]
    fn load_line<const FULL: bool>(&mut self, agent: usize, address: u64) -> usize {
        self.begin(agent, address, false);
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
            self.pay(agent, level, physical);
        } else if level == MEMORY {
            self.memory.reads += 1;
        }
        let Some(latency) = self.filter_latency else { return level };
        let own = &mut self.agents[agent];
        // Where no TLB can hold the page every load walks, and none is like the one before.
        let repeats = !FULL || !self.paging.costs || own.tlbs.last != Page::NONE;
        own.last_line = if repeats { address >> self.filter_shift } else { NO_LINE };
        own.repeat_cost = own.tlbs.last_cost + latency;
        level
    }

    /// Counts an access, and settles it with the other CPUs where they may share its line.
    #[inline(always)]
    fn begin(&mut self, agent: usize, address: u64, store: bool) {
        self.accesses += 1;
        if self.sharing {
            self.hierarchy.snoop(agent, self.frames.of(address), store);
        }
    }

    /// Somebody else may have changed what nearest levels hold.
    #[cold]
    fn forget_lines(&mut self) {
        for agent in &mut self.agents {
            agent.last_line = NO_LINE;
        }
    }

    pub(crate) fn store(&mut self, agent: usize, address: u64) -> usize {
        self.begin(agent, address, true);
        self.translate(agent, address);
        self.store_cached(agent, self.frames.of(address))
    }

    /// A store to write-back memory, translated as it is.
    fn store_cached(&mut self, agent: usize, physical: u64) -> usize {
        let (level, read) = self.hierarchy.store(agent, Path::Data, physical);
        self.forget_lines();
        match self.buffered {
            Some((nearest, cost)) if nearest == level => self.agents[agent].clock += cost,
            _ => self.pay(agent, level, physical),
        }
        // A store that went straight to memory was paid for as an access, and read nothing.
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

    /// Lets pass what a read takes that `level` answered.
    #[inline(always)]
    fn pay(&mut self, agent: usize, level: usize, physical: u64) {
        let clock = self.agents[agent].clock;
        let cost = if level == MEMORY {
            self.memory.reads += 1;
            self.memory.cost(clock, physical)
        } else {
            self.hierarchy.latency(level)
        };
        self.agents[agent].clock = clock + cost;
    }

    /// Lets pass what the translation of an address takes.
    #[inline(always)]
    fn translate(&mut self, agent: usize, address: u64) {
        if !self.paging.costs {
            return;
        }
        let page = self.paging.page(address);
        self.translate_page(agent, page, None);
    }

    /// The same of a page, whose descriptors lie where the model has them or where somebody else does.
    #[inline(always)]
    fn translate_page(&mut self, agent: usize, page: Page, descriptors: Option<&[u64]>) {
        let own = &mut self.agents[agent];
        if own.tlbs.last == page.key {
            own.clock += own.tlbs.last_cost;
        } else {
            self.translate_anew(agent, page, descriptors);
        }
    }

    /// Through the TLBs; a walk fetches the descriptors given, or those of the model's own tables. Never inlined: the
    /// loops of loads keep to what they usually do.
    #[inline(never)]
    fn translate_anew(&mut self, agent: usize, page: Page, descriptors: Option<&[u64]>) {
        let own = &mut self.agents[agent];
        match self.paging.look_up(&mut own.tlbs, page) {
            Some(latency) => own.clock += latency,
            None => {
                own.tlbs.walks += 1;
                own.clock += self.paging.walk;
                self.walk(agent, page, descriptors);
            }
        }
    }

    /// The descriptor fetches of a walk, one after the other.
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
                continue;
            }
            let level = match self.paging.from {
                Fetches::Path(position) => self.hierarchy.read(agent, Path::Data, position, address),
                Fetches::Memory | Fetches::Nowhere => MEMORY,
            };
            self.pay(agent, level, address);
        }
        self.forget_lines();
    }

    /// A load of CPU 0 among whatever else runs.
    #[inline(always)]
    pub(crate) fn measured_load(&mut self, address: u64) {
        self.catch_up();
        self.load::<true>(0, address);
    }

    /// Core cycles that CPU 0 has run, rounded down.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.clock() / UNITS_PER_CYCLE
    }
}
