//! Several machines that answer the same accesses: one run of a program for all of them.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use fathom_model::{Access, Description};

use crate::counts::MachineCounts;
use crate::protocol::Machine;
use crate::simulator::Simulator;

/// Batches that may wait for each thread.
const QUEUE: usize = 16;

/// Counts of machines, with their numbers.
type Counted = Vec<(usize, MachineCounts)>;

/// What a thread with machines is asked for.
#[derive(Debug)]
enum Job {
    /// Accesses of one of the program's threads.
    Batch(u32, Arc<Vec<Access>>),
    /// The counts so far.
    Counts(SyncSender<Counted>),
}

/// Machines that answer the same accesses. Each sees all of them in the same order, so what is counted does not depend on
/// the number of threads.
#[derive(Debug)]
pub struct Machines {
    /// Those that run on the caller's thread.
    own: Vec<(usize, Simulator)>,
    /// Threads with machines.
    workers: Vec<Worker>,
}

#[derive(Debug)]
struct Worker {
    queue: SyncSender<Job>,
    thread: JoinHandle<Counted>,
}

impl Machines {
    /// Creates the machines of descriptions. Several are distributed among at most `threads` threads.
    ///
    /// # Errors
    /// The error of a description, which names its line.
    pub fn new(machines: &[Machine], seed: u64, threads: usize) -> Result<Machines, String> {
        let mut all = Vec::new();
        for machine in machines {
            let description = Description::parse(&machine.name, &machine.text).map_err(|e| e.to_string())?;
            all.push(Simulator::new(&machine.name, &description, seed));
        }
        let threads = threads.clamp(1, all.len().max(1));
        let mut groups: Vec<Vec<(usize, Simulator)>> = (0..threads).map(|_| Vec::new()).collect();
        all.into_iter().enumerate().for_each(|of| groups[of.0 % threads].push(of));
        if threads == 1 {
            return Ok(Machines { own: groups.pop().unwrap_or_default(), workers: Vec::new() });
        }
        Ok(Machines { own: Vec::new(), workers: groups.into_iter().map(Worker::start).collect() })
    }

    /// Makes accesses of thread `thread` of the program. Their `pc` is the number of their instruction.
    pub fn run(&mut self, thread: u32, batch: Vec<Access>) {
        self.own.iter_mut().for_each(|(_, simulator)| simulator.run(thread, &batch));
        if self.workers.is_empty() {
            return;
        }
        let batch = Arc::new(batch);
        for worker in &self.workers {
            // It ends before its queue only by a panic, which `finish` reports.
            let _ = worker.queue.send(Job::Batch(thread, Arc::clone(&batch)));
        }
    }

    /// Makes the same accesses as [`Machines::run`] and keeps the batch's memory, if no thread needs it.
    pub fn run_and_clear(&mut self, thread: u32, batch: &mut Vec<Access>) {
        if self.workers.is_empty() {
            self.own.iter_mut().for_each(|(_, simulator)| simulator.run(thread, batch));
            batch.clear();
        } else {
            let next = Vec::with_capacity(batch.capacity());
            self.run(thread, std::mem::replace(batch, next));
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
        in_order(counted(&self.own).into_iter().chain(told).collect())
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
        in_order(all)
    }
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
                        group.iter_mut().for_each(|(_, simulator)| simulator.run(thread, &batch));
                    }
                    // Whoever asked may be gone.
                    Job::Counts(to) => drop(to.send(counted(&group))),
                }
            }
            counted(&group)
        });
        Worker { queue, thread }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str) -> Machine {
        let text = fathom_model::catalog::text(name).expect("embedded").to_owned();
        Machine { name: name.to_owned(), text }
    }

    fn made(threads: usize) -> Machines {
        let all: Vec<Machine> = ["bcm2835", "bcm2837", "zen3", "am5728"].map(machine).to_vec();
        let mut machines = Machines::new(&all, 7, threads).expect("valid");
        for round in 0..20u64 {
            let accesses = (0..3000u64).map(|n| {
                let at = (n * 7919 + round * 104_729) % (1 << 18);
                match n % 5 {
                    0 => Access::store(at & !7, 8).at(n % 9),
                    1 => Access::fetch(1 << 20 | (at & 0xfffc), 4).at(100 + n % 9),
                    _ => Access::load(at, 16).at(200 + n % 9),
                }
            });
            machines.run(0, accesses.collect());
        }
        machines
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
            assert_eq!(
                machine.places.iter().map(|p| p.walks).sum::<u64>(),
                machine.walks,
                "{}",
                machine.name
            );
        }
    }
}
