//! The machine: memory that can be mapped, loads that can be issued, a clock that can be read.
//!
//! [`Machine`] is deliberately small. Capabilities of some machines are separate traits ([`Counters`], [`Maintain`],
//! [`Fresh`], [`Wake`], [`Disturb`], [`Dma`], [`Translate`], [`Control`]). Each refuses by default, so a new machine
//! can start with the required operations only.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use crate::chain::Chain;
use crate::tokens::token_names;

pub mod batch;
mod capabilities;
mod counted;
pub mod dma;
mod wakeups;

use batch::copy::Copying;
use batch::stride::Sweep;
pub use capabilities::{
    ActivationTrace, Control, Count, Counters, Disturb, Dma, Event, Fresh, LoadReport, Maintain, Places,
    Stream, Translate, Wake, WakeReturn,
};
pub use counted::CountedEvent;
pub use wakeups::{ActivationRow, Wakes};

/// A reading of a machine's clock, in ticks of that clock. A tick is not a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(pub u64);

impl Ticks {
    /// Returns the ticks elapsed since `earlier`; wraps as the clock does.
    #[must_use]
    pub fn since(self, earlier: Ticks) -> u64 {
        self.0.wrapping_sub(earlier.0)
    }
}

/// How far a subject's clock can be trusted. Ordered: a lower trust never becomes a higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClockTrust {
    /// A described machine: exact, and valid for the description only.
    Modelled,
    /// A binary translator (QEMU TCG): shows that code works, never how fast anything is.
    Emulated,
    /// A guest on real caches: the hypervisor may stop it at any time, walks are nested.
    Virtual,
    /// Silicon, with nothing known between it and the probe.
    Real,
}

/// How a mapping treats memory, named by behaviour (docs/vocabulary.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Attribute {
    /// Normal memory, write-back cacheable: what every program gets.
    #[default]
    WriteBack,
    /// Normal memory, write-through cacheable.
    WriteThrough,
    /// Normal non-cacheable, gathering allowed (Linux/arm64 writecombine, x86 WC).
    NormalNc,
    /// Device-nGnRnE: no gathering, reordering or early acknowledgement (x86 UC).
    Device,
}

/// Page size and placement of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Pages {
    /// The machine's base page size, enforced (Linux: `MADV_NOHUGEPAGE`).
    #[default]
    Base,
    /// The largest page size of the machine for ordinary memory, requested AND verified.
    Huge,
    /// Base pages of selected colours, requested AND verified: modulo [`COLOUR_SPAN`], the physical distance of any two
    /// pages equals their distance in the mapping, as inside a huge page.
    Coloured,
}

/// Bytes modulo which coloured pages are placed. If a cache's way size divides it, the offsets in the mapping show
/// which cells share a set.
pub const COLOUR_SPAN: u64 = 1 << 20;

/// The operation on each cell of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Operation {
    /// Loads it.
    #[default]
    Read,
    /// Stores to it, 8 bytes per store.
    Write,
    /// Loads it, changes the value, and stores it: read-modify-write.
    Rmw,
    /// Stores to it, 16 bytes per store where cells are adjacent. This is what `memset` does if it must work with every
    /// attribute (no zeroing by line, no unaligned store).
    Set,
    /// Copies to it from a buffer in write-back memory.
    CopyTo,
    /// Copies from it to a buffer in write-back memory.
    CopyFrom,
}

impl Operation {
    /// The operations that a sweep can do at any stride.
    pub const STRIDES: &'static [Operation] = &[Operation::Read, Operation::Write, Operation::Rmw];

    /// Returns whether it needs a second buffer.
    #[must_use]
    pub fn copies(self) -> bool {
        matches!(self, Operation::CopyTo | Operation::CopyFrom)
    }
}

token_names!(Operation {
    Read = "read",
    Write = "write",
    Rmw = "rmw",
    Set = "set",
    CopyTo = "copy_to",
    CopyFrom = "copy_from",
});
token_names!(FaultInjection { Abort = "abort", Undefined = "undefined", Endless = "endless" });
token_names!(ClockTrust { Modelled = "modelled", Emulated = "emulated", Virtual = "virtual", Real = "real" });
token_names!(Attribute {
    WriteBack = "write-back",
    WriteThrough = "write-through",
    NormalNc = "normal-nc",
    Device = "device",
});
token_names!(Pages { Base = "base", Huge = "huge", Coloured = "coloured" });

