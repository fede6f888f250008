//! The arena: placement of mappings, and the contents of their cells.
//!
//! Addresses are offsets in one range: the first half is for base pages, the next three eighths for huge pages, an
//! eighth for co-running streams. Page tables are after it. `frames` maps pages of the range to physical pages. Memory
//! that is not write-back is the same range in another window (`uncached`). Contents are stored by the offset in the
//! range, links as full offsets.

use std::collections::HashMap;
use std::ops::Range;

use fathom_probe::chain::{Chain, Layout};
use fathom_probe::machine::batch::stride::{self, KEYS, Sweep};
use fathom_probe::machine::{MapRequest, Mapping, Operation, Pages, Refusal};
use fathom_probe::splitmix::mix;

use crate::cache::MAX_NUMBERS;
use crate::description::{Description, Frames};
use crate::uncached::{WINDOW, WINDOWS, place};

/// A part of the arena for mappings of one page size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub start: u64,
    pub bytes: u64,
    pub page: u64,
}

/// A chain in force and the range that it covers.
#[derive(Clone, Copy, Debug)]
struct Initialised {
    start: u64,
    end: u64,
    chain: Chain,
}

/// The position of a cell in a chain in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    pub offset: u64,
    pub position: u64,
    pub chain: Chain,
}

/// Largest chain whose order is stored, cells: 2 MiB of offsets.
const MAX_STORED_CELLS: u64 = 1 << 18;

/// The offsets of a chain's cells in its order. Trials visit most chains several times, and computing the order takes as
/// long as a load that hits.
#[derive(Clone, Debug)]
pub(crate) struct StoredOrder {
    chain: Chain,
    offsets: Vec<u64>,
}

/// A sweep's buffer after initialisation, and the position that the sweep has reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SweepBuffer {
    sweep: Sweep,
    seed: u64,
    reached: u64,
}

impl SweepBuffer {
    /// Returns the range that it covers.
    fn range(&self) -> Range<u64> {
        let start = place(self.sweep.base);
        start..start + self.sweep.cells * self.sweep.stride
    }

    /// Returns the initial words of the buffer, from cell `number` on.
    pub fn initialised(&self, number: u64) -> stride::Initialised {
        self.sweep.initialised(number, self.seed)
    }

    /// Returns the offset that the cell at `at` links to, if it is a cell of the sweep.
    fn next(&self, at: u64) -> Option<u64> {
        let Sweep { base, stride, operation, .. } = self.sweep;
        let first = place(base);
        if !self.range().contains(&at) || !(at - first).is_multiple_of(stride) {
            return None;
        }
        let number = (at - first) / stride;
        let word = match operation {
            Operation::Read => self.sweep.initialised(number, self.seed).word,
            _ => self.sweep.expected_word(number, self.reached),
        };
        Some(base + 8 * word)
    }
}

/// Mappings and the sparse contents of their memory.
#[derive(Clone, Debug)]
pub(crate) struct Arena {
    pub bytes: u64,
    pub base: Part,
    /// Absent if the machine has one page size only.
    pub huge: Option<Part>,
    /// Base pages that are physically contiguous.
    pub coloured: Option<Part>,
    /// Memory of co-running streams, used from its start.
    pub streams: Part,
    /// Mapped ranges, disjoint and in order.
    mapped: Vec<(u64, u64)>,
    /// The offset that memory reads as before it is linked: the first mapping's first cell.
    first: u64,
    chains: Vec<Initialised>,
    swept: Option<SweepBuffer>,
    links: HashMap<u64, u64>,
    /// The links of a lap through individual cells.
    lap: HashMap<u64, u64>,
    cursor: Option<Cursor>,
    order: Option<StoredOrder>,
}

