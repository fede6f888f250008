//! Many accesses at once, level by level: a level turns a list of requests into the list of those that go on outwards.
//!
//! This is exact if no level changes the contents of a nearer one: without inclusive and exclusive levels, stale lines and
//! other CPUs ([`Hierarchy::is_layered`]). Each level then sees the same requests in the same order as access by access.

use super::{Hierarchy, Path};
use crate::cache::{DIRTY, Kernel, Sets};

/// Requests that are approached together (see [`Sets::approach`]).
const APPROACHED: usize = 16;

/// The first access of an event is a store.
pub(crate) const STORE: u8 = 1;
/// It is a fetch.
pub(crate) const FETCH: u8 = 2;
/// A later access of the event is a store.
pub(crate) const STORED_LATER: u8 = 4;
/// A store that the nearest level may not keep.
pub(crate) const SPECIAL: u8 = 8;

/// A request to a level: a line is read, or is written out by a nearer level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// Number of the line in units of the shortest line, times two; plus one if it is written out.
    coded: u32,
    /// The event that caused it, times two; plus one if its walk did.
    pub cause: u32,
}

impl Request {
    #[inline(always)]
    pub fn read(line: u32, cause: u32) -> Request {
        Request { coded: line << 1, cause }
    }

    #[inline(always)]
    fn write(line: u32, cause: u32) -> Request {
        Request { coded: line << 1 | 1, cause }
    }

    #[inline(always)]
    pub fn is_write(self) -> bool {
        self.coded & 1 == 1
    }

    #[inline(always)]
    pub fn line(self) -> u32 {
        self.coded >> 1
    }
}

/// The accesses of a block, in order: lines that differ from the one before, in units of the shortest line.
#[derive(Clone, Copy)]
pub(crate) struct Events<'a> {
    pub lines: &'a [u32],
    pub what: &'a [u8],
}

/// The nearest level: all events, or those in `only`.
struct Nearest<'a, const STORES: bool> {
    events: Events<'a>,
    only: Option<&'a [u16]>,
    /// log2 of the shortest lines in a line of the level.
    shift: u32,
    out: &'a mut Vec<Request>,
}

impl<const STORES: bool> Nearest<'_, STORES> {
    #[inline(always)]
    fn one(&mut self, sets: &mut impl Sets, event: usize) {
        let line = self.events.lines[event];
        let number = line >> self.shift;
        let dirty = if STORES && self.events.what[event] & (STORE | STORED_LATER) != 0 { DIRTY } else { 0 };
        let hit = match STORES {
            true => sets.touch_and_mark(number, number, dirty).is_some(),
            false => sets.touch(number, number),
        };
        if !hit {
            self.out.push(Request::read(line, (event as u32) << 1));
            if let Some(old) = sets.fill(number, number, dirty) {
                self.out.push(Request::write(old << self.shift, (event as u32) << 1));
            }
        }
    }
}

impl<const STORES: bool> Kernel for Nearest<'_, STORES> {
    type Out = ();
    #[inline(always)]
    fn run(mut self, sets: &mut impl Sets) {
        match self.only {
            None => (0..self.events.lines.len()).for_each(|event| self.one(sets, event)),
            Some(only) => only.iter().for_each(|&event| self.one(sets, usize::from(event))),
        }
    }
}

/// Events of the nearest level from `from` to `to` as long as they hit.
struct Hits<'a> {
    events: Events<'a>,
    from: usize,
    to: usize,
    shift: u32,
    /// Whether other CPUs may hold the line of a store that is clean here.
    sharing: bool,
}

impl Kernel for Hits<'_> {
    type Out = usize;
    #[inline(always)]
    fn run(self, sets: &mut impl Sets) -> usize {
        let Events { lines, what } = self.events;
        for event in self.from..self.to {
            let (number, what) = (lines[event] >> self.shift, what[event]);
            if what & (STORE | SPECIAL | STORED_LATER) == 0 {
                if !sets.touch(number, number) {
                    return event;
                }
                continue;
            }
            // The store of a line that is clean here is left to the caller, which asks the other CPUs first. The use is
            // recorded twice then, which changes nothing: a use after a hit.
            let marks = if self.sharing { 0 } else { DIRTY };
            if what & SPECIAL != 0 {
                return event;
            }
            match sets.touch_and_mark(number, number, marks) {
                Some(had) if !self.sharing || had & DIRTY != 0 => {}
                _ => return event,
            }
        }
        self.to
    }
}

/// A level beyond the nearest one.
struct Beyond<'a, const TOLD: bool> {
    shift: u32,
    through: bool,
    allocate: bool,
    requests: &'a [Request],
    /// Causes of the reads that it serves.
    served: &'a mut Vec<u32>,
    out: &'a mut Vec<Request>,
    hits: u64,
}