/// A request for memory: `bytes` of it, aligned to a page, placed by `place`.
///
/// `place` selects one of several placements inside the machine's arena, so that a value that depends on the placement
/// shows a spread. Equal requests get equal placements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapRequest {
    /// Bytes requested.
    pub bytes: u64,
    /// Pages requested.
    pub pages: Pages,
    /// Attribute requested.
    pub attribute: Attribute,
    /// Seed of the placement.
    pub place: u64,
}

/// Settings of a machine for one trial, other than the [`MapRequest`]. Every machine supports the defaults; others need
/// [`Control`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controls {
    /// The byte of MAIR_EL1 for the mapping, instead of the request's attribute.
    pub mair: Option<u8>,
    /// Attribute of page-table walks (TCR_EL1.IRGN0 and ORGN0).
    pub tables: Attribute,
    /// Whether hardware prefetchers are enabled.
    pub prefetch: bool,
    /// Whether the line of each access of a sweep is cleaned and invalidated after the access: a substitute for
    /// uncached memory where none is available.
    pub flush: bool,
}

impl Default for Controls {
    fn default() -> Controls {
        Controls { mair: None, tables: Attribute::WriteBack, prefetch: true, flush: false }
    }
}

/// How a mapping is translated, read back from the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// Virtual address of its first byte.
    pub va: u64,
    /// Physical address of its first byte, if known.
    pub pa: Option<u64>,
    /// The attribute in force as a byte of MAIR_EL1, if known: the content of the tables, not the behaviour of the
    /// core.
    pub mair: Option<u8>,
}

/// A fault that a machine can be made to take, to test that faults are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultInjection {
    /// A load from an unmapped address.
    Abort,
    /// An undefined instruction.
    Undefined,
    /// A loop that never ends.
    Endless,
}

/// The memory granted for a [`MapRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Start of the mapping, as an offset in the machine's arena (bytes).
    pub base: u64,
    /// Usable bytes from `base`.
    pub bytes: u64,
    /// Page size in force (bytes), verified if the machine can.
    pub page_bytes: u64,
}

/// A machine's reason for not doing something, with a remedy. It is data: a line in the record, a row in the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason, naming the thing that is not possible.
    pub reason: Cow<'static, str>,
    /// An action that would make it possible; empty if there is none.
    pub remedy: Cow<'static, str>,
}

impl Refusal {
    /// Creates a refusal with its remedy.
    pub fn new(reason: impl Into<Cow<'static, str>>, remedy: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { reason: reason.into(), remedy: remedy.into() }
    }
}

/// One raw fact about a machine: a name in dotted lower case and the bytes as read. The probe does not decode it;
/// analysis does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Dotted path, e.g. `sysfs.cpu0.cache.index0.size`, `cpuid.4.0`, `clock.hz`.
    pub name: String,
    /// The raw value.
    pub value: FactValue,
}

/// The value of a [`Fact`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactValue {
    /// A number; the fact's name ends with its unit.
    Int(u64),
    /// Text as read, without its final newline.
    Text(String),
    /// Bytes as read.
    Bytes(Vec<u8>),
}

/// Instructions of a pattern other than its loads. Hardware spends the time anyway; the model charges them from the
/// description's `[core]` table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Ops {
    /// Single-cycle integer operations.
    pub alu: u64,
    /// Taken branches.
    pub branch: u64,
}

/// Counters of the measuring thread during a trial. Their differences go into the record; analysis interprets them. A
/// machine without disturbances returns zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Watch {
    /// Wall-clock time, ns.
    pub wall_ns: u64,
    /// CPU time of the measuring thread, ns.
    pub cpu_ns: u64,
    /// Involuntary context switches of the measuring thread.
    pub involuntary: u64,
    /// Time stolen by the hypervisor from this CPU, ns.
    pub steal_ns: u64,
    /// Page faults of the measuring thread.
    pub faults: u64,
    /// Memory accesses that the model has simulated, the unit of its budget (0 elsewhere).
    pub accesses: u64,
}

impl Watch {
    /// Returns the increase since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Watch) -> Watch {
        Watch {
            wall_ns: self.wall_ns.saturating_sub(earlier.wall_ns),
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            involuntary: self.involuntary.saturating_sub(earlier.involuntary),
            steal_ns: self.steal_ns.saturating_sub(earlier.steal_ns),
            faults: self.faults.saturating_sub(earlier.faults),
            accesses: self.accesses.saturating_sub(earlier.accesses),
        }
    }
}

