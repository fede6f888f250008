//! The instructions of a trace, by address: each gets a number at its first execution.

use std::collections::HashMap;

use fathom_model::{Access, Kind};
use fathom_simulation::Entered;
use fathom_simulation::protocol::{Answer, End, HeapSites, NO_ADDRESS, Place};

use crate::batch::{Batch, Told};

/// Instructions with counts of their own, at most: a bound for the memory. All others have one number.
pub(crate) const MAX_PLACES: usize = 1 << 22;
/// Instructions that are found without a search, as many as a large loop has.
const RECENT: usize = 1 << 12;

/// Instructions, and what is counted of each.
#[derive(Debug)]
pub(crate) struct Places {
    numbers: HashMap<u64, u32>,
    all: Vec<Place>,
    /// Address and number, by the lowest bits of the address.
    recent: Vec<(u64, u32)>,
    /// The instruction that is executed.
    current: u32,
    entered: Option<Entered>,
    threads: u32,
    /// Instructions of each thread since its last load or store.
    passed: Vec<u32>,
}

impl Places {
    /// Creates it. `entered` decides which fetches are accesses; without it none is.
    pub fn new(entered: Option<Entered>) -> Places {
        let mut places = Places {
            numbers: HashMap::new(),
            all: Vec::new(),
            recent: vec![(NO_ADDRESS, 0); RECENT],
            current: 0,
            entered,
            threads: 1,
            passed: vec![0],
        };
        // Number 0: accesses before the first instruction, and the instructions beyond MAX_PLACES.
        places.all.push(Place { pc: NO_ADDRESS, ..Place::default() });
        places
    }

    /// An instruction is executed. What follows is accessed by it.
    #[inline]
    pub fn executed(&mut self, pc: u64, bytes: u16, batch: &mut Batch) {
        self.at(pc);
        self.all[self.current as usize].executed += 1;
        let passed = self.passed(batch.thread);
        *passed = passed.saturating_add(1);
        let Some(entered) = &mut self.entered else { return };
        if entered.enters(batch.thread, pc, bytes.into()) {
            batch.accesses.push(Access::fetch(pc, bytes).at(self.current.into()));
        }
    }

    /// Returns the instructions of a thread since its last load or store.
    #[inline(always)]
    fn passed(&mut self, thread: u32) -> &mut u32 {
        let thread = thread as usize;
        if thread >= self.passed.len() {
            self.passed.resize(thread + 1, 0);
        }
        &mut self.passed[thread]
    }

    /// What follows is accessed by the instruction at `pc`.
    #[inline]
    pub fn at(&mut self, pc: u64) {
        let slot = &mut self.recent[(pc ^ (pc >> 12)) as usize % RECENT];
        if slot.0 != pc {
            *slot = (pc, number(&mut self.numbers, &mut self.all, pc));
        }
        self.current = slot.1;
    }

    /// The instruction accesses data.
    #[inline]
    pub fn accessed(&mut self, kind: Kind, address: u64, bytes: u16, batch: &mut Batch) {
        let place = &mut self.all[self.current as usize];
        match kind {
            Kind::Store => place.stores += 1,
            _ => place.loads += 1,
        }
        // In a trace without instructions each access is by one of its own, at least.
        let instructions =
            if self.has_instructions() { std::mem::take(self.passed(batch.thread)) } else { 1 };
        batch.accesses.push(Access { address, pc: self.current.into(), bytes, space: 0, instructions, kind });
    }

    /// The trace has this many threads.
    pub fn set_threads(&mut self, threads: u32) {
        self.threads = threads;
    }

    /// Returns whether an instruction has been executed.
    pub fn has_instructions(&self) -> bool {
        self.all.len() > 1
    }

    /// Returns what the trace tells.
    pub fn told(&mut self, all_instructions: bool) -> Told {
        let run = Answer {
            end: End::Complete,
            status: 0,
            target: String::new(),
            threads: self.threads,
            unseen: Vec::new(),
            places: std::mem::take(&mut self.all),
            mappings: Vec::new(),
            regions: Vec::new(),
            heap: HeapSites::default(),
            calls: None,
            guest: None,
            machines: Vec::new(),
        };
        Told { run, program: String::new(), all_instructions }
    }
}

#[inline(never)]
fn number(numbers: &mut HashMap<u64, u32>, all: &mut Vec<Place>, pc: u64) -> u32 {
    if let Some(&known) = numbers.get(&pc) {
        return known;
    }
    if all.len() >= MAX_PLACES {
        return 0;
    }
    let next = all.len() as u32;
    all.push(Place { pc, ..Place::default() });
    numbers.insert(pc, next);
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_have_the_instructions_before_them() {
        let mut places = Places::new(Some(Entered::new(6)));
        let mut batch = Batch::default();
        let mut data = |places: &mut Places, thread| {
            batch.thread = thread;
            places.accessed(Kind::Load, 64, 8, &mut batch);
            batch.accesses.pop().expect("it").instructions
        };
        assert_eq!([data(&mut places, 0), data(&mut places, 0)], [1, 1], "no instruction has been told");
        let executed = |places: &mut Places, thread, count: u64| {
            let mut batch = Batch { thread, ..Batch::default() };
            (0..count).for_each(|nth| places.executed(0x1000 + 4 * nth, 4, &mut batch));
            assert!(batch.accesses.iter().all(|fetch| fetch.instructions == 0));
        };
        executed(&mut places, 0, 3);
        executed(&mut places, 2, 40);
        assert_eq!([data(&mut places, 0), data(&mut places, 0)], [3, 0], "two accesses of one instruction");
        executed(&mut places, 0, 1);
        assert_eq!([data(&mut places, 2), data(&mut places, 0)], [40, 1], "each thread has its own");
    }

    #[test]
    fn instructions_with_the_same_lowest_bits_are_apart() {
        let mut places = Places::new(Some(Entered::new(6)));
        let mut batch = Batch::default();
        for round in 0..3u64 {
            for pc in [0x1000, 0x1000 + (1 << 24), 0x1004] {
                places.executed(pc, 4, &mut batch);
                places.accessed(Kind::Load, round, 8, &mut batch);
            }
        }
        let all = places.told(true).run.places;
        assert_eq!(
            all.iter().map(|place| place.pc).collect::<Vec<_>>(),
            [NO_ADDRESS, 0x1000, 0x100_1000, 0x1004]
        );
        assert!(all[1..].iter().all(|place| (place.executed, place.loads) == (3, 3)), "{all:?}");
        // Each is on another line than the one before, but for the first of the second round.
        let fetches = batch.accesses.iter().filter(|access| access.kind == Kind::Fetch).count();
        assert_eq!(fetches, 3 + 2 + 2);
    }
}
