//! The guest as the model sees it: its memory, its translations, and what everything that it does costs.

use std::collections::HashMap;

use fathom_metal::board::Board;
use fathom_model::{Description, Kind, Model, Translated};
use fathom_probe::machine::{Attribute, Control as _, Controls, Counters as _, Machine as _, Ops};

use crate::code::{Access, Block};
use crate::uart::Uart;
use crate::walk::{Page, Regime};

/// Bytes of memory: up to the end of the image's arena on the Pis.
pub const MEMORY: u64 = 256 << 20;
/// Where the number of a view stands in the physical addresses that Unicorn is reported.
pub const VIEW_SHIFT: u32 = 36;
/// Bytes of a line: `CTR_EL0.DminLine` of the Cortex-A53 and A72, by which the image maintains.
const LINE: u64 = 64;
/// Translations that are kept at hand, one for each page number modulo this.
const KEPT: usize = 1 << 14;

/// The guest's memory, which Unicorn writes to and walks read.
pub struct Memory {
    /// Held so that it stays where it is.
    _bytes: Vec<u8>,
    base: *mut u8,
}

impl Memory {
    /// Zeros, which the system hands out as they are touched.
    pub fn new() -> Memory {
        let mut bytes = vec![0u8; MEMORY as usize + 4096];
        let pad = bytes.as_ptr().align_offset(4096);
        let base = bytes.as_mut_ptr().wrapping_add(pad);
        Memory { _bytes: bytes, base }
    }

    /// Its first byte, aligned to a page.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Puts bytes at a physical address; `None` where they do not fit.
    pub fn load(&mut self, pa: u64, bytes: &[u8]) -> Option<()> {
        let end = pa.checked_add(bytes.len() as u64)?;
        (end <= MEMORY).then_some(())?;
        // SAFETY: within the allocation, checked above; nothing runs in the guest yet.
        unsafe { self.base.add(pa as usize).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Some(())
    }

    /// The 8 bytes at a physical address.
    pub fn read(&self, pa: u64) -> Option<u64> {
        let inside = pa.is_multiple_of(8) && pa <= MEMORY - 8;
        // SAFETY: aligned and within the allocation. Unicorn writes to it from this very thread, and not while one of
        // its hooks runs. Volatile: the compiler knows nothing of those writes.
        inside.then(|| unsafe { self.base.add(pa as usize).cast::<u64>().read_volatile() })
    }

    /// The instruction at a physical address.
    fn word(&self, pa: u64) -> u32 {
        self.read(pa & !7).map_or(0, |both| (both >> ((pa & 4) * 8)) as u32)
    }
}

/// A way in which memory is seen: what tells pages apart beside their physical address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct View {
    /// Virtual less physical address.
    delta: u64,
    mair: u8,
    bytes: u64,
}

/// What Unicorn is reported of an address.
pub struct Entry {
    /// The physical address, with the number of its view above it.
    pub address: u64,
    /// The view's number, where it is new: its memory has to be shown.
    pub new: Option<u64>,
}

/// The guest.
pub struct Guest {
    pub model: Model,
    pub memory: Memory,
    pub uart: Uart,
    pub board: Board,
    /// Rate of the system counter, Hz.
    pub counter_hz: u64,
    pub regime: Regime,
    /// Does one of the description's integer operations cost less than a cycle?
    hides: bool,
    views: Vec<View>,
    pages: Vec<(u64, Option<Page>)>,
    blocks: HashMap<u64, Block>,
    /// The block that runs, and how many of its accesses were made.
    running: u64,
    made: usize,
    /// The first half of a pair.
    half: Option<(u64, u64)>,
    /// Where a block ends unless it branches.
    next: u64,
    pub counters: Events,
    /// What ended it, if it was not the end of the input.
    pub failure: Option<String>,
}

/// The event counters of the PMU as the guest has set them.
#[derive(Default)]
pub struct Events {
    pub selected: usize,
    pub events: [u64; 6],
}

impl Guest {
    /// A guest of a machine on a board, with its image in memory.
    pub fn new(description: &Description, seed: u64, board: Board) -> Guest {
        Guest {
            model: Model::new(description, seed),
            memory: Memory::new(),
            uart: Uart::open(),
            board,
            counter_hz: description.timer.clock_hz.round() as u64,
            regime: Regime { sctlr: 0, ttbr: 0, tcr: 0, mair: 0 },
            hides: description.core.alu.in_cycles(description.core.clock_hz) < 1.0,
            views: Vec::new(),
            pages: vec![(u64::MAX, None); KEPT],
            blocks: HashMap::new(),
            running: 0,
            made: 0,
            half: None,
            next: 0,
            counters: Events::default(),
            failure: None,
        }
    }