/// The reason of a machine whose loads never overlap, because it is simulated.
pub const ONE_AT_A_TIME: &str =
    "this machine executes one access at a time, so loads of several chains do not overlap";

/// A machine under the probe.
///
/// # Arena
///
/// All mappings of a machine are in one range of addresses, its arena. Addresses are given as offsets in it, in bytes.
///
/// # Cells
///
/// A [`Machine::Cell`] is a place in mapped memory that holds one 8-byte link. Cells cannot be made from numbers
/// outside the machine. They come from [`Machine::cell`], which checks, or from [`Machine::follow`], which reads what
/// [`Machine::link`] wrote. Memory that was never linked reads as the machine's first cell. So a machine may follow a
/// cell without a check, in one load of `[base + offset]`, and this crate needs no unsafe code.
pub trait Machine: Counters + Maintain + Fresh + Wake + Disturb + Dma + Translate + Control {
    /// A valid place in mapped memory.
    type Cell: Copy + PartialEq + core::fmt::Debug;

    /// Returns how far the machine's clock can be trusted, as declared and detected.
    fn trust(&self) -> ClockTrust;

    /// Passes each raw fact to `sink`.
    fn facts(&mut self, sink: &mut dyn FnMut(Fact));

    /// Passes the facts that may have changed since [`Machine::facts`] (frequency, temperature, load) to `sink`, under
    /// other names, at the end of a session. The default has none.
    fn facts_after(&mut self, sink: &mut dyn FnMut(Fact)) {
        let _ = sink;
    }

    /// Maps memory.
    ///
    /// Requests that differ in their attribute only may get the same physical memory, each at another offset. Two parts
    /// of it that do not overlap may then be used at the same time, each through one mapping. If the attributes differ,
    /// lines are cleaned and invalidated before the memory is used through the other mapping.
    ///
    /// # Errors
    /// A [`Refusal`] when the machine cannot supply the bytes, pages or attribute.
    fn map(&mut self, request: &MapRequest) -> Result<Mapping, Refusal>;

    /// Maps memory whose pages are in `frames` frames, page i in frame i modulo `frames`. An example is private memory
    /// that was read and never written to: it is in the kernel's one page of zeros. No cell in it was linked, and
    /// linking one gives its page a separate frame. Refused by default.
    ///
    /// # Errors
    /// A [`Refusal`] if the machine cannot supply such memory or cannot verify it.
    fn map_shared(&mut self, request: &MapRequest, frames: u64) -> Result<Mapping, Refusal> {
        let _ = (request, frames);
        Err(Refusal::new("this machine offers no pages that share a frame", ""))
    }

    /// Returns the cell at `offset` bytes in the arena, if that is mapped and 8-byte aligned.
    fn cell(&self, offset: u64) -> Option<Self::Cell>;

    /// Returns the offset of a cell, in bytes from the start of the arena.
    fn offset(&self, cell: Self::Cell) -> u64;

    /// Writes the link `at -> to`.
    fn link(&mut self, at: Self::Cell, to: Self::Cell);

    /// Loads the link of cell `at`.
    fn follow(&mut self, at: Self::Cell) -> Self::Cell;

    /// Reads the clock, ordered after every earlier load and before every later one.
    fn now(&mut self) -> Ticks;

    /// Runs `n` single-cycle integer operations, each depending on the one before: the cycle calibration
    /// that turns ticks into core cycles.
    fn alu(&mut self, n: u64);

    /// Charges instructions of a pattern. Does nothing on hardware, which spends them anyway.
    #[inline(always)]
    fn charge(&mut self, ops: Ops) {
        let _ = ops;
    }

    /// Reduces disturbances, before a trial is mapped and run.
    fn quiet_begin(&mut self) {}

    /// Ends [`Machine::quiet_begin`] after a trial, so that no raised priority is held between trials.
    fn quiet_end(&mut self) {}

    /// Checks that the clock was available at every reading since [`Machine::quiet_begin`]. If access to it can be
    /// revoked during a trial, the trial has timed nothing.
    ///
    /// # Errors
    /// A [`Refusal`] if it was not.
    fn clock_was_available(&mut self) -> Result<(), Refusal> {
        Ok(())
    }