impl Arena {
    pub fn new(description: &Description) -> Arena {
        let memory = &description.memory;
        let page = memory.pages[0];
        // Lines and pages of everything, tables included, must fit in the numbers that caches store.
        let line = description.levels.iter().map(|l| l.line).min().unwrap_or(64);
        // Pages of every window have separate numbers.
        let pages = (MAX_NUMBERS / 2) / (2 * WINDOWS.next_power_of_two() as u64) * page;
        let reach = (MAX_NUMBERS * line / 8 * 7).min(pages);
        let bytes = memory.size.min(reach) / page * page;
        let down = |bytes: u64, page: u64| bytes / page * page;
        let half = Part { start: 0, bytes: down(bytes / 2, page), page };
        let tail = down(bytes / 8 * 7, page);
        let huge_page = memory.pages[memory.pages.len() - 1];
        let start = half.bytes.next_multiple_of(huge_page);
        let huge = (memory.pages.len() > 1).then(|| Part {
            start,
            bytes: down(tail.saturating_sub(start), huge_page),
            page: huge_page,
        });
        // Frames are scattered in the base pages' part only. Pages of chosen frames are contiguous: between that part and the streams if
        // there are no huge pages, else in half of it.
        let (base, coloured) = match (memory.frames, huge.is_some()) {
            (Frames::Contiguous, _) => (half, half),
            (Frames::Scattered, false) => (half, Part { start: half.bytes, bytes: tail - half.bytes, page }),
            (Frames::Scattered, true) => {
                let quarter = down(half.bytes / 2, page);
                let base = Part { bytes: quarter, ..half };
                (base, Part { start: quarter, bytes: half.bytes - quarter, page })
            }
        };
        let coloured = memory.page_map.then_some(coloured);
        Arena {
            bytes,
            base,
            huge,
            coloured,
            streams: Part { start: tail, bytes: bytes - tail, page },
            mapped: Vec::new(),
            first: 0,
            chains: Vec::new(),
            swept: None,
            links: HashMap::new(),
            lap: HashMap::new(),
            cursor: None,
            order: None,
        }
    }

    /// Maps a request in a window, or refuses it and states what would be granted.
    pub fn map(&mut self, request: &MapRequest, window: usize) -> Result<Mapping, Refusal> {
        let part = match request.pages {
            Pages::Base => self.base,
            Pages::Coloured => self.coloured.ok_or_else(|| {
                let remedy = "set page_map = true in [memory], or request other pages";
                Refusal::new("this machine does not tell the frames of its pages", remedy)
            })?,
            Pages::Huge => self.huge.ok_or_else(|| {
                let remedy = "request base pages, or add a second size to `pages` in [memory]";
                Refusal::new(format!("the description has pages of {} bytes only", self.base.page), remedy)
            })?,
        };
        let rounded = request.bytes.checked_next_multiple_of(part.page);
        let Some(bytes) = rounded.filter(|&bytes| request.bytes > 0 && bytes <= part.bytes) else {
            let reason =
                format!("{} bytes in pages of {} do not fit the described memory", request.bytes, part.page);
            return Err(Refusal::new(reason, format!("request 1 to {} bytes", part.bytes)));
        };
        let places = (part.bytes - bytes) / part.page + 1;
        let start = window as u64 * WINDOW + part.start + mix(request.place) % places * part.page;
        if self.mapped.is_empty() {
            self.first = start;
        }
        self.note_mapped(start, start + bytes);
        Ok(Mapping { base: start, bytes, page_bytes: part.page })
    }

    fn note_mapped(&mut self, start: u64, end: u64) {
        let (mut start, mut end) = (start, end);
        self.mapped.retain(|&(s, e)| {
            let apart = e < start || s > end;
            if !apart {
                start = start.min(s);
                end = end.max(e);
            }
            apart
        });
        let at = self.mapped.partition_point(|&(s, _)| s < start);
        self.mapped.insert(at, (start, end));
    }

    /// Returns the bytes of the page at an offset.
    pub fn page_at(&self, offset: u64) -> u64 {
        let huge = self.huge.filter(|part| (part.start..part.start + part.bytes).contains(&place(offset)));
        huge.unwrap_or(self.base).page
    }

    /// Returns whether all of `start..end` is mapped.
    pub fn is_mapped(&self, start: u64, end: u64) -> bool {
        let after = self.mapped.partition_point(|&(s, _)| s <= start);
        after > 0 && end <= self.mapped[after - 1].1
    }

