//! Loads once more: each worker's passes as lists of what is done, one after the other.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::VecDeque;

use fathom_probe::chain::{Chain, Layout, Order};
use fathom_probe::load::{BlockMode, Load, LoadStats, Stress, Stressor};

use super::*;

/// One step of a worker.
#[derive(Clone, Debug)]
enum Step {
    /// These accesses to one line, each with its bytes.
    Accesses(Vec<(u64, Kind, u64)>),
    Release(u64),
    Sleep(u64),
    Compute,
    /// A line of a fresh frame is cleared.
    Clear(u64),
    /// The descriptor of the page is written, and its frame is this.
    Map(u64, u64),
}

struct Worker {
    row: usize,
    described: Stressor,
    number: u64,
    start: u64,
    frames: BTreeMap<u64, u64>,
    free: Vec<u64>,
    todo: VecDeque<Step>,
    wakes: u64,
    seen: [Option<u64>; 2],
    computed: u64,
    stats: LoadStats,
}

/// The CPUs that run a load, and the reference below them.
pub struct Loaded {
    pub machine: Reference,
    /// CPU, its workers, whose turn it is, and the end of the slice.
    cpus: Vec<(u32, Vec<Worker>, usize, u64)>,
    rows: usize,
}

/// What one pass of a worker does.
fn pass(s: &Stressor, page: u64, line: u64, seed: u64, number: u64) -> VecDeque<Step> {
    let mut steps = VecDeque::new();
    let bulk = |from: u64, kind: Kind| {
        Step::Accesses((from..from + line).step_by(16).map(|at| (at, kind, 16)).collect())
    };
    match s.kind {
        Stress::Cpu => steps.push_back(Step::Compute),
        Stress::Read => (0..s.bytes / line).for_each(|n| steps.push_back(bulk(n * line, Kind::Load))),
        Stress::Write => (0..s.bytes / line).for_each(|n| steps.push_back(bulk(n * line, Kind::Store))),
        Stress::Copy => {
            let lines = s.bytes / 2 / line;
            for n in 0..lines {
                steps.push_back(bulk(n * line, Kind::Load));
                steps.push_back(bulk((lines + n) * line, Kind::Store));
            }
        }
        Stress::Chase => {
            let key = scramble(Dice::new(seed, 9, number).0);
            let chain = Chain::new(0, s.bytes / 64, 64, Layout::Packed, Order::Random, key);
            let load = |n: u64| Step::Accesses(vec![(chain.at(n), Kind::Load, 8)]);
            (0..s.bytes / 64).for_each(|n| steps.push_back(load(n)));
        }
        Stress::Pages => (0..s.bytes / page).for_each(|n| {
            let at = n * page + n % (page / 64) * 64;
            steps.push_back(Step::Accesses(vec![(at, Kind::Load, 8)]));
        }),
        Stress::Fault => {
            let pages: Vec<u64> = (0..s.bytes).step_by(page as usize).collect();
            for piece in pages.chunks(((256 << 10) / page).max(1) as usize) {
                piece.iter().for_each(|at| steps.push_back(Step::Accesses(vec![(*at, Kind::Store, 1)])));
                piece.iter().for_each(|at| steps.push_back(Step::Release(*at)));
            }
        }
        Stress::Vm | Stress::Malloc => {
            for kind in [Kind::Store, Kind::Load] {
                let mut of_line: BTreeMap<u64, Vec<(u64, Kind, u64)>> = BTreeMap::new();
                for at in (0..s.bytes).step_by(s.stride as usize) {
                    of_line.entry(at / line).or_default().push((at, kind, 1));
                }
                steps.extend(of_line.into_values().map(Step::Accesses));
                if let (Kind::Store, BlockMode::Hold(seconds)) = (kind, s.mode) {
                    steps.push_back(Step::Sleep(seconds));
                }
            }
            if !stays(s, page) {
                (0..s.bytes).step_by(page as usize).for_each(|at| steps.push_back(Step::Release(at)));
            }
        }
        Stress::Io | Stress::Disk | Stress::Unmap => panic!("not described"),
    }
    steps
}

