//! Co-running loads: the workers of each stressor on the CPUs that do not measure.
//!
//! Worker `n` runs on CPU `1 + n mod (cpus - 1)`, so that all CPUs but the measured one have equally many. The workers
//! of one CPU take turns of a time slice; a change costs nothing. They run all the time, also while CPU 0 sleeps: of
//! all CPUs the one with the smallest clock makes the next step, which is one line accessed, one line of a fresh page
//! cleared, or one page released. `work.rs` has the work of each stressor, `pages.rs` the memory of a worker.

mod pages;
mod work;

use fathom_probe::load::{Load, LoadStats, Stress, Stressor};
use fathom_probe::machine::{LoadReport, Refusal};
use fathom_units::compact;

use super::Model;
use crate::hierarchy::{MEMORY, Path};
use crate::time::UNITS_PER_CYCLE;
use crate::translate::Page;
use pages::{Fresh, Pages};
use work::{Access, Act, LINE_BYTES, Work};

/// Time slice of a worker on one CPU, ns, if others wait for that CPU; times `1 + log2` of the CPUs, of at most 8. It
/// is `sysctl_sched_base_slice` of Linux 6.6, with the factor of `get_update_sysctl_factor` (kernel/sched/fair.c).
const SLICE_NS: u64 = 750_000;
const MAX_SLICE_CPUS: u32 = 8;
/// Dependent operations of a pass of `cpu`, one cycle each: three shifts, three exclusive-ors, a conversion, a root.
const COMPUTE_OPS: u64 = 8;

/// A load that runs.
#[derive(Clone, Debug)]
pub(super) struct RunningLoad {
    cpus: Vec<LoadCpu>,
    stressors: usize,
    /// Time slice, units.
    slice: u64,
    /// Clock of CPU 0 at the start, units.
    since: u64,
    /// First address of the arena that the workers' memory uses; it reaches to the end.
    start: u64,
}

/// A CPU of the load with its workers.
#[derive(Clone, Debug)]
struct LoadCpu {
    agent: usize,
    workers: Vec<Worker>,
    /// The worker that has the CPU, and the end of its time slice.
    turn: usize,
    slice_end: u64,
}

/// A worker.
#[derive(Clone, Debug)]
struct Worker {
    /// Index of its stressor in the load.
    stressor: usize,
    pages: Pages,
    work: Work,
    /// Passes before the current one.
    begun: u64,
    /// The act that waits for its page.
    pending: Option<Act>,
    /// The page that is being allocated.
    fresh: Option<Fresh>,
    /// End of its sleep, units; it runs if that has passed.
    wakes_at: u64,
    /// The line of the last load and of the last store of this pass, in [`LINE_BYTES`].
    lines_before: [Option<u64>; 2],
    /// Time computed, units.
    computed: u64,
    counts: LoadStats,
}

impl LoadCpu {
    /// Gives the CPU to the next worker that does not sleep, if the slice has ended or the current one sleeps. Returns
    /// the earliest end of a sleep if all sleep.
    fn choose(&mut self, now: u64, slice: u64) -> Option<u64> {
        let runs = |worker: &Worker| worker.wakes_at <= now;
        if runs(&self.workers[self.turn]) && (now < self.slice_end || self.workers.len() == 1) {
            return None;
        }
        let count = self.workers.len();
        let next = (1..=count).map(|n| (self.turn + n) % count).find(|&n| runs(&self.workers[n]));
        let Some(next) = next else { return self.workers.iter().map(|w| w.wakes_at).min() };
        (self.turn, self.slice_end) = (next, now + slice);
        None
    }
}

impl Worker {
    /// Counts the accesses of an act.
    fn count(&mut self, access: &Access) {
        let (first, last) = (access.offset / LINE_BYTES, access.last() / LINE_BYTES);
        let before = &mut self.lines_before[usize::from(access.store)];
        self.counts.lines += last - first + u64::from(*before != Some(first));
        *before = Some(last);
        self.counts.bytes += (1 + access.repeats) * access.width;
    }

    /// Returns its next act; a new pass begins with lines that count again.
    fn next_act(&mut self) -> Act {
        if let Some(act) = self.pending.take() {
            return act;
        }
        if self.begun < self.work.passes {
            (self.begun, self.lines_before) = (self.work.passes, [None; 2]);
        }
        self.work.next()
    }
}

