//! [`Host`], the machine for Linux.

use std::path::Path;

use fathom_probe::load::Load;
use fathom_probe::machine::batch::copy::Copying;
use fathom_probe::machine::batch::spaced::FILLERS;
use fathom_probe::machine::batch::stride::Sweep;
use fathom_probe::machine::batch::together;
use fathom_probe::machine::{ActivationRow, Wakes};
use fathom_probe::machine::{
    ActivationTrace, ClockTrust, Control, Controls, Count, Counters, Disturb, Event, Fact, Fresh, LoadReport,
    Machine, Maintain, MapRequest, Mapping, Refusal, Ticks, Translate, Translation, Wake, WakeReturn, Watch,
};
use fathom_units::facts;

use crate::arch::{Architecture as _, Cpu};
use crate::arena::HostCell;
use crate::clock::{self, Source};
use crate::clock_trust;
use crate::core_types;
use crate::counters::Events;
use crate::cpu_lock::CpuLock;
use crate::cycles::Cycles;
use crate::driver::Presence;
use crate::environment;
use crate::facts::{int, text};
use crate::identify;
use crate::memory::Memory;
use crate::options::Options;
use crate::pages;
use crate::process;
use crate::procfs::Root;
use crate::rt_priority::RtPriority;
use crate::stress::{self, Stressors};
use crate::supervisor::Supervisor;
use crate::wake::{self, Waker};
use crate::watch::Watcher;

mod opening;

/// A Linux process, pinned to one CPU, as a [`Machine`].
///
/// Opening it changes the calling thread (affinity, priority) and process (death signal, `oom_score_adj`, soft limit
/// of locked memory). All of that ends with the process. A `Host` stays on the thread that opened it.
///
/// Mappings share one arena and may overlap: a request may be placed over an earlier one, and may release the memory
/// of earlier ones if the memory limit requires it. Link a chain after mapping its memory, and before the next
/// request. Cells stay valid regardless of their content.
pub struct Host {
    memory: Memory,
    clock: Source,
    root: Root,
    cpu: u32,
    lock: Option<CpuLock>,
    trust: ClockTrust,
    watcher: Watcher,
    rt_priority: RtPriority,
    events: Events,
    facts: Vec<Fact>,
    /// Whether the kernel has been seen to count a page fault.
    faults_counted: bool,
    /// Whether every access of a sweep is followed by a flush of its line.
    flush: bool,
    supervisor: Supervisor,
    stressors: Stressors,
    waker: Waker,
    driver: Presence,
    /// The right to read the cycle counter, if the clock is the cycle counter.
    cycles: Option<Cycles>,
}

impl Host {
    /// Opens the host: records the environment, pins the thread, raises its priority, calibrates the clock (some 30
    /// ms) and reserves the arena. Missing privileges are facts, not errors.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if the requested CPU is not allowed, the requested page size is impossible, no addresses
    /// can be reserved, the parent is gone, or another process measures on the CPU.
    pub fn open(options: Options) -> Result<Host, Refusal> {
        Host::open_below(Root::system(), &options)
    }

