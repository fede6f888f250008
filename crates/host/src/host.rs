//! The host as a machine.

use std::path::Path;

use fathom_probe::load::Load;
use fathom_probe::machine::{
    Attribute, Awake, Control, Controls, Count, Counters, Disturb, Event, Fact, Fresh, Machine, Maintain,
    Mapping, Pages, Refusal, Released, Ticks, Traced, Translate, Translation, Wake, Watch, Wish, Worth,
};
use fathom_probe::patterns::copy::Copying;
use fathom_probe::patterns::stride::Sweep;
use fathom_probe::wire::{Wakes, Woke};

use crate::arena::HostCell;
use crate::clock::{self, Rate, Source};
use crate::counters::Events;
use crate::cycles::Cycles;
use crate::driver::Presence;
use crate::environment;
use crate::facts::{int, text};
use crate::identify;
use crate::lent;
use crate::lookout::Lookout;
use crate::memory::Memory;
use crate::pages::{self, PageSizes};
use crate::process;
use crate::quiet::{self, Quiet};
use crate::read::Root;
use crate::stress::{self, Stressors};
use crate::wake::{self, Waker};
use crate::watch::Watcher;
use crate::worth;

/// How a [`Host`] is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The CPU to measure on; by default an isolated one, else the last that is allowed.
    pub cpu: Option<u32>,
    /// A base page size in the place of the kernel's own, in bytes: a power of two, a multiple of the real
    /// one, at most 1 MiB. For testing what other machines would do; the record says that it was injected.
    pub base_page: Option<u64>,
    /// Most memory to take, in bytes, below the ceilings that hold anyway.
    pub max_bytes: Option<u64>,
    /// Raise the priority where that is allowed.
    pub priority: bool,
    /// End when the parent thread ends (`PR_SET_PDEATHSIG`).
    pub die_with_parent: bool,
    /// The process id that the parent must have; a probe whose parent is another one refuses to start.
    /// Without it a parent that died before the probe's first instruction goes unnoticed until the probe's
    /// input ends.
    pub parent: Option<u32>,
    /// Version and hash of the program that this is part of: the fact `env.build`.
    pub build: Option<String>,
    /// Program and first arguments of what calls [`crate::work`]: the workers of co-running load, which there is none
    /// of without it.
    pub worker: Option<Vec<String>>,
    /// Program and first arguments of what calls [`crate::keep`]: the process that removes what would outlive the
    /// probe, which nothing is made of without it.
    pub keeper: Option<Vec<String>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            cpu: None,
            base_page: None,
            max_bytes: None,
            priority: true,
            die_with_parent: true,
            parent: None,
            build: None,
            worker: None,
            keeper: None,
        }
    }
}

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
    worth: Worth,
    watcher: Watcher,
    quiet: Quiet,
    events: Events,
    facts: Vec<Fact>,
    /// Has a page fault been seen to be counted?
    faults_counted: bool,
    /// Is every access of a sweep followed by a flush of its line?
    flush: bool,
    lookout: Lookout,
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
            facts.push(process::die_with_parent(options.parent)?);
        }
        let allowed = process::allowed(&root);
        let cpu = process::choose_cpu(&root, &allowed, options.cpu)?;
        let sizes = pages::sizes(&root, rustix::param::page_size() as u64, options.base_page)
            .map_err(|reason| Refusal::new(reason, "choose 4096, 16384 or 65536"))?;
        facts.extend(options.build.as_ref().map(|build| text("env.build", build)));
        // Before pinning, which changes what the affinity and the load look like.
        facts.extend(environment::facts(&root, cpu, &allowed));
        let quiet = prepare(&root, cpu, options.priority, &mut facts);
        let driver = Presence::open(&root);
        facts.extend(driver.facts());
        let (cycles, told) = Cycles::obtain(&root, &driver, cpu);
        facts.extend(told);
        let (clock, cycles, told) = calibrated(&root, cycles);
        facts.extend(told);
        let mut memory = Memory::open(root.clone(), sizes, options.max_bytes, driver.clone())?;
        facts.extend(page_facts(&sizes));
        facts.push(int("memory.reserved.bytes", memory.half() * 2));
        facts.extend(lender_facts(&root, &driver, &memory));
        // The first granule, with the first cell in it: it shows at once whether memory can be locked. That
        // even this little may not be had is no error here; the first wish will say so.
        let _ = memory.map(&Wish { bytes: 1, pages: Pages::Base, attribute: Attribute::WriteBack, place: 0 });
        let (worth, evidence) = worth::judge(&worth::gather(&root));
        facts.push(text("worth.evidence", evidence));
        facts.extend(identify::facts(&root, cpu));
        if let Presence::There(driver) = &driver {
            facts.extend(driver.cache_facts());
        }
        let (events, told) = match &cycles {
            Some(cycles) if !cycles.bears_events() => Events::none(no_events(cycles)),
            _ => Events::open(&root, &mut memory),
        };
        facts.extend(told);
        let mut watcher = Watcher::new(&root, cpu, worth < Worth::Real);
        facts.extend(watch_facts(&mut watcher));
        facts.extend(throttle_facts(&root));
        let others = stress::cpus(&allowed, cpu);
        let lookout = Lookout::new(options.keeper.clone(), others.clone());
        let stressors = Stressors::new(&root, cpu, others, options, lookout.clone());
        facts.extend(stressors.facts());
        facts.extend(wake::facts(&root, cpu));
        Ok(Host {
            memory,
            clock,
            root,
            cpu,
            worth,
            watcher,
            quiet,
            events,
            facts,
            faults_counted: false,
            flush: false,
            stressors,
            waker: Waker::new(lookout.clone()),
            lookout,
            driver,
            cycles,
        })
    }

    /// The CPU that the thread is pinned to.
    #[must_use]
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Has the keeper remove the directory at `path`, of trace files or of a control group, when this process ends
    /// before it has called [`Host::released`], however it ends.
    ///
    /// # Errors
    /// A [`Refusal`] where there is no keeper, or the path is not absolute or its last part not `fathom.` and more.
    pub fn holds(&self, path: &Path) -> Result<(), Refusal> {
        self.lookout.holds(path, true)
    }

    /// What was at `path` is removed.
    pub fn released(&self, path: &Path) {
        self.lookout.released(path);
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
        let locked = self.memory.unlocked.clone().unwrap_or_else(|| "yes".into());
        vec![
            text(format!("{prefix}.locked"), locked),
            int(format!("{prefix}.populated.bytes"), self.memory.populated()),
            int(format!("{prefix}.ceiling.bytes"), ceiling.bytes),
            text(format!("{prefix}.ceiling.limit"), ceiling.limit),
        ]
    }
}

