//! The machine: memory that can be mapped, loads that can be issued, a clock that can be read.
//!
//! [`Machine`] is deliberately small. Whatever only some machines can do sits in a capability trait
//! beside it ([`Counters`], [`Maintain`], [`Fresh`], [`Wake`], [`Disturb`], [`Dma`], [`Translate`], [`Control`]), each of
//! which refuses by default, so that a new machine starts with the operations without a default and grows.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use crate::chain::Chain;
use crate::tokens::token_names;

pub mod batch;
mod capabilities;
pub mod dma;
mod wakeups;

use batch::copy::Copying;
use batch::stride::Sweep;
pub use capabilities::{
    ActivationTrace, Control, Count, Counters, Disturb, Dma, Event, Fresh, LoadReport, Maintain, Places,
    Stream, Translate, Wake, WakeReturn,
};
pub use wakeups::{ActivationRow, Wakes};

/// A reading of a machine's clock, in that clock's own ticks. A tick is not a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(pub u64);

impl Ticks {
    /// Ticks elapsed since `earlier`; wraps as the clock does.
    #[must_use]
    pub fn since(self, earlier: Ticks) -> u64 {
        self.0.wrapping_sub(earlier.0)
    }
}

/// How far a subject's clock may be believed. Ordered: a lower trust never becomes a higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClockTrust {
    /// A described machine: exact, and about the description only.
    Modelled,
    /// A binary translator (QEMU TCG): proves that code works, never how fast anything is.
    Emulated,
    /// A guest on real caches: the hypervisor may stop it at any time, walks are nested.
    Virtual,
    /// Silicon, with nothing known between it and the probe.
    Real,
}

/// How a mapping treats memory, named by behaviour (VOCABULARY).
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

/// Which pages a mapping is wanted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Pages {
    /// The machine's base page size, and forced to be so (Linux: `MADV_NOHUGEPAGE`).
    #[default]
    Base,
    /// The largest page size that the machine hands out for ordinary memory, asked for AND verified.
    Huge,
    /// Base pages of chosen colours: modulo [`COLOUR_SPAN`] any two of a mapping are physically as far apart as in it,
    /// as the parts of a huge page are, asked for AND verified.
    Coloured,
}

/// Bytes modulo which the places of coloured pages are chosen: in a cache whose way divides it the mapping's own
/// offsets say which of its cells share a set.
pub const COLOUR_SPAN: u64 = 1 << 20;

/// What is done to each cell of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Operation {
    /// Loads it.
    #[default]
    Read,
    /// Stores to it, 8 bytes a store.
    Write,
    /// Loads it, changes what was loaded, and stores that: read-modify-write.
    Rmw,
    /// Stores to it, 16 bytes a store where cells are neighbours: as `memset` does wherever every attribute allows
    /// what it does (no zeroing by line, no unaligned store).
    Set,
    /// Copies to it from a buffer in write-back memory.
    CopyTo,
    /// Copies from it to a buffer in write-back memory.
    CopyFrom,
}

impl Operation {
    /// What a sweep does at any stride.
    pub const STRIDES: &'static [Operation] = &[Operation::Read, Operation::Write, Operation::Rmw];

    /// Does it take a second buffer?
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

/// A wish for memory: `bytes` of it, aligned to a page, placed by `place`.
///
/// `place` selects one of several placements inside the machine's one arena, so that a value that
/// depends on the placement shows itself as spread; equal wishes get equal placements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapRequest {
    /// Bytes wanted.
    pub bytes: u64,
    /// Page size wanted.
    pub pages: Pages,
    /// Attribute wanted.
    pub attribute: Attribute,
    /// Seed of the placement.
    pub place: u64,
}

/// What a machine is set to for one trial, beside what the [`MapRequest`] says. The defaults are what every machine runs
/// with; whoever offers more offers [`Control`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controls {
    /// The byte of MAIR_EL1 that the mapping gets in place of the wish's attribute.
    pub mair: Option<u8>,
    /// How a page-table walk fetches descriptors (TCR_EL1.IRGN0 and ORGN0).
    pub tables: Attribute,
    /// May hardware fetch ahead?
    pub prefetch: bool,
    /// Is the line of each access of a sweep cleaned and invalidated right after it? A substitute for memory that is
    /// not cached, where none is available.
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
    /// Physical address of its first byte, where it is known.
    pub pa: Option<u64>,
    /// The attribute in force as a byte of MAIR_EL1, where it is known: what the tables say, not how the core
    /// behaves.
    pub mair: Option<u8>,
}

