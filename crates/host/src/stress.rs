//! Co-running load: worker processes that are started, counted and ended.
//!
//! A worker is the probe's own program, started again. It requests to be killed with the probe's thread
//! (`PR_SET_PDEATHSIG`), takes ordinary priority regardless of the probe's, leaves the measured CPU, takes its
//! memory, and waits until all others are ready. So all begin together, and starting the last of 256 does not compete
//! with the first. `passes.rs` contains the work, `slots.rs` the counts.

mod allocator;
mod block;
mod disk;
mod passes;
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

/// Time within which all workers must become ready, plus the same number of seconds as units of [`STEP_BYTES`] in
/// their memory.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// Memory that a worker touches at least per second before it is ready, bytes.
const STEP_BYTES: u64 = 64 << 20;
/// Maximum time for killed workers to end. The kernel does not end a process inside `sync` before the disk has
/// completed.
const END_TIMEOUT: Duration = Duration::from_secs(30);
/// Memory of a worker in addition to its block, bytes: 0.7 MiB were measured, and 1.7 if it writes files.
const WORKER_BYTES: u64 = 2 << 20;

/// The stressors of a probe.
pub(crate) struct Stressors {
    root: Root,
    /// Program and first arguments of a worker.
    program: Option<Vec<String>>,
    measured: u32,
    /// CPUs of the load.
    cpus: Vec<u32>,
    /// Maximum memory to take, bytes.
    max_bytes: Option<u64>,
    supervisor: Supervisor,
    running: Option<RunningLoad>,
    /// The workers' share of the caches when they were last confined.
    pub(crate) share: Option<String>,
}

struct RunningLoad {
    load: Load,
    slots: Slots,
    workers: Vec<Worker>,
    /// Names that their files may have for a short time.
    files: Vec<PathBuf>,
    /// Resctrl group of the workers, if they are confined.
    group: Option<Group>,
    since: u64,
    before: Vec<LoadStats>,
    stalls: Option<Stalls>,
}

/// A process, and the index of its stressor in the load.
struct Worker {
    child: Child,
    stressor: usize,
}

