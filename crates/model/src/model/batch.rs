//! Many accesses of one CPU at once.
//!
//! A block of accesses is reduced to its **events**: an access of the same line as the one before changes no state
//! ([`use_after_fill_is_idempotent`](crate::description::Replacement::use_after_fill_is_idempotent); under policies for
//! which only the second repetition changes none, the first one stays an event). Then the block's pages go through the TLBs,
//! and the events through the nearest level.
//!
//! - If no level changes the contents of a nearer one, what the nearest level does not serve goes through the levels one
//!   after the other, as lists (`layered`).
//! - Otherwise (inclusive or exclusive levels, walks that begin at the nearest level, several CPUs, stores that the nearest
//!   level does not keep) each of them goes through all levels before the next event (`in_turn`).
//!
//! A hit costs what the nearest TLB and the nearest level cost, whatever the time is, so all accesses of a batch are first
//! charged that, and the others the difference. What depends on time (refreshes, other users of the machine) or has more
//! cases (pages in pieces, uncached tables; prefetched lines, if nobody is told of accesses) goes access by access (`slowly`).

mod in_turn;
mod layered;
mod source;

use fathom_probe::machine::Attribute;

use super::Model;
use super::outcome::{Detail, Kind, Outcome};
use crate::hierarchy::passes::{Events, FETCH, Request, STORE};
use crate::hierarchy::{MEMORY, Path};
use crate::translate::{Fetches, PageOf};
pub(super) use source::{Loads, Piece, Pieces, Run, Source};

/// Events in a block.
pub(super) const EVENTS: usize = 1024;

/// Receives the accesses that the nearest level or the nearest TLB did not serve: their numbers in the batch and outcomes.
pub(super) trait Told {
    /// Whether it is called at all.
    const WANTED: bool;
    fn told(&mut self, number: u64, outcome: Outcome);
}

/// Nobody.
pub(super) struct Nobody;

impl Told for Nobody {
    const WANTED: bool = false;
    fn told(&mut self, _: u64, _: Outcome) {}
}

impl<F: FnMut(u64, Outcome)> Told for F {
    const WANTED: bool = true;
    #[inline(always)]
    fn told(&mut self, number: u64, outcome: Outcome) {
        self(number, outcome);
    }
}

/// A block of accesses as events.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// Number of events.
    pub n: usize,
    /// Lines by place in the arena, in units of the shortest line.
    pub lines: Vec<u32>,
    /// What each event is (see [`Events`]).
    pub what: Vec<u8>,
    /// The number of each event's first access in the batch.
    pub first: Vec<u64>,
    /// The number of the first access after the block.
    pub end: u64,
    /// Accesses by kind: loads, stores, fetches.
    pub accesses: [u64; 3],
    /// Whether an event is special.
    pub special: bool,
    /// Whether `what` has other values than that of loads.
    pub accesses_were_not_loads: bool,
}

/// What the model keeps between batches: memory for lists, and frames used last.
#[derive(Clone, Debug)]
pub(super) struct Scratch {
    pub block: Block,
    /// Lines by physical address, if that differs.
    physical: Vec<u32>,
    only: [Vec<u16>; 2],
    pages: Vec<PageOf>,
    walks: Vec<PageOf>,
    spare_pages: Vec<PageOf>,
    /// Events that a farther TLB served, with its latency.
    late: Vec<(u32, u64)>,
    /// What goes on to the next level.
    requests: Vec<Request>,
    merged: Vec<Request>,
    spare: Vec<Request>,
    /// Descriptors that walks fetch.
    fetches: Vec<Request>,
    /// Causes of the requests that a level served.
    served: Vec<u32>,
    /// Pages and frames, by the page's low bits.
    frames: Vec<(u32, u32)>,
    /// The state of the frames that these belong to.
    frames_of: u64,
    /// What the caller is told, by event.
    told: Vec<Note>,
}

/// What the caller is told of an event.
#[derive(Clone, Copy, Debug)]
struct Note {
    /// What it cost more than a hit.
    surplus: u64,
    /// What its translation cost more than one that hits.
    translation: u64,
    /// The level that served it; [`HIT`] if the nearest level and TLB did.
    level: usize,
    walked: bool,
    /// Whether the nearest TLB did not have the page.
    missed: bool,
    stale: bool,
}

