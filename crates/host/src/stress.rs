//! Co-running load: workers, each a process of its own, started, counted and ended.
//!
//! A worker is the probe's own program started again. It asks the kernel to be killed with the probe's thread
//! (`PR_SET_PDEATHSIG`), becomes an ordinary process whatever the probe is, leaves the measured CPU, takes its memory
//! and waits until all others are ready: so that all begin together, and that starting the last of 256 does not
//! compete with those before it. What it does is in `rounds.rs`, what it counts in `slots.rs`.

mod allocator;
mod block;
mod disk;
mod rounds;
mod slots;
mod task;
mod worker;

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fathom_probe::load::{Load, LoadStats, Stalls, Stress, Stressor};
use fathom_probe::machine::{Fact, LoadReport, Refusal};
use fathom_units::facts::CeilingSource;
use rustix::process::Pid;

use crate::clock::raw_ns;
use crate::facts::text;
use crate::memory_limit::{MemoryLimit, memory_limit};
use crate::options::Options;
use crate::process::list;
use crate::procfs::Root;
use crate::psi;
use crate::resctrl::Group;
use crate::supervisor::{ProcessEnd, Supervisor, ended};
use slots::Slots;
use task::{Placement, WorkerError};

pub use task::WorkerOptions;
pub use worker::run_worker;

/// How long all workers together may take to become ready, and that much more for each [`STEP`] of their memory.
const READY: Duration = Duration::from_secs(20);
/// Memory that a worker touches in a second at least before it is ready.
const STEP: u64 = 64 << 20;
/// How long killed workers may take to end. The kernel ends none inside `sync` before the disk has answered.
const ENDED: Duration = Duration::from_secs(30);
/// What a worker takes beside its block: 0.7 MiB of its own were seen, and 1.7 where it writes files.
const OWN: u64 = 2 << 20;

/// The stressors of a probe.
pub(crate) struct Stressors {
    root: Root,
    /// Program and first arguments of a worker.
    program: Option<Vec<String>>,
    measured: u32,
    /// The CPUs of the load.
    cpus: Vec<u32>,
    /// Most memory to take.
    most: Option<u64>,
    supervisor: Supervisor,
    running: Option<Running>,
    /// What the workers had of the caches when they were confined last.
    pub(crate) share: Option<String>,
}

struct Running {
    load: Load,
    slots: Slots,
    workers: Vec<Worker>,
    /// Names that files of theirs may have for a moment.
    files: Vec<PathBuf>,
    /// Where they are confined.
    group: Option<Group>,
    since: u64,
    before: Vec<LoadStats>,
    stalls: Option<Stalls>,
}

/// A process, and which stressor of the load it belongs to.
struct Worker {
    child: Child,
    stressor: usize,
}

/// The CPUs that a load runs on: all that the probe was allowed but the one it measures on, where there is another.
pub(crate) fn cpus(allowed: &[u32], measured: u32) -> Vec<u32> {
    let others: Vec<u32> = allowed.iter().copied().filter(|&cpu| cpu != measured).collect();
    if others.is_empty() { allowed.to_vec() } else { others }
}

impl Stressors {
    pub(crate) fn new(
        root: &Root,
        measured: u32,
        cpus: Vec<u32>,
        options: &Options,
        supervisor: Supervisor,
    ) -> Stressors {
        let (program, most) = (options.worker.clone(), options.max_bytes);
        Stressors {
            root: root.clone(),
            program,
            measured,
            cpus,
            most,
            supervisor,
            running: None,
            share: None,
        }
    }

    /// Where a load would run.
    pub(crate) fn facts(&self) -> Vec<Fact> {
        let mut facts = vec![text("load.cpus", list(&self.cpus))];
        if self.cpus.len() < 2 {
            let what = "the second thread of its workers runs on the measured CPU, while nothing else does";
            facts.push(text("load.unmap", what));
        }
        facts
    }

    /// Starts a load, and returns when all of its workers work.
    pub(crate) fn start_load(&mut self, load: &Load, confined: bool) -> Result<(), Refusal> {
        self.stop_load();
        let program = self.program.clone().filter(|program| !program.is_empty()).ok_or_else(|| {
            Refusal::new(
                "this probe was not told which program its workers are",
                "start it as `fathom serve host`, which is its own",
            )
        })?;
        self.room(load)?;
        let directory = directory(load)?;
        let count = load.stressors.iter().map(|s| s.workers as usize).sum();
        let (slots, file) = Slots::new(count).map_err(|e| cannot_start(&e))?;
        let mut running = Running {
            load: load.clone(),
            slots,
            workers: Vec::new(),
            files: Vec::new(),
            group: None,
            since: 0,
            before: Vec::new(),
            stalls: None,
        };
        if confined {
            running.group = Some(self.confine()?);
        }
        let outcome = self.start(&program, &directory, &file.into(), &mut running);
        if let Err(refusal) = outcome {
            self.end(&mut running);
            return Err(refusal);
        }
        running.stalls = psi::totals(&self.root);
        running.before = running.counts();
        running.since = raw_ns();
        self.running = Some(running);
        Ok(())
    }