/// A fault that a machine may be asked for, to see that faults are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultInjection {
    /// A load from where nothing is mapped.
    Abort,
    /// An instruction that there is not.
    Undefined,
    /// A loop that never ends.
    Endless,
}

/// What a wish got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Where the mapping begins, as an offset in the machine's arena (bytes).
    pub base: u64,
    /// Bytes that may be used from `base` on.
    pub bytes: u64,
    /// Page size in force, verified where the machine can (bytes).
    pub page_bytes: u64,
}

/// A machine's reasoned "not here", with the remedy. It is data: a line in the record, a row in the
/// report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What cannot be done and why.
    pub reason: Cow<'static, str>,
    /// What would make it possible; empty when nothing would.
    pub remedy: Cow<'static, str>,
}

impl Refusal {
    /// A refusal with its remedy.
    pub fn new(reason: impl Into<Cow<'static, str>>, remedy: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { reason: reason.into(), remedy: remedy.into() }
    }
}

/// One raw fact about a machine: a name in dotted lower case and the bytes as they were found.
/// Decoding is analysis; a probe only carries.
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
    /// A number; its unit is the end of the fact's name.
    Int(u64),
    /// Text as found, without its final newline.
    Text(String),
    /// Bytes as found.
    Bytes(Vec<u8>),
}

/// Instructions that a pattern spends beside its loads. Hardware pays for them by itself; the model
/// charges them from the description's `[core]` table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Ops {
    /// Single-cycle integer operations.
    pub alu: u64,
    /// Taken branches.
    pub branch: u64,
}

/// What happened to the measuring thread while a trial ran. Differences of it go into the record;
/// what they mean is analysis. A machine where nothing can disturb returns zeros.
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
    /// Memory accesses that the model has simulated: what a budget is spent in there (0 elsewhere).
    pub accesses: u64,
}

impl Watch {
    /// What was added since `earlier`.
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

/// A machine under the probe.
///
/// # Cells
///
/// A [`Machine::Cell`] is a place in mapped memory that holds one 8-byte link. Cells cannot be made
/// from numbers outside the machine: they come from [`Machine::cell`], which checks, or from
/// [`Machine::follow`], which reads what [`Machine::link`] wrote. Memory that was never linked reads
/// as the machine's first cell. So a machine may follow a cell without a check, in one load of
/// `[base + offset]`, and this crate needs no unsafe code.
pub trait Machine: Counters + Maintain + Fresh + Wake + Disturb + Dma + Translate + Control {
    /// A valid place in mapped memory.
    type Cell: Copy + PartialEq + core::fmt::Debug;

    /// What the machine declares and detects about its own clock.
    fn trust(&self) -> ClockTrust;

    /// Raw facts, one call of `sink` each.
    fn facts(&mut self, sink: &mut dyn FnMut(Fact));

    /// What may have moved since [`Machine::facts`] (frequency, temperature, load), under other names: for the
    /// end of a session. Nothing by default.
    fn facts_after(&mut self, sink: &mut dyn FnMut(Fact)) {
        let _ = sink;
    }

    /// Maps memory.
    ///
    /// Wishes that differ in their attribute only may get the same physical memory, at another offset each: two
    /// parts of it that do not overlap may then be used at once, each through one of them. Where attributes
    /// differ, lines are cleaned and invalidated before the memory is used through the other.
    ///
    /// # Errors
    /// A [`Refusal`] when the machine cannot supply the bytes, pages or attribute.
    fn map(&mut self, request: &MapRequest) -> Result<Mapping, Refusal>;

    /// Maps memory whose pages lie in `frames` frames, page i in frame i modulo that: as the kernel's one page of
    /// zeros lies under all private memory that is read and was never written to. Nothing in it was ever
    /// linked, and whoever links there gives the page a frame of its own. Refused by default.
    ///
    /// # Errors
    /// A [`Refusal`] when the machine cannot supply it, or cannot verify that it is so.
    fn map_shared(&mut self, request: &MapRequest, frames: u64) -> Result<Mapping, Refusal> {
        let _ = (request, frames);
        Err(Refusal::new("this machine offers no pages that share a frame", ""))
    }

    /// The cell at `offset` bytes in the arena, if that is mapped and 8-byte aligned.
    fn cell(&self, offset: u64) -> Option<Self::Cell>;