/// In place of a level: nothing is told.
const HIT: usize = MEMORY - 1;

impl Note {
    const HIT: Note =
        Note { surplus: 0, translation: 0, level: HIT, walked: false, missed: false, stale: false };

    /// Adds a walk to an access that `nearest` serves, if nothing else is known of it.
    fn walk(&mut self, surplus: u64, nearest: usize) {
        self.surplus = self.surplus.wrapping_add(surplus);
        self.translation = self.translation.wrapping_add(surplus);
        (self.walked, self.missed) = (true, true);
        self.level = if self.level == HIT { nearest } else { self.level };
    }
}

/// Pages whose frames are remembered: a power of two.
const FRAMES: usize = 1024;

impl Scratch {
    fn new() -> Scratch {
        let block = Block {
            n: 0,
            lines: vec![0; EVENTS],
            what: vec![0; EVENTS],
            first: vec![0; EVENTS],
            end: 0,
            accesses: [0; 3],
            special: false,
            accesses_were_not_loads: false,
        };
        Scratch {
            block,
            physical: vec![0; EVENTS],
            only: [Vec::new(), Vec::new()],
            pages: vec![PageOf::NONE; EVENTS + 1],
            walks: Vec::new(),
            spare_pages: Vec::new(),
            late: Vec::new(),
            requests: Vec::new(),
            merged: Vec::new(),
            spare: Vec::new(),
            fetches: Vec::new(),
            served: Vec::new(),
            frames: vec![(u32::MAX, 0); FRAMES],
            frames_of: 0,
            told: Vec::new(),
        }
    }
}

/// How batches run on this machine in its present state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub agent: usize,
    /// log2 of the bytes in the shortest line.
    pub shift: u32,
    /// Whether the nearest data level keeps every store.
    pub keeps: bool,
    /// Whether the first repetition of an access may change state.
    pub twice: bool,
    /// Whether other CPUs may hold lines.
    pub sharing: bool,
    layered: bool,
    full: bool,
    /// Latency of the nearest TLB, and cost of a hit of a load, store, fetch in the nearest level, in units.
    translation: u64,
    hit: [u64; 3],
}

impl Plan {
    /// Returns the cost of a hit of an event's first access, without its translation.
    fn hit_of(&self, what: u8) -> u64 {
        self.hit[if what & STORE != 0 { 1 } else { usize::from(what & FETCH != 0) * 2 }]
    }
}

/// Returns the path of an event.
fn path_of(what: u8) -> Path {
    if what & FETCH != 0 { Path::Code } else { Path::Data }
}

impl Model {
    /// Returns how batches run; `None` if they go access by access.
    fn plan(&self, agent: usize, full: bool, fetches: bool) -> Option<Plan> {
        let nearest = self.hierarchy.private_nearest(Path::Data)?;
        let code = if fetches { self.hierarchy.private_nearest(Path::Code)? } else { nearest };
        let timeless = !full || (!self.memory.refreshes() && self.controls.tables != Attribute::NormalNc);
        if self.co_running || !timeless {
            return None;
        }
        let policies = [nearest, code].map(|level| self.description.levels[level].replacement);
        let idle = policies.iter().all(|policy| policy.use_after_fill_is_idempotent());
        let latency = |level| if full { self.hierarchy.latency(level) } else { 0 };
        let store = match self.buffered {
            Some((level, cost)) if level == nearest && full => cost,
            _ => latency(nearest),
        };
        let joined = !fetches || self.hierarchy.joins();
        let walks_beyond = !full || !matches!(self.paging.from, Fetches::Path(0));
        Some(Plan {
            agent,
            shift: self.narrowest_line(),
            keeps: self.hierarchy.keeps_stores(nearest),
            twice: !idle || (full && !self.paging.first_repeat_is_idle()),
            sharing: self.sharing,
            layered: !self.sharing && joined && walks_beyond && self.hierarchy.is_layered(),
            full,
            translation: if full { self.paging.uniform_latency()? } else { 0 },
            hit: [latency(nearest), store, latency(code)],
        })
    }