/// Returns the CPUs of a load: all that the probe may use except the measured one, if there is another.
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
        let (program, max_bytes) = (options.worker.clone(), options.max_bytes);
        Stressors {
            root: root.clone(),
            program,
            measured,
            cpus,
            max_bytes,
            supervisor,
            running: None,
            share: None,
        }
    }

    /// Returns facts of the CPUs that a load would run on.
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
            Refusal::new("this probe has no worker program", "start it as `fathom serve host`, which has one")
        })?;
        self.check_memory(load)?;
        let directory = directory(load)?;
        let count = load.stressors.iter().map(|s| s.workers as usize).sum();
        let (slots, file) = Slots::new(count).map_err(|e| cannot_start(&e))?;
        let mut running = RunningLoad {
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

    /// Ends the load, and returns its counts since [`Stressors::start_load`] returned.
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
            shared: None,
        });
        let stalls = running.stalls.zip(now).map(|(before, now)| psi::between(before, now));
        LoadReport { load_stats: rows.collect(), stalls }
    }

    /// Checks that the load's memory is within the limit.
    fn check_memory(&self, load: &Load) -> Result<(), Refusal> {
        let limit = memory_limit(&self.root, 0);
        let limit = match self.max_bytes {
            Some(max_bytes) => {
                limit.and(max_bytes, CeilingSource::Process, || "the probe's option --max-bytes".into())
            }
            None => limit,
        };
        fits(load, &limit)
    }

    fn start(
        &self,
        program: &[String],
        directory: &std::path::Path,
        file: &std::fs::File,
        running: &mut RunningLoad,
    ) -> Result<(), Refusal> {
        let load = running.load.clone();
        let stressors = load.stressors.iter().enumerate();
        let each = stressors.flat_map(|(nth, s)| (0..s.workers).map(move |_| (nth, *s)));
        for (slot, (stressor, s)) in each.enumerate() {
            let (cpus, placement) = match s.kind {
                Stress::Unmap => self.cpus_of_threads(slot),
                _ => (self.cpus.clone(), None),
            };
            let options = WorkerOptions {
                parent: std::process::id(),
                slot,
                cpus,
                placement,
                directory: directory.to_owned(),
                stressor: Stressor { workers: 1, ..s },
            };
            let child = spawn(program, &options, file).map_err(|e| cannot_start(&e))?;
            let file = disk::file_name(directory, child.id());
            running.workers.push(Worker { child, stressor });
            if s.kind == Stress::Disk {
                self.supervisor.hold(&file, false)?;
                running.files.push(file);
            }
        }
        let until = Instant::now() + READY_TIMEOUT + Duration::from_secs(demand(&load) / STEP_BYTES);
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

    /// Creates a cache share for workers, which is registered with the reaper.
    fn confine(&mut self) -> Result<Group, Refusal> {
        let mut held = None;
        let group = Group::create(&self.root, |path| {
            held = Some(path.to_owned());
            self.supervisor.hold(path, true)
        });
        match group {
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

    /// Returns the CPUs for the first thread of an unmapping worker, and another one for its second. If the load has
    /// only one CPU, the second runs on the measured CPU.
    fn cpus_of_threads(&self, nth: usize) -> (Vec<u32>, Option<Placement>) {
        if self.cpus.len() < 2 {
            return (self.cpus.clone(), Some(Placement { cpu: self.measured, idle: true }));
        }
        let cpu = self.cpus[nth % self.cpus.len()];
        let others = self.cpus.iter().copied().filter(|&other| other != cpu).collect();
        (others, Some(Placement { cpu, idle: false }))
    }

    /// Ends the remaining workers.
    fn end(&self, running: &mut RunningLoad) {
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

impl RunningLoad {
    /// Returns the counts of each stressor's workers since they were started.
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

    /// Waits until every worker has reached `state`.
    fn wait(&self, state: u32, until: Instant, supervisor: &Supervisor) -> Result<(), Refusal> {
        loop {
            let mut waiting = 0;
            for (worker, slot) in self.workers.iter().zip(self.slots.workers()) {
                let name = || Load { stressors: vec![self.load.stressors[worker.stressor]] };
                if let Some(trouble) = WorkerError::read(slot) {
                    return Err(Refusal::new(
                        format!("a worker of {} {trouble}", name()),
                        "use a smaller load, or see `ulimit -a`",
                    ));
                }
                if slot.state.load(Ordering::Acquire) >= state {
                    continue;
                }
                match ended(Pid::from_child(&worker.child)) {
                    None => {}
                    // A worker killed before it is watched counts as killed, too.
                    Some(how @ ProcessEnd::Signal(_)) => {
                        supervisor.abort(&worker.child, &format!("worker {}", name()), how);
                    }
                    Some(how) => {
                        return Err(Refusal::new(
                            format!("a worker of {} {how} before it began to work", name()),
                            "see its message on stderr",
                        ));
                    }
                }
                waiting += 1;
            }
            if waiting == 0 {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(Refusal::new(
                    format!("{waiting} of {} workers did not begin in time", self.workers.len()),
                    "use fewer workers, or an idle machine",
                ));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Returns the memory that the workers take together, bytes.
fn demand(load: &Load) -> u64 {
    let each = |s: &Stressor| {
        let block = if s.kind == Stress::Disk { 0 } else { s.bytes };
        s.workers.saturating_mul(block.saturating_add(WORKER_BYTES))
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
    Err(Refusal::new(reason, "use smaller blocks or fewer workers (vm*2:16M), or free memory"))
}

/// Returns the directory for the load's files; it is determined only if the load writes files.
fn directory(load: &Load) -> Result<PathBuf, Refusal> {
    let disks = || load.stressors.iter().filter(|s| s.kind == Stress::Disk);
    if disks().next().is_none() {
        return Ok(PathBuf::from("-"));
    }
    let directory = disk::directory()?;
    disk::check(&directory, disks().map(|s| s.workers.saturating_mul(s.bytes)).fold(0, u64::saturating_add))?;
    Ok(directory)
}

fn spawn(program: &[String], options: &WorkerOptions, file: &std::fs::File) -> std::io::Result<Child> {
    // Without fork: a copy of this process's page tables would make every measured page fault again. (Command uses
    // posix_spawn if nothing has to be done in between.)
    Command::new(&program[0])
        .arg0("fathom")
        .args(&program[1..])
        .args(options.arguments())
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
        // An error means that it has already ended.
        let _ = worker.child.kill();
    }
    let until = Instant::now() + END_TIMEOUT;
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