/// Do the pages of a block stay, so that they are there from the beginning?
fn stays(s: &Stressor, page: u64) -> bool {
    match s.kind {
        Stress::Fault => false,
        Stress::Vm => s.mode == BlockMode::Kept,
        // mallopt(3): up to 32 MiB with its two size fields, in whole pages; or below 128 KiB from the beginning.
        Stress::Malloc => {
            let chunk = (s.bytes + 8).div_ceil(16) * 16;
            s.mode == BlockMode::Kept || chunk < 128 << 10 || (chunk + 8).div_ceil(page) * page <= 32 << 20
        }
        _ => true,
    }
}

impl Loaded {
    /// Starts a load at the time of CPU 0.
    pub fn new(mut machine: Reference, load: &Load) -> Loaded {
        let page = machine.d.memory.pages[0];
        let line = machine.d.levels.iter().map(|l| l.line).max().unwrap_or(64);
        let unit = page * line / 8;
        let room = |s: &Stressor| s.bytes.div_ceil(unit) * unit;
        let total: u64 = load.stressors.iter().map(|s| s.workers * room(s)).sum();
        let (region, count) = (machine.arena - total, total / page);
        let scattered = machine.d.memory.frames == Frames::Scattered && count > 0;
        let key = scramble(Dice::new(machine.seed, 10, 0).0);
        let frame = |n: u64| {
            let n = if scattered { Bijection::new(count, key).at(n) } else { n };
            region + n * page
        };
        let now = *machine.clocks.entry(0).or_default();
        let cpus = machine.d.core.cpus;
        let slice = slice(&machine);
        let (mut all, mut start, mut number) = (Vec::<(u32, Vec<Worker>, usize, u64)>::new(), region, 0);
        for (row, s) in load.stressors.iter().enumerate() {
            for _ in 0..s.workers {
                let cpu = 1 + (number % u64::from(cpus - 1)) as u32;
                let pages = s.bytes.div_ceil(page);
                let own: Vec<u64> = (0..pages).map(|n| frame((start - region) / page + n)).collect();
                let (frames, free) = match stays(s, page) {
                    true => ((0..pages).zip(own).collect(), Vec::new()),
                    false => (BTreeMap::new(), own.into_iter().rev().collect()),
                };
                let worker = Worker {
                    row,
                    described: *s,
                    number,
                    start,
                    frames,
                    free,
                    todo: VecDeque::new(),
                    wakes: 0,
                    seen: [None; 2],
                    computed: 0,
                    stats: LoadStats::default(),
                };
                match all.iter_mut().find(|(c, ..)| *c == cpu) {
                    Some((_, workers, ..)) => workers.push(worker),
                    None => {
                        machine.clocks.insert(cpu, now);
                        all.push((cpu, vec![worker], 0, now + slice));
                    }
                }
                (start, number) = (start + room(s), number + 1);
            }
        }
        Loaded { machine, cpus: all, rows: load.stressors.len() }
    }

    /// CPU 0 computes.
    pub fn compute(&mut self, cycles: u64) {
        *self.machine.clocks.get_mut(&0).unwrap() += cycles * 4096;
    }

    /// CPU 0 loads, once no worker is behind it.
    pub fn load(&mut self, address: u64) -> u64 {
        self.run();
        self.machine.access(0, Attribute::WriteBack, address, Kind::Load);
        self.machine.clocks[&0]
    }

    /// What each stressor has done.
    pub fn stats(&mut self) -> Vec<LoadStats> {
        self.run();
        let mut rows = vec![LoadStats::default(); self.rows];
        for worker in self.cpus.iter().flat_map(|(_, workers, ..)| workers) {
            let row = &mut rows[worker.row];
            row.stressor = worker.row as u64;
            row.passes += worker.stats.passes + worker.computed / (8 * 4096);
            row.lines += worker.stats.lines;
            row.faults += worker.stats.faults;
            row.bytes += worker.stats.bytes;
            row.shared = Some(row.shared.unwrap_or(0) + worker.stats.shared.unwrap_or(0));
        }
        rows
    }

