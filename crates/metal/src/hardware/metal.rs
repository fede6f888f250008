//! The machine without an operating system as a [`Machine`].

use alloc::format;
use alloc::vec::Vec;

use fathom_probe::calibration::{Rate, resolution};
use fathom_probe::machine::batch::chase;
use fathom_probe::machine::batch::copy::Copying;
use fathom_probe::machine::batch::stride::Sweep;
use fathom_probe::machine::batch::together;
use fathom_probe::machine::{
    Attribute, ClockTrust, Control, Controls, Count, Counters, Disturb, Dma, Fact, FaultInjection, Fresh,
    Machine, Maintain, MapRequest, Mapping, ONE_AT_A_TIME, Pages, Refusal, Ticks, Translate, Translation,
    Wake, Watch,
};
use fathom_units::facts::{self, Grant, PRIVILEGE_COUNTERS};

use super::arena::{Arena, MetalCell};
use super::fact::{int, text};
use super::identify;
use super::pmu::Pmu;
use super::{arch, boot_state, clock, control, watchdog};
use crate::arch::tables::{BLOCK_BYTES, PAGE_BYTES};
use crate::clock_trust;
use crate::windows::{self, WindowAttribute};

/// Memory that is read to test whether refills are counted, bytes: more lines and pages than any first level and TLB
/// of these cores hold, and more than their second level.
const EXERCISE_BYTES: u64 = 16 << 20;

/// The machine without an operating system.
pub(super) struct Metal {
    arena: Arena,
    pmu: Pmu,
    control: control::Control,
    trust: ClockTrust,
    facts: Vec<Fact>,
    /// System counter when the machine was opened.
    begun: u64,
    /// Rate of the clock, Hz.
    cycles_hz: u64,
}

impl Metal {
    /// Opens the machine: starts counters, calibrates the clock (10 ms), collects facts, sets controls to their
    /// defaults.
    pub(super) fn open() -> Metal {
        let control = control::Control::open();
        let boot_state = boot_state();
        let (trust, evidence) = clock_trust::judge(
            boot_state.board,
            arch::cpu::evidence(boot_state.core_registers),
            boot_state.parameters.modelled(),
        );
        let mut facts = identify::facts();
        facts.push(text(facts::TRUST_EVIDENCE, evidence));
        if boot_state.parameters.modelled() {
            facts.push(int(facts::CORE_HZ, 1000 * u64::from(boot_state.parameters.described_khz)));
        }
        let mut metal = Metal {
            arena: Arena::open(),
            pmu: Pmu::open(),
            control,
            trust,
            facts: Vec::new(),
            begun: clock::system(),
            cycles_hz: 0,
        };
        facts.extend(metal.clock_facts());
        facts.extend(metal.counter_facts());
        facts.extend(memory_facts());
        metal.facts = facts;
        metal
    }

    fn clock_facts(&mut self) -> [Fact; 6] {
        let (overhead, resolution) = resolution(|| self.now().0);
        let [cycles, system] = arch::clock::NAMES;
        let (name, choice, Rate { hz, ppm }) = match self.pmu.counts {
            true => (cycles, "the PMU's cycle counter counts", clock::calibrate()),
            false => {
                (system, "the PMU's cycle counter does not count", Rate { hz: clock::system_hz(), ppm: 0 })
            }
        };
        self.cycles_hz = hz;
        [
            text(facts::CLOCK_NAME, name),
            text(facts::CLOCK_CHOICE, choice),
            int(facts::CLOCK_HZ, hz),
            int(facts::CLOCK_HZ_PPM, ppm),
            int(facts::CLOCK_OVERHEAD_TICKS, overhead),
            int(facts::CLOCK_RESOLUTION_TICKS, resolution),
        ]
    }

