//! The model as a machine of the probe.

use std::borrow::Cow;

use fathom_probe::chain::Chain;
use fathom_probe::load::Load;
use fathom_probe::machine::batch::chase::{self, UNROLL};
use fathom_probe::machine::batch::copy::Copying;
use fathom_probe::machine::batch::stride::Sweep;
use fathom_probe::machine::{
    Attribute, ClockTrust, Control, Controls, Count, CountedEvent, Counters, Disturb, Fact, FactValue, Fresh,
    LoadReport, Machine, Maintain, MapRequest, Mapping, Ops, Refusal, Stream, Ticks, Translate, Translation,
    Watch,
};
use fathom_units::facts::{self, PageFrames, ValueClass};

use crate::arena::Cursor;
use crate::description::{Core, Description, Frames, Holds};
use crate::model::Model;
use crate::time::UNITS_PER_CYCLE;
use crate::uncached::{WINDOW, behaviour, behaviour_of_byte, place, window};

/// A cell of the arena: made by [`Machine::cell`], which checks, or read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell(u64);

impl Cell {
    /// Returns its offset in the arena.
    pub(crate) fn offset(self) -> u64 {
        self.0
    }
}

/// Returns a digest of a text: FNV-1a of 64 bits (Fowler, Noll, Vo).
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Machine for Model {
    type Cell = Cell;

    fn trust(&self) -> ClockTrust {
        ClockTrust::Modelled
    }

    fn facts(&mut self, sink: &mut dyn FnMut(Fact)) {
        let mut text = |name: &str, value: &str| {
            sink(Fact { name: name.to_string(), value: FactValue::Text(value.to_string()) });
        };
        let d = &self.description;
        text(facts::MACHINE_NAME, &d.name);
        text(facts::CLOCK_NAME, "model timer");
        if d.memory.page_map {
            let scattered = d.memory.frames == Frames::Scattered;
            let frames = if scattered { PageFrames::Scattered } else { PageFrames::Contiguous };
            text(facts::PAGE_FRAMES, frames.token());
            if scattered {
                text(facts::PAGE_COLOURED, "page map");
            }
        }
        for (n, level) in d.levels.iter().enumerate() {
            text(&format!("described.level.{}.name", n + 1), &level.name);
            text(&format!("described.level.{}.holds", n + 1), level.holds.word());
        }
        text(facts::DESCRIBED_FILE, &d.to_toml());
        // No session depends on the table of events.
        let core = Core { events: None, ..d.core.clone() };
        let file = Description { core, ..d.clone() }.to_toml();
        text(facts::DESCRIBED_DIGEST, &format!("{:016x}", digest(&file)));
        let mut number = |name: String, value: u64| sink(Fact { name, value: FactValue::Int(value) });
        number(facts::CORE_HZ.into(), d.core.clock_hz.round() as u64);
        number("core.cpus".into(), d.core.cpus.into());
        number(facts::CLOCK_HZ.into(), d.timer.clock_hz.round() as u64);
        number(facts::PAGE_BASE.into(), d.memory.pages[0]);
        if let Some(huge) = self.arena.huge {
            number(facts::PAGE_HUGE.into(), huge.page);
        }
        number("memory.bytes".into(), d.memory.size);
        let values = d.values();
        let of = |class| values.iter().filter(|(_, of)| *of == class).count() as u64;
        number(facts::DESCRIBED_VALUES.into(), values.len() as u64);
        for &class in ValueClass::ALL {
            let count = of(Some(class));
            if count > 0 || class.study().is_none() {
                number(facts::described_values(class), count);
            }
        }
        number(facts::DESCRIBED_VALUES_UNCLASSIFIED.into(), of(None));
        if let (Some(_), Some(window)) = (d.core.outstanding, d.core.window) {
            number(facts::DESCRIBED_WINDOW.into(), window.into());
        }
        if !d.neighbours.is_empty() {
            number(facts::DESCRIBED_NEIGHBOURS.into(), d.neighbours.len() as u64);
        }
        number(facts::MEMORY_MAPPABLE_BASE_BYTES.into(), self.arena.base.bytes);
        number(facts::MEMORY_MAPPABLE_HUGE_BYTES.into(), self.arena.huge.map_or(0, |part| part.bytes));
        if let Some(part) = self.arena.coloured {
            number(facts::MEMORY_MAPPABLE_COLOURED_BYTES.into(), part.bytes);
        }
        for (n, level) in d.levels.iter().enumerate() {
            let name = |key: &str| format!("described.level.{}.{key}", n + 1);
            number(name("size"), level.size);
            number(name("line"), level.line);
            number(name("ways"), level.ways.into());
            number(name("sets"), level.sets());
            number(name("shared"), level.shared.into());
        }
        for (n, tlb) in d.tlbs.iter().enumerate() {
            number(format!("described.tlb.{}.entries", n + 1), tlb.entries.into());
            number(format!("described.tlb.{}.ways", n + 1), tlb.ways.into());
        }
    }

    fn map(&mut self, request: &MapRequest) -> Result<Mapping, Refusal> {
        let (window, behaves, byte) = self.window_for(request.attribute)?;
        let mapping = self.arena.map(request, window)?;
        self.check_beside_load(place(mapping.base) + mapping.bytes)?;
        self.unalias();
        self.take(mapping.base..mapping.base + mapping.bytes, behaves, byte);
        Ok(mapping)
    }

    fn map_shared(&mut self, request: &MapRequest, frames: u64) -> Result<Mapping, Refusal> {
        let mapping = self.map(request)?;
        self.arena.forget(&(mapping.base..mapping.base + mapping.bytes));
        self.alias(mapping.base, mapping.bytes / mapping.page_bytes, frames)?;
        Ok(mapping)
    }

    fn cell(&self, offset: u64) -> Option<Cell> {
        let end = offset.checked_add(8)?;
        (offset.is_multiple_of(8) && self.arena.is_mapped(offset, end)).then_some(Cell(offset))
    }

    #[inline(always)]
    fn offset(&self, cell: Cell) -> u64 {
        cell.0
    }

    /// Stores a link, with its cost.
    fn link(&mut self, at: Cell, to: Cell) {
        if at.0 < WINDOW {
            self.catch_up();
            self.store(0, at.0);
        } else {
            self.wide_store(at.0, 8);
        }
        self.arena.link(at.0, to.0);
    }

    fn follow(&mut self, at: Cell) -> Cell {
        if at.0 < WINDOW {
            self.measured_load(at.0);
        } else {
            self.wide_load(at.0, 8);
        }
        Cell(self.arena.next(at.0))
    }

    /// Reads the timer, then lets its described overhead pass. So the time of an empty interval is the overhead.
    fn now(&mut self) -> Ticks {
        self.run_neighbours();
        let time = self.clock();
        let ticks = self.timer.read(time);
        self.advance(self.timer.overhead);
        ticks
    }

    fn alu(&mut self, n: u64) {
        self.advance(n.saturating_mul(UNITS_PER_CYCLE));
    }

    #[inline(always)]
    fn charge(&mut self, ops: Ops) {
        self.charge(ops);
    }

    /// Removes the links of earlier trials, which would require a look-up for every load. Neighbours go on meanwhile.
    fn quiet_begin(&mut self) {
        self.arena.forget_links();
        self.set_up_trial();
    }

    fn watch(&mut self) -> Watch {
        Watch { accesses: self.accesses, ..Watch::default() }
    }

    /// Registers the chain: no cell is written and no time passes. Caches and TLBs are empty afterwards, so that a
    /// trial does not depend on earlier ones. With random replacement, lines of an earlier trial would otherwise stay
    /// in full sets for many laps.
    fn initialise(&mut self, chain: &Chain) -> Result<(), Refusal> {
        self.flush_all();
        self.arena.initialise(chain)
    }

    /// Follows the chain as the generic body does, but keeps the position in it. A step is then one evaluation of the
    /// chain, without a search for the cell.
    fn chase(&mut self, start: Cell, n: u64) -> Cell {
        // In another window every load is another kind of access.
        let plain = |cursor: &Cursor| start.0 < WINDOW && cursor.chain.base < WINDOW;
        let Some(mut cursor) = self.arena.cursor(start.0).filter(plain) else {
            return chase::body(self, start, n);
        };
        let order = self.arena.take_order(&cursor.chain, n);
        let ops = Ops { alu: 1, branch: 1 };
        for _ in 0..n % UNROLL {
            self.measured_load(cursor.offset);
            cursor.advance_in(order.as_ref());
            self.charge(ops);
        }
        for _ in 0..n / UNROLL {
            for _ in 0..UNROLL {
                self.measured_load(cursor.offset);
                cursor.advance_in(order.as_ref());
            }
            self.charge(ops);
        }
        self.arena.store_order(order);
        self.arena.save_cursor(cursor);
        Cell(cursor.offset)
    }

    fn chase_spaced(&mut self, cells: &mut [Cell], fillers: u64, n: u64) -> Result<(), Refusal> {
        self.chase_apart(cells, fillers, n)
    }

    /// Registers the lap without stores; caches and TLBs are empty afterwards.
    fn initialise_cells(&mut self, cells: &[Cell]) {
        self.flush_all();
        self.arena.initialise_cells(&cells.iter().map(|cell| cell.0).collect::<Vec<u64>>());
    }

    /// Returns the link without a load.
    fn peek(&mut self, at: Cell) -> Cell {
        Cell(self.arena.next(at.0))
    }

    /// Registers the sweep as a chain; caches and TLBs are empty afterwards.
    fn initialise_sweep(&mut self, sweep: &Sweep, seed: u64) -> Result<(), Refusal> {
        self.flush_all();
        self.arena.initialise_sweep(sweep, seed)
    }

    /// Runs the sweep as the generic body does, but without cells: addresses are counted, and loaded words are
    /// computed.
    fn sweep(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<u64> {
        self.sweep_through(sweep, from, n)
    }

    /// Touches each line once, or twice if the policy changes its state at a use after a fill. Further accesses to the
    /// same line change nothing; they are neither counted nor charged, and a warm-up is not timed. Accesses that bypass
    /// the caches are all made.
    fn warm(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<()> {
        self.warm_through(sweep, from, n)
    }

    /// Copies two cells per load and store; if their number is odd, the first one separately.
    fn copy(&mut self, copying: &Copying, from: u64, n: u64) -> Option<()> {
        self.copy_through(copying, from, n)
    }
}

impl Counters for Model {
    /// Returns the counters of CPU 0: its private caches and TLBs, shared levels as a whole, and memory.
    fn counters(&mut self) -> Result<Vec<Count>, Refusal> {
        let mut counts = Vec::new();
        let mut count = |name: Cow<'static, str>, event: Option<CountedEvent>, value: u64| {
            counts.push(Count { name, event, value })
        };
        count("cycles".into(), None, self.cycles());
        count("accesses".into(), Some(CountedEvent::Accesses), self.accesses);
        if self.has_stalls {
            count("stalls".into(), Some(CountedEvent::StallCycles), self.stalled() / UNITS_PER_CYCLE);
        }
        let mut nearest_first = 1..;
        for (index, level) in self.description.levels.iter().enumerate() {
            let cache = self.hierarchy.cache(0, index);
            let on_data_path = level.holds != Holds::Instructions;
            let number = on_data_path.then(|| nearest_first.next()).flatten();
            count(format!("refill.{}", level.name).into(), number.map(CountedEvent::Refill), cache.refills);
            count(format!("writeback.{}", level.name).into(), None, cache.writebacks);
        }
        for (number, store) in (1..).zip(&self.tlbs().stores) {
            count(
                format!("refill.tlb.{number}").into(),
                Some(CountedEvent::TlbRefill(number)),
                store.refills,
            );
        }
        count("walks".into(), Some(CountedEvent::Walks), self.tlbs().walks);
        count("memory.reads".into(), Some(CountedEvent::MemoryReads), self.memory.reads);
        count("memory.writes".into(), None, self.hierarchy.memory_writes);
        Ok(counts)
    }

    fn refills(&mut self, level: u64) -> Option<u64> {
        let data = self
            .description
            .levels
            .iter()
            .enumerate()
            .filter(|(_, level)| level.holds != Holds::Instructions);
        let index = data.map(|(index, _)| index).nth(usize::try_from(level.checked_sub(1)?).ok()?)?;
        Some(self.hierarchy.cache(0, index).refills)
    }
}

impl Disturb for Model {
    fn disturb(&mut self, streams: &[Stream]) -> Result<(), Refusal> {
        self.start(streams)
    }

    fn start_load(&mut self, load: &Load, confined: bool) -> Result<(), Refusal> {
        self.start_workers(load, confined)
    }

    /// Returns the work of each stressor. There are no stalls: the model has no scheduler and no reclaim.
    fn stop_load(&mut self) -> LoadReport {
        self.stop_workers()
    }
}

impl Maintain for Model {
    fn clean_invalidate(&mut self, offset: u64, bytes: u64) -> Result<(), Refusal> {
        self.maintainable()?;
        let end = offset.checked_add(bytes).filter(|&end| bytes > 0 && self.arena.is_mapped(offset, end));
        if end.is_none() {
            return Err(Refusal::new("the range is not mapped", "use a range inside a mapping"));
        }
        self.maintain(offset, bytes);
        Ok(())
    }
}

impl Translate for Model {
    fn translated(&mut self, offset: u64) -> Option<Translation> {
        let mair = *self.windows.bytes.get(window(offset))?;
        self.cell(offset / 8 * 8)?;
        Some(Translation { va: offset, pa: Some(self.physical(offset)), mair: Some(mair) })
    }
}

impl Control for Model {
    /// Sets the controls. The model has no prefetchers, so disabling them changes nothing.
    fn control(&mut self, controls: &Controls) -> Result<(), Refusal> {
        let described = &self.description.uncached;
        if let Some(byte) = controls.mair {
            behaviour_of_byte(described, byte)?;
        }
        if controls.flush {
            self.maintainable()?;
        }
        match behaviour(described, controls.tables)? {
            Attribute::Device => {
                return Err(Refusal::new(
                    "a walk fetches descriptors from normal memory; TCR_EL1 has no encoding for device memory",
                    "use tables=normal-nc",
                ));
            }
            Attribute::NormalNc if self.description.walk.as_ref().is_none_or(|walk| walk.fetches == 0) => {
                return Err(Refusal::new(
                    "the page walks of the description fetch no descriptors",
                    "set `fetches` in [walk]",
                ));
            }
            tables => self.controls = Controls { tables, ..*controls },
        }
        Ok(())
    }
}

impl Fresh for Model {}
