//! What the nearest level does not serve, one after the other through all levels.

use super::{Plan, Scratch, Source, Told, path_of};
use crate::hierarchy::passes::{STORE, STORED_LATER};
use crate::hierarchy::{MEMORY, Path};
use crate::model::Model;
use crate::model::outcome::Kind;

impl Model {
    /// Makes the accesses of a block. What they cost beyond hits is charged to the CPU; returned is what is to be added,
    /// which makes up for the hits charged for them.
    pub(super) fn run_in_turn<S: Source, T: Told>(
        &mut self,
        plan: &Plan,
        scratch: &mut Scratch,
        source: &S,
    ) -> u64 {
        let n = scratch.block.n;
        let one_path = !S::FETCHES || self.hierarchy.nearest_is_unified();
        let (mut event, mut walk, mut more) = (0, 0, 0u64);
        while event < n {
            let mut stop = n;
            if let Some(&next) = scratch.walks.get(walk) {
                stop = next.event as usize;
                if stop == event {
                    more = more.wrapping_sub(self.walk_in_turn::<T>(plan, scratch, walk));
                    walk += 1;
                    stop = scratch.walks.get(walk).map_or(n, |next| next.event as usize);
                }
            }
            let path = path_of(scratch.block.what[event]);
            if !one_path {
                let same = |&other: &usize| path_of(scratch.block.what[other]) == path;
                stop = (event..stop).find(|other| !same(other)).unwrap_or(stop);
            }
            let events = Scratch::events(&scratch.block, &scratch.physical, self.frames.is_identity());
            let at = (plan.agent, path);
            let reached = self.hierarchy.pass_hits(at, events, (event, stop), plan.shift, plan.sharing);
            event = reached;
            if reached < stop {
                more = more.wrapping_sub(self.event_in_turn::<S, T>(plan, scratch, source, event));
                event += 1;
            }
        }
        more
    }

    /// Makes a walk. Returns the cost of a translation that hits.
    fn walk_in_turn<T: Told>(&mut self, plan: &Plan, scratch: &mut Scratch, walk: usize) -> u64 {
        let walk = scratch.walks[walk];
        let event = walk.event as usize;
        let page = self.paging.page_of_event(walk, scratch.block.lines[event], plan.shift);
        let before = self.agents[plan.agent].clock;
        self.agents[plan.agent].clock += self.paging.walk;
        self.walk(plan.agent, page, None);
        if T::WANTED {
            let cost = self.agents[plan.agent].clock - before;
            let nearest = self.hierarchy.nearest(path_of(scratch.block.what[event])).unwrap_or(MEMORY);
            scratch.told[event].walk(cost.wrapping_sub(plan.translation), nearest);
        }
        plan.translation
    }

    /// Makes the accesses of an event through all levels. Returns the cost of those charged as hits.
    fn event_in_turn<S: Source, T: Told>(
        &mut self,
        plan: &Plan,
        scratch: &mut Scratch,
        source: &S,
        event: usize,
    ) -> u64 {
        let Scratch { block, physical, told, .. } = scratch;
        let lines = if self.frames.is_identity() { &block.lines } else { &*physical };
        let address = u64::from(lines[event]) << plan.shift;
        let what = block.what[event];
        let (path, purges) = (path_of(what), self.hierarchy.purges);
        let before = self.agents[plan.agent].clock;
        let level = self.untranslated(plan, path, what & STORE != 0, address);
        let hit = plan.hit_of(what);
        if T::WANTED {
            let cost = self.agents[plan.agent].clock - before;
            let told = &mut told[event];
            told.surplus = told.surplus.wrapping_add(cost.wrapping_sub(hit));
            if Some(level) != self.hierarchy.nearest(path) {
                told.level = level;
                told.stale = self.hierarchy.is_stale(plan.agent, path, address);
            }
        }
        if self.hierarchy.purges == purges {
            if what & STORED_LATER != 0 {
                self.hierarchy.mark_nearest(plan.agent, address);
            }
            return hit;
        }
        // Its own fill may have removed the line from the nearest level again, so that the repetitions do not hit.
        let end = if event + 1 < block.n { block.first[event + 1] } else { block.end };
        let mut hits = hit;
        for number in block.first[event] + 1..end {
            let Some((place, kind)) = source.access(number) else { break };
            let physical = self.frames.of(place);
            self.untranslated(plan, path, kind == Kind::Store, physical);
            hits += plan.hit[if kind == Kind::Fetch { 2 } else { usize::from(kind == Kind::Store) }];
        }
        hits
    }

    /// Makes an access to write-back memory after its translation. Returns the level that served it.
    fn untranslated(&mut self, plan: &Plan, path: Path, store: bool, physical: u64) -> usize {
        let agent = plan.agent;
        if plan.sharing {
            self.hierarchy.snoop(agent, physical, store);
        }
        let (level, read) = match store {
            true => self.hierarchy.store(agent, path, physical),
            false => (self.hierarchy.read(agent, path, 0, physical), true),
        };
        match self.buffered {
            _ if !plan.full => self.memory.reads += u64::from(level == MEMORY && read),
            Some((nearest, cost)) if store && nearest == level => self.agents[agent].clock += cost,
            _ => {
                match path {
                    Path::Data => self.pay_for_data(agent, level, physical),
                    Path::Code => self.pay(agent, level, physical),
                }
                // A store without allocation in memory is charged as an access, but reads nothing.
                self.memory.reads -= u64::from(level == MEMORY && !read);
            }
        }
        level
    }
}