    /// Ends the load; what it did since [`Stressors::start_load`] returned.
    pub(crate) fn stop_load(&mut self) -> LoadReport {
        let Some(mut running) = self.running.take() else { return LoadReport::default() };
        let ns = raw_ns().saturating_sub(running.since);
        let after = running.counts();
        let now = psi::totals(&self.root);
        self.end(&mut running);
        let rows = after.iter().zip(&running.before).map(|(after, before)| LoadStats {
            stressor: after.stressor,
            ns,
            passes: after.passes.saturating_sub(before.passes),
            lines: after.lines.saturating_sub(before.lines),
            faults: after.faults.saturating_sub(before.faults),
            bytes: after.bytes.saturating_sub(before.bytes),
        });
        let stalls = running.stalls.zip(now).map(|(before, now)| psi::between(before, now));
        LoadReport { load_stats: rows.collect(), stalls }
    }

    /// May the load's memory be taken?
    fn room(&self, load: &Load) -> Result<(), Refusal> {
        let limit = memory_limit(&self.root, 0);
        let limit = match self.most {
            Some(most) => limit.and(most, CeilingSource::Process, || {
                "what the probe was told to take at most (--max-bytes)".into()
            }),
            None => limit,
        };
        fits(load, &limit)
    }

    fn start(
        &self,
        program: &[String],
        directory: &std::path::Path,
        file: &std::fs::File,
        running: &mut Running,
    ) -> Result<(), Refusal> {
        let load = running.load.clone();
        let stressors = load.stressors.iter().enumerate();
        let each = stressors.flat_map(|(nth, s)| (0..s.workers).map(move |_| (nth, *s)));
        for (slot, (stressor, s)) in each.enumerate() {
            let (cpus, placement) = match s.kind {
                Stress::Unmap => self.two(slot),
                _ => (self.cpus.clone(), None),
            };
            let orders = WorkerOptions {
                parent: std::process::id(),
                slot,
                cpus,
                placement,
                directory: directory.to_owned(),
                stressor: Stressor { workers: 1, ..s },
            };
            let child = spawn(program, &orders, file).map_err(|e| cannot_start(&e))?;
            let file = disk::file_name(directory, child.id());
            running.workers.push(Worker { child, stressor });
            if s.kind == Stress::Disk {
                self.supervisor.hold(&file, false)?;
                running.files.push(file);
            }
        }
        let until = Instant::now() + READY + Duration::from_secs(demand(&load) / STEP);
        running.wait(slots::READY, until, &self.supervisor)?;
        for worker in &running.workers {
            let name = format!("worker {}", Load { stressors: vec![load.stressors[worker.stressor]] });
            self.supervisor.watch(&worker.child, name)?;
            if let Some(group) = &running.group {
                group.add_process(worker.child.id())?;
            }
        }
        running.slots.open();
        running.wait(slots::WORKING, until, &self.supervisor)
    }

    /// A share of the caches for workers, which the reaper knows of.
    fn confine(&mut self) -> Result<Group, Refusal> {
        let mut held = None;
        let made = Group::create(&self.root, |path| {
            held = Some(path.to_owned());
            self.supervisor.hold(path, true)
        });
        match made {
            Ok(group) => {
                self.share = Some(group.share.clone());
                Ok(group)
            }
            Err(refusal) => {
                held.iter().for_each(|path| self.supervisor.removed(path));
                Err(refusal)
            }
        }
    }

    /// The CPUs for the first thread of an unmapping worker, and one for its second: another one. Where the load has
    /// but one, that is the measured CPU.
    fn two(&self, nth: usize) -> (Vec<u32>, Option<Placement>) {
        if self.cpus.len() < 2 {
            return (self.cpus.clone(), Some(Placement { cpu: self.measured, idle: true }));
        }
        let cpu = self.cpus[nth % self.cpus.len()];
        let others = self.cpus.iter().copied().filter(|&other| other != cpu).collect();
        (others, Some(Placement { cpu, idle: false }))
    }

    /// Ends the workers that are left.
    fn end(&self, running: &mut Running) {
        self.supervisor.unwatch(running.workers.iter().map(|w| &w.child));
        end(&mut running.workers);
        running.files.drain(..).for_each(|file| self.supervisor.removed(&file));
        if let Some(group) = running.group.take() {
            let path = group.path().to_owned();
            drop(group);
            self.supervisor.removed(&path);
        }
    }
}

impl Drop for Stressors {
    fn drop(&mut self) {
        self.stop_load();
    }
}

