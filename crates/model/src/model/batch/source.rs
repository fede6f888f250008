//! Where the accesses of a batch come from: they become events here.

use super::{Block, EVENTS, Plan};
use crate::hierarchy::passes::{FETCH, SPECIAL, STORE, STORED_LATER};
use crate::model::outcome::Kind;

/// No line.
const NONE: u32 = u32::MAX;

/// A source of accesses to places in the arena, as write-back memory.
pub(in crate::model) trait Source {
    /// Whether it may contain fetches.
    const FETCHES: bool;
    /// Fills a block with the next accesses; `n` = 0 if there are no more.
    fn gather(&mut self, block: &mut Block, plan: &Plan);
    /// Returns an access of the batch by its number.
    fn access(&self, number: u64) -> Option<(u64, Kind)>;
}

impl Block {
    fn start(&mut self) {
        self.n = 0;
        self.accesses = [0; 3];
        self.special = false;
    }
}

/// Loads from places.
pub(in crate::model) struct Loads<'a> {
    pub places: &'a [u64],
    pub next: usize,
}

impl Source for Loads<'_> {
    const FETCHES: bool = false;

    #[inline(always)]
    fn gather(&mut self, block: &mut Block, plan: &Plan) {
        let end = (self.next + EVENTS).min(self.places.len());
        let start = std::mem::replace(&mut self.next, end);
        let some = &self.places[start..end];
        block.start();
        if block.accesses_were_not_loads {
            block.what.fill(0);
            block.accesses_were_not_loads = false;
        }
        (block.accesses[0], block.end) = (some.len() as u64, end as u64);
        block.n = match plan.twice {
            false => gather_loads::<false>(some, plan.shift, start as u64, block),
            true => gather_loads::<true>(some, plan.shift, start as u64, block),
        };
    }

    fn access(&self, number: u64) -> Option<(u64, Kind)> {
        self.places.get(number as usize).map(|&place| (place, Kind::Load))
    }
}

/// Writes the events of loads. Without a branch, because whether a program stays in its line is hard to predict.
#[inline(always)]
fn gather_loads<const TWICE: bool>(places: &[u64], shift: u32, start: u64, block: &mut Block) -> usize {
    let (lines, first) = (&mut block.lines[..EVENTS], &mut block.first[..EVENTS]);
    let (mut last, mut before, mut n) = (NONE, NONE, 0usize);
    for (index, &place) in places.iter().enumerate() {
        let line = (place >> shift) as u32;
        lines[n % EVENTS] = line;
        first[n % EVENTS] = start + index as u64;
        n += usize::from(line != last || (TWICE && line != before));
        (before, last) = (last, line);
    }
    n
}

/// One access to a place.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) struct Piece {
    pub place: u64,
    /// Its index in the caller's batch.
    pub index: u32,
    pub kind: Kind,
}

/// Accesses of all kinds.
pub(in crate::model) struct Pieces<'a> {
    pub pieces: &'a [Piece],
    pub next: usize,
}

impl Source for Pieces<'_> {
    const FETCHES: bool = true;

    #[inline(always)]
    fn gather(&mut self, block: &mut Block, plan: &Plan) {
        let end = (self.next + EVENTS).min(self.pieces.len());
        let start = std::mem::replace(&mut self.next, end);
        block.start();
        block.accesses_were_not_loads = true;
        block.end = end as u64;
        // Line and path of the last event, and of the one before.
        let (mut last, mut before) = ((NONE, false), (NONE, false));
        let (mut n, mut what) = (0usize, 0u8);
        for (index, piece) in self.pieces[start..end].iter().enumerate() {
            let (line, code) = ((piece.place >> plan.shift) as u32, piece.kind == Kind::Fetch);
            let store = piece.kind == Kind::Store;
            block.accesses[piece.kind as usize] += 1;
            let apart = store && (!plan.keeps || (plan.sharing && what & STORE == 0));
            let same = (line, code) == last && !apart && (!plan.twice || (line, code) == before);
            let special = store && !plan.keeps;
            let begun = (u8::from(store) * STORE) | (u8::from(code) * FETCH) | (u8::from(special) * SPECIAL);
            what = if same { what | (u8::from(store) * STORED_LATER) } else { begun };
            let at = n - usize::from(same);
            block.lines[at % EVENTS] = line;
            block.first[n % EVENTS] = start as u64 + index as u64;
            block.what[at % EVENTS] = what;
            block.special |= special;
            n = at + 1;
            // A store that the nearest level does not keep is no use there that a repetition could follow.
            (before, last) = (last, if special { (NONE, false) } else { (line, code) });
        }
        block.n = n;
    }

    fn access(&self, number: u64) -> Option<(u64, Kind)> {
        self.pieces.get(number as usize).map(|piece| (piece.place, piece.kind))
    }
}

/// Accesses of one kind at a constant distance.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) struct Run {
    /// The first place.
    pub place: u64,
    /// Distance of one access to the next in bytes; may be negative.
    pub stride: i64,
    pub count: u64,
    pub kind: Kind,
    pub done: u64,
}

impl Run {
    fn at(&self, number: u64) -> u64 {
        self.place.wrapping_add_signed(self.stride.wrapping_mul(number as i64))
    }

    /// Returns the number of accesses from one at `at` on that are in its line.
    fn in_line(&self, at: u64, shift: u32) -> u64 {
        let line = 1u64 << shift;
        let behind = if self.stride < 0 { line - 1 - at % line } else { at % line };
        match self.stride.unsigned_abs() {
            0 => u64::MAX,
            stride => (line - behind).div_ceil(stride),
        }
    }
}

impl Source for Run {
    const FETCHES: bool = true;

    #[inline(always)]
    fn gather(&mut self, block: &mut Block, plan: &Plan) {
        block.start();
        let store = self.kind == Kind::Store;
        let special = store && !plan.keeps;
        let what = (u8::from(store) * STORE)
            | (u8::from(self.kind == Kind::Fetch) * FETCH)
            | (u8::from(special) * SPECIAL);
        block.what.fill(what);
        block.accesses_were_not_loads = what != 0;
        block.special = special;
        let begun = self.done;
        let (line, stride) = (1u64 << plan.shift, self.stride.unsigned_abs());
        let whole = if special { 0 } else { line.checked_div(stride).unwrap_or(0) };
        let mut n = 0;
        let mut at = self.at(self.done);
        // A stride of zero, and a run that begins within a line, do not have the usual number of accesses.
        let mut inside = if special { 1 } else { self.in_line(at, plan.shift) };
        while n + 2 <= EVENTS && self.done < self.count {
            let inside_here = inside.min(self.count - self.done);
            (block.lines[n], block.first[n]) = ((at >> plan.shift) as u32, self.done);
            n += 1;
            if plan.twice && inside_here > 1 {
                (block.lines[n], block.first[n]) = ((at >> plan.shift) as u32, self.done + 1);
                n += 1;
            }
            self.done += inside_here;
            at = at.wrapping_add_signed(self.stride.wrapping_mul(inside_here as i64));
            // The first access in a line is less than a stride from the edge.
            let behind = if self.stride < 0 { line - 1 - at % line } else { at % line };
            inside = if special { 1 } else { whole + u64::from(behind + whole * stride < line) };
        }
        block.accesses[self.kind as usize] = self.done - begun;
        (block.n, block.end) = (n, self.done);
    }

    fn access(&self, number: u64) -> Option<(u64, Kind)> {
        (number < self.count).then(|| (self.at(number), self.kind))
    }
}