    /// Returns the counters of the measuring thread since the machine was opened.
    fn watch(&mut self) -> Watch {
        Watch::default()
    }

    /// Writes every link of `chain`. The model overrides it: there a chain is procedural, and initialising it does not
    /// change the caches.
    ///
    /// # Errors
    /// A [`Refusal`] if the chain exceeds the mapping.
    fn initialise(&mut self, chain: &Chain) -> Result<(), Refusal> {
        batch::chase::initialise(self, chain)
    }

    /// Writes the links of a lap through `cells`, each to the next and the last to the first. The model overrides it,
    /// as [`Machine::initialise`].
    fn initialise_cells(&mut self, cells: &[Self::Cell]) {
        for (i, &at) in cells.iter().enumerate() {
            self.link(at, cells[(i + 1) % cells.len()]);
        }
    }

    /// Makes `n` dependent loads from `start` and returns the last cell. Machines override it for speed; a differential
    /// test compares each override with the generic body.
    #[inline(always)]
    fn chase(&mut self, start: Self::Cell, n: u64) -> Self::Cell {
        batch::chase::body(self, start, n)
    }

    /// Makes `n` steps along several chains side by side, one load of each chain in each step, and replaces each cell by the
    /// last one of its chain. Their number is one of [`batch::together::CHAINS`]; without cells nothing is done, which asks
    /// whether the machine can. Refused by default: only a machine that may have several loads under way at the same time says
    /// anything about how many these are. Such a machine uses [`batch::together::body`].
    ///
    /// # Errors
    /// A [`Refusal`] of a machine that executes one access at a time, or of a number of chains that has no loop.
    fn chase_together(&mut self, cells: &mut [Self::Cell], n: u64) -> Result<(), Refusal> {
        let _ = (cells, n);
        Err(Refusal::new(ONE_AT_A_TIME, "measure it on hardware"))
    }

    /// Makes `n` steps along two chains side by side, as [`Machine::chase_together`] does, with `fillers` instructions between a load and the next
    /// that access nothing; their number is one of [`batch::spaced::FILLERS`]. Without cells nothing is done. Refused by default.
    ///
    /// # Errors
    /// A [`Refusal`] of a machine that has no such loop, or of another number of cells or instructions.
    fn chase_spaced(&mut self, cells: &mut [Self::Cell], fillers: u64, n: u64) -> Result<(), Refusal> {
        let _ = (cells, fillers, n);
        Err(Refusal::new(
            "this machine has no loop of loads with instructions between them",
            "measure it under Linux on this processor",
        ))
    }

    /// Returns the cell that `at` links to, outside of any measurement. The model overrides it: there it changes no
    /// cache and takes no time.
    fn peek(&mut self, at: Self::Cell) -> Self::Cell {
        self.follow(at)
    }

    /// Writes the initial words of the cells of `sweep` under `seed`. The model overrides it, as
    /// [`Machine::initialise`].
    ///
    /// # Errors
    /// A [`Refusal`] if the sweep exceeds the mapping.
    fn initialise_sweep(&mut self, sweep: &Sweep, seed: u64) -> Result<(), Refusal> {
        batch::stride::initialise(self, sweep, seed)
    }

    /// Makes `n` accesses of a sweep from position `from`. Returns the sum of the arena offsets that were loaded;
    /// `None` if the sweep exceeds the machine's memory. Overridden where a check of every cell would cost more than
    /// the access; a differential test compares each override with the generic body.
    fn sweep(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<u64> {
        batch::stride::body(self, sweep, from, n)
    }

    /// Copies `n` cells from position `from`; `None` if a buffer exceeds the machine's memory. Machines override it
    /// with the widest accesses that every attribute allows, 16 bytes.
    fn copy(&mut self, copying: &Copying, from: u64, n: u64) -> Option<()> {
        batch::copy::body(self, copying, from, n)
    }

    /// Causes a fault, to test that it is reported. Returns only if the machine does not support it, with the reason.
    fn inject(&mut self, fault: FaultInjection) -> Refusal {
        let _ = fault;
        Refusal::new("this machine does not support fault injection", "")
    }

    /// Warms the caches with accesses of a sweep inside lap 0, which changes no contents. The model overrides it to
    /// touch each line once.
    fn warm(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<()> {
        self.sweep(sweep, from, n).map(|_| ())
    }
}