    /// Returns facts of the PMU's registers, and of the counters that are used.
    fn counter_facts(&mut self) -> Vec<Fact> {
        let mut facts = Vec::new();
        match arch::identify::pmu() {
            Ok(registers) => facts.extend(registers),
            Err(why) => {
                facts.push(text(PRIVILEGE_COUNTERS, Grant::Absent.token()));
                facts.push(text(facts::reason(PRIVILEGE_COUNTERS), why));
                return facts;
            }
        }
        for (name, counted) in self.test_counters() {
            facts.push(int(format!("counter.{}.tried", name.to_lowercase()), counted));
        }
        let cycles = self.pmu.counts.then_some("cycles");
        let names: Vec<&str> = cycles.into_iter().chain(self.pmu.names()).collect();
        let grant = if names.is_empty() { Grant::Absent } else { Grant::Granted };
        facts.push(text(PRIVILEGE_COUNTERS, grant.token()));
        facts.push(text(facts::value(PRIVILEGE_COUNTERS), names.join(",")));
        facts
    }

    /// Returns the counts of the refill counters over loads that miss every first level and TLB. Counters that count
    /// nothing are dropped.
    fn test_counters(&mut self) -> Vec<(&'static str, u64)> {
        if self.pmu.names().next().is_none() {
            return Vec::new();
        }
        let request = MapRequest {
            bytes: EXERCISE_BYTES,
            pages: Pages::Base,
            attribute: Attribute::WriteBack,
            place: 0,
        };
        let Ok(mapping) = self.map(&request) else { return Vec::new() };
        let before = self.pmu.totals();
        // A stride of a page and a line: each load has another page and another set.
        for offset in (mapping.base..mapping.base + mapping.bytes).step_by(PAGE_BYTES as usize + 64) {
            if let Some(cell) = self.cell(offset) {
                self.follow(cell);
            }
        }
        self.pmu.keep_counting(before)
    }

    /// Returns whether the core is coherent, as far as that is known.
    pub(super) fn is_coherent(&self) -> bool {
        arch::cpu::is_coherent(boot_state().core_registers)
    }

    /// Returns the physical address of an offset, and the attribute in force there.
    pub(super) fn par(&self, offset: u64) -> Option<(u64, Option<u8>)> {
        let translated = arch::mmu::translate(Arena::address(offset)?).ok()?;
        Some((translated.pa, translated.mair))
    }
}

fn memory_facts() -> Vec<Fact> {
    Vec::from([
        int(facts::PAGE_BASE, PAGE_BYTES),
        int("page.injected", 0),
        int(facts::PAGE_HUGE, BLOCK_BYTES),
        int("memory.bytes", windows::ARENA_BYTES),
        int(facts::MEMORY_MAPPABLE_BASE_BYTES, windows::ARENA_BYTES),
        int(facts::MEMORY_MAPPABLE_HUGE_BYTES, windows::ARENA_BYTES),
        int(facts::MEMORY_CEILING_BYTES, windows::ARENA_BYTES),
        text(facts::MEMORY_CEILING_LIMIT, "the arena of this image"),
        text(facts::MEMORY_CEILING_SOURCE, facts::CeilingSource::Process.token()),
        text(facts::MEMORY_LOCKED, "yes"),
        int("memory.arena.pa", boot_state().board.arena()),
    ])
}

impl Machine for Metal {
    type Cell = MetalCell;

    fn trust(&self) -> ClockTrust {
        self.trust
    }

    fn facts(&mut self, sink: &mut dyn FnMut(Fact)) {
        self.facts.iter().cloned().for_each(sink);
    }

    fn map(&mut self, request: &MapRequest) -> Result<Mapping, Refusal> {
        let attribute = self
            .control
            .controls
            .mair
            .map_or(WindowAttribute::Named(request.attribute), WindowAttribute::Raw);
        self.arena.map(request, attribute)
    }

    #[inline]
    fn cell(&self, offset: u64) -> Option<MetalCell> {
        self.arena.cell(offset)
    }

    #[inline(always)]
    fn offset(&self, cell: MetalCell) -> u64 {
        cell.offset()
    }

    #[inline(always)]
    fn link(&mut self, at: MetalCell, to: MetalCell) {
        self.arena.link(at, to);
    }