    /// Returns log2 of the bytes of the shortest line if a repeated use of a line changes nothing and costs the same at any time: a
    /// load or store of the line that the same CPU has used last, a store only if it has stored to it since. Such an
    /// access need not be made.
    #[must_use]
    pub fn idle_repeats(&self) -> Option<u32> {
        let plan = self.plan(0, true, true)?;
        (plan.keeps && !plan.twice).then_some(plan.shift)
    }

    /// Makes the accesses of a source.
    pub(super) fn run_batch<S: Source, T: Told>(
        &mut self,
        agent: usize,
        detail: Detail,
        source: &mut S,
        told: &mut T,
    ) {
        let full = detail == Detail::Full;
        // Runs of lines are found in what is told.
        let told_of_runs = T::WANTED || !full || self.prefetch.is_none();
        let Some(plan) = self.plan(agent, full, S::FETCHES).filter(|_| told_of_runs) else {
            return self.run_slowly(agent, full, source, told);
        };
        let mut scratch = self.scratch.take().unwrap_or_else(|| Box::new(Scratch::new()));
        loop {
            source.gather(&mut scratch.block, &plan);
            if scratch.block.n == 0 {
                break;
            }
            self.run_block(&plan, &mut scratch, source, told);
        }
        self.scratch = Some(scratch);
        self.forget_last();
    }

    /// Discards what is known about the last accesses: lines and pages.
    fn forget_last(&mut self) {
        self.forget_lines();
        for own in &mut self.agents {
            (own.tlbs.last, own.tlbs.last_cost) = (crate::translate::Page::NONE, 0);
        }
    }

    /// Makes all accesses one by one.
    fn run_slowly<S: Source, T: Told>(&mut self, agent: usize, full: bool, source: &mut S, told: &mut T) {
        let detail = if full { Detail::Full } else { Detail::Counts };
        let mut number = 0;
        while let Some((place, kind)) = source.access(number) {
            match (T::WANTED, full) {
                (false, true) if kind == Kind::Load => self.load::<true>(agent, place),
                _ => {
                    if let Some(outcome) = self.one_access(agent, detail, (place, 8), kind) {
                        told.told(number, outcome);
                    }
                }
            }
            number += 1;
        }
    }

    fn run_block<S: Source, T: Told>(
        &mut self,
        plan: &Plan,
        scratch: &mut Scratch,
        source: &S,
        told: &mut T,
    ) {
        let Scratch { block, pages, walks, spare_pages, late, .. } = scratch;
        let n = block.n;
        let begun = self.agents[plan.agent].clock;
        self.accesses += block.accesses.iter().sum::<u64>();
        walks.clear();
        late.clear();
        let (mut extra, mut of_hits) = (0u64, 0);
        if plan.full {
            let hits = block.accesses.iter().zip(plan.hit).map(|(count, cost)| count * cost).sum::<u64>();
            of_hits = hits + plan.translation * block.accesses.iter().sum::<u64>();
            extra += of_hits;
            if self.paging.costs {
                let count = self.paging.pages_of(&block.lines[..n], plan.shift, plan.twice, pages);
                walks.extend_from_slice(&pages[..count]);
                let tlbs = &mut self.agents[plan.agent].tlbs;
                self.paging.translate_all(tlbs, walks, spare_pages, late);
                let surplus = late.iter().map(|(_, latency)| latency.wrapping_sub(plan.translation));
                extra = surplus.fold(extra, u64::wrapping_add);
            }
        }
        self.find_frames(plan, scratch);
        if T::WANTED {
            scratch.told.clear();
            scratch.told.resize(n, Note::HIT);
            for &(event, latency) in &scratch.late {
                let nearest = self.hierarchy.nearest(path_of(scratch.block.what[event as usize]));
                let surplus = latency.wrapping_sub(plan.translation);
                let level = nearest.unwrap_or(MEMORY);
                scratch.told[event as usize] =
                    Note { surplus, translation: surplus, level, missed: true, ..Note::HIT };
            }
        }
        let data_only = scratch.block.accesses[2] == 0;
        let code_only = scratch.block.accesses[0] + scratch.block.accesses[1] == 0;
        let simple = data_only || code_only || self.hierarchy.nearest_is_unified();
        let layered = plan.layered && !scratch.block.special;
        let more = if layered {
            self.run_layered::<T>(plan, scratch, simple)
        } else {
            self.run_in_turn::<S, T>(plan, scratch, source)
        };
        let saved = self.note_runs(plan, scratch, layered);
        let own = &mut self.agents[plan.agent];
        own.clock = own.clock.wrapping_add(extra).wrapping_add(more).wrapping_sub(saved);
        if plan.full {
            let beyond = own.clock.wrapping_sub(begun).wrapping_sub(of_hits);
            let fetches = scratch.fetch_surplus(data_only, code_only, beyond);
            own.stalled = own.stalled.wrapping_add(beyond.wrapping_sub(fetches));
        }
        if T::WANTED {
            self.tell(plan, scratch, told);
        }
    }