    fn run(&mut self) {
        let until = self.machine.clocks[&0];
        loop {
            let clocks: Vec<u64> = self.cpus.iter().map(|(cpu, ..)| self.machine.clocks[cpu]).collect();
            let Some(least) = clocks.iter().min().copied().filter(|least| *least < until) else { return };
            let first = clocks.iter().position(|clock| *clock == least).unwrap();
            step(&mut self.machine, &mut self.cpus[first], until);
        }
    }
}

fn slice(machine: &Reference) -> u64 {
    let doublings = u64::from(machine.d.core.cpus.min(8).ilog2());
    let ns = u128::from(750_000 * (1 + doublings));
    (ns * machine.d.core.clock_hz.round() as u128 * 4096 / 1_000_000_000) as u64
}

fn step(machine: &mut Reference, cpu: &mut (u32, Vec<Worker>, usize, u64), until: u64) {
    let (cpu, workers, turn, end) = cpu;
    let now = machine.clocks[cpu];
    let others = workers.len() > 1;
    if workers[*turn].wakes > now || (others && now >= *end) {
        let after = (*turn + 1..workers.len()).chain(0..=*turn);
        let Some(next) = after.clone().find(|&n| workers[n].wakes <= now) else {
            let first = workers.iter().map(|w| w.wakes).min().unwrap();
            machine.clocks.insert(*cpu, first);
            return;
        };
        (*turn, *end) = (next, now + slice(machine));
    }
    let limit = if others { until.min(*end) } else { until };
    let worker = &mut workers[*turn];
    let page = machine.d.memory.pages[0];
    loop {
        if worker.todo.is_empty() {
            let nearest = machine.path(false).first().map_or(16, |&l| machine.level(l).line);
            worker.todo = pass(&worker.described, page, nearest, machine.seed, worker.number);
            worker.seen = [None; 2];
        }
        let step = worker.todo.pop_front().unwrap();
        let skipped = matches!(step, Step::Release(at) if !worker.frames.contains_key(&(at / page)));
        if !skipped {
            let far = machine.far_descriptors;
            one(machine, *cpu, worker, step, (now, limit));
            count_far(worker, machine.far_descriptors - far);
        }
        worker.stats.passes += u64::from(worker.todo.is_empty() && worker.described.kind != Stress::Cpu);
        if !skipped {
            return;
        }
    }
}

fn one(machine: &mut Reference, cpu: u32, worker: &mut Worker, step: Step, (now, limit): (u64, u64)) {
    let page = machine.d.memory.pages[0];
    let start = worker.start;
    let address = |offset: u64| start + offset;
    match step {
        Step::Compute => {
            worker.computed += limit - now;
            machine.clocks.insert(cpu, limit);
        }
        Step::Sleep(seconds) => {
            worker.wakes = now + seconds * machine.d.core.clock_hz.round() as u64 * 4096;
        }
        Step::Clear(physical) => by_kernel(machine, cpu, worker, physical),
        Step::Map(offset, frame) => {
            worker.stats.lines += page.div_ceil(64);
            worker.stats.bytes += page;
            descriptor(machine, cpu, worker, address(offset) / page);
            worker.frames.insert(offset / page, frame);
        }
        Step::Release(offset) => {
            let number = address(offset) / page;
            let frame = worker.frames.remove(&(offset / page)).unwrap();
            worker.free.push(frame);
            descriptor(machine, cpu, worker, number);
            (0..machine.d.tlbs.len()).for_each(|t| {
                machine.tlb(t, cpu).drop((0, number));
            });
        }
        Step::Accesses(all) => {
            let Some(frame) = worker.frames.get(&(all[0].0 / page)).copied() else {
                let number = address(all[0].0) / page;
                return fault(machine, cpu, worker, all, number);
            };
            for (offset, kind, bytes) in all {
                let number = address(offset) / page;
                by_worker(machine, cpu, worker, (number, frame + offset % page), kind);
                let seen = &mut worker.seen[usize::from(kind == Kind::Store)];
                worker.stats.lines += u64::from(*seen != Some(offset / 64));
                *seen = Some(offset / 64);
                worker.stats.bytes += bytes;
            }
        }
    }
}

