//! The host as a machine.

use std::path::Path;

use fathom_probe::load::Load;
use fathom_probe::machine::batch::copy::Copying;
use fathom_probe::machine::batch::stride::Sweep;
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
use crate::counters::Events;
use crate::cycles::Cycles;
use crate::driver::Presence;
use crate::environment;
use crate::facts::{int, text};
use crate::identify;
use crate::memory::Memory;
use crate::options::Options;
use crate::pages;
use crate::process;
use crate::quiet::Quiet;
use crate::read::Root;
use crate::stress::{self, Stressors};
use crate::supervisor::Supervisor;
use crate::wake::{self, Waker};
use crate::watch::Watcher;

mod opening;

/// A Linux process, pinned to one CPU, as a [`Machine`].
///
/// Opening it changes the calling thread (affinity, priority) and process (death signal, `oom_score_adj`,
/// soft limit of locked memory); all of that ends with the process. A `Host` stays on the thread that
/// opened it.
///
/// Mappings share one arena and overlap: a wish may be placed over an earlier one, and may give up the memory
/// of earlier ones where the ceiling asks for that. Lay a chain after mapping its memory, not before another
/// wish. Cells stay valid whatever happens to what they hold.
pub struct Host {
    memory: Memory,
    clock: Source,
    root: Root,
    cpu: u32,
    trust: ClockTrust,
    watcher: Watcher,
    quiet: Quiet,
    events: Events,
    facts: Vec<Fact>,
    /// Has a page fault been seen to be counted?
    faults_counted: bool,
    /// Is every access of a sweep followed by a flush of its line?
    flush: bool,
    supervisor: Supervisor,
    stressors: Stressors,
    waker: Waker,
    driver: Presence,
    /// The right to read the clock, where that is one.
    cycles: Option<Cycles>,
}

impl Host {
    /// Opens the host: captures the environment, pins the thread, raises its priority, calibrates the
    /// clock (some 30 ms) and reserves the arena. Missing privileges are facts, not errors.
    ///
    /// # Errors
    /// A [`Refusal`] when the CPU asked for is not allowed, the page size asked for is impossible, no
    /// addresses can be reserved, or the parent is gone.
    pub fn open(options: Options) -> Result<Host, Refusal> {
        Host::open_below(Root::system(), &options)
    }

