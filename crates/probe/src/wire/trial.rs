//! A trial: one point of a plan, as it travels.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::line::{Fields, Line, WireError};
use super::order::OrderKind;
use crate::chain::{Chain, Layout, Order};
use crate::load::Load;
use crate::machine::{Attribute, Controls, MapRequest, Operation, Pages, Stream};
use crate::patterns::copy::{self, Copying};
use crate::patterns::stride::Sweep;
use crate::sequence::Sequence;
use crate::splitmix::mix;
use crate::tokens::token_names;
use crate::transfer::Transfers;

mod check;

use check::MAX_STREAMS;

/// The pattern that a trial runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PatternKind {
    /// Back-to-back readings of the clock: its resolution and overhead.
    Clock,
    /// A dependent chain of single-cycle integer operations: core cycles.
    Alu,
    /// Dependent loads round a chain over packed lines.
    #[default]
    Chase,
    /// Dependent loads round a chain with one line a page.
    Pages,
    /// One timed load, or a few, after every `loads` untimed ones of a chase over packed lines.
    Single,
    /// Independent accesses at a step through packed cells, ascending.
    Stride,
    /// Dependent loads round a chain over cells `period` bytes apart, or groups of them.
    Conflict,
    /// Dependent loads of two cells `step` bytes apart, then of the next such pair, a `period` from it.
    Pair,
    /// Dependent loads of a `sequence` over blocks of one set, round and round.
    EvictionSet,
    /// Copies between a buffer of the attribute asked for and one in write-back memory.
    Copy,
    /// Stores through the attribute asked for that write-back memory's mapping loads, and the other way round.
    Alias,
    /// Periodic wake-ups of a task that then walks a chain over packed lines.
    Wake,
    /// Transfers of `bytes` bytes between a CPU and a device.
    Transfer,
}

token_names!(PatternKind {
    Clock = "clock",
    Alu = "alu",
    Chase = "chase",
    Pages = "pages",
    Single = "single",
    Stride = "stride",
    Conflict = "conflict",
    Pair = "pair",
    EvictionSet = "eviction-set",
    Copy = "copy",
    Alias = "alias",
    Wake = "wake",
    Transfer = "transfer",
});

/// How the pattern `wake` waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakes {
    /// The period, ns.
    pub every_ns: u64,
    /// Real-time priority (`SCHED_FIFO`); 0 for an ordinary task.
    pub priority: u64,
    /// Are the earlier places of each activation wanted too?
    pub traced: bool,
    /// Are the lines of the working set flushed before each sleep?
    pub flushed: bool,
    /// Are the kernel's own wake-ups wanted in place of a task's: its tracer timerlat?
    pub timerlat: bool,
    /// Bytes that are swept before each sleep, so that nearer caches hold them and not what the wake-up needs.
    pub evict: u64,
    /// Are the load's workers kept to the least share of every cache that the machine can partition?
    pub confined: bool,
}

/// Bytes from a cell of a transfer's victim to the next: a line of most machines.
const LINE: u64 = 64;

impl Default for Wakes {
    fn default() -> Wakes {
        // A period of 1 ms, as cyclictest has it; the priority leaves room above for the kernel's own threads.
        Wakes {
            every_ns: 1_000_000,
            priority: 80,
            traced: false,
            flushed: false,
            timerlat: false,
            evict: 0,
            confined: false,
        }
    }
}

/// One point of a plan. Lengths in bytes; `loads` is the n of the n/2n method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Number of the trial in its record, from 1.
    pub id: u64,
    /// Round of the plan that asked for it.
    pub round: u64,
    /// What runs.
    pub pattern: PatternKind,
    /// Working set: whole lines, each `step` bytes.
    pub bytes: u64,
    /// Bytes from a cell to the next (the line size assumed).
    pub stride: u64,
    /// What the patterns `stride` and `copy` do to each cell; the others load.
    pub operation: Operation,
    /// Is the buffer of the pattern `stride` given back before each sample, so that the timed runs touch every
    /// page of it for the first time?
    pub first_touch: bool,
    /// Order of the chain.
    pub order: OrderKind,
    /// Window of the order `window`, bytes.
    pub window: u64,
    /// Bytes from a group of cells to the next (patterns `conflict` and `pair`), or from block to block
    /// (`probe`); 0 elsewhere.
    pub period: u64,
    /// Cells in a group of the patterns `conflict` and `single`, `step` bytes apart.
    pub group: u64,
    /// Bytes from the mapping's beginning to the first cell: which set it is.
    pub offset: u64,
    /// What the pattern `probe` loads.
    pub sequence: Sequence,
    /// Frames that all pages of a reading `stride` lie in, page i in frame i modulo this; nobody has written to
    /// them. 0 where every page has its own.
    pub frames: u64,
    /// The level on the way of data, from 1, whose refills are counted; 0 for none.
    pub counted: u64,
    /// Page size wanted.
    pub page: Pages,
    /// Attribute wanted.
    pub attribute: Attribute,
    /// What only privileged code sets.
    pub controls: Controls,
    /// Seed of the placement.
    pub place: u64,
    /// Seed of the order.
    pub seed: u64,
    /// n: loads (or operations) in the first run of a sample; the second runs 2n. For single loads, the
    /// untimed ones before each timed one: their spacing.
    pub loads: u64,
    /// Dependent loads that one sample of the pattern `single` times: 1, or more where the clock is coarse.
    pub timed: u64,
    /// Samples wanted.
    pub samples: u64,
    /// Loads before the first sample, untimed.
    pub warm: u64,
    /// Co-running streams.
    pub with: Vec<Stream>,
    /// How the pattern `wake` waits.
    pub wakes: Wakes,
    /// Co-running stressors.
    pub load: Load,
    /// What the pattern `transfer` does.
    pub transfers: Transfers,
}