    /// Variant of [`Host::open`] with `/proc` and `/sys` below `root`.
    pub(crate) fn open_below(root: Root, options: &Options) -> Result<Host, Refusal> {
        let mut facts = Vec::new();
        if options.die_with_parent || options.parent.is_some() {
            facts.extend(process::die_with_parent(options.parent)?);
        }
        let allowed = process::allowed_cpus(&root);
        let cpu = process::choose_cpu(&root, &allowed, options.cpu)?;
        let lock = options.lock.as_ref().map(|lock| CpuLock::acquire(&root, lock, cpu)).transpose()?;
        let lock = opening::locked(lock, &mut facts);
        let sizes = pages::sizes(&root, rustix::param::page_size() as u64, options.base_page)
            .map_err(|reason| Refusal::new(reason, "choose 4096, 16384 or 65536"))?;
        facts.extend(options.build.as_ref().map(|build| text(facts::BUILD, build)));
        // Before pinning, which changes the affinity and the load.
        facts.extend(environment::facts(&root, cpu, &allowed));
        facts.extend(core_types::facts(&root, &allowed, cpu));
        let rt_priority = opening::prepare(&root, cpu, options.priority, &mut facts);
        let driver = Presence::open(&root);
        facts.extend(driver.facts());
        let (cycles, reported) = Cycles::obtain(&root, &driver, cpu);
        facts.extend(reported);
        let (clock, cycles, reported) = opening::calibrated(&root, cycles);
        facts.extend(reported);
        let mut memory = Memory::open(root.clone(), sizes, options.max_bytes, driver.clone())?;
        facts.extend(opening::memory_facts(&root, &driver, &sizes, &mut memory));
        let (trust, evidence) = clock_trust::judge(&clock_trust::gather(&root));
        facts.push(text(facts::TRUST_EVIDENCE, evidence));
        facts.extend(identify::facts(&root, cpu));
        facts.extend(driver.cache_facts());
        let (events, reported) = opening::events(&root, cycles.as_ref(), &mut memory);
        facts.extend(reported);
        let mut watcher = Watcher::new(&root, cpu, trust < ClockTrust::Real);
        facts.extend(opening::watch_facts(&mut watcher));
        facts.extend(opening::throttle_facts(&root));
        let others = stress::cpus(&allowed, cpu);
        let supervisor = Supervisor::new(options.reaper.clone(), others.clone());
        let stressors = Stressors::new(&root, cpu, others, options, supervisor.clone());
        facts.extend(stressors.facts());
        facts.extend(wake::facts(&root, cpu));
        Ok(Host {
            memory,
            clock,
            root,
            cpu,
            lock,
            trust,
            watcher,
            rt_priority,
            events,
            facts,
            faults_counted: false,
            flush: false,
            stressors,
            waker: Waker::new(supervisor.clone()),
            supervisor,
            driver,
            cycles,
        })
    }

    /// Returns the CPU that the thread is pinned to.
    #[must_use]
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Registers the directory at `path`, of trace files or of a control group, with the reaper. The reaper removes
    /// it if this process ends, however it ends, before it has called [`Host::removed`].
    ///
    /// # Errors
    /// Returns a [`Refusal`] if there is no reaper, if the path is not absolute, or if its last part does not start
    /// with `fathom.`.
    pub fn hold(&self, path: &Path) -> Result<(), Refusal> {
        self.supervisor.hold(path, true)
    }

    /// Unregisters a path that has been removed.
    pub fn removed(&self, path: &Path) {
        self.supervisor.removed(path);
    }

    /// Begins an interval in which no ordinary task may interrupt the thread, if that is permitted. It may pause
    /// first, up to the real-time throttle's share of a second, so that the throttle acts between trials. Call it
    /// before each trial, and keep trials well below a second: a trial that is much longer than those before it may
    /// still be throttled.
    pub fn quiet_begin(&mut self) {
        self.rt_priority.begin();
    }

    /// Ends the interval.
    pub fn quiet_end(&mut self) {
        self.rt_priority.end();
    }

    /// Returns facts of the memory taken now, whether it is locked, and its limit.
    fn memory_facts(&self, prefix: &str) -> Vec<Fact> {
        let limit = self.memory.limit_now();
        let locked = format!("{prefix}.locked");
        let why = self.memory.lock_refusal.iter().flat_map(|refusal| {
            [text(facts::reason(&locked), &refusal.reason), text(facts::remedy(&locked), &refusal.remedy)]
        });
        let mut facts = vec![
            text(&locked, if self.memory.lock_refusal.is_none() { "yes" } else { "no" }),
            int(format!("{prefix}.populated.bytes"), self.memory.populated()),
            int(format!("{prefix}.ceiling.bytes"), limit.bytes),
            text(format!("{prefix}.ceiling.limit"), limit.limit),
            text(format!("{prefix}.ceiling.source"), limit.source.token()),
        ];
        facts.extend(why);
        facts
    }
}

impl Machine for Host {
    type Cell = HostCell;