    #[inline(always)]
    fn follow(&mut self, at: MetalCell) -> MetalCell {
        self.arena.follow(at)
    }

    #[inline(always)]
    fn now(&mut self) -> Ticks {
        Ticks(if self.pmu.counts { clock::cycles() } else { clock::system() })
    }

    fn alu(&mut self, n: u64) {
        clock::alu(n);
    }

    /// Uses the generic body, once in the image: every pattern runs the same loop at the same address.
    #[inline(never)]
    fn chase(&mut self, start: MetalCell, n: u64) -> MetalCell {
        chase::body(self, start, n)
    }

    /// Refuses on a described machine, which simulates one access after the other.
    fn chase_together(&mut self, cells: &mut [MetalCell], n: u64) -> Result<(), Refusal> {
        if self.trust == ClockTrust::Modelled {
            return Err(Refusal::new(ONE_AT_A_TIME, "measure it on the board"));
        }
        together::body(self, cells, n)
    }

    fn quiet_begin(&mut self) {
        self.arena.begin();
        arch::clock::begin();
        watchdog::arm();
    }

    fn quiet_end(&mut self) {
        watchdog::disarm();
    }

    /// Refuses a trial in which a cycle counter of 32 bits has wrapped unseen.
    fn clock_was_available(&mut self) -> Result<(), Refusal> {
        if !self.pmu.counts || arch::clock::is_continuous(self.cycles_hz) {
            return Ok(());
        }
        let reason = "the cycle counter of 32 bits wrapped more than once between two readings";
        Err(Refusal::new(reason, "request fewer bytes or fewer loads"))
    }

    /// No other task runs during a trial, so all of its time counts.
    fn watch(&mut self) -> Watch {
        let ticks = u128::from(clock::system().wrapping_sub(self.begun));
        let ns = (ticks * 1_000_000_000 / u128::from(clock::system_hz().max(1))) as u64;
        // A described machine's budget is counted in simulated accesses.
        let modelled = self.trust == ClockTrust::Modelled;
        let accesses = if modelled { self.pmu.count("accesses").unwrap_or(0) } else { 0 };
        Watch { wall_ns: ns, cpu_ns: ns, accesses, ..Watch::default() }
    }

    fn sweep(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<u64> {
        self.arena.sweep(sweep, from, n)
    }

    fn copy(&mut self, copying: &Copying, from: u64, n: u64) -> Option<()> {
        self.arena.copy(copying, from, n)
    }

    fn inject(&mut self, provocation: FaultInjection) -> Refusal {
        watchdog::arm();
        arch::cpu::provoke(provocation);
        watchdog::disarm();
        Refusal::new(format!("the injected fault ({}) did not occur", provocation.token()), "")
    }
}

impl Counters for Metal {
    fn counters(&mut self) -> Result<Vec<Count>, Refusal> {
        self.pmu.read()
    }

    fn refills(&mut self, level: u64) -> Option<u64> {
        match level {
            1 => self.pmu.count("refill.L1D"),
            2 => self.pmu.count("refill.L2"),
            _ => None,
        }
    }
}

impl Maintain for Metal {
    fn clean_invalidate(&mut self, offset: u64, bytes: u64) -> Result<(), Refusal> {
        let outside = || Refusal::new("the range is not in the arena", "request fewer bytes");
        self.arena.maintain(offset, bytes).ok_or_else(outside)
    }
}

impl Translate for Metal {
    fn translated(&mut self, offset: u64) -> Option<Translation> {
        let va = Arena::address(offset)?;
        let (pa, mair) = self.par(offset).unzip();
        Some(Translation { va, pa, mair: mair.flatten() })
    }
}

impl Control for Metal {
    fn control(&mut self, controls: &Controls) -> Result<(), Refusal> {
        self.control.set(controls)
    }
}

impl Fresh for Metal {}
impl Wake for Metal {}
impl Disturb for Metal {}
impl Dma for Metal {}