impl Model {
    /// Starts the workers of a load in place of those that run.
    pub(crate) fn start_workers(&mut self, load: &Load, confined: bool) -> Result<(), Refusal> {
        self.load = None;
        self.can_run(load, confined)?;
        let total = self.demand(load);
        let available = self.arena.bytes - self.arena.base.bytes;
        if total > available {
            let reason = format!(
                "the load {load} takes {}, and the described memory has {} for loads",
                compact(total),
                compact(available)
            );
            return Err(Refusal::new(reason, "use smaller blocks or fewer workers, as in vm*2:16M"));
        }
        let cpus = self.description.core.cpus;
        let slice = SLICE_NS * u64::from(1 + cpus.min(MAX_SLICE_CPUS).ilog2());
        let mut running = RunningLoad {
            cpus: Vec::new(),
            stressors: load.stressors.len(),
            slice: u64::try_from(u128::from(slice) * self.timer.units_hz / 1_000_000_000).unwrap_or(u64::MAX),
            since: self.clock(),
            start: self.arena.bytes - total,
        };
        self.place_workers(load, &mut running);
        self.load = Some(Box::new(running));
        self.co_running = true;
        Ok(())
    }

    /// Creates the workers, each on its CPU and with its memory.
    fn place_workers(&mut self, load: &Load, running: &mut RunningLoad) {
        let others = self.description.core.cpus as usize - 1;
        let (page, line) = (self.arena.base.page, self.stride_of_lines());
        let frames = pages::frames(&self.description, running.start..self.arena.bytes, page, self.seed);
        let (mut address, clock) = (running.start, self.clock());
        let stressors = load.stressors.iter().enumerate();
        let workers = stressors.flat_map(|(nth, s)| (0..s.workers).map(move |_| (nth, s)));
        for (number, (stressor, described)) in workers.enumerate() {
            let work = Work::new(described, page, line, (self.seed, number as u64));
            let first = ((address - running.start) / page) as usize;
            let count = described.bytes.div_ceil(page) as usize;
            let pages = Pages::new(address, page, &frames[first..first + count], work.keeps_pages());
            address += self.room(described);
            let cpu = number % others;
            if cpu == running.cpus.len() {
                let agent = self.agent_of(cpu as u32 + 1);
                self.agents[agent].clock = clock;
                let slice_end = clock + running.slice;
                running.cpus.push(LoadCpu { agent, workers: Vec::new(), turn: 0, slice_end });
            }
            running.cpus[cpu].workers.push(Worker {
                stressor,
                pages,
                work,
                begun: 0,
                pending: None,
                fresh: None,
                wakes_at: 0,
                lines_before: [None; 2],
                computed: 0,
                counts: LoadStats::default(),
            });
        }
    }

    /// Refuses what the description does not have, by name.
    fn can_run(&self, load: &Load, confined: bool) -> Result<(), Refusal> {
        if confined {
            let reason = "a described machine has no caches that can be partitioned";
            return Err(Refusal::new(reason, "measure it on a host with CAT or MPAM"));
        }
        if let Some(refusal) = refusal_of_kinds(load) {
            return Err(refusal);
        }
        if self.description.core.cpus < 2 {
            let reason = format!(
                "the machine has one CPU, which measures, and there is no scheduler that could give it to {load}"
            );
            return Err(Refusal::new(reason, "set `cpus` in [core] to 2 or more"));
        }
        if !self.streams.is_empty() {
            let reason = "a trial has streams or a load, and not both";
            return Err(Refusal::new(reason, "leave out with_cpu= or load="));
        }
        Ok(())
    }

    /// Returns the addresses that a worker takes, bytes: whole pages, and descriptors in lines of its own.
    fn room(&self, stressor: &Stressor) -> u64 {
        let line = self.description.levels.iter().map(|l| l.line).max().unwrap_or(LINE_BYTES);
        stressor.bytes.next_multiple_of(self.arena.base.page * (line / 8))
    }

    /// Returns the addresses that all workers take together, bytes.
    fn demand(&self, load: &Load) -> u64 {
        let each = |s: &Stressor| s.workers.saturating_mul(self.room(s));
        load.stressors.iter().map(each).fold(0, u64::saturating_add)
    }

    /// Returns the bytes of the nearest data level's line: those that a step covers.
    fn stride_of_lines(&self) -> u64 {
        self.hierarchy.nearest(Path::Data).map_or(work::WIDTH, |level| 1 << self.hierarchy.line_shift(level))
    }