impl Default for Trial {
    fn default() -> Trial {
        Trial {
            id: 0,
            round: 0,
            pattern: PatternKind::Chase,
            bytes: 32 << 10,
            stride: 64,
            operation: Operation::Read,
            first_touch: false,
            order: OrderKind::Random,
            window: 4096,
            period: 0,
            group: 1,
            offset: 0,
            sequence: Sequence::default(),
            frames: 0,
            counted: 0,
            page: Pages::Base,
            attribute: Attribute::WriteBack,
            controls: Controls::default(),
            place: 0,
            seed: 0,
            // A prime: never a whole number of laps, which would prove nothing.
            loads: 4099,
            timed: 1,
            samples: 5,
            warm: 4096,
            with: Vec::new(),
            wakes: Wakes::default(),
            load: Load::default(),
            transfers: Transfers::default(),
        }
    }
}

fn choice<T: Copy>(
    fields: &mut Fields<'_>,
    key: &str,
    default: T,
    from: fn(&str) -> Option<T>,
    choices: &str,
) -> Result<T, WireError> {
    match fields.token(key)? {
        None => Ok(default),
        Some(word) => {
            from(word).ok_or_else(|| WireError::new(format!("trial: {key}={word} is not one of: {choices}")))
        }
    }
}

impl Trial {
    /// The line that asks for it.
    #[must_use]
    pub fn line(&self) -> Line {
        let line = Line::new("trial")
            .int("id", self.id)
            .int("round", self.round)
            .token("pattern", self.pattern.token())
            .int("bytes", self.bytes)
            .int("stride", self.stride)
            .token("order", self.order.token())
            .int("window", self.window)
            .token("page", self.page.token())
            .token("attribute", self.attribute.token())
            .int("place", self.place)
            .int("seed", self.seed)
            .int("loads", self.loads)
            .int("samples", self.samples)
            .int("warm", self.warm);
        self.younger(line)
    }

    /// The keys that are younger than the first records: they stand only where they say something.
    fn younger(&self, mut line: Line) -> Line {
        if self.timed != 1 {
            line = line.int("timed", self.timed);
        }
        if self.operation != Operation::Read {
            line = line.token("op", self.operation.token());
        }
        if self.first_touch {
            line = line.int("first_touch", 1);
        }
        let controls = &self.controls;
        if let Some(mair) = controls.mair {
            line = line.int("mair", u64::from(mair));
        }
        if controls.tables != Attribute::WriteBack {
            line = line.token("tables", controls.tables.token());
        }
        if !controls.prefetch {
            line = line.int("prefetch", 0);
        }
        for (key, value, absent) in [
            ("period", self.period, 0),
            ("group", self.group, 1),
            ("offset", self.offset, 0),
            ("frames", self.frames, 0),
            ("counted", self.counted, 0),
            ("flush", u64::from(self.controls.flush), 0),
        ]
        .into_iter()
        .chain(self.wakes.keys())
        {
            if value != absent {
                line = line.int(key, value);
            }
        }
        if !self.sequence.accesses().is_empty() {
            line = line.text("sequence", &self.sequence.to_string());
        }
        if !self.with.is_empty() {
            let cpus: Vec<u64> = self.with.iter().map(|s| u64::from(s.cpu)).collect();
            let bytes: Vec<u64> = self.with.iter().map(|s| s.bytes).collect();
            line = line.list("with_cpu", &cpus).list("with_bytes", &bytes);
        }
        if !self.load.is_none() {
            line = line.text("load", &self.load.to_string());
        }
        if self.pattern == PatternKind::Transfer { self.transfers.write(line) } else { line }
    }