    /// Where a cell is, in bytes from the start of the arena.
    fn offset(&self, cell: Self::Cell) -> u64;

    /// Writes the link `at -> to`.
    fn link(&mut self, at: Self::Cell, to: Self::Cell);

    /// The load: the cell that `at` links to.
    fn follow(&mut self, at: Self::Cell) -> Self::Cell;

    /// Reads the clock, ordered after every earlier load and before every later one.
    fn now(&mut self) -> Ticks;

    /// Runs `n` single-cycle integer operations, each depending on the one before: the cycle calibration
    /// that turns ticks into core cycles.
    fn alu(&mut self, n: u64);

    /// Accounts for instructions that a pattern spends. Free on hardware, which spends them anyway.
    #[inline(always)]
    fn charge(&mut self, ops: Ops) {
        let _ = ops;
    }

    /// Called before a trial is mapped and run: whatever quiet the machine can give begins here.
    fn quiet_begin(&mut self) {}

    /// Called after a trial: the quiet ends, so that a priority is never held between trials.
    fn quiet_end(&mut self) {}

    /// Was the clock there at every reading since [`Machine::quiet_begin`]? Where others may take it away while a trial
    /// runs, that trial has timed nothing.
    ///
    /// # Errors
    /// A [`Refusal`] where it was not.
    fn clock_was_available(&mut self) -> Result<(), Refusal> {
        Ok(())
    }

    /// What has happened to the measuring thread since the machine was opened.
    fn watch(&mut self) -> Watch {
        Watch::default()
    }

    /// Writes every link of `chain`. The model overrides it: there a chain is procedural and laying
    /// it leaves the caches alone.
    ///
    /// # Errors
    /// A [`Refusal`] when the chain leaves the mapping.
    fn initialise(&mut self, chain: &Chain) -> Result<(), Refusal> {
        batch::chase::initialise(self, chain)
    }

    /// Writes the links of a lap through `cells`, each to the next and the last to the first. The model
    /// overrides it, as [`Machine::initialise`].
    fn initialise_cells(&mut self, cells: &[Self::Cell]) {
        for (i, &at) in cells.iter().enumerate() {
            self.link(at, cells[(i + 1) % cells.len()]);
        }
    }

    /// The batch form of the chase: `n` dependent loads from `start`; returns where it ended.
    /// Overridable for speed; a differential test holds the override equal to the generic body.
    #[inline(always)]
    fn chase(&mut self, start: Self::Cell, n: u64) -> Self::Cell {
        batch::chase::body(self, start, n)
    }

    /// What the cell `at` links to, for a look that belongs to no measurement. The model overrides it: there
    /// it moves nothing in the caches and takes no time.
    fn peek(&mut self, at: Self::Cell) -> Self::Cell {
        self.follow(at)
    }

    /// Writes what the cells of `sweep` are laid with under `seed`. The model overrides it, as [`Machine::initialise`].
    ///
    /// # Errors
    /// A [`Refusal`] when the sweep leaves the mapping.
    fn initialise_sweep(&mut self, sweep: &Sweep, seed: u64) -> Result<(), Refusal> {
        batch::stride::initialise(self, sweep, seed)
    }

    /// The batch form of the stride: `n` accesses from position `from`; returns the sum of the arena offsets
    /// that were loaded, `None` where the sweep leaves the machine's memory. Overridden where a check of every
    /// cell would cost more than the access; a differential test holds overrides equal to the generic body.
    fn sweep(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<u64> {
        batch::stride::body(self, sweep, from, n)
    }

    /// The batch form of a copy: `n` cells from position `from`; `None` where a buffer leaves the machine's memory.
    /// Machines override it with the widest accesses, 16 bytes, that every attribute allows.
    fn copy(&mut self, copying: &Copying, from: u64, n: u64) -> Option<()> {
        batch::copy::body(self, copying, from, n)
    }

    /// Does what is wrong, to see that it is reported. Returns only where the machine does not: it says why.
    fn inject(&mut self, provocation: FaultInjection) -> Refusal {
        let _ = provocation;
        Refusal::new("nothing is provoked on this machine", "")
    }

    /// A sweep that only warms, inside lap 0, which changes no contents. The model overrides it to touch each
    /// line once.
    fn warm(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<()> {
        self.sweep(sweep, from, n).map(|_| ())
    }
}
