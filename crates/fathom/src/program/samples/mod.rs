//! Where samples are: from addresses of processes to functions, lines of the source, and data.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::SystemTime;

use fathom_experiment::record::{Instruction, Profile};
use fathom_host::{Callers, Gap, Sampled, SampledEvent, Stack};

use crate::program::call_tree::Amount as _;
use crate::program::symbols::{Named, Symbols, UNKNOWN};

mod accesses;
mod calls;
mod data;
mod memory;
mod source;
mod unwind;

use accesses::AccessKinds;
use calls::{Calls, Count, Place, unknown_callers};
use data::Data;
use memory::{Files, Mapped, MappedFile, Memory, Unwinding};

/// Time in which the rings of all CPUs have told what came before, ns. They are read in turns.
const SETTLED_NS: u64 = 50_000_000;

/// The same of samples of a trace, which are told together, ns: 256 loads and stores, or all until the program leaves its CPU.
const TRACE_SETTLED_NS: u64 = 1_000_000_000;

/// Name of the kernel's code.
const KERNEL: &str = "[kernel]";

/// What was sampled so far.
pub struct Places {
    /// When the program started.
    since: Option<SystemTime>,
    /// How callers are found.
    callers: Callers,
    /// The data of samples, if they tell it.
    data: Option<Data>,
    /// Accesses by what samples tell of them.
    accesses: AccessKinds,
    /// Time in which all that came before was told, ns.
    settled_ns: u64,
    /// What traces do not have, as [`Profile::gaps`].
    gaps: [u64; 3],
    /// Events that others may still precede.
    pending: Vec<SampledEvent>,
    /// Code of each process. A process shares that of its parent until it has mappings of its own.
    processes: HashMap<u32, Rc<Memory>>,
    files: Files,
    /// Number of the name of the kernel's code.
    kernel: usize,
    unwinding: Unwinding,
    calls: Calls,
    all: Count,
    /// Samples whose callers are all known.
    whole: u64,
    lost: u64,
    throttled: u64,
    /// Processes that were started, and those that have samples.
    started: u64,
    sampled: HashSet<u32>,
    /// Processes with samples whose numbers others have now.
    sampled_before: u64,
}

impl Places {
    /// Creates it for a program that starts now, if that is given: files that change later are not those that it has in memory.
    pub fn new(since: Option<SystemTime>, callers: Callers) -> Places {
        let mut files = Files::default();
        let kernel = files.number(MappedFile { name: KERNEL.to_owned(), build: None });
        Places {
            since,
            callers,
            data: None,
            accesses: AccessKinds::default(),
            settled_ns: SETTLED_NS,
            gaps: [0; 3],
            pending: Vec::new(),
            processes: HashMap::new(),
            files,
            kernel,
            unwinding: Unwinding::default(),
            calls: Calls::default(),
            all: Count::default(),
            whole: 0,
            lost: 0,
            throttled: 0,
            started: 0,
            sampled: HashSet::new(),
            sampled_before: 0,
        }
    }

    /// Adds events, in any order.
    pub fn take(&mut self, events: Vec<SampledEvent>) {
        self.pending.extend(events);
        let last = self.pending.iter().map(|event| event.time).max().unwrap_or(0);
        self.settle(last.saturating_sub(self.settled_ns));
    }

    /// Counts the pending events up to a time, in the order of time.
    fn settle(&mut self, until: u64) {
        // Stable: events of one CPU at the same time keep their order.
        self.pending.sort_by_key(|event| event.time);
        let settled = self.pending.partition_point(|event| event.time <= until);
        let events: Vec<SampledEvent> = self.pending.drain(..settled).collect();
        events.into_iter().for_each(|event| self.add(event.what));
    }

    /// Sets how callers are found, before the first sample.
    pub fn set_callers(&mut self, callers: Callers) {
        self.callers = callers;
    }

    /// Has data told apart, by the addresses that samples have, before the first mapping.
    pub fn with_data(mut self, has_data: bool) -> Places {
        self.data = has_data.then(Data::default);
        self
    }

    /// Has samples wait for one another as long as those of a trace have to.
    pub fn of_trace(mut self, is_traced: bool) -> Places {
        self.settled_ns = if is_traced { TRACE_SETTLED_NS } else { SETTLED_NS };
        self
    }

    /// Returns whether an address is the kernel's: of the upper half.
    pub fn is_kernel(address: u64) -> bool {
        address >= 1 << 63
    }