    fn trust(&self) -> ClockTrust {
        self.trust
    }

    fn facts(&mut self, sink: &mut dyn FnMut(Fact)) {
        self.facts.iter().cloned().chain(self.memory_facts("memory")).for_each(sink);
    }

    /// Returns frequency, temperature, throttling, load and pressure under `env.after`. Also returns the memory taken
    /// and locked under `memory.after`, and how shared pages were verified.
    fn facts_after(&mut self, sink: &mut dyn FnMut(Fact)) {
        let mut memory = self.memory_facts("memory.after");
        memory.extend(self.waker.locked.as_ref().map(|how| text("wake.after.locked", how)));
        memory.extend(self.waker.kernel.as_ref().map(|who| text("wake.after.kernel", who)));
        memory.extend(self.stressors.share.as_ref().map(|share| text("load.after.confined", share)));
        memory.extend(self.memory.shared.map(|how| text("memory.after.shared", how)));
        memory.extend(self.lock.as_mut().and_then(|lock| lock.others(facts::ENV_AFTER)));
        environment::facts_after(&self.root, self.cpu).into_iter().chain(memory).for_each(sink);
    }

    fn quiet_begin(&mut self) {
        if let Some(lock) = &mut self.lock {
            lock.look();
        }
        self.rt_priority.begin();
        if let Some(cycles) = &self.cycles {
            cycles.begin();
        }
    }

    fn quiet_end(&mut self) {
        self.rt_priority.end();
    }

    fn clock_was_available(&mut self) -> Result<(), Refusal> {
        self.cycles.as_ref().map_or(Ok(()), Cycles::check_available)
    }

    fn map(&mut self, request: &MapRequest) -> Result<Mapping, Refusal> {
        self.memory.map(request)
    }

    fn map_shared(&mut self, request: &MapRequest, frames: u64) -> Result<Mapping, Refusal> {
        self.memory.map_shared(request, frames)
    }

    #[inline]
    fn cell(&self, offset: u64) -> Option<HostCell> {
        self.memory.cell(offset)
    }

    #[inline]
    fn offset(&self, cell: HostCell) -> u64 {
        cell.offset()
    }

    #[inline(always)]
    fn link(&mut self, at: HostCell, to: HostCell) {
        self.memory.arena.link(at, to);
    }

    #[inline(always)]
    fn follow(&mut self, at: HostCell) -> HostCell {
        self.memory.arena.follow(at)
    }

    fn chase_together(&mut self, cells: &mut [HostCell], n: u64) -> Result<(), Refusal> {
        together::body(self, cells, n)
    }

    #[inline(never)]
    fn chase_spaced(&mut self, cells: &mut [HostCell], fillers: u64, n: u64) -> Result<(), Refusal> {
        let pair = match cells {
            [] => return Ok(()),
            [a, b] if FILLERS.contains(&fillers) => [*a, *b],
            _ => {
                return Err(Refusal::new(
                    "no loop has so many chains or instructions",
                    "use fillers=2 to 1024",
                ));
            }
        };
        cells.copy_from_slice(&self.memory.arena.follow_spaced(pair, fillers, n));
        Ok(())
    }

    #[inline(always)]
    fn now(&mut self) -> Ticks {
        self.clock.now()
    }

    #[inline(always)]
    fn alu(&mut self, n: u64) {
        clock::alu(n);
    }

    fn watch(&mut self) -> Watch {
        self.watcher.read()
    }

    /// Checks the whole buffer once: a check per cell would take most of the time of an L1 hit.
    fn sweep(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<u64> {
        if self.flush {
            return self.memory.arena.flushed_loops(sweep, from, n);
        }
        self.memory.arena.sweep_loops(sweep, from, n)
    }

    fn copy(&mut self, copying: &Copying, from: u64, n: u64) -> Option<()> {
        self.memory.arena.copy_loops(copying, from, n)
    }
}

impl Counters for Host {
    fn counters(&mut self) -> Result<Vec<Count>, Refusal> {
        self.events.read()
    }