    /// Puts a chain in force. Earlier chains that it overlaps and links of its cells are removed.
    pub fn initialise(&mut self, chain: &Chain) -> Result<(), Refusal> {
        let end = end_of(chain)?;
        if !self.is_mapped(chain.base, end) {
            return Err(Refusal::new("the chain reaches outside the mapped memory", "request fewer bytes"));
        }
        let (start, window) = (place(chain.base), chain.base - place(chain.base));
        let end = end - window;
        self.lap.clear();
        self.chains.retain(|initialised| initialised.end <= start || initialised.start >= end);
        self.swept = self.swept.filter(|s| s.range().end <= start || s.range().start >= end);
        self.links.retain(|&at, _| chain.number_at(window + at).is_none());
        self.chains.push(Initialised { start, end, chain: *chain });
        self.cursor = None;
        Ok(())
    }

    /// Puts a lap through cells in force, over any other contents, until the next initialisation.
    pub fn initialise_cells(&mut self, cells: &[u64]) {
        let next = cells.iter().cycle().skip(1);
        self.lap = cells.iter().map(|cell| place(*cell)).zip(next.copied()).collect();
        self.cursor = None;
    }

    /// Puts the contents of a sweep in force. Chains that it overlaps, links in its range and an earlier sweep are
    /// removed.
    pub fn initialise_sweep(&mut self, sweep: &Sweep, seed: u64) -> Result<(), Refusal> {
        let end = sweep.cells.checked_mul(sweep.stride).and_then(|bytes| bytes.checked_add(sweep.base));
        // The laps of a writing sweep store words of the first KiB.
        let (grain, min_bytes) =
            if sweep.operation == Operation::Read { (8, 8) } else { (8 * KEYS, 8 * KEYS) };
        let aligned = sweep.base.is_multiple_of(grain) && sweep.stride.is_multiple_of(8) && sweep.cells > 0;
        let mapped = |end: u64| self.is_mapped(sweep.base, end.max(sweep.base + min_bytes));
        let Some(end) = end.filter(|&end| aligned && sweep.stride > 0 && mapped(end)) else {
            return Err(Refusal::new("the sweep reaches outside the mapped memory", "request fewer bytes"));
        };
        let (start, end) = (place(sweep.base), end - (sweep.base - place(sweep.base)));
        self.lap.clear();
        self.chains.retain(|initialised| initialised.end <= start || initialised.start >= end);
        self.links.retain(|at, _| !(start..end).contains(at));
        self.cursor = None;
        self.swept = Some(SweepBuffer { sweep: *sweep, seed, reached: 0 });
        Ok(())
    }

    /// Removes all individual links. A trial initialises what it reads.
    pub fn forget_links(&mut self) {
        self.links.clear();
    }

    /// Removes all contents of a range.
    pub fn forget(&mut self, range: &Range<u64>) {
        let range = place(range.start)..place(range.end);
        self.lap.clear();
        self.chains.retain(|initialised| initialised.end <= range.start || initialised.start >= range.end);
        self.swept = self.swept.filter(|s| s.range().end <= range.start || s.range().start >= range.end);
        self.links.retain(|offset, _| !range.contains(offset));
        self.cursor = None;
    }

    /// Returns the sweep in force if it is `sweep`, its contents are those of its own accesses, and a run from position
    /// `from` continues it.
    pub fn continued_sweep(&self, sweep: &Sweep, from: u64) -> Option<SweepBuffer> {
        let swept = self.swept.filter(|s| s.sweep == *sweep && self.links.is_empty())?;
        // Lap 0 changes nothing, so its accesses may be in any order before the first lap.
        let lap_0 = |position: u64| position <= sweep.cells;
        let reads = sweep.operation == Operation::Read;
        (reads || swept.reached == from || (lap_0(swept.reached) && lap_0(from))).then_some(swept)
    }

    /// Records that the sweep in force has reached a position.
    pub fn reach(&mut self, position: u64) {
        if let Some(swept) = &mut self.swept {
            swept.reached = position;
        }
    }