    /// Adds what happened after all that was added before.
    pub fn add(&mut self, event: Sampled) {
        match event {
            Sampled::Sample { process, address, weight, stack, data, access } => {
                self.sample(process, address, weight, &stack);
                if let (Some(access), true) = (access, self.data.is_some()) {
                    self.accesses.add(weight, access);
                }
                if let (Some(all), Some(memory)) = (&mut self.data, self.processes.get(&process)) {
                    all.add(data, memory, &self.files, self.since, weight, access);
                }
            }
            Sampled::Mapped { process, start, bytes, offset, file, is_code, build } => {
                let file = self.files.number(MappedFile { name: file, build });
                let new = Mapped { start, end: start.saturating_add(bytes), offset, file };
                let memory = Rc::make_mut(self.processes.entry(process).or_default());
                self.lost += u64::from(memory.map(new, &self.files, is_code, self.data.is_some()));
            }
            Sampled::Executed { process } => drop(self.processes.insert(process, Rc::default())),
            Sampled::Started { process, parent } => {
                let inherited = self.processes.get(&parent).cloned().unwrap_or_default();
                self.processes.insert(process, inherited);
                self.started += 1;
                self.sampled_before += u64::from(self.sampled.remove(&process));
            }
            Sampled::Lost(records) => self.lost += records,
            Sampled::Throttled => self.throttled += 1,
            Sampled::Gap(Gap::CutShort) => self.gaps[0] += 1,
            Sampled::Gap(Gap::Collided) => self.gaps[1] += 1,
            Sampled::Gap(Gap::Unreadable(records)) => self.gaps[2] += records,
        }
    }

    fn sample(&mut self, process: u32, address: u64, weight: u64, stack: &Stack) {
        self.sampled.insert(process);
        let memory = self.processes.entry(process).or_default();
        let (mut callers, is_whole) = match stack {
            Stack::Unknown => (Vec::new(), self.callers != Callers::Tables),
            // Where frame pointers end is not told.
            Stack::Callers(all) => (all.iter().map(|address| address.saturating_sub(1)).collect(), true),
            Stack::Memory(stack) => self.unwinding.callers(memory, &self.files, self.since, stack),
        };
        // Registers and stack are those of the program, which the kernel has interrupted.
        if let (Stack::Memory(stack), true) = (stack, Places::is_kernel(address)) {
            callers.insert(0, stack.registers.pc());
        }
        let (files, kernel) = (&self.files, self.kernel);
        let place = |address: u64| {
            if Places::is_kernel(address) {
                return Some(Place::Other(kernel));
            }
            let code = memory.code.at(address)?;
            Some(match files.get(code.file).is_file() {
                true => Place::At(code.file, (address - code.start).wrapping_add(code.offset)),
                false => Place::Other(code.file),
            })
        };
        // What is no code was no return address, nor was what follows.
        let known: Vec<Place> = callers.iter().map_while(|caller| place(*caller)).collect();
        let is_whole = is_whole && (known.len() == callers.len() || self.callers == Callers::FramePointers);
        let begin = (!is_whole).then_some(Place::UnknownCallers);
        let own = place(address).unwrap_or(Place::Unknown);
        let one = Count::one(weight);
        let mut sequence: Vec<Place> =
            begin.into_iter().chain(known.into_iter().rev()).chain([own]).collect();
        // The kernel's functions are not told apart.
        sequence.dedup_by(|a, b| *a == Place::Other(kernel) && a == b);
        let is_kept = self.calls.add(sequence.into_iter(), one);
        self.lost += u64::from(!is_kept);
        self.whole += u64::from(is_whole);
        self.all.add(&one);
    }

    /// Returns what is known by function, line, instruction, call, and object; the rest of a profile is empty.
    pub fn finish(mut self) -> Profile {
        self.settle(u64::MAX);
        let mut symbols = Symbols::new(&[]);
        let with_callers = self.callers != Callers::Unknown;
        let named = self.calls.named(with_callers, |place| self.name(&mut symbols, place));
        let processes = 1 + self.started;
        let unsampled = processes.saturating_sub(self.sampled_before + self.sampled.len() as u64);
        Profile {
            counts: [self.all.samples, self.lost, self.throttled],
            weight: self.all.weight,
            effective: self.all.effective(),
            processes: [processes, unsampled],
            changed: symbols.changed().to_vec(),
            whole: (self.callers == Callers::Tables).then_some(self.whole),
            levels: self.accesses.levels(),
            walks: self.accesses.walks(),
            gaps: self.gaps,
            objects: self.data.map(Data::objects).unwrap_or_default(),
            ..named
        }
    }