    /// The kernel has an event for the first level only.
    fn refills(&mut self, level: u64) -> Option<u64> {
        let counts = self.events.read().ok().filter(|_| level == 1)?;
        counts.into_iter().find(|count| count.name == "refill.L1D").map(|count| count.value)
    }
}

impl Maintain for Host {
    fn clean_invalidate(&mut self, offset: u64, bytes: u64) -> Result<(), Refusal> {
        flushes(Cpu::FLUSH_PERMITTED)?;
        let outside = || Refusal::new("the range is not mapped", "maintain what was mapped");
        self.memory.arena.flush(offset, bytes).ok_or_else(outside)
    }
}
impl Fresh for Host {
    /// Uses `MADV_DONTNEED`. The first call checks that the kernel counts the fault of a touch, because page faults
    /// are the proof of a first touch.
    fn give_back(&mut self, mapping: &Mapping) -> Result<(), Refusal> {
        let range = mapping.base..mapping.base + mapping.bytes;
        self.memory.release(range.clone())?;
        if !self.faults_counted {
            let before = self.watcher.read().faults;
            self.memory.touch(range.start);
            if self.watcher.read().faults == before {
                return Err(Refusal::new(
                    "the kernel counts no page faults of this thread (getrusage, RUSAGE_THREAD)",
                    "use memory that is already mapped, without first_touch=1",
                ));
            }
            self.faults_counted = true;
            self.memory.release(range)?;
        }
        Ok(())
    }
}
impl Disturb for Host {
    fn start_load(&mut self, load: &Load, confined: bool) -> Result<(), Refusal> {
        self.stressors.start_load(load, confined)
    }

    fn stop_load(&mut self) -> LoadReport {
        self.stressors.stop_load()
    }
}
impl Wake for Host {
    fn wake_begin(&mut self, wakes: &Wakes, activations: u64) -> Result<u64, Refusal> {
        // The throttle's accounting covers the priority of other patterns' trials; a task that sleeps is not
        // throttled.
        self.rt_priority.end();
        self.events.close_all();
        let address = self.memory.arena.address();
        self.waker.begin(
            &self.root,
            (self.cpu, activations),
            wakes,
            (address, address + self.memory.arena.length()),
        )
    }

    #[inline(always)]
    fn wake_at(&mut self, at_ns: u64) -> Result<WakeReturn, Refusal> {
        self.waker.sleep(at_ns)
    }

    #[inline(always)]
    fn wake_now(&mut self) -> u64 {
        wake::now()
    }

    fn wake_end(&mut self) -> Result<ActivationTrace, Refusal> {
        self.waker.end()
    }

    fn timerlat(&mut self, wakes: &Wakes, activations: u64) -> Result<(Vec<ActivationRow>, u64), Refusal> {
        self.rt_priority.end();
        self.waker.kernel_wakeups(&self.root, &self.driver, (self.cpu, activations), wakes)
    }

    fn wake_around(&mut self, from_ns: u64, to_ns: u64, most: usize) -> Vec<Event> {
        self.waker.events_between(from_ns, to_ns, most)
    }
}
impl Translate for Host {
    fn translated(&mut self, offset: u64) -> Option<Translation> {
        Some(self.memory.translation(offset))
    }
}
impl Control for Host {
    fn control(&mut self, controls: &Controls) -> Result<(), Refusal> {
        if (Controls { flush: false, ..*controls }) != Controls::default() {
            return Err(Refusal::new(
                "only the kernel can set a MAIR byte, the page walks' attribute and prefetchers",
                "measure on bare metal: `fathom image --help`",
            ));
        }
        if controls.flush {
            flushes(Cpu::FLUSH_PERMITTED)?;
        }
        self.flush = controls.flush;
        Ok(())
    }
}

/// Refuses flushes if the architecture does not permit them in user space.
fn flushes(permitted: Result<(), &'static str>) -> Result<(), Refusal> {
    permitted.map_err(|why| Refusal::new(why, "measure on bare metal: `fathom image --help`"))
}

mod transfers;

#[cfg(test)]
mod tests;
