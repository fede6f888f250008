//! The model as a machine under the probe.

use fathom_probe::chain::Chain;
use fathom_probe::machine::{
    Control, Count, Counters, Disturb, Dma, Fact, FactValue, Fresh, Machine, Maintain, Mapping, Operation,
    Ops, Refusal, Stream, Ticks, Translate, Wake, Watch, Wish, Worth,
};
use fathom_probe::patterns::chase::{self, UNROLL};
use fathom_probe::patterns::stride::{self, Sweep};

use crate::description::Holds;
use crate::model::Model;
use crate::time::UNITS_PER_CYCLE;

/// A place in the arena that holds a link; made by [`Machine::cell`], which checks, or read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell(u64);

impl Machine for Model {
    type Cell = Cell;

    fn worth(&self) -> Worth {
        Worth::Modelled
    }

    fn facts(&mut self, sink: &mut dyn FnMut(Fact)) {
        let mut text = |name: &str, value: &str| {
            sink(Fact { name: name.to_string(), value: FactValue::Text(value.to_string()) });
        };
        let d = &self.description;
        text("machine.name", &d.name);
        text("clock.name", "model timer");
        for (n, level) in d.levels.iter().enumerate() {
            text(&format!("described.level.{}.name", n + 1), &level.name);
            text(&format!("described.level.{}.holds", n + 1), level.holds.word());
        }
        text("described.file", &d.to_toml());
        let mut number = |name: String, value: u64| sink(Fact { name, value: FactValue::Int(value) });
        number("core.hz".into(), d.core.clock_hz.round() as u64);
        number("core.cpus".into(), d.core.cpus.into());
        number("clock.hz".into(), d.timer.clock_hz.round() as u64);
        number("page.base".into(), d.memory.pages[0]);
        if let Some(huge) = self.arena.huge {
            number("page.huge".into(), huge.page);
        }
        number("memory.bytes".into(), d.memory.size);
        number("memory.mappable.base.bytes".into(), self.arena.base.bytes);
        number("memory.mappable.huge.bytes".into(), self.arena.huge.map_or(0, |part| part.bytes));
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

    fn map(&mut self, wish: &Wish) -> Result<Mapping, Refusal> {
        let mapping = self.arena.map(wish)?;
        self.unalias();
        Ok(mapping)
    }

    fn map_shared(&mut self, wish: &Wish, frames: u64) -> Result<Mapping, Refusal> {
        let mapping = self.map(wish)?;
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

    /// A store, with its cost.
    fn link(&mut self, at: Cell, to: Cell) {
        self.catch_up();
        self.store(0, at.0);
        self.arena.link(at.0, to.0);
    }

    fn follow(&mut self, at: Cell) -> Cell {
        self.measured_load(at.0);
        Cell(self.arena.next(at.0))
    }

    /// An interval with nothing in it reads the described overhead: a reading is taken first, and
    /// then the overhead passes.
    fn now(&mut self) -> Ticks {
        let time = self.clock();
        let ticks = self.timer.read(time);
        self.pass(self.timer.overhead);
        ticks
    }

    fn alu(&mut self, n: u64) {
        self.pass(n.saturating_mul(UNITS_PER_CYCLE));
    }

    #[inline(always)]
    fn charge(&mut self, ops: Ops) {
        self.spend(ops);
    }

    fn watch(&mut self) -> Watch {
        Watch { accesses: self.accesses, ..Watch::default() }
    }

    /// The chain is remembered: no cell is written and no time passes. Caches and TLBs are empty
    /// afterwards, so that a trial depends on nothing that ran before it; with random replacement,
    /// a predecessor's lines would otherwise linger in full sets for many laps.
    fn lay(&mut self, chain: &Chain) -> Result<(), Refusal> {
        self.cool();
        self.arena.lay(chain)
    }

    /// The generic body with the position in the chain kept, so that a step costs one evaluation of
    /// the chain and no search for the cell.
    fn chase(&mut self, start: Cell, n: u64) -> Cell {
        let Some(mut cursor) = self.arena.cursor(start.0) else { return chase::body(self, start, n) };
        let turn = Ops { alu: 1, branch: 1 };
        for _ in 0..n % UNROLL {
            self.measured_load(cursor.offset);
            cursor.advance();
            self.charge(turn);
        }
        for _ in 0..n / UNROLL {
            for _ in 0..UNROLL {
                self.measured_load(cursor.offset);
                cursor.advance();
            }
            self.charge(turn);
        }
        self.arena.keep(cursor);
        Cell(cursor.offset)
    }

    /// Remembered without a store, and caches and TLBs are empty afterwards.
    fn lay_cells(&mut self, cells: &[Cell]) {
        self.cool();
        self.arena.lay_cells(&cells.iter().map(|cell| cell.0).collect::<Vec<u64>>());
    }

    /// No load: nothing moves.
    fn peek(&mut self, at: Cell) -> Cell {
        Cell(self.arena.next(at.0))
    }

    /// Remembered like a chain, and caches and TLBs are empty afterwards.
    fn lay_sweep(&mut self, sweep: &Sweep, seed: u64) -> Result<(), Refusal> {
        self.cool();
        self.arena.lay_sweep(sweep, seed)
    }

    /// The generic body without its cells: addresses are counted, and what is loaded is computed.
    fn sweep(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<u64> {
        let Some(first) = self.arena.going_on(sweep, from) else {
            return stride::body(self, sweep, from, n);
        };
        let mut values = first.laid(from % sweep.cells);
        let again = first.laid(0);
        let mut sum = 0u64;
        let (one, turn) = (stride::turn(sweep, 1), stride::turn(sweep, UNROLL));
        for part in sweep.parts(from, n) {
            let mut at = part.offset;
            if part.offset == sweep.base {
                values = again;
            }
            let odd = part.count % UNROLL;
            for nth in 1..=part.count {
                self.step_on(sweep.operation, at);
                sum = sum.wrapping_add(sweep.base + 8 * values.word);
                values.advance();
                at += sweep.step;
                if nth <= odd {
                    self.spend(one);
                } else if (nth - odd).is_multiple_of(UNROLL) {
                    self.spend(turn);
                }
            }
        }
        self.arena.reach(from.wrapping_add(n));
        Some(if sweep.operation == Operation::Read { sum } else { 0 })
    }

    /// Each line once, or twice where a policy says that a use after a fill counts: what follows in a line that
    /// was just touched changes neither its place nor what it is. Accesses that are left out are neither counted nor paid for; a warm-up is not timed.
    fn warm(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<()> {
        self.arena.going_on(sweep, from)?;
        let (shift, most) = (self.narrowest_line(), self.accesses_to_rest());
        for part in sweep.parts(from, n) {
            let (mut last, mut times) = (None, 0);
            let mut at = part.offset;
            for _ in 0..part.count {
                if last != Some(at >> shift) {
                    (last, times) = (Some(at >> shift), 0);
                }
                if times < most {
                    self.step_on(sweep.operation, at);
                    times += 1;
                }
                at += sweep.step;
            }
        }
        self.arena.reach(from.wrapping_add(n));
        Some(())
    }
}

impl Model {
    /// One access of a sweep.
    #[inline(always)]
    fn step_on(&mut self, operation: Operation, address: u64) {
        if matches!(operation, Operation::Read | Operation::Rmw) {
            self.measured_load(address);
        }
        if operation != Operation::Read {
            self.catch_up();
            self.store(0, address);
        }
    }
}

impl Counters for Model {
    /// What CPU 0 would count: its own caches and TLBs, shared levels as a whole, and memory.
    fn counters(&mut self) -> Result<Vec<Count>, Refusal> {
        let mut counts = Vec::new();
        let mut count = |name: String, value: u64| counts.push(Count { name, value });
        count("cycles".into(), self.cycles());
        count("accesses".into(), self.accesses);
        for (index, level) in self.description.levels.iter().enumerate() {
            let cache = self.hierarchy.cache(0, index);
            count(format!("refill.{}", level.name), cache.refills);
            count(format!("writeback.{}", level.name), cache.writebacks);
        }
        for (index, store) in self.tlbs().stores.iter().enumerate() {
            count(format!("refill.tlb.{}", index + 1), store.refills);
        }
        count("walks".into(), self.tlbs().walks);
        count("memory.reads".into(), self.memory.reads);
        count("memory.writes".into(), self.hierarchy.memory_writes);
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
}

impl Maintain for Model {}
impl Fresh for Model {}
impl Wake for Model {}
impl Dma for Model {}
impl Translate for Model {}
impl Control for Model {}
