//! The guest: its memory, its translations, and the cost of its instructions and accesses in the model.

use std::collections::HashMap;

use fathom_metal::board::Board;
use fathom_metal::parameters::{AARCH64_MAGIC, ARMV6_MAGIC, ARMV7_MAGIC, header_magic};
use fathom_model::{Description, GuestTranslation, Kind, Model};
use fathom_probe::machine::{Attribute, Control as _, Controls, Counters as _, Machine as _, Ops};

use crate::block::{Access, Block, Instruction};
use crate::translation::{Page, Regime};
use crate::uart::Uart;
use crate::{a32, a64};

/// Bytes of memory: up to the end of the image's arena on the Pis.
pub const MEMORY: u64 = 256 << 20;
/// Position of a view's number in the physical addresses that are passed to Unicorn.
/// Devices are below it, and Unicorn's physical addresses of 32-bit ARM have 40 bits.
pub const VIEW_SHIFT: u32 = 32;
/// Number of cached translations, indexed by the page number modulo this.
const CACHED_PAGES: usize = 1 << 14;

/// What the guest's image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Core {
    /// AArch64.
    A64,
    /// ARMv7.
    V7,
    /// ARMv6: ARM1176.
    V6,
}

impl Core {
    /// Returns the core of an image; `None` if it has no header.
    pub fn of(image: &[u8]) -> Option<Core> {
        match header_magic(image)? {
            AARCH64_MAGIC => Some(Core::A64),
            ARMV7_MAGIC => Some(Core::V7),
            ARMV6_MAGIC => Some(Core::V6),
            _ => None,
        }
    }

    /// Returns the load address of the image, as of the Pis' firmware.
    pub fn loaded_at(self) -> u64 {
        if self == Core::A64 { 0x8_0000 } else { 0x8000 }
    }

    /// Returns the bytes of a line of the data caches, which the image uses for maintenance: that of `CTR` of Unicorn's
    /// ARM1176, Cortex-A15, A53 and A72.
    fn line(self) -> u64 {
        if self == Core::V6 { 32 } else { 64 }
    }

    /// Returns the most bytes that an instruction accesses at once: a pair of AArch64's widest registers, two
    /// doublewords of 32-bit ARM.
    fn widest(self) -> u64 {
        if self == Core::A64 { 32 } else { 16 }
    }

    fn decode(self) -> fn(u32) -> Instruction {
        if self == Core::A64 { a64::code::decode } else { a32::code::decode }
    }

    /// Returns the regime after reset: translation is off.
    fn regime(self) -> Regime {
        match self {
            Core::A64 => Regime::A64(a64::walk::Regime { sctlr: 0, ttbr: 0, tcr: 0, mair: 0 }),
            Core::V7 | Core::V6 => {
                Regime::A32(a32::walk::Regime { sctlr: 0, ttbr: 0, ttbcr: 0, v7: self == Core::V7 })
            }
        }
    }
}

/// The guest's memory. Unicorn writes to it, and page walks read it.
pub struct Memory {
    /// Keeps the allocation in place.
    _bytes: Vec<u8>,
    base: *mut u8,
}

impl Memory {
    /// Allocates zeroed memory; the system provides its pages at the first touch.
    pub fn new() -> Memory {
        let mut bytes = vec![0u8; MEMORY as usize + 4096];
        let pad = bytes.as_ptr().align_offset(4096);
        let base = bytes.as_mut_ptr().wrapping_add(pad);
        Memory { _bytes: bytes, base }
    }

    /// Returns its first byte, aligned to a page.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Copies bytes to a physical address; `None` if they do not fit.
    pub fn load(&mut self, pa: u64, bytes: &[u8]) -> Option<()> {
        let end = pa.checked_add(bytes.len() as u64)?;
        (end <= MEMORY).then_some(())?;
        // SAFETY: within the allocation, checked above; the guest does not run yet.
        unsafe { self.base.add(pa as usize).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Some(())
    }

    /// Reads the 8 bytes at a physical address.
    pub fn read(&self, pa: u64) -> Option<u64> {
        let inside = pa.is_multiple_of(8) && pa <= MEMORY - 8;
        // SAFETY: aligned and within the allocation. Unicorn writes to it from this thread, and not while one of its
        // hooks runs. Volatile, because the compiler does not see those writes.
        inside.then(|| unsafe { self.base.add(pa as usize).cast::<u64>().read_volatile() })
    }

    /// Returns the instruction at a physical address.
    pub fn word(&self, pa: u64) -> u32 {
        self.read(pa & !7).map_or(0, |both| (both >> ((pa & 4) * 8)) as u32)
    }
}

/// A view of memory: the properties of a mapping other than the physical address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct View {
    /// Virtual minus physical address.
    delta: u64,
    mair: u8,
    bytes: u64,
}