    /// Writes one link, over any chain.
    pub fn link(&mut self, at: u64, to: u64) {
        self.lap.remove(&place(at));
        self.links.insert(place(at), to);
    }

    /// Returns the position of the cell at `offset` in a chain in force, if no other contents are in force.
    pub fn cursor(&self, offset: u64) -> Option<Cursor> {
        if !(self.links.is_empty() && self.lap.is_empty()) {
            return None;
        }
        self.find(offset)
    }

    fn find(&self, offset: u64) -> Option<Cursor> {
        if let Some(cursor) = self.cursor
            && cursor.offset == offset
        {
            return Some(cursor);
        }
        let at = place(offset);
        let initialised =
            self.chains.iter().find(|initialised| (initialised.start..initialised.end).contains(&at))?;
        let number = initialised.chain.number_at(initialised.chain.base - initialised.start + at)?;
        Some(Cursor { offset, position: initialised.chain.position_of(number), chain: initialised.chain })
    }

    /// Saves a cursor for the next look-up.
    #[inline]
    pub fn save_cursor(&mut self, cursor: Cursor) {
        self.cursor = Some(cursor);
    }

    /// Takes the order of a chain that is followed for `loads` loads; `None` if storing it takes more time than it saves.
    /// To be given back by [`store_order`](Arena::store_order).
    pub fn take_order(&mut self, chain: &Chain, loads: u64) -> Option<StoredOrder> {
        if let Some(order) = self.order.take_if(|order| order.chain == *chain) {
            return Some(order);
        }
        let cells = chain.cells();
        (cells <= MAX_STORED_CELLS && loads >= cells)
            .then(|| StoredOrder { chain: *chain, offsets: (0..cells).map(|i| chain.at(i)).collect() })
    }

    /// Keeps an order for the next batch of loads.
    pub fn store_order(&mut self, order: Option<StoredOrder>) {
        self.order = order.or(self.order.take());
    }

    /// Returns the offset that the cell at `offset` links to.
    pub fn next(&mut self, offset: u64) -> u64 {
        let at = place(offset);
        if let Some(to) = self.lap.get(&at).or_else(|| self.links.get(&at)) {
            return *to;
        }
        if let Some(to) = self.swept.and_then(|swept| swept.next(at)) {
            return to;
        }
        match self.find(offset) {
            Some(mut cursor) => {
                cursor.advance();
                self.save_cursor(cursor);
                cursor.offset
            }
            None => self.first,
        }
    }
}

impl Cursor {
    /// Advances to the next cell of the cycle.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.position += 1;
        if self.position == self.chain.cells() {
            self.position = 0;
        }
        self.offset = self.chain.at(self.position);
    }

    /// The same, from the stored order of its chain if there is one.
    #[inline(always)]
    pub fn advance_in(&mut self, order: Option<&StoredOrder>) {
        let Some(order) = order else { return self.advance() };
        self.position += 1;
        if self.position == self.chain.cells() {
            self.position = 0;
        }
        self.offset = order.offsets[self.position as usize];
    }
}

/// Returns the end of a chain, in bytes of the arena, or refuses a chain that cannot be initialised.
fn end_of(chain: &Chain) -> Result<u64, Refusal> {
    let aligned = |bytes: u64| bytes > 0 && bytes.is_multiple_of(8);
    let valid = chain.base.is_multiple_of(8)
        && aligned(chain.stride)
        && match chain.layout {
            Layout::Packed => true,
            Layout::OnePerPage { page } => {
                aligned(page) && page.is_multiple_of(chain.stride) && (page / chain.stride).is_power_of_two()
            }
            Layout::Grouped { group, period } => group > 0 && aligned(period),
        };
    if !valid {
        return Err(Refusal::new(
            "the cells of the chain are not whole and aligned words",
            "base, stride and page must be multiples of 8 bytes, page / stride a power of two",
        ));
    }
    let extent = chain.layout.extent(chain.cells(), chain.stride);
    let end = extent.and_then(|bytes| bytes.checked_add(chain.base));
    end.ok_or_else(|| Refusal::new("the chain is longer than any memory", "request fewer bytes"))
}