    /// What Unicorn is to know of a virtual address; `None` where nothing is mapped.
    pub fn translate(&mut self, va: u64) -> Option<Entry> {
        let page = self.page(va)?;
        if !self.regime.is_on() || page.pa >= MEMORY {
            return Some(Entry { address: page.pa, new: None });
        }
        let view = View { delta: va.wrapping_sub(page.pa), mair: page.mair, bytes: page.bytes };
        let known = self.views.iter().position(|v| *v == view);
        let number = known.unwrap_or(self.views.len()) as u64 + 1;
        if known.is_none() {
            self.views.push(view);
        }
        Some(Entry { address: number << VIEW_SHIFT | page.pa, new: known.is_none().then_some(number) })
    }

    /// The translation of an address, kept at hand.
    fn page(&mut self, va: u64) -> Option<Page> {
        let number = va >> 12;
        let kept = &self.pages[number as usize % KEPT];
        if kept.0 == number {
            return kept.1.map(|page| page.at(va));
        }
        let page = self.regime.walk(va, |pa| self.memory.read(pa));
        self.pages[number as usize % KEPT] = (number, page);
        page
    }

    /// The guest dropped its translations, and may have changed them.
    pub fn forget(&mut self, regime: Regime) {
        self.regime = regime;
        self.pages.fill((u64::MAX, None));
        self.model.drop_translations();
        let tables = if regime.walks_past_caches() { Attribute::NormalNc } else { Attribute::WriteBack };
        if regime.is_on() {
            let set = self.model.control(&Controls { tables, ..Controls::default() });
            self.fail(set.map_err(|r| format!("{}: {}", r.reason, r.remedy)));
        }
    }

    fn fail(&mut self, outcome: Result<(), String>) {
        if let Err(why) = outcome {
            self.failure.get_or_insert(why);
        }
    }

    /// A block begins to run: what it does beside its accesses is paid for.
    pub fn block(&mut self, address: u64, bytes: u64) {
        let taken = u64::from(address != self.next);
        let memory = &self.memory;
        let mut block = self.blocks.entry(address).or_default();
        if block.bytes != bytes {
            // Code lies where it was linked to, and where it was loaded: its addresses are physical ones.
            *block = Block::decode((address..address + bytes).step_by(4).map(|at| memory.word(at)));
            block = self.blocks.entry(address).or_default();
        }
        let (others, chained) = (block.others, block.chained);
        self.next = address + block.bytes;
        (self.running, self.made, self.half) = (address, 0, None);
        if self.regime.is_on() {
            // The one before has to be done: a cycle at least, however much of a loop's work the core hides.
            let waits = if self.hides { chained } else { 0 };
            self.model.alu(waits);
            self.model.charge(Ops { alu: others + chained - waits, branch: taken });
        }
    }

    /// An access to memory, at the address that Unicorn was told.
    pub fn access(&mut self, address: u64, bytes: u64, kind: Kind) {
        let part = self.blocks.get(&self.running).and_then(|block| block.accesses.get(self.made)).copied();
        self.made += 1;
        let Some(view) = (address >> VIEW_SHIFT).checked_sub(1) else { return };
        let Some(&View { delta, .. }) = self.views.get(view as usize) else { return };
        let (mut pa, mut bytes) = (address & ((1 << VIEW_SHIFT) - 1), bytes);
        match (part, self.half.take()) {
            (Some(Access::First), _) => {
                self.half = Some((pa, bytes));
                return;
            }
            (Some(Access::Second), Some((first, half))) if first + half == pa => {
                (pa, bytes) = (first, half + bytes);
            }
            _ => {}
        }
        let va = pa.wrapping_add(delta);
        let Some(page) = self.page(va) else { return };
        let (page_bytes, mair) = (page.bytes, page.mair);
        let at = Translated { va, pa, page_bytes, mair, descriptors: page.descriptors() };
        let issued = self.model.issue(0, kind, &at, bytes);
        self.fail(issued.map(|_| ()).map_err(|r| format!("{}: {}", r.reason, r.remedy)));
    }

    /// A line is cleaned and invalidated by its virtual address.
    pub fn maintain(&mut self, va: u64) {
        let line = LINE;
        if let Some(page) = self.page(va / line * line).filter(|page| page.pa < MEMORY && self.regime.is_on())
        {
            let done = self.model.maintain_at(page.pa, line);
            self.fail(done.map_err(|r| format!("{}: {}", r.reason, r.remedy)));
        }
    }

    /// The system counter.
    pub fn ticks(&mut self) -> u64 {
        self.model.now().0
    }

    /// The event counter that is selected.
    pub fn event(&mut self) -> u64 {
        match self.counters.events.get(self.counters.selected) {
            Some(0x03) => self.model.refills(1).unwrap_or(0),
            Some(0x17) => self.model.refills(2).unwrap_or(0),
            Some(0x13) => self.model.watch().accesses,
            Some(0x05) => {
                let counts = self.model.counters().unwrap_or_default();
                counts.into_iter().find(|c| c.name == "refill.tlb.1").map_or(0, |c| c.value)
            }
            _ => 0,
        }
    }
}
