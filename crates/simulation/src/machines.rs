//! Several machines that answer the same accesses: one run of a program for all of them.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use fathom_model::{Access, Description, Kind};

use crate::counts::MachineCounts;
use crate::heap::{Heap, HeapEvent, Owner};
use crate::protocol::Machine;
use crate::regions::Mark;
use crate::repeats::Repeats;
use crate::simulator::Simulator;
use crate::snapshot::Snapshot;

/// Batches that may wait for each thread.
const QUEUE: usize = 16;

/// Counts of machines, with their numbers.
type Counted = Vec<(usize, MachineCounts)>;

/// What a thread with machines is asked for.
#[derive(Debug)]
enum Job {
    /// Accesses of one of the program's threads.
    Batch(u32, Arc<(Vec<Access>, Vec<Owner>)>),
    /// Loads and stores of a thread that repeat the access before.
    Hits(u32, [u64; 2]),
    /// A mark that a thread has passed.
    Mark(u32, Mark),
    /// The counts so far.
    Counts(SyncSender<Counted>),
    /// Those of the first machine, of a CPU and of all.
    Snapshot(u32, SyncSender<Option<Snapshot>>),
}

/// Machines that answer the same accesses. Each sees all of them in the same order, so what is counted does not depend on
/// the number of threads.
#[derive(Debug)]
pub struct Machines {
    /// Those that run on the caller's thread.
    own: Vec<(usize, Simulator)>,
    /// Threads with machines.
    workers: Vec<Worker>,
    repeats: Repeats,
    /// Whether it matters how many instructions are between accesses.
    windows: bool,
    /// The program's blocks, if the reasons of misses are asked for.
    heap: Option<Heap>,
    /// Those of the batch's accesses.
    owners: Vec<Owner>,
}

#[derive(Debug)]
struct Worker {
    queue: SyncSender<Job>,
    thread: JoinHandle<Counted>,
}

impl Machines {
    /// Creates the machines of descriptions. Several are distributed among at most `threads` threads. `why` asks for the reasons
    /// of misses too, which takes several times as long.
    ///
    /// # Errors
    /// The error of a description, which names its line.
    pub fn new(machines: &[Machine], seed: u64, threads: usize, why: bool) -> Result<Machines, String> {
        let mut all = Vec::new();
        for machine in machines {
            let description = Description::parse(&machine.name, &machine.text).map_err(|e| e.to_string())?;
            all.push(Simulator::new(&machine.name, &description, seed, why));
        }
        Ok(Machines::of(all, threads, why.then(Heap::new)))
    }

    /// Creates the machines of a guest: [`Access::space`] is the number of an access's physical page of
    /// [`GUEST_PAGE`](fathom_model::GUEST_PAGE) bytes, and a batch has at most [`GUEST_BATCH`](fathom_model::GUEST_BATCH) accesses.
    ///
    /// `by_cpu`: [`Machines::snapshot`] will be called.
    ///
    /// # Errors
    /// The error of a description, or why it cannot have a guest.
    pub fn of_guest(
        machines: &[Machine],
        seed: u64,
        threads: usize,
        why: bool,
        by_cpu: bool,
    ) -> Result<Machines, String> {
        let mut all: Vec<Simulator> = Vec::new();
        for machine in machines {
            let description = Description::parse(&machine.name, &machine.text).map_err(|e| e.to_string())?;
            let simulator = Simulator::of_guest(&machine.name, &description, seed, why);
            all.push(simulator.map_err(|e| format!("{}: {}; {}", machine.name, e.reason, e.remedy))?);
        }
        if let Some(first) = all.first_mut().filter(|_| by_cpu) {
            first.keep_cpus();
        }
        Ok(Machines::of(all, threads, None))
    }

    fn of(all: Vec<Simulator>, threads: usize, heap: Option<Heap>) -> Machines {
        let idle: Option<Vec<u32>> = all.iter().map(Simulator::idle_repeats).collect();
        let windows = all.iter().any(Simulator::has_window);
        let repeats = Repeats::new(idle.and_then(|shifts| shifts.into_iter().min()));
        let threads = threads.clamp(1, all.len().max(1));
        let mut groups: Vec<Vec<(usize, Simulator)>> = (0..threads).map(|_| Vec::new()).collect();
        all.into_iter().enumerate().for_each(|of| groups[of.0 % threads].push(of));
        let own = if threads == 1 { groups.pop().unwrap_or_default() } else { Vec::new() };
        let workers = groups.into_iter().map(Worker::start).collect();
        Machines { own, workers, repeats, windows, heap, owners: Vec::new() }
    }