    /// Stops the workers and returns what they did.
    pub(crate) fn stop_workers(&mut self) -> LoadReport {
        self.catch_up();
        let Some(running) = self.load.take() else { return LoadReport::default() };
        self.co_running = !self.streams.is_empty() || self.has_neighbours();
        let units = u128::from(self.clock() - running.since);
        let ns = u64::try_from(units * 1_000_000_000 / self.timer.units_hz).unwrap_or(u64::MAX);
        let rows = 0..running.stressors as u64;
        let mut rows: Vec<LoadStats> = rows
            .map(|stressor| LoadStats { stressor, ns, shared: Some(0), ..LoadStats::default() })
            .collect();
        for worker in running.cpus.iter().flat_map(|cpu| &cpu.workers) {
            let (row, own) = (&mut rows[worker.stressor], &worker.counts);
            row.passes += worker.work.passes + worker.computed / (COMPUTE_OPS * UNITS_PER_CYCLE);
            row.lines += own.lines;
            row.faults += own.faults;
            row.bytes += own.bytes;
            row.shared = row.shared.zip(own.shared.or(Some(0))).map(|(sum, own)| sum + own);
        }
        LoadReport { load_stats: rows, stalls: None }
    }

    /// Refuses a mapping that reaches into the workers' memory.
    pub(crate) fn check_beside_load(&self, end: u64) -> Result<(), Refusal> {
        match &self.load {
            Some(load) if end > load.start => Err(Refusal::new(
                "the memory of huge and contiguous pages is the load's",
                "request base pages, or use a smaller load",
            )),
            _ => Ok(()),
        }
    }

    /// Runs the workers until none is behind CPU 0.
    pub(super) fn run_workers(&mut self) {
        let Some(mut load) = self.load.take() else { return };
        let until = self.clock();
        loop {
            let slowest = load.cpus.iter_mut().min_by_key(|cpu| self.agents[cpu.agent].clock);
            let Some(cpu) = slowest.filter(|cpu| self.agents[cpu.agent].clock < until) else { break };
            self.step(cpu, load.slice, until);
        }
        self.load = Some(load);
    }

    /// Makes one step of a CPU of the load, which is behind `until`.
    fn step(&mut self, cpu: &mut LoadCpu, slice: u64, until: u64) {
        let (agent, now) = (cpu.agent, self.agents[cpu.agent].clock);
        if let Some(first) = cpu.choose(now, slice) {
            self.agents[agent].clock = first;
            return;
        }
        let end = if cpu.workers.len() > 1 { until.min(cpu.slice_end) } else { until };
        let worker = &mut cpu.workers[cpu.turn];
        if let Some(fresh) = worker.fresh.take() {
            worker.fresh = self.allocate(agent, worker, fresh);
            return;
        }
        loop {
            match worker.next_act() {
                Act::Compute => {
                    worker.computed += end - now;
                    self.agents[agent].clock = end;
                }
                Act::Sleep { seconds } => {
                    let units = u128::from(seconds) * self.timer.units_hz;
                    worker.wakes_at = now.saturating_add(u64::try_from(units).unwrap_or(u64::MAX));
                }
                Act::Release { offset } => match worker.pages.release(offset) {
                    Some(_) => self.release(agent, worker, offset),
                    // It was never touched; nothing happens.
                    None => continue,
                },
                Act::Touch(access) => match worker.pages.physical(access.offset) {
                    Some(physical) => self.touch(agent, worker, &access, physical),
                    None => {
                        worker.pending = Some(Act::Touch(access));
                        self.fault(agent, worker, access.offset);
                    }
                },
            }
            return;
        }
    }

    /// Makes the accesses of an act to one line.
    fn touch(&mut self, agent: usize, worker: &mut Worker, access: &Access, physical: u64) {
        worker.count(access);
        let begun = self.agents[agent].clock;
        let page = self.paging.base_page(worker.pages.address(access.offset));
        let ops = self.ops.0 + self.ops.1;
        self.access_by(agent, worker, page, physical, access.store);
        self.agents[agent].clock += ops;
        match self.cost_of_repeat(agent, page, access.store) {
            Some(cost) => self.agents[agent].clock += access.repeats * (cost + ops),
            None => {
                for _ in 0..access.repeats {
                    self.access_by(agent, worker, page, physical, access.store);
                    self.agents[agent].clock += ops;
                }
            }
        }
        self.take_some_time(agent, begun);
    }

    /// Returns the cost of one more access to the line that was accessed last, if that changes no state.
    fn cost_of_repeat(&self, agent: usize, page: Page, store: bool) -> Option<u64> {
        let tlbs = &self.agents[agent].tlbs;
        let translation = match self.paging.costs {
            true if tlbs.last == page.key => tlbs.last_cost,
            true => return None,
            false => 0,
        };
        let nearest = self.hierarchy.private_nearest(Path::Data)?;
        let latency = self.filter_latency?;
        match (store, self.buffered) {
            (true, _) if !self.hierarchy.keeps_stores(nearest) => None,
            (true, Some((_, cost))) => Some(translation + cost),
            _ => Some(translation + latency),
        }
    }