/// The translation of an address for Unicorn.
pub struct Entry {
    /// The physical address, with the number of its view in the higher bits.
    pub address: u64,
    /// The view's number if it is new, so that its memory must be mapped.
    pub new: Option<u64>,
}

/// The guest.
pub struct Guest {
    pub model: Model,
    pub memory: Memory,
    pub uart: Uart,
    pub core: Core,
    pub board: Board,
    /// Bytes of code from the image's start.
    pub code_bytes: u64,
    /// Rate of the system counter, Hz.
    pub counter_hz: u64,
    /// Rate of the core's clock, Hz.
    core_hz: u64,
    pub regime: Regime,
    /// Whether the description's walks fetch descriptors.
    fetches: bool,
    /// Whether an integer operation of the description costs less than a cycle.
    overlaps: bool,
    views: Vec<View>,
    pages: Vec<(u64, Option<Page>)>,
    blocks: HashMap<u64, Block>,
    /// The running block, and the number of its accesses made so far.
    running: u64,
    made: usize,
    /// The accesses of an instruction that are made together, as far as they were made: address and bytes.
    joined: Option<(u64, u64)>,
    /// End of the running block, where the next one starts unless it branches.
    next: u64,
    pub counters: Events,
    /// `PMNC` of ARM1176.
    pub monitor: u64,
    /// `PAR` of 32-bit ARM.
    pub par: u32,
    /// What an access to coprocessor 15 has read.
    pub read: Option<a32::cpu::Read>,
    /// The failure that ended it, if any.
    pub failure: Option<String>,
}

/// The event counters of the PMU as set by the guest.
#[derive(Default)]
pub struct Events {
    pub selected: usize,
    pub events: [u64; 6],
}

impl Guest {
    /// Creates a guest of a machine on a board, for an image with this many bytes of code.
    pub fn new(description: &Description, seed: u64, (core, board): (Core, Board), code_bytes: u64) -> Guest {
        Guest {
            model: Model::new(description, seed),
            memory: Memory::new(),
            uart: Uart::open(),
            core,
            board,
            code_bytes,
            counter_hz: description.timer.clock_hz.round() as u64,
            core_hz: description.core.clock_hz.round() as u64,
            regime: core.regime(),
            fetches: description.walk.as_ref().is_some_and(|walk| walk.fetches > 0),
            overlaps: description.core.alu.in_cycles(description.core.clock_hz) < 1.0,
            views: Vec::new(),
            pages: vec![(u64::MAX, None); CACHED_PAGES],
            blocks: HashMap::new(),
            running: 0,
            made: 0,
            joined: None,
            next: 0,
            counters: Events::default(),
            monitor: 0,
            par: 0,
            read: None,
            failure: None,
        }
    }

    /// Translates a virtual address for Unicorn; `None` if it is not mapped.
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

    /// Returns the translation of an address, from the cache or by a walk.
    pub fn page(&mut self, va: u64) -> Option<Page> {
        let number = va >> 12;
        let cached = &self.pages[number as usize % CACHED_PAGES];
        if cached.0 == number {
            return cached.1.map(|page| page.at(va));
        }
        let page = self.regime.walk(va, |pa| self.memory.read(pa));
        self.pages[number as usize % CACHED_PAGES] = (number, page);
        page
    }

    /// Drops all translations, because the guest has invalidated them or changed the regime.
    pub fn drop_translations(&mut self, regime: Regime) {
        self.regime = regime;
        self.pages.fill((u64::MAX, None));
        self.model.drop_translations();
        let tables = if regime.walks_past_caches() { Attribute::NormalNc } else { Attribute::WriteBack };
        // A walk of a fixed cost is what it is.
        if regime.is_on() && self.fetches {
            let set = self.model.control(&Controls { tables, ..Controls::default() });
            self.fail(set.map_err(|r| format!("{}: {}", r.reason, r.remedy)));
        }
    }