/// Pins the thread and raises its priority; what came of it becomes facts.
fn prepare(root: &Root, cpu: u32, priority: bool, facts: &mut Vec<Fact>) -> Quiet {
    facts.push(int("cpu.pinned", u64::from(cpu)));
    facts.push(process::pin(cpu));
    facts.push(process::volunteer(root));
    facts.push(process::raise_memlock(root));
    if priority {
        facts.push(process::raise_nice());
    }
    let (quiet, fact) = Quiet::new(root, priority);
    facts.push(fact);
    quiet
}

/// The best clock, calibrated: the core's own cycles where they may be read, and could be all the while.
fn calibrated(root: &Root, cycles: Option<Cycles>) -> (Source, Option<Cycles>, Vec<Fact>) {
    #[cfg(target_arch = "aarch64")]
    if let Some(cycles) = cycles {
        cycles.begin();
        let facts = clock_facts(Source::Cycles, cycles.how.clone(), clock::rate(Source::Cycles));
        let Err(refusal) = cycles.kept() else { return (Source::Cycles, Some(cycles), facts) };
        drop(cycles);
        let (clock, why) = Source::choose(root);
        let mut facts = clock_facts(clock, why, clock::rate(clock));
        facts.push(text("clock.cycles.lost", refusal.reason));
        return (clock, None, facts);
    }
    let (clock, why) = Source::choose(root);
    (clock, cycles, clock_facts(clock, why, clock::rate(clock)))
}

