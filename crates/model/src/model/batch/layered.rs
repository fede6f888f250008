//! What the nearest level does not serve, level by level.

use super::{Plan, Scratch, Told, path_of};
use crate::hierarchy::Path;
use crate::hierarchy::passes::Request;
use crate::model::Model;
use crate::translate::Fetches;

/// Returns the cause of an event's own request; that of its walk is one more.
fn event_of(cause: u32) -> (usize, bool) {
    ((cause >> 1) as usize, cause & 1 == 1)
}

/// Merges two lists in the order of their events; `first` precedes `second` where both have the same.
fn merge(first: &[Request], second: &[Request], out: &mut Vec<Request>) {
    out.clear();
    let mut second = second.iter().copied().peekable();
    for &request in first {
        while let Some(other) = second.next_if(|other| other.cause >> 1 < request.cause >> 1) {
            out.push(other);
        }
        out.push(request);
    }
    out.extend(second);
}

impl Model {
    /// Passes a block through the levels. Returns what it costs more than hits, in units. `simple`: the block's accesses
    /// have one nearest level.
    pub(super) fn run_layered<T: Told>(&mut self, plan: &Plan, scratch: &mut Scratch, simple: bool) -> u64 {
        self.pass_nearest(plan, scratch, simple);
        let mut more = 0u64;
        if plan.full {
            let what = &scratch.block.what;
            for request in scratch.requests.iter().filter(|request| !request.is_write()) {
                more = more.wrapping_sub(plan.hit_of(what[event_of(request.cause).0]));
            }
            if T::WANTED {
                for request in scratch.requests.iter().filter(|request| !request.is_write()) {
                    let event = event_of(request.cause).0;
                    let told = &mut scratch.told[event];
                    told.surplus = told.surplus.wrapping_sub(plan.hit_of(what[event]));
                }
            }
        }
        more = more.wrapping_add(self.list_walks::<T>(plan, scratch));
        let path = if simple { path_of(scratch.block.what[0]) } else { Path::Data };
        let from = match self.paging.from {
            Fetches::Path(position) => position,
            Fetches::Memory | Fetches::Nowhere => usize::MAX,
        };
        let depth = self.hierarchy.depth(path);
        let mut merged = scratch.fetches.is_empty();
        for position in 1..=depth {
            if !merged && (position >= from || position == depth) {
                merge(&scratch.fetches, &scratch.requests, &mut scratch.merged);
                std::mem::swap(&mut scratch.requests, &mut scratch.merged);
                merged = true;
            }
            if position == depth {
                break;
            }
            let at = (plan.agent, path, position);
            let (requests, out) = (&scratch.requests, &mut scratch.merged);
            out.clear();
            scratch.served.clear();
            let told = T::WANTED.then_some(&mut scratch.served);
            let (level, hits) = self.hierarchy.pass_beyond(at, requests, plan.shift, out, told);
            more = more.wrapping_add(hits * self.hierarchy.latency(level) * u64::from(plan.full));
            if T::WANTED {
                let latency = self.hierarchy.latency(level);
                (0..scratch.served.len()).for_each(|n| scratch.serve(scratch.served[n], level, latency));
            }
            std::mem::swap(&mut scratch.requests, &mut scratch.merged);
        }
        more.wrapping_add(self.pass_memory::<T>(plan, scratch))
    }

    /// Passes a block through the nearest levels; the other requests are in `requests` afterwards.
    fn pass_nearest(&mut self, plan: &Plan, scratch: &mut Scratch, simple: bool) {
        let Scratch { block, physical, requests, merged, spare, only, .. } = scratch;
        let events = Scratch::events(block, physical, self.frames.is_identity());
        let stores = block.accesses[1] > 0;
        requests.clear();
        if simple {
            let at = (plan.agent, path_of(block.what[0]));
            return self.hierarchy.pass_nearest(at, events, None, stores, (plan.shift, requests));
        }
        only.iter_mut().for_each(Vec::clear);
        for (event, &what) in events.what.iter().enumerate() {
            only[path_of(what) as usize].push(event as u16);
        }
        merged.clear();
        spare.clear();
        let data = (plan.agent, Path::Data);
        self.hierarchy.pass_nearest(data, events, Some(&only[0]), stores, (plan.shift, merged));
        let code = (plan.agent, Path::Code);
        self.hierarchy.pass_nearest(code, events, Some(&only[1]), false, (plan.shift, spare));
        merge(merged, spare, requests);
    }

    /// Lists the fetches of a block's walks. Returns the walks' own cost beyond hits.
    fn list_walks<T: Told>(&mut self, plan: &Plan, scratch: &mut Scratch) -> u64 {
        scratch.fetches.clear();
        let surplus = self.paging.walk.wrapping_sub(plan.translation);
        for &walk in &scratch.walks {
            let event = walk.event as usize;
            let page = self.paging.page_of_event(walk, scratch.block.lines[event], plan.shift);
            for fetch in 0..self.paging.fetches(page) {
                let line = (self.paging.descriptor(page, fetch) >> plan.shift) as u32;
                scratch.fetches.push(Request::read(line, walk.event << 1 | 1));
            }
            if T::WANTED {
                let nearest = self
                    .hierarchy
                    .nearest(path_of(scratch.block.what[event]))
                    .unwrap_or(crate::hierarchy::MEMORY);
                scratch.told[event].walk(surplus, nearest);
            }
        }
        surplus.wrapping_mul(scratch.walks.len() as u64)
    }

    /// Makes the reads and writes that are left. Returns their cost.
    fn pass_memory<T: Told>(&mut self, plan: &Plan, scratch: &mut Scratch) -> u64 {
        let mut sum = 0;
        let writes = scratch.requests.iter().filter(|request| request.is_write()).count() as u64;
        self.hierarchy.memory_writes += writes;
        self.memory.reads += scratch.requests.len() as u64 - writes;
        if !plan.full && !T::WANTED {
            return 0;
        }
        for n in 0..scratch.requests.len() {
            let request = scratch.requests[n];
            if request.is_write() {
                continue;
            }
            let cost =
                if plan.full { self.memory.cost(0, u64::from(request.line()) << plan.shift) } else { 0 };
            sum += cost;
            if T::WANTED {
                scratch.serve(request.cause, crate::hierarchy::MEMORY, cost);
            }
        }
        sum
    }
}

impl Scratch {
    /// Notes for the caller that a level served a request, at a cost.
    fn serve(&mut self, cause: u32, level: usize, cost: u64) {
        let (event, walk) = event_of(cause);
        let told = &mut self.told[event];
        told.surplus = told.surplus.wrapping_add(cost);
        match walk {
            true => told.translation = told.translation.wrapping_add(cost),
            false => told.level = level,
        }
    }
}