impl<const TOLD: bool> Beyond<'_, TOLD> {
    #[inline(always)]
    fn one(&mut self, sets: &mut impl Sets, request: Request) {
        let number = request.line() >> self.shift;
        if !request.is_write() {
            if sets.touch(number, number) {
                self.hits += 1;
                if TOLD {
                    self.served.push(request.cause);
                }
                return;
            }
            self.out.push(request);
            if let Some(old) = sets.fill(number, number, 0) {
                self.out.push(Request::write(old << self.shift, request.cause));
            }
            return;
        }
        let kept = if self.through { 0 } else { DIRTY };
        let mut stays = true;
        if sets.touch_and_mark(number, number, kept).is_none() {
            if self.allocate {
                if let Some(old) = sets.fill(number, number, kept) {
                    self.out.push(Request::write(old << self.shift, request.cause));
                }
            } else {
                stays = false;
            }
        }
        if self.through || !stays {
            self.out.push(request);
        }
    }
}

impl<const TOLD: bool> Kernel for Beyond<'_, TOLD> {
    type Out = u64;
    #[inline(always)]
    fn run(mut self, sets: &mut impl Sets) -> u64 {
        for some in self.requests.chunks(APPROACHED) {
            let seen =
                some.iter().fold(0, |seen, request| seen ^ sets.approach(request.line() >> self.shift));
            std::hint::black_box(seen);
            some.iter().for_each(|&request| self.one(sets, request));
        }
        self.hits
    }
}

impl Hierarchy {
    /// Returns whether no level changes the contents of a nearer one, and lines are only copied.
    pub fn is_layered(&self) -> bool {
        self.copies && self.levels.iter().all(|level| !level.inclusive || level.nearer.is_empty())
    }

    /// Returns whether both paths are the same beyond their nearest levels, or altogether.
    pub fn joins(&self) -> bool {
        self.data == self.code || (self.data.get(1..) == self.code.get(1..) && self.data[0] != self.code[0])
    }

    /// Returns whether both paths begin at the same level.
    pub fn nearest_is_unified(&self) -> bool {
        self.data.first() == self.code.first()
    }

    /// Returns the number of levels of a path.
    pub fn depth(&self, path: Path) -> usize {
        self.path(path).len()
    }

    /// Passes events through the nearest level of a path. What it does not serve is appended to `out`.
    pub fn pass_nearest(
        &mut self,
        (agent, path): (usize, Path),
        events: Events<'_>,
        only: Option<&[u16]>,
        stores: bool,
        (shortest, out): (u32, &mut Vec<Request>),
    ) {
        let level = self.path(path)[0];
        let shift = self.levels[level].shift - shortest;
        let cache = self.cache_mut(agent, level);
        match stores {
            true => cache.run(Nearest::<true> { events, only, shift, out }),
            false => cache.run(Nearest::<false> { events, only, shift, out }),
        }
    }

    /// Passes events from `from` to `to` through the nearest level of a path as long as it serves them. Returns the first
    /// event that it does not.
    pub fn pass_hits(
        &mut self,
        (agent, path): (usize, Path),
        events: Events<'_>,
        (from, to): (usize, usize),
        shortest: u32,
        sharing: bool,
    ) -> usize {
        let level = self.path(path)[0];
        let shift = self.levels[level].shift - shortest;
        self.cache_mut(agent, level).run(Hits { events, from, to, shift, sharing })
    }

    /// Passes requests through the level at a position of a path. `out` gets those that go on. Returns the level and the
    /// number of reads that it served, whose causes are appended to `served`, if given.
    pub fn pass_beyond(
        &mut self,
        (agent, path, position): (usize, Path, usize),
        requests: &[Request],
        shortest: u32,
        out: &mut Vec<Request>,
        served: Option<&mut Vec<u32>>,
    ) -> (usize, u64) {
        let level = self.path(path)[position];
        let super::Level { shift, through, allocate, .. } = self.levels[level];
        let shift = shift - shortest;
        let cache = self.cache_mut(agent, level);
        let hits = match served {
            Some(served) => {
                cache.run(Beyond::<true> { shift, through, allocate, requests, served, out, hits: 0 })
            }
            None => {
                let served = &mut Vec::new();
                cache.run(Beyond::<false> { shift, through, allocate, requests, served, out, hits: 0 })
            }
        };
        (level, hits)
    }

    /// Marks the line of an address as dirty in the nearest data level.
    pub fn mark_nearest(&mut self, agent: usize, address: u64) {
        let level = self.data[0];
        let number = (address >> self.levels[level].shift) as u32;
        self.cache_mut(agent, level).mark(number, DIRTY);
    }
}