    /// Returns what the block takes less because lines of it have been prefetched, and subtracts it from what is told, if its
    /// accesses went through the levels as lists.
    fn note_runs(&mut self, plan: &Plan, scratch: &mut Scratch, layered: bool) -> u64 {
        if self.prefetch.is_none() || !plan.full || !layered {
            return 0;
        }
        let Scratch { block, physical, told, .. } = scratch;
        let lines = if self.frames.is_identity() { &block.lines } else { &*physical };
        let mut sum = 0;
        let events = told.iter_mut().zip(&block.what).zip(&lines[..block.n]);
        for ((note, &what), &line) in
            events.filter(|((note, what), _)| note.level != HIT && *what & FETCH == 0)
        {
            let latency = note.surplus.wrapping_sub(note.translation).wrapping_add(plan.hit_of(what));
            let saved = self.saved(plan.agent, note.level, u64::from(line) << plan.shift, latency);
            note.surplus = note.surplus.wrapping_sub(saved);
            sum += saved;
        }
        sum
    }

    /// Translates the lines of a block to physical ones, if they differ.
    fn find_frames(&mut self, plan: &Plan, scratch: &mut Scratch) {
        if self.frames.is_identity() {
            return;
        }
        if scratch.frames_of != self.frames.version() {
            scratch.frames.fill((u32::MAX, 0));
            scratch.frames_of = self.frames.version();
        }
        let page_shift = self.frames.page_shift() - plan.shift;
        let n = scratch.block.n;
        for (line, physical) in scratch.block.lines[..n].iter().zip(&mut scratch.physical) {
            let page = line >> page_shift;
            let slot = &mut scratch.frames[page as usize % FRAMES];
            if slot.0 != page {
                let frame = self.frames.of(u64::from(page) << self.frames.page_shift());
                *slot = (page, (frame >> plan.shift) as u32);
            }
            *physical = slot.1 | line & ((1 << page_shift) - 1);
        }
    }

    /// Tells what the nearest level and TLB did not serve.
    fn tell<T: Told>(&self, plan: &Plan, scratch: &Scratch, told: &mut T) {
        for (event, note) in scratch.told.iter().enumerate().filter(|(_, note)| note.level != HIT) {
            let hit = plan.hit_of(scratch.block.what[event]) + plan.translation;
            let cost = if plan.full { hit.wrapping_add(note.surplus) } else { 0 };
            let level = Some(note.level).filter(|&level| level != MEMORY);
            let translation = if plan.full { plan.translation.wrapping_add(note.translation) } else { 0 };
            let Note { walked, missed: tlb_missed, stale, .. } = *note;
            let outcome = Outcome { level, cost, translation, walked, tlb_missed, stale };
            told.told(scratch.block.first[event], outcome);
        }
    }
}

impl Scratch {
    /// Returns the part of a block's time beyond hits that its fetches have. Fetches with data are always told.
    fn fetch_surplus(&self, data_only: bool, code_only: bool, beyond: u64) -> u64 {
        if data_only || code_only {
            return if code_only { beyond } else { 0 };
        }
        let fetches = self.told.iter().zip(&self.block.what).filter(|(_, what)| **what & FETCH != 0);
        fetches.fold(0, |sum: u64, (note, _)| sum.wrapping_add(note.surplus))
    }

    /// Returns the events with physical lines.
    fn events<'a>(block: &'a Block, physical: &'a [u32], identity: bool) -> Events<'a> {
        let lines = if identity { &block.lines } else { physical };
        Events { lines: &lines[..block.n], what: &block.what[..block.n] }
    }
}