    /// Reads the line; keys that are absent have their defaults, unknown ones are an error.
    ///
    /// # Errors
    /// A sentence that names the key and the remedy.
    pub fn read(line: &Line) -> Result<Trial, WireError> {
        let mut f = line.fields();
        let d = Trial::default();
        let trial = Trial {
            id: f.int("id")?.unwrap_or(d.id),
            round: f.int("round")?.unwrap_or(d.round),
            pattern: choice(&mut f, "pattern", d.pattern, PatternKind::from_token, PatternKind::choices())?,
            bytes: f.int("bytes")?.unwrap_or(d.bytes),
            stride: f.int("stride")?.unwrap_or(d.stride),
            operation: choice(&mut f, "op", d.operation, Operation::from_token, Operation::choices())?,
            first_touch: f.int("first_touch")?.map_or(Ok(d.first_touch), |v| flag("first_touch", v))?,
            order: choice(&mut f, "order", d.order, OrderKind::from_token, OrderKind::choices())?,
            window: f.int("window")?.unwrap_or(d.window),
            period: f.int("period")?.unwrap_or(d.period),
            group: f.int("group")?.unwrap_or(d.group),
            offset: f.int("offset")?.unwrap_or(d.offset),
            sequence: sequence(&mut f)?,
            frames: f.int("frames")?.unwrap_or(d.frames),
            counted: f.int("counted")?.unwrap_or(d.counted),
            page: choice(&mut f, "page", d.page, Pages::from_token, Pages::choices())?,
            attribute: choice(&mut f, "attribute", d.attribute, Attribute::from_token, Attribute::choices())?,
            controls: controls(&mut f)?,
            place: f.int("place")?.unwrap_or(d.place),
            seed: f.int("seed")?.unwrap_or(d.seed),
            loads: f.int("loads")?.unwrap_or(d.loads),
            timed: f.int("timed")?.unwrap_or(d.timed),
            samples: f.int("samples")?.unwrap_or(d.samples),
            warm: f.int("warm")?.unwrap_or(d.warm),
            with: streams(&mut f)?,
            wakes: Wakes::read(&mut f)?,
            load: f
                .text("load")?
                .map_or(Ok(Load::default()), Load::parse)
                .map_err(|what| WireError::new(format!("trial: load: {what}")))?,
            transfers: Transfers::read(&mut f)?,
        };
        f.finish()?;
        trial.check()?;
        Ok(trial)
    }

    fn cells_in_group(&self) -> u64 {
        if self.pattern == PatternKind::Pair { 2 } else { self.group }
    }

    /// Cells of the chain before a window cuts it.
    #[must_use]
    pub fn cells(&self) -> u64 {
        (self.bytes / self.stride).max(1)
    }

    /// The chain of this trial on pages of `page_bytes`, from arena offset `base`.
    #[must_use]
    pub fn chain(&self, base: u64, page_bytes: u64) -> Chain {
        self.chain_of(0, base, page_bytes)
    }

    /// The chain of the nth sample, from 0: another one for each in the order `repermuted`, else the same.
    #[must_use]
    pub fn chain_of(&self, nth: u64, base: u64, page_bytes: u64) -> Chain {
        let layout = match self.pattern {
            PatternKind::Pages => Layout::OnePerPage { page: page_bytes.max(self.stride) },
            _ if self.period > 0 => Layout::Grouped { group: self.cells_in_group(), period: self.period },
            _ => Layout::Packed,
        };
        let order = match self.order {
            _ if self.pattern == PatternKind::Pair => Order::Groups(2),
            OrderKind::Random => Order::Random,
            OrderKind::Window => Order::Window(self.window),
            OrderKind::Sequential => Order::Sequential,
            OrderKind::Repermuted => Order::Once,
            other => Order::Strided(other.stride().unwrap_or(1)),
        };
        let seed = if order == Order::Once { mix(self.seed ^ mix(nth)) } else { self.seed };
        Chain::new(base + self.offset, self.cells(), self.stride, layout, order, seed)
    }

    /// The sweep of this trial over a buffer that begins at arena offset `base`.
    #[must_use]
    pub fn sweep(&self, base: u64) -> Sweep {
        Sweep { base, stride: self.stride, cells: self.cells(), operation: self.operation }
    }

    /// The copy of this trial between buffers that begin at these arena offsets.
    #[must_use]
    pub fn copying(&self, from: u64, to: u64) -> Copying {
        Copying { from, to, cells: self.cells() }
    }

    /// The chain of the working set that a transfer's victim walks, from arena offset `base`.
    #[must_use]
    pub fn victim(&self, base: u64) -> Chain {
        Chain::new(base, self.transfers.victim / LINE, LINE, Layout::Packed, Order::Random, self.seed)
    }