    /// Makes one access of a worker, and counts it if a level that CPUs share, or memory, serves it, or if it is a store
    /// that a write-through level passes on.
    fn access_by(&mut self, agent: usize, worker: &mut Worker, page: Page, physical: u64, store: bool) {
        self.accesses += 1;
        let fetched = self.shared_fetches;
        if self.paging.costs && page.key != Page::NONE {
            self.translate_page(agent, page, None);
        }
        let level = if store {
            self.store_cached(agent, physical)
        } else {
            let purges = self.hierarchy.purges;
            let level = self.hierarchy.read(agent, Path::Data, 0, physical);
            if self.hierarchy.purges != purges {
                self.forget_lines();
            }
            self.pay_for_data(agent, level, physical);
            level
        };
        let passed =
            store && self.hierarchy.nearest(Path::Data).is_some_and(|l| self.hierarchy.passes_stores(l));
        let beyond = level == MEMORY || passed || self.hierarchy.is_shared(level);
        *worker.counts.shared.get_or_insert(0) += u64::from(beyond) + self.shared_fetches - fetched;
    }

    /// Begins to allocate the page of an access: the walk finds no descriptor.
    fn fault(&mut self, agent: usize, worker: &mut Worker, offset: u64) {
        worker.counts.faults += 1;
        worker.fresh = Some(worker.pages.allocate(offset));
        if self.paging.costs {
            let own = &mut self.agents[agent];
            own.tlbs.walks += 1;
            own.clock += self.paging.walk;
            let fetched = self.shared_fetches;
            self.walk(agent, self.paging.base_page(worker.pages.address(offset)), None);
            *worker.counts.shared.get_or_insert(0) += self.shared_fetches - fetched;
        }
    }

    /// Clears the next line of a fresh page; after the last one its descriptor is written and it is mapped.
    fn allocate(&mut self, agent: usize, worker: &mut Worker, mut fresh: Fresh) -> Option<Fresh> {
        let (page, line) = (self.arena.base.page, self.stride_of_lines());
        if fresh.cleared < page {
            self.access_of_kernel(agent, worker, fresh.physical + fresh.cleared);
            fresh.cleared += line;
            return Some(fresh);
        }
        worker.counts.lines += page.div_ceil(LINE_BYTES);
        worker.counts.bytes += page;
        self.write_descriptor(agent, worker, fresh.offset);
        worker.pages.map(&fresh);
        None
    }

    /// Releases a page: its descriptor is cleared and its translation is dropped.
    fn release(&mut self, agent: usize, worker: &mut Worker, offset: u64) {
        self.write_descriptor(agent, worker, offset);
        let page = self.paging.base_page(worker.pages.address(offset));
        self.paging.forget(&mut self.agents[agent].tlbs, page);
    }

    /// Stores the last level's descriptor of a page; nothing if the description has no descriptors.
    fn write_descriptor(&mut self, agent: usize, worker: &mut Worker, offset: u64) {
        let page = self.paging.base_page(worker.pages.address(offset));
        if self.paging.fetches(page) > 0 {
            let descriptor = self.paging.descriptor(page, 0);
            self.access_of_kernel(agent, worker, descriptor);
        }
    }

    /// Stores to physical memory through the kernel's linear map of it.
    fn access_of_kernel(&mut self, agent: usize, worker: &mut Worker, physical: u64) {
        let kernel = self.description.wakeup.as_ref().map_or(0, |wakeup| 2 * wakeup.within);
        let page = self.paging.linear_page(kernel, physical);
        self.access_by(agent, worker, page, physical, true);
    }
}

/// Returns why stressors of these kinds do not run on a described machine; none if they all do.
fn refusal_of_kinds(load: &Load) -> Option<Refusal> {
    let reason = |kind: Stress| match kind {
        Stress::Io => Some("the work of sync is not described"),
        Stress::Disk => Some("no disk is described"),
        Stress::Unmap => Some("the cost of a TLB shootdown is not described"),
        _ => None,
    };
    let one = |s: &Stressor| Load { stressors: vec![*s] };
    let missing: Vec<String> =
        load.stressors.iter().filter_map(|s| Some(format!("{} ({})", one(s), reason(s.kind)?))).collect();
    if missing.is_empty() {
        return None;
    }
    let rest =
        Load { stressors: load.stressors.iter().filter(|s| reason(s.kind).is_none()).copied().collect() };
    let remedy = match rest.is_none() {
        true => "measure it on a host".to_owned(),
        false => format!("measure it on a host, or run what is left as another load: --load '{rest}'"),
    };
    Some(Refusal::new(format!("a described machine cannot run {}", missing.join(", ")), remedy))
}