    /// Makes accesses of thread `thread` of the program. Their `pc` is the number of their instruction.
    pub fn run(&mut self, thread: u32, batch: Vec<Access>) {
        self.find_owners(&batch);
        self.own.iter_mut().for_each(|(_, simulator)| simulator.run(thread, &batch, &self.owners));
        if self.workers.is_empty() {
            return;
        }
        let batch = Arc::new((batch, std::mem::take(&mut self.owners)));
        for worker in &self.workers {
            // It ends before its queue only by a panic, which `finish` reports.
            let _ = worker.queue.send(Job::Batch(thread, Arc::clone(&batch)));
        }
    }

    /// Makes the same accesses as [`Machines::run`] and keeps the batch's memory, if no thread needs it.
    pub fn run_and_clear(&mut self, thread: u32, batch: &mut Vec<Access>) {
        if self.workers.is_empty() {
            self.find_owners(batch);
            self.own.iter_mut().for_each(|(_, simulator)| simulator.run(thread, batch, &self.owners));
            batch.clear();
        } else {
            let next = Vec::with_capacity(batch.capacity());
            self.run(thread, std::mem::replace(batch, next));
        }
    }

    /// Finds the blocks of a batch's accesses, once for all machines.
    fn find_owners(&mut self, batch: &[Access]) {
        self.owners.clear();
        let Some(heap) = self.heap.as_mut().filter(|heap| !heap.is_unused()) else { return };
        self.owners.extend(batch.iter().map(|access| match access.kind {
            Kind::Fetch => Owner::NONE,
            Kind::Load | Kind::Store => heap.access(access.address),
        }));
    }

    /// Takes what has happened to a block of the heap, after all accesses before it. It matters if the reasons of misses are
    /// asked for.
    pub fn heap(&mut self, event: HeapEvent) {
        if let Some(heap) = &mut self.heap {
            heap.take(event);
        }
    }

    /// Returns what finds accesses of a thread that need not be made; each thread has its own.
    #[must_use]
    pub fn repeats(&self) -> Repeats {
        self.repeats
    }

    /// Returns whether [`Access::instructions`] matters to a machine.
    #[must_use]
    pub fn need_instructions(&self) -> bool {
        self.windows
    }

    /// Counts loads and stores of a thread that [`Repeats`] has found.
    pub fn add_hits(&mut self, thread: u32, repeated: [u64; 2]) {
        self.own.iter_mut().for_each(|(_, simulator)| simulator.add_hits(thread, repeated));
        for worker in &self.workers {
            // It ends before its queue only by a panic, which `finish` reports.
            let _ = worker.queue.send(Job::Hits(thread, repeated));
        }
    }

    /// Takes a mark: a region of the program begins or ends on a thread, after all that it has made before.
    pub fn mark(&mut self, thread: u32, mark: Mark) {
        self.own.iter_mut().for_each(|(_, simulator)| simulator.mark(thread, mark));
        for worker in &self.workers {
            // It ends before its queue only by a panic, which `finish` reports.
            let _ = worker.queue.send(Job::Mark(thread, mark));
        }
    }

    /// Returns the counts of every machine so far, in the order of the request.
    ///
    /// # Panics
    /// If a thread has: a defect of the model.
    #[must_use]
    pub fn counts(&self) -> Vec<MachineCounts> {
        let asked = self.workers.iter().map(|worker| {
            let (sender, counted) = sync_channel(1);
            // It ends before its queue only by a panic, which is reported below.
            let _ = worker.queue.send(Job::Counts(sender));
            counted
        });
        // All are asked before the first answers.
        let asked: Vec<_> = asked.collect();
        let told = asked.iter().flat_map(|counted| counted.recv().expect("the model does not panic"));
        let all = counted(&self.own).into_iter().chain(told).collect();
        with_heap(in_order(all), self.heap.as_ref())
    }

    /// Returns what the first machine has counted so far, of a CPU and of all.
    #[must_use]
    pub fn snapshot(&self, cpu: u32) -> Option<Snapshot> {
        let Some(worker) = self.workers.first() else {
            return self.own.first().map(|(_, first)| first.snapshot(cpu));
        };
        let (sender, told) = sync_channel(1);
        // It ends before its queue only by a panic, which `finish` reports.
        let _ = worker.queue.send(Job::Snapshot(cpu, sender));
        told.recv().ok().flatten()
    }