    /// Does it ask for ordinary memory?
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.attribute == Attribute::WriteBack && self.controls.mair.is_none()
    }

    /// Bytes of memory that the trial needs on pages of `page_bytes`; the largest number where that is more
    /// than a number holds.
    #[must_use]
    pub fn extent(&self, page_bytes: u64) -> u64 {
        let bytes = match self.pattern {
            PatternKind::Pages => self.cells().checked_mul(page_bytes.max(self.stride)),
            // The half that the other buffer, with another attribute, leaves alone.
            PatternKind::Copy => copy::half(self.cells()).and_then(|half| half.checked_mul(2)),
            PatternKind::EvictionSet => {
                let places = self.sequence.places(self.period, self.stride, self.seed).unwrap_or_default();
                places.into_iter().max().and_then(|last| last.checked_add(8))
            }
            PatternKind::Alias => self.cells().checked_mul(8),
            PatternKind::Transfer => Some(self.transfers.victim),
            PatternKind::Wake => {
                self.cells().checked_mul(self.stride).and_then(|b| b.checked_add(self.wakes.evict))
            }
            _ if self.period > 0 => {
                let layout = Layout::Grouped { group: self.cells_in_group(), period: self.period };
                layout.extent(self.cells(), self.stride)
            }
            _ => self.cells().checked_mul(self.stride),
        };
        bytes.and_then(|bytes| bytes.checked_add(self.offset)).unwrap_or(u64::MAX)
    }

    /// The wish for the memory it needs on pages of `page_bytes`.
    #[must_use]
    pub fn request(&self, page_bytes: u64) -> MapRequest {
        MapRequest {
            bytes: self.extent(page_bytes),
            pages: self.page,
            attribute: self.attribute,
            place: self.place,
        }
    }
}

impl Wakes {
    /// Key, value, and the value that needs no key.
    fn keys(&self) -> [(&'static str, u64, u64); 7] {
        let d = Wakes::default();
        [
            ("every_ns", self.every_ns, d.every_ns),
            ("priority", self.priority, d.priority),
            ("traced", u64::from(self.traced), 0),
            ("flushed", u64::from(self.flushed), 0),
            ("timerlat", u64::from(self.timerlat), 0),
            ("evict", self.evict, 0),
            ("confined", u64::from(self.confined), 0),
        ]
    }

    fn read(f: &mut Fields<'_>) -> Result<Wakes, WireError> {
        let d = Wakes::default();
        Ok(Wakes {
            every_ns: f.int("every_ns")?.unwrap_or(d.every_ns),
            priority: f.int("priority")?.unwrap_or(d.priority),
            traced: f.int("traced")?.map_or(Ok(d.traced), |v| flag("traced", v))?,
            flushed: f.int("flushed")?.map_or(Ok(d.flushed), |v| flag("flushed", v))?,
            timerlat: f.int("timerlat")?.map_or(Ok(d.timerlat), |v| flag("timerlat", v))?,
            evict: f.int("evict")?.unwrap_or(d.evict),
            confined: f.int("confined")?.map_or(Ok(d.confined), |v| flag("confined", v))?,
        })
    }
}

/// A key that is 0 or 1.
fn flag(key: &str, value: u64) -> Result<bool, WireError> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(WireError::new(format!("trial: {key}={value} must be from 0 to 1"))),
    }
}

fn controls(f: &mut Fields<'_>) -> Result<Controls, WireError> {
    let d = Controls::default();
    let byte = |v: u64| {
        u8::try_from(v).map_err(|_| WireError::new(format!("trial: mair={v} must be from 0 to 255")))
    };
    Ok(Controls {
        mair: f.int("mair")?.map(byte).transpose()?,
        tables: choice(f, "tables", d.tables, Attribute::from_token, Attribute::choices())?,
        prefetch: f.int("prefetch")?.map_or(Ok(d.prefetch), |v| flag("prefetch", v))?,
        flush: f.int("flush")?.map_or(Ok(d.flush), |v| flag("flush", v))?,
    })
}

fn sequence(f: &mut Fields<'_>) -> Result<Sequence, WireError> {
    match f.text("sequence")? {
        None => Ok(Sequence::default()),
        Some(text) => {
            Sequence::parse(text).map_err(|what| WireError::new(format!("trial: sequence: {what}")))
        }
    }
}

fn streams(f: &mut Fields<'_>) -> Result<Vec<Stream>, WireError> {
    let (cpus, bytes) = (f.list("with_cpu")?, f.list("with_bytes")?);
    if cpus.len() != bytes.len() || cpus.len() > MAX_STREAMS {
        return Err(WireError::new(
            "trial: with_cpu and with_bytes must have the same length, at most 64".to_string(),
        ));
    }
    cpus.iter()
        .zip(&bytes)
        .map(|(&cpu, &bytes)| match u32::try_from(cpu) {
            Ok(cpu) if cpu > 0 && bytes >= 8 => Ok(Stream { cpu, bytes }),
            _ => Err(WireError::new("trial: with_cpu must be a CPU number from 1, with_bytes at least 8")),
        })
        .collect()
}