    /// [`Host::open`] with `/proc` and `/sys` below `root`.
    pub(crate) fn open_below(root: Root, options: &Options) -> Result<Host, Refusal> {
        let mut facts = Vec::new();
        if options.die_with_parent || options.parent.is_some() {
            facts.extend(process::die_with_parent(options.parent)?);
        }
        let allowed = process::allowed(&root);
        let cpu = process::choose_cpu(&root, &allowed, options.cpu)?;
        let sizes = pages::sizes(&root, rustix::param::page_size() as u64, options.base_page)
            .map_err(|reason| Refusal::new(reason, "choose 4096, 16384 or 65536"))?;
        facts.extend(options.build.as_ref().map(|build| text(facts::BUILD, build)));
        // Before pinning, which changes what the affinity and the load look like.
        facts.extend(environment::facts(&root, cpu, &allowed));
        let quiet = opening::prepare(&root, cpu, options.priority, &mut facts);
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
            trust,
            watcher,
            quiet,
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

    /// The CPU that the thread is pinned to.
    #[must_use]
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Has the reaper remove the directory at `path`, of trace files or of a control group, when this process ends
    /// before it has called [`Host::removed`], however it ends.
    ///
    /// # Errors
    /// A [`Refusal`] where there is no reaper, or the path is not absolute or its last part not `fathom.` and more.
    pub fn holds(&self, path: &Path) -> Result<(), Refusal> {
        self.supervisor.holds(path, true)
    }

    /// What was at `path` is removed.
    pub fn removed(&self, path: &Path) {
        self.supervisor.removed(path);
    }

    /// Begins a spell in which nothing ordinary may interrupt the thread, where that is permitted. May pause
    /// first, up to the real-time throttle's share of a second, so that the throttle falls between trials.
    /// Call it before each trial, and keep trials well below a second: a trial that is much longer than those
    /// before it may still meet the throttle.
    pub fn quiet_begin(&mut self) {
        self.quiet.begin();
    }

    /// Ends the spell.
    pub fn quiet_end(&mut self) {
        self.quiet.end();
    }

    /// What memory is taken now, whether it is locked, and how much there may be.
    fn memory_facts(&self, prefix: &str) -> Vec<Fact> {
        let ceiling = self.memory.ceiling_now();
        let locked = format!("{prefix}.locked");
        let why = self.memory.unlocked.iter().flat_map(|refusal| {
            [text(facts::reason(&locked), &refusal.reason), text(facts::remedy(&locked), &refusal.remedy)]
        });
        let mut facts = vec![
            text(&locked, if self.memory.unlocked.is_none() { "yes" } else { "no" }),
            int(format!("{prefix}.populated.bytes"), self.memory.populated()),
            int(format!("{prefix}.ceiling.bytes"), ceiling.bytes),
            text(format!("{prefix}.ceiling.limit"), ceiling.limit),
            text(format!("{prefix}.ceiling.source"), ceiling.source.token()),
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

    /// Frequency, temperature, throttling, load and pressure under `env.after`, and what memory was taken and
    /// locked under `memory.after`, with how shared pages were verified.
    fn facts_after(&mut self, sink: &mut dyn FnMut(Fact)) {
        let mut memory = self.memory_facts("memory.after");
        memory.extend(self.waker.locked.as_ref().map(|how| text("wake.after.locked", how)));
        memory.extend(self.waker.kernel.as_ref().map(|who| text("wake.after.kernel", who)));
        memory.extend(self.stressors.share.as_ref().map(|share| text("load.after.confined", share)));
        memory.extend(self.memory.shared.map(|how| text("memory.after.shared", how)));
        environment::facts_after(&self.root, self.cpu).into_iter().chain(memory).for_each(sink);
    }

    fn quiet_begin(&mut self) {
        self.quiet.begin();
        if let Some(cycles) = &self.cycles {
            cycles.begin();
        }
    }

    fn quiet_end(&mut self) {
        self.quiet.end();
    }

    fn clock_was_available(&mut self) -> Result<(), Refusal> {
        self.cycles.as_ref().map_or(Ok(()), Cycles::kept)
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

    /// With one check for the whole buffer: a check of each cell would be most of what an L1 hit takes.
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

    /// The kernel knows an event for the first level alone.
    fn refills(&mut self, level: u64) -> Option<u64> {
        let counts = self.events.read().ok().filter(|_| level == 1)?;
        counts.into_iter().find(|count| count.name == "refill.L1D").map(|count| count.value)
    }
}

impl Maintain for Host {
    fn clean_invalidate(&mut self, offset: u64, bytes: u64) -> Result<(), Refusal> {
        flushes(Cpu::FLUSHES)?;
        let outside = || Refusal::new("the range is not mapped", "maintain what was mapped");
        self.memory.arena.flush(offset, bytes).ok_or_else(outside)
    }
}
impl Fresh for Host {
    /// With `MADV_DONTNEED`. Once it is looked whether the kernel counts the fault of a touch: what no page fault
    /// proves is not worth a trial.
    fn give_back(&mut self, mapping: &Mapping) -> Result<(), Refusal> {
        let range = mapping.base..mapping.base + mapping.bytes;
        self.memory.give_back(range.clone())?;
        if !self.faults_counted {
            let before = self.watcher.read().faults;
            self.memory.touch(range.start);
            if self.watcher.read().faults == before {
                return Err(Refusal::new(
                    "the kernel counts no page faults of this thread (getrusage, RUSAGE_THREAD)",
                    "ask for memory that is there, without first_touch=1",
                ));
            }
            self.faults_counted = true;
            self.memory.give_back(range)?;
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
        // The priority that is lent to other patterns is counted against the throttle; a task that sleeps is not.
        self.quiet.end();
        self.events.rest();
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
        self.quiet.end();
        self.waker.kernels(&self.root, &self.driver, (self.cpu, activations), wakes)
    }

    fn wake_around(&mut self, from_ns: u64, to_ns: u64, most: usize) -> Vec<Event> {
        self.waker.around(from_ns, to_ns, most)
    }
}
impl Translate for Host {
    fn translated(&mut self, offset: u64) -> Option<Translation> {
        Some(self.memory.translated(offset))
    }
}
impl Control for Host {
    fn control(&mut self, controls: &Controls) -> Result<(), Refusal> {
        if (Controls { flush: false, ..*controls }) != Controls::default() {
            return Err(Refusal::new(
                "a MAIR byte, the walks' own attribute and prefetchers are the kernel's to set",
                "measure it on bare metal: `fathom image --help`",
            ));
        }
        if controls.flush {
            flushes(Cpu::FLUSHES)?;
        }
        self.flush = controls.flush;
        Ok(())
    }
}

/// Refuses flushes where the architecture gives user space none.
fn flushes(permitted: Result<(), &'static str>) -> Result<(), Refusal> {
    permitted.map_err(|why| Refusal::new(why, "measure it on bare metal: `fathom image --help`"))
}

mod transfers;

#[cfg(test)]
mod tests;