    /// Returns the counts of every machine, in the order of the request, and ends the threads.
    ///
    /// # Panics
    /// If a thread has: a defect of the model.
    #[must_use]
    pub fn finish(self) -> Vec<MachineCounts> {
        let mut all = counted(&self.own);
        for Worker { queue, thread } in self.workers {
            drop(queue);
            all.extend(thread.join().expect("the model does not panic"));
        }
        with_heap(in_order(all), self.heap.as_ref())
    }
}

/// Adds the blocks of the heap, which are the same for all machines.
fn with_heap(mut all: Vec<MachineCounts>, heap: Option<&Heap>) -> Vec<MachineCounts> {
    let heap = heap.map(Heap::counts).unwrap_or_default();
    for story in all.iter_mut().filter_map(|machine| machine.story.as_mut()) {
        story.heap = heap.to_vec();
    }
    all
}

fn counted(group: &[(usize, Simulator)]) -> Counted {
    group.iter().map(|(number, simulator)| (*number, simulator.counts())).collect()
}

fn in_order(mut all: Counted) -> Vec<MachineCounts> {
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, counts)| counts).collect()
}

impl Worker {
    fn start(mut group: Vec<(usize, Simulator)>) -> Worker {
        let (queue, jobs) = sync_channel::<Job>(QUEUE);
        let thread = std::thread::spawn(move || {
            for job in jobs {
                match job {
                    Job::Batch(thread, batch) => {
                        group.iter_mut().for_each(|(_, simulator)| simulator.run(thread, &batch.0, &batch.1));
                    }
                    Job::Hits(thread, repeated) => {
                        group.iter_mut().for_each(|(_, simulator)| simulator.add_hits(thread, repeated));
                    }
                    Job::Mark(thread, mark) => {
                        group.iter_mut().for_each(|(_, simulator)| simulator.mark(thread, mark));
                    }
                    // Whoever asked may be gone.
                    Job::Counts(to) => drop(to.send(counted(&group))),
                    Job::Snapshot(cpu, to) => {
                        drop(to.send(group.first().map(|(_, first)| first.snapshot(cpu))));
                    }
                }
            }
            counted(&group)
        });
        Worker { queue, thread }
    }
}

#[cfg(test)]
mod tests {
    use fathom_model::description::Core;

    use super::*;
    use crate::counts::{OverlapCounts, RegionCounts, Side};
    use crate::regions::Event;

    fn machine(name: &str) -> Machine {
        let text = fathom_model::catalog::text(name).expect("embedded").to_owned();
        Machine { name: name.to_owned(), text }
    }

    fn made(threads: usize) -> Machines {
        let all: Vec<Machine> = ["bcm2835", "bcm2837", "zen3", "am5728"].map(machine).to_vec();
        let mut machines = Machines::new(&all, 7, threads, false).expect("valid");
        for round in 0..20u64 {
            let accesses = (0..3000u64).map(|n| {
                let at = (n * 7919 + round * 104_729) % (1 << 18);
                match n % 5 {
                    0 => Access::store(at & !7, 8).at(n % 9),
                    1 => Access::fetch(1 << 20 | (at & 0xfffc), 4).at(100 + n % 9),
                    _ => Access::load(at, 16).at(200 + n % 9),
                }
            });
            let thread = (round % 3) as u32;
            let mark = |machines: &mut Machines, event: Event| {
                machines.mark(thread, Mark { event, instructions: 5000 * round });
            };
            if round < 18 {
                mark(&mut machines, Event::Begin((round / 9) as u32));
            }
            machines.run(thread, accesses.collect());
            machines.add_hits(thread, [round, 2]);
            if round % 2 == 1 {
                mark(&mut machines, Event::End((round / 9) as u32));
            }
        }
        machines
    }