impl Running {
    /// What each stressor's workers have done since they were started.
    fn counts(&self) -> Vec<LoadStats> {
        let rows = 0..self.load.stressors.len();
        let mut all: Vec<LoadStats> =
            rows.map(|nth| LoadStats { stressor: nth as u64, ..LoadStats::default() }).collect();
        for (worker, slot) in self.workers.iter().zip(self.slots.workers()) {
            let row = &mut all[worker.stressor];
            row.passes += slot.passes.load(Ordering::Relaxed);
            row.lines += slot.lines.load(Ordering::Relaxed);
            row.faults += slot.faults.load(Ordering::Relaxed);
            row.bytes += slot.bytes.load(Ordering::Relaxed);
        }
        all
    }

    /// Waits until every worker is in `state`, or has been.
    fn wait(&self, state: u32, until: Instant, supervisor: &Supervisor) -> Result<(), Refusal> {
        loop {
            let mut late = 0;
            for (worker, slot) in self.workers.iter().zip(self.slots.workers()) {
                let name = || Load { stressors: vec![self.load.stressors[worker.stressor]] };
                if let Some(trouble) = WorkerError::read(slot) {
                    return Err(Refusal::new(
                        format!("a worker of {} {trouble}", name()),
                        "ask for less of it, or see `ulimit -a`",
                    ));
                }
                if slot.state.load(Ordering::Acquire) >= state {
                    continue;
                }
                match ended(Pid::from_child(&worker.child)) {
                    None => {}
                    // Killed early is killed all the same.
                    Some(how @ ProcessEnd::Signal(_)) => {
                        supervisor.abort(&worker.child, &format!("worker {}", name()), how);
                    }
                    Some(how) => {
                        return Err(Refusal::new(
                            format!("a worker of {} {how} before it worked", name()),
                            "see what it said on stderr",
                        ));
                    }
                }
                late += 1;
            }
            if late == 0 {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(Refusal::new(
                    format!("{late} of {} workers did not begin in time", self.workers.len()),
                    "ask for fewer of them, or on an idle machine",
                ));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Bytes of memory that the workers take together.
fn demand(load: &Load) -> u64 {
    let each = |s: &Stressor| {
        let block = if s.kind == Stress::Disk { 0 } else { s.bytes };
        s.workers.saturating_mul(block.saturating_add(OWN))
    };
    load.stressors.iter().map(each).fold(0, u64::saturating_add)
}

fn fits(load: &Load, limit: &MemoryLimit) -> Result<(), Refusal> {
    let demand = demand(load);
    if demand <= limit.bytes {
        return Ok(());
    }
    let reason = format!(
        "the load {load} takes {} MiB, and {} MiB may be taken, limited by {}",
        demand.div_ceil(1 << 20),
        limit.bytes >> 20,
        limit.limit
    );
    Err(Refusal::new(reason, "ask for smaller blocks or fewer workers (vm*2:16M), or free memory"))
}

/// Where the load writes files: it is looked for only where it does.
fn directory(load: &Load) -> Result<PathBuf, Refusal> {
    let disks = || load.stressors.iter().filter(|s| s.kind == Stress::Disk);
    if disks().next().is_none() {
        return Ok(PathBuf::from("-"));
    }
    let directory = disk::directory()?;
    disk::check(&directory, disks().map(|s| s.workers.saturating_mul(s.bytes)).fold(0, u64::saturating_add))?;
    Ok(directory)
}

fn spawn(program: &[String], orders: &WorkerOptions, file: &std::fs::File) -> std::io::Result<Child> {
    // Not by fork: a copy of this process's tables would make every page that is measured fault again.
    // (Command uses posix_spawn where nothing has to be done in between.)
    Command::new(&program[0])
        .arg0("fathom")
        .args(&program[1..])
        .args(orders.words())
        .stdin(Stdio::from(file.try_clone()?))
        .stdout(Stdio::null())
        .spawn()
}

fn cannot_start(error: &std::io::Error) -> Refusal {
    Refusal::new(
        format!("a worker cannot be started ({error})"),
        "raise the limit on processes, open files or memory (ulimit -a shows them)",
    )
}

/// Kills the workers, and waits for them.
fn end(workers: &mut Vec<Worker>) {
    for worker in workers.iter_mut() {
        // One that has ended by itself is what was wanted.
        let _ = worker.child.kill();
    }
    let until = Instant::now() + ENDED;
    while !workers.is_empty() {
        workers.retain_mut(|worker| matches!(worker.child.try_wait(), Ok(None)));
        if Instant::now() > until {
            let left: Vec<u32> = workers.iter().map(|w| w.child.id()).collect();
            let _ = writeln!(
                std::io::stderr().lock(),
                "fathom: killed workers have not ended yet: {}",
                list(&left)
            );
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests;