    fn fail(&mut self, outcome: Result<(), String>) {
        if let Err(why) = outcome {
            self.failure.get_or_insert(why);
        }
    }

    /// Starts a block: charges its instructions other than the accesses.
    pub fn block(&mut self, address: u64, bytes: u64) {
        let taken = u64::from(address != self.next);
        let memory = &self.memory;
        let mut block = self.blocks.entry(address).or_default();
        if block.bytes != bytes {
            // The image is linked at its load address, so virtual addresses of code are physical ones.
            let decode = self.core.decode();
            *block = Block::decode((address..address + bytes).step_by(4).map(|at| decode(memory.word(at))));
            block = self.blocks.entry(address).or_default();
        }
        // A turn of a loop that is one block waits for the turn before it, if its chain goes on there.
        let carried = u64::from(block.carried && self.running == address);
        let (others, chained) = (block.others - carried, block.chained + carried);
        self.next = address + block.bytes;
        (self.running, self.made, self.joined) = (address, 0, None);
        if self.regime.is_on() {
            // A chained instruction waits for the previous one: at least a cycle, even if the core overlaps other
            // instructions.
            let waits = if self.overlaps { chained } else { 0 };
            self.model.alu(waits);
            self.model.charge(Ops { alu: others + chained - waits, branch: taken });
        }
    }

    /// Makes an access to memory, at the address that was passed to Unicorn.
    pub fn access(&mut self, address: u64, bytes: u64, kind: Kind) {
        let part = self.blocks.get(&self.running).and_then(|block| block.accesses.get(self.made)).copied();
        self.made += 1;
        let Some(view) = (address >> VIEW_SHIFT).checked_sub(1) else { return };
        let Some(&View { delta, .. }) = self.views.get(view as usize) else { return };
        let pa = address & ((1 << VIEW_SHIFT) - 1);
        // What was joined so far continues here, or is an access of its own.
        let joined = self.joined.take().filter(|_| matches!(part, Some(Access::Next | Access::Last)));
        let (pa, bytes) = match joined {
            Some((first, before)) if first + before == pa && before + bytes <= self.core.widest() => {
                (first, before + bytes)
            }
            Some((first, before)) => {
                self.issue(kind, first.wrapping_add(delta), first, before);
                (pa, bytes)
            }
            None => (pa, bytes),
        };
        if matches!(part, Some(Access::First | Access::Next)) {
            self.joined = Some((pa, bytes));
        } else {
            self.issue(kind, pa.wrapping_add(delta), pa, bytes);
        }
    }

    fn issue(&mut self, kind: Kind, va: u64, pa: u64, bytes: u64) {
        let Some(page) = self.page(va) else { return };
        let (page_bytes, mair) = (page.bytes, page.mair);
        let at = GuestTranslation { va, pa, page_bytes, mair, descriptors: page.descriptors() };
        let issued = self.model.issue(0, kind, &at, bytes);
        self.fail(issued.map(|_| ()).map_err(|r| format!("{}: {}", r.reason, r.remedy)));
    }

    /// Cleans and invalidates a line by its virtual address.
    pub fn maintain(&mut self, va: u64) {
        let line = self.core.line();
        if let Some(page) = self.page(va / line * line).filter(|page| page.pa < MEMORY && self.regime.is_on())
        {
            let done = self.model.maintain_at(page.pa, line);
            self.fail(done.map_err(|r| format!("{}: {}", r.reason, r.remedy)));
        }
    }

    /// Reads the system counter.
    pub fn ticks(&mut self) -> u64 {
        self.model.now().0
    }

    /// Reads the described time, us, at the cost of reading the timer.
    pub fn microseconds(&mut self) -> u64 {
        (u128::from(self.model.read_cycles()) * 1_000_000 / u128::from(self.core_hz)) as u64
    }

    /// Sets the event that a counter counts, by its number in ARMv7 and later. A counter that does not exist is ignored.
    pub fn set_event(&mut self, counter: usize, event: u64) {
        if let Some(of) = self.counters.events.get_mut(counter) {
            *of = event;
        }
    }

    /// Reads an event counter.
    pub fn event(&mut self, counter: usize) -> u64 {
        match self.counters.events.get(counter) {
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