/// A page without a frame: what has to happen before the access.
fn fault(machine: &mut Reference, cpu: u32, worker: &mut Worker, all: Vec<(u64, Kind, u64)>, number: u64) {
    let (page, offset) = (machine.d.memory.pages[0], all[0].0);
    let line = machine.path(false).first().map_or(16, |&l| machine.level(l).line);
    worker.stats.faults += 1;
    let frame = worker.free.pop().unwrap();
    worker.todo.push_front(Step::Accesses(all));
    worker.todo.push_front(Step::Map(offset, frame));
    (0..page / line).rev().for_each(|n| worker.todo.push_front(Step::Clear(frame + n * line)));
    if machine.d.walk.is_some() {
        let now = machine.clocks[&cpu];
        let took = machine.walk(cpu, 0, false, number, now);
        machine.clocks.insert(cpu, now + took);
    }
}

/// Counts what shared levels and memory answered.
fn count_far(worker: &mut Worker, more: u64) {
    worker.stats.shared = Some(worker.stats.shared.unwrap_or(0) + more);
}

/// The time of an access that is translated. Far is what memory or a shared level answers, and a store that the nearest
/// level passes on.
fn reached(
    machine: &mut Reference,
    cpu: u32,
    worker: &mut Worker,
    physical: u64,
    kind: Kind,
    now: u64,
) -> u64 {
    let (level, cost) = machine.cached(cpu, physical, kind, now);
    let through = machine.path(false).first().is_some_and(|&l| machine.level(l).write == Write::Through);
    let far = level.is_none_or(|level| machine.level(level).shared) || kind == Kind::Store && through;
    count_far(worker, u64::from(far));
    cost
}

/// An access of a worker: its translation, its level, and the loop around it.
fn by_worker(
    machine: &mut Reference,
    cpu: u32,
    worker: &mut Worker,
    (number, physical): (u64, u64),
    kind: Kind,
) {
    let mut now = machine.clocks[&cpu];
    if !machine.d.tlbs.is_empty() {
        now += machine.translate_page(cpu, 0, false, number * machine.d.memory.pages[0], now).0;
    }
    now += reached(machine, cpu, worker, physical, kind, now);
    now += machine.units(machine.d.core.alu) + machine.units(machine.d.core.branch);
    machine.clocks.insert(cpu, now);
}

/// A store of the kernel through its map of all memory, which is in huge pages after the kernel.
fn by_kernel(machine: &mut Reference, cpu: u32, worker: &mut Worker, physical: u64) {
    let (base, largest) = (machine.d.memory.pages[0], *machine.d.memory.pages.last().unwrap());
    let mut now = machine.clocks[&cpu];
    if !machine.d.tlbs.is_empty() && largest > base {
        let kernel = machine.d.wakeup.as_ref().map_or(0, |w| 2 * w.within).div_ceil(largest) * largest;
        now += machine.translate_page(cpu, 5, true, kernel + physical, now).0;
    }
    now += reached(machine, cpu, worker, physical, Kind::Store, now);
    machine.clocks.insert(cpu, now);
}

/// The store to the last level's descriptor of a base page.
fn descriptor(machine: &mut Reference, cpu: u32, worker: &mut Worker, number: u64) {
    if machine.d.walk.as_ref().is_some_and(|walk| walk.fetches > 0) {
        let at = machine.descriptor(0, false, machine.d.memory.pages[0], number, 0);
        by_kernel(machine, cpu, worker, at);
    }
}