    /// Returns the name of a place, and where in its file the instruction is.
    fn name(&self, symbols: &mut Symbols, place: Place) -> (Named, Option<Instruction>) {
        let unknown =
            |file: &str| Named { function: UNKNOWN.to_owned(), file: file.to_owned(), ..Named::default() };
        match place {
            Place::Unknown => (unknown(UNKNOWN), None),
            Place::UnknownCallers => (unknown_callers(), None),
            Place::Other(file) if file == self.kernel => {
                (Named { function: KERNEL.to_owned(), ..Named::default() }, None)
            }
            Place::Other(file) => (unknown(&self.files.get(file).name), None),
            Place::At(file, offset) => {
                let file = self.files.get(file);
                symbols.instruction_in(&file.name, &file.version(self.since), offset)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::memory::MAX_MAPPINGS;
    use super::*;

    fn places() -> Places {
        Places::new(None, Callers::Unknown)
    }

    fn at(time: u64, what: Sampled) -> SampledEvent {
        SampledEvent { time, what }
    }

    fn mapped(time: u64, process: u32, start: u64, file: &str) -> SampledEvent {
        let file = file.to_owned();
        let what =
            Sampled::Mapped { process, start, bytes: 0x1000, offset: 0, file, is_code: true, build: None };
        at(time, what)
    }

    fn sample(time: u64, process: u32, address: u64) -> SampledEvent {
        at(
            time,
            Sampled::Sample {
                process,
                address,
                weight: 1000,
                stack: Stack::Unknown,
                data: None,
                access: None,
            },
        )
    }

    /// Returns the samples by file.
    fn files(places: Places) -> Vec<(String, u64)> {
        let profile = places.finish();
        let mut all: Vec<(String, u64)> =
            profile.functions.into_iter().map(|place| (place.file, place.samples)).collect();
        all.sort();
        all
    }

    fn known(all: &[(&str, u64)]) -> Vec<(String, u64)> {
        all.iter().map(|(file, samples)| ((*file).to_owned(), *samples)).collect()
    }

    #[test]
    fn samples_are_in_the_code_that_the_process_had_at_that_time() {
        let mut places = places();
        // The order is that of the rings, and not that of time.
        places.take(vec![sample(20, 1, 0x1010), sample(40, 1, 0x1010), sample(60, 2, 0x1010)]);
        places.take(vec![
            mapped(10, 1, 0x1000, "[first]"),
            at(30, Sampled::Executed { process: 1 }),
            mapped(31, 1, 0x1000, "[second]"),
            at(50, Sampled::Started { process: 2, parent: 1 }),
        ]);
        assert_eq!(files(places), known(&[("[first]", 1), ("[second]", 2)]));
    }

    #[test]
    fn newest_mapping_counts_and_unknown_code_is_told() {
        let mut places = places();
        places.take(vec![
            mapped(1, 1, 0x1000, "[old]"),
            mapped(2, 1, 0x1800, "[new]"),
            sample(3, 1, 0x17ff),
            sample(4, 1, 0x1800),
            sample(5, 1, 0x9000),
            sample(6, 7, 0x1000),
            at(7, Sampled::Lost(5)),
            at(8, Sampled::Throttled),
        ]);
        let profile = places.finish();
        assert_eq!((profile.counts, profile.weight, profile.effective), ([4, 5, 1], 4000, 4));
        // Two processes, of which only that with number 1 was told to have started.
        assert_eq!(profile.processes, [1, 0]);
        let mut files: Vec<(String, u64)> =
            profile.functions.into_iter().map(|place| (place.file, place.samples)).collect();
        files.sort();
        assert_eq!(files, known(&[("?", 2), ("[new]", 1), ("[old]", 1)]));
    }

    /// A library that is closed and opened again and again does not fill the table.
    #[test]
    fn covered_mappings_are_gone() {
        let mut places = places();
        let many = 3 * MAX_MAPPINGS as u64;
        places.take((0..many).map(|n| mapped(n, 1, 0x1000, &format!("[library {}]", n % 7))).collect());
        places.take(vec![mapped(many, 1, 0x1000, "[last]"), sample(many + 1, 1, 0x1010)]);
        places.settle(u64::MAX);
        assert_eq!(places.processes[&1].code.all().count(), 1);
        let profile = places.finish();
        assert_eq!((profile.counts, profile.functions[0].file.as_str()), ([1, 0, 0], "[last]"));
    }

    /// The newest code is what executes, even if the table is full; what it has forgotten is told.
    #[test]
    fn a_full_table_forgets_the_oldest() {
        let mut places = places();
        let many = MAX_MAPPINGS as u64;
        places.take((0..many + 1).map(|n| mapped(n, 1, 0x10_0000 + 0x1000 * n, "[some]")).collect());
        places.take(vec![mapped(many + 1, 1, 0x1000, "[last]"), sample(many + 2, 1, 0x1010)]);
        let profile = places.finish();
        assert_eq!((profile.counts, profile.functions[0].file.as_str()), ([1, 2, 0], "[last]"));
    }

    #[test]
    fn processes_without_samples_are_counted() {
        let mut places = places();
        let started = |time: u64, process: u32| at(time, Sampled::Started { process, parent: 1 });
        places.take(vec![sample(1, 1, 16), started(2, 2), started(3, 3), sample(4, 3, 16), started(5, 3)]);
        let profile = places.finish();
        assert_eq!(profile.processes, [4, 2], "the second process with number 3 has none");
    }

    #[test]
    fn small_weights_tell_less() {
        let mut places = places();
        let weighted = |time, weight| {
            let stack = Stack::Unknown;
            at(time, Sampled::Sample { process: 1, address: 16, weight, stack, data: None, access: None })
        };
        places.take(
            (0..10)
                .map(|time| weighted(time, 1_000_000))
                .chain((10..1000).map(|time| weighted(time, 1)))
                .collect(),
        );
        assert_eq!(places.finish().effective, 10);
    }

    /// Events that are older than the settled time come late only from a CPU that was not read: those in between wait.
    #[test]
    fn events_settle_in_the_order_of_time_across_reads() {
        let mut places = places();
        places.take(vec![sample(SETTLED_NS + 5, 1, 0x1010)]);
        places.take(vec![mapped(SETTLED_NS + 1, 1, 0x1000, "[late]")]);
        places.take(vec![sample(3 * SETTLED_NS, 1, 0x1010)]);
        assert_eq!(files(places), known(&[("[late]", 2)]));
    }

    /// Callers are known as far as they are code.
    #[test]
    fn callers_end_where_no_code_is() {
        let mut places = Places::new(None, Callers::FramePointers);
        let stack = Stack::Callers(vec![0x2011, 0x1021, 0x9000, 0x1031]);
        places.take(vec![
            mapped(1, 1, 0x1000, "[program]"),
            mapped(2, 1, 0x2000, "[library]"),
            at(
                3,
                Sampled::Sample {
                    process: 1,
                    address: 0x1010,
                    weight: 1000,
                    stack,
                    data: None,
                    access: None,
                },
            ),
        ]);
        let profile = places.finish();
        let calls: Vec<(u64, &str, u64)> =
            profile.calls.iter().map(|call| (call.caller, call.file.as_str(), call.samples)).collect();
        assert_eq!(calls, [(0, "[program]", 0), (1, "[library]", 0), (2, "[program]", 1)]);
        assert_eq!(profile.whole, None);
    }

    /// A file that was written after the program had started is not the one that ran.
    #[test]
    fn own_function_is_named_unless_the_file_is_another() {
        let own = std::env::current_exe().expect("this program").display().to_string();
        let of = |since: SystemTime, build: Option<Vec<u8>>| {
            let file = own.clone();
            let mut places = Places::new(Some(since), Callers::Unknown);
            let (start, bytes, offset, is_code) = (0, u64::MAX, 0, true);
            let whole = Sampled::Mapped { process: 1, start, bytes, offset, file, is_code, build };
            places.take(vec![at(1, whole), sample(2, 1, 16)]);
            places.finish()
        };
        let profile = of(SystemTime::now(), None);
        assert!(own.ends_with(&profile.functions[0].file), "{profile:?}");
        assert_eq!(profile.changed, Vec::<String>::new());
        for changed in [of(SystemTime::UNIX_EPOCH, None), of(SystemTime::now(), Some(vec![1; 20]))] {
            assert_eq!(
                (changed.functions[0].function.as_str(), &changed.changed),
                (UNKNOWN, &vec![own.clone()])
            );
        }
    }
}