/// Why there are no counters beside that clock.
fn no_events(cycles: &Cycles) -> Refusal {
    Refusal::new(
        format!(
            "the cycle counter is the clock, {}, and an event of perf's would take that away",
            cycles.how
        ),
        "sysctl kernel.perf_user_access=1 (Linux 5.17) gives both",
    )
}

fn page_facts(sizes: &PageSizes) -> Vec<Fact> {
    let mut facts = vec![int("page.base", sizes.base), int("page.injected", u64::from(sizes.injected))];
    facts.extend(sizes.huge.map(|huge| int("page.huge", huge)));
    facts
}

/// Who lends memory that the kernel does not hand out by itself.
fn lender_facts(root: &Root, driver: &Presence, memory: &Memory) -> Vec<Fact> {
    let lender = |attribute: &Attribute| {
        let lender = lent::find(root, driver, *attribute)?;
        Some(text(format!("attribute.{}", attribute.token()), lender.name))
    };
    let colours = memory.colourist().map(|name| text("page.coloured", name));
    lent::ATTRIBUTES.iter().filter_map(lender).chain(colours).collect()
}

fn clock_facts(clock: Source, why: String, rate: Rate) -> Vec<Fact> {
    let (overhead, step) = clock::fineness(clock);
    vec![
        text("clock.name", clock.name()),
        text("clock.choice", why),
        int("clock.hz", rate.hz),
        int("clock.hz.ppm", rate.ppm),
        int("clock.overhead.ticks", overhead),
        int("clock.step.ticks", step),
    ]
}

fn watch_facts(watcher: &mut Watcher) -> Vec<Fact> {
    let begin = clock::raw_ns();
    let rounds = 16;
    for _ in 0..rounds {
        watcher.read();
    }
    let mut facts = vec![int("watch.cost.ns", (clock::raw_ns() - begin) / rounds)];
    facts.extend(watcher.steal_step_ns().map(|ns| int("watch.steal_step.ns", ns)));
    facts
}

fn throttle_facts(root: &Root) -> Vec<Fact> {
    match quiet::throttle(root) {
        Some(t) => vec![int("throttle.runtime.ns", t.runtime_ns), int("throttle.period.ns", t.period_ns)],
        None => vec![text("throttle", "off")],
    }
}

impl Machine for Host {
    type Cell = HostCell;

    fn worth(&self) -> Worth {
        self.worth
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

    fn kept_time(&mut self) -> Result<(), Refusal> {
        self.cycles.as_ref().map_or(Ok(()), Cycles::kept)
    }

    fn map(&mut self, wish: &Wish) -> Result<Mapping, Refusal> {
        self.memory.map(wish)
    }

    fn map_shared(&mut self, wish: &Wish, frames: u64) -> Result<Mapping, Refusal> {
        self.memory.map_shared(wish, frames)
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
                    "ask for memory that is there, without unfaulted=1",
                ));
            }
            self.faults_counted = true;
            self.memory.give_back(range)?;
        }
        Ok(())
    }
}
impl Disturb for Host {
    fn press(&mut self, load: &Load, confined: bool) -> Result<(), Refusal> {
        self.stressors.press(load, confined)
    }

    fn release(&mut self) -> Released {
        self.stressors.release()
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
    fn wake_at(&mut self, at_ns: u64) -> Result<Awake, Refusal> {
        self.waker.sleep(at_ns)
    }

    #[inline(always)]
    fn wake_now(&mut self) -> u64 {
        wake::now()
    }

    fn wake_end(&mut self) -> Result<Traced, Refusal> {
        self.waker.end()
    }

    fn timerlat(&mut self, wakes: &Wakes, activations: u64) -> Result<(Vec<Woke>, u64), Refusal> {
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
        self.flush = controls.flush;
        Ok(())
    }
}

mod transfers;

#[cfg(test)]
mod tests;