    /// What a region has is what all machines have counted while a thread was in it.
    #[test]
    fn regions_add_up_to_the_whole_if_everything_is_within_one() {
        let all: Vec<Machine> = ["bcm2835", "bcm2837", "zen3"].map(machine).to_vec();
        let mut machines = Machines::new(&all, 7, 2, false).expect("valid");
        for round in 0..30u64 {
            let thread = (round % 2) as u32;
            let (inner, outer) = (u32::from(round % 3 == 0), 2);
            machines.mark(thread, Mark { event: Event::Begin(outer), instructions: 100 * round });
            machines.mark(thread, Mark { event: Event::Begin(inner), instructions: 100 * round });
            let accesses =
                (0..500u64).map(|n| Access::load((n * 7919 + round * 104_729) % (1 << 20), 8).at(0));
            machines.run(thread, accesses.collect());
            machines.add_hits(thread, [round, 1]);
            machines.mark(thread, Mark { event: Event::End(inner), instructions: 100 * round + 60 });
            machines.mark(thread, Mark { event: Event::End(outer), instructions: 100 * round + 70 });
        }
        for machine in machines.finish() {
            let [first, second, whole] = machine.regions.as_slice() else { panic!("{:?}", machine.regions) };
            assert_eq!((whole.entered, first.entered, second.entered), (30, 20, 10));
            assert_eq!((whole.instructions, first.instructions, second.instructions), (2100, 1200, 600));
            assert_eq!(whole.accesses, machine.accesses);
            assert_eq!(whole.walks, machine.walks);
            assert_eq!(whole.memory, machine.memory.iter().sum::<u64>());
            let misses: Vec<u64> = machine.levels.iter().map(|level| level.misses()).collect();
            assert_eq!(whole.misses, misses);
            let parts: Vec<u64> = first.misses.iter().zip(&second.misses).map(|(a, b)| a + b).collect();
            assert_eq!(parts, misses);
            let levels: u64 = machine.levels.iter().map(|level| level.units).sum();
            let time = levels + machine.memory_units + machine.translation_units + machine.fetch_units;
            assert_eq!((whole.units, first.units + second.units), (time, time));
            assert_eq!(whole.overlap, machine.overlap);
            assert_eq!(machine.overlap.is_some(), machine.name == "bcm2835", "{}", machine.name);
            let data = |region: &RegionCounts| region.overlap.map_or(0, |of| of.data_units);
            assert_eq!(data(first) + data(second), data(whole));
        }
    }

    fn counted(threads: usize) -> Vec<MachineCounts> {
        made(threads).finish()
    }

    #[test]
    fn counts_so_far_are_those_of_the_end_if_nothing_follows() {
        for threads in [1, 3] {
            let machines = made(threads);
            let so_far = machines.counts();
            assert!(so_far.iter().all(|machine| machine.accesses[0] > 0));
            assert_eq!(so_far, machines.finish(), "{threads} threads");
        }
    }

    #[test]
    fn counts_do_not_depend_on_the_number_of_threads() {
        let one = counted(1);
        assert_eq!(
            one.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(),
            ["bcm2835", "bcm2837", "zen3", "am5728"]
        );
        for threads in [2, 3, 4, 9] {
            assert_eq!(counted(threads), one, "{threads} threads");
        }
    }

    #[test]
    fn counts_of_levels_and_places_add_up() {
        for machine in counted(1) {
            let served: u64 = machine.levels.iter().flat_map(|l| l.hits).chain(machine.memory).sum();
            assert_eq!(served, machine.accesses.iter().sum::<u64>(), "{}", machine.name);
            for (number, level) in machine.levels.iter().enumerate() {
                let data: u64 = machine.places.iter().map(|p| p.misses[number]).sum();
                let code: u64 = machine.places.iter().map(|p| p.fetch_misses[number]).sum();
                if level.holds != "instructions" {
                    assert_eq!(data, (0..2).map(|k| level.accesses[k] - level.hits[k]).sum::<u64>());
                }
                if level.holds != "data" {
                    assert_eq!(code, level.accesses[2] - level.hits[2], "{} {}", machine.name, level.name);
                }
            }
            let walks: u64 = machine.places.iter().map(|p| p.walks).sum();
            assert_eq!(walks, machine.walks, "{}", machine.name);
            let counters = &machine.counters;
            assert_eq!(counters.walks.iter().sum::<u64>(), walks, "{}", machine.name);
            assert_eq!(counters.tlb_misses.iter().sum::<u64>(), machine.tlbs[0].misses, "{}", machine.name);
            assert_eq!(counters.waits[Kind::Fetch as usize], machine.fetch_units, "{}", machine.name);
            let translation: u64 = counters.tlb_waits.iter().chain(&counters.walk_waits).sum();
            assert_eq!(translation, machine.translation_units, "{}", machine.name);
            let places: u64 = machine.places.iter().map(|p| p.units).sum();
            assert_eq!(counters.waits.iter().sum::<u64>() + translation, places, "{}", machine.name);
        }
    }

    #[test]
    fn what_overlaps_takes_less_by_instruction_too() {
        let mut overlapping = 0;
        for machine in counted(1) {
            let places: u64 =
                machine.places.iter().map(|p| p.overlap.data_units + p.overlap.fetch_units).sum();
            let Some(OverlapCounts { data_units, fetch_units }) = machine.overlap else {
                assert_eq!(places, 0, "{}", machine.name);
                continue;
            };
            overlapping += 1;
            assert_eq!(places, data_units + fetch_units, "{}", machine.name);
            let serial: u64 = machine.places.iter().map(|place| place.units).sum();
            let most = u64::from(machine.outstanding.expect("described"));
            let longest = OverlapCounts { data_units, fetch_units }.longest(0);
            assert_eq!(longest, if data_units >= fetch_units { Side::Data } else { Side::Fetches });
            let (data, least) = (serial - fetch_units, (serial - fetch_units) / most);
            assert!((least..data).contains(&data_units), "{}: {data_units} of {data}", machine.name);
        }
        assert_eq!(overlapping, 2, "bcm2835 and am5728");
    }

    #[test]
    fn repeated_accesses_that_are_left_out_change_no_count() {
        let mut seed = 7u64;
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let (mut left_out, mut allowed) = (0u64, 0);
        for name in fathom_model::catalog::names() {
            // A narrow window tells whether accesses that are left out count, a wide one whether all of many do.
            let described = fathom_model::catalog::load(name).expect("embedded").expect("valid");
            let (window, cpus) = ([6, 300][draw(2) as usize], described.core.cpus);
            let core = Core { outstanding: Some(4), window: Some(window), ..described.core };
            let text = Description { core, ..described }.to_toml();
            let all = [Machine { name: name.to_owned(), text }];
            let mut whole = Machines::new(&all, 3, 1, false).expect("valid");
            let mut filtered = Machines::new(&all, 3, 1, false).expect("valid");
            let mut repeats = filtered.repeats();
            let (before, mut before_next) = (left_out, [0; 2]);
            for _ in 0..60 {
                let thread = draw(2) as u32 % cpus;
                let mut at = 1 << 20 | draw(1 << 18);
                let mut batch = Vec::new();
                for _ in 0..500 {
                    at = if draw(3) == 0 { 1 << 20 | draw(1 << 18) } else { at + draw(24) };
                    let access = match draw(8) {
                        0 => Access::fetch(at & !3, 4),
                        1..=3 => Access::store(at, 1 << draw(5)),
                        _ => Access::load(at, 1 << draw(5)),
                    };
                    let times = if draw(60) == 0 { 280 } else { 1 };
                    let instructions = if access.kind == Kind::Fetch { 0 } else { draw(4) as u32 };
                    batch.extend(std::iter::repeat_n(Access { instructions, ..access.at(draw(50)) }, times));
                }
                let (mut repeated, mut passed) = ([0; 2], before_next[thread as usize]);
                let mut kept = Vec::new();
                for access in &batch {
                    let data = access.kind != Kind::Fetch;
                    let same =
                        data && repeats.repeats(access.address, access.bytes, access.kind == Kind::Store);
                    if !data {
                        repeats.forget();
                    }
                    repeated[access.kind as usize % 2] += u64::from(same);
                    passed += access.instructions;
                    if !same {
                        let instructions = if data { std::mem::take(&mut passed) } else { 0 };
                        kept.push(Access { instructions, ..*access });
                    }
                }
                before_next[thread as usize] = passed;
                filtered.run(thread, kept);
                filtered.add_hits(thread, repeated);
                repeats.forget();
                left_out += repeated[0] + repeated[1];
                whole.run(thread, batch);
            }
            let (filtered, whole) = (filtered.finish(), whole.finish());
            assert!(whole[0].overlap.is_some_and(|of| of.data_units > 0));
            assert_eq!(filtered, whole, "{name}");
            allowed += usize::from(left_out > before);
        }
        assert!(allowed > 5 && left_out > 10_000, "{left_out} accesses on {allowed} machines");
    }
}
