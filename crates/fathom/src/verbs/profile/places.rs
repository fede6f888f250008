//! Where samples are: from addresses of processes to functions and lines of the source.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::SystemTime;

use fathom_experiment::record::{MAX_HOT, Profile, ProfilePlace};
use fathom_host::{Sampled, SampledEvent};

use crate::program::symbols::{Named, Symbols, UNKNOWN, Version};

/// Time in which the rings of all CPUs have told what came before, ns. They are read in turns.
const SETTLED_NS: u64 = 50_000_000;
/// Mappings of a process, at most: a program that maps code without end would fill the memory.
const MAX_MAPPINGS: usize = 10_000;
/// Addresses that are told apart, at most.
const MAX_ADDRESSES: usize = 1 << 20;

/// Samples and their weight.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    samples: u64,
    weight: u64,
    /// Sum of the squares of weights.
    squares: f64,
}

impl Count {
    fn add(&mut self, other: Count) {
        self.samples += other.samples;
        self.weight = self.weight.saturating_add(other.weight);
        self.squares += other.squares;
    }

    /// Returns the samples of equal weight that tell as much about a share.
    fn effective(self) -> u64 {
        let weight = self.weight as f64;
        if self.squares > 0.0 { (weight * weight / self.squares).round() as u64 } else { 0 }
    }
}

/// A file with code, as it was when a process mapped it; or the kernel's name of other code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CodeFile {
    name: String,
    build: Option<Vec<u8>>,
}

/// Code in the memory of a process.
#[derive(Clone, Copy, Debug)]
struct Code {
    start: u64,
    end: u64,
    /// Offset in the file.
    offset: u64,
    /// Number of the file.
    file: usize,
}

/// What was sampled so far.
#[derive(Debug, Default)]
pub struct Places {
    /// When the program started.
    since: Option<SystemTime>,
    /// Events that others may still precede.
    pending: Vec<SampledEvent>,
    /// Code of each process, the newest mapping last. A process shares that of its parent until it has mappings of its own.
    processes: HashMap<u32, Rc<Vec<Code>>>,
    files: Vec<CodeFile>,
    numbers: HashMap<CodeFile, usize>,
    /// Counts by file and offset; offset 0 of other code.
    counts: HashMap<(Option<usize>, u64), Count>,
    all: Count,
    lost: u64,
    throttled: u64,
    /// Processes that were started, and those that have samples.
    started: u64,
    sampled: HashSet<u32>,
    /// Processes with samples whose numbers others have now.
    sampled_before: u64,
}

impl Places {
    /// Creates it for a program that starts now: files that change later are not those that it has in memory.
    pub fn since(now: SystemTime) -> Places {
        Places { since: Some(now), ..Places::default() }
    }

    /// Adds events, in any order.
    pub fn take(&mut self, events: Vec<SampledEvent>) {
        self.pending.extend(events);
        let last = self.pending.iter().map(|event| event.time).max().unwrap_or(0);
        self.settle(last.saturating_sub(SETTLED_NS));
    }

    /// Counts the pending events up to a time, in the order of time.
    fn settle(&mut self, until: u64) {
        // Stable: events of one CPU at the same time keep their order.
        self.pending.sort_by_key(|event| event.time);
        let settled = self.pending.partition_point(|event| event.time <= until);
        let events: Vec<SampledEvent> = self.pending.drain(..settled).collect();
        events.into_iter().for_each(|event| self.count(event.what));
    }

    fn count(&mut self, event: Sampled) {
        match event {
            Sampled::Sample { process, address, weight } => self.sample(process, address, weight),
            Sampled::Mapped { process, start, bytes, offset, file, build } => {
                let file = self.number(CodeFile { name: file, build });
                self.map(process, Code { start, end: start.saturating_add(bytes), offset, file });
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
        }
    }

    fn number(&mut self, file: CodeFile) -> usize {
        let next = self.files.len();
        let number = *self.numbers.entry(file.clone()).or_insert(next);
        if number == next {
            self.files.push(file);
        }
        number
    }

    /// Adds code to a process. Older code that it covers is gone.
    fn map(&mut self, process: u32, code: Code) {
        let all = Rc::make_mut(self.processes.entry(process).or_default());
        all.retain(|old| old.start < code.start || code.end < old.end);
        if all.len() >= MAX_MAPPINGS {
            all.remove(0);
            self.lost += 1;
        }
        all.push(code);
    }

    fn sample(&mut self, process: u32, address: u64, weight: u64) {
        self.sampled.insert(process);
        let mappings = self.processes.get(&process).map_or(&[][..], |all| all.as_slice());
        let code = mappings.iter().rev().find(|code| (code.start..code.end).contains(&address));
        let place = code.map_or((None, 0), |code| match is_file(&self.files[code.file].name) {
            true => (Some(code.file), (address - code.start).wrapping_add(code.offset)),
            false => (Some(code.file), 0),
        });
        let full = self.counts.len() >= MAX_ADDRESSES && !self.counts.contains_key(&place);
        self.lost += u64::from(full);
        let one = Count { samples: 1, weight, squares: weight as f64 * weight as f64 };
        self.counts.entry(if full { (None, 0) } else { place }).or_default().add(one);
        self.all.add(one);
    }

    /// Returns the counts by function and line; the rest of a profile is empty.
    pub fn finish(mut self) -> Profile {
        self.settle(u64::MAX);
        let mut symbols = Symbols::new(&[]);
        let (mut functions, mut lines) = (HashMap::new(), HashMap::new());
        for ((file, offset), count) in &self.counts {
            let named = self.name(&mut symbols, *file, *offset);
            if named.source.is_some() {
                add(&mut lines, (*file, named.clone()), *count);
            }
            add(&mut functions, (*file, Named { source: None, ..named }), *count);
        }
        let processes = 1 + self.started;
        let unsampled = processes.saturating_sub(self.sampled_before + self.sampled.len() as u64);
        Profile {
            counts: [self.all.samples, self.lost, self.throttled],
            weight: self.all.weight,
            effective: self.all.effective(),
            processes: [processes, unsampled],
            changed: symbols.changed().to_vec(),
            functions: worst(functions),
            lines: worst(lines),
            ..Profile::default()
        }
    }

    /// Returns the name of the code at an offset of a file.
    fn name(&self, symbols: &mut Symbols, file: Option<usize>, offset: u64) -> Named {
        let unknown =
            |file: &str| Named { function: UNKNOWN.to_owned(), file: file.to_owned(), ..Named::default() };
        let Some(CodeFile { name, build }) = file.map(|number| &self.files[number]) else {
            return unknown(UNKNOWN);
        };
        if !is_file(name) {
            return unknown(name);
        }
        let version = Version { checksum: None, build: build.clone(), before: self.since };
        symbols.name_in(name, &version, offset)
    }
}

/// Returns whether the kernel's name of code is that of a file, and not `[vdso]` or `//anon`, which the program has made itself.
fn is_file(name: &str) -> bool {
    name.starts_with('/') && !name.starts_with("//")
}

/// A place: functions of one name in different files, or at different addresses of one, are several.
type Key = (Option<usize>, Named);

fn add(to: &mut HashMap<Key, Count>, key: Key, count: Count) {
    to.entry(key).or_default().add(count);
}

/// Returns the places with the most events.
fn worst(counts: HashMap<Key, Count>) -> Vec<ProfilePlace> {
    let place = |((_, named), count): (Key, Count)| ProfilePlace {
        source: named.source(),
        function: named.function,
        file: named.file,
        samples: count.samples,
        weight: count.weight,
    };
    let mut all: Vec<ProfilePlace> = counts.into_iter().map(place).collect();
    all.sort_by(|a, b| {
        let by_name = |p: &ProfilePlace| (p.function.clone(), p.file.clone(), p.source.clone());
        b.weight.cmp(&a.weight).then_with(|| by_name(a).cmp(&by_name(b)))
    });
    all.truncate(MAX_HOT);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: u64, what: Sampled) -> SampledEvent {
        SampledEvent { time, what }
    }

    fn mapped(time: u64, process: u32, start: u64, file: &str) -> SampledEvent {
        let file = file.to_owned();
        at(time, Sampled::Mapped { process, start, bytes: 0x1000, offset: 0, file, build: None })
    }

    fn sample(time: u64, process: u32, address: u64) -> SampledEvent {
        at(time, Sampled::Sample { process, address, weight: 1000 })
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
        let mut places = Places::default();
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
        let mut places = Places::default();
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
        let mut places = Places::default();
        let many = 3 * MAX_MAPPINGS as u64;
        places.take((0..many).map(|n| mapped(n, 1, 0x1000, &format!("[library {}]", n % 7))).collect());
        places.take(vec![mapped(many, 1, 0x1000, "[last]"), sample(many + 1, 1, 0x1010)]);
        places.settle(u64::MAX);
        assert_eq!(places.processes[&1].len(), 1);
        let profile = places.finish();
        assert_eq!((profile.counts, profile.functions[0].file.as_str()), ([1, 0, 0], "[last]"));
    }

    /// The newest code is what executes, even if the table is full; what it has forgotten is told.
    #[test]
    fn a_full_table_forgets_the_oldest() {
        let mut places = Places::default();
        let many = MAX_MAPPINGS as u64;
        places.take((0..many + 1).map(|n| mapped(n, 1, 0x10_0000 + 0x1000 * n, "[some]")).collect());
        places.take(vec![mapped(many + 1, 1, 0x1000, "[last]"), sample(many + 2, 1, 0x1010)]);
        let profile = places.finish();
        assert_eq!((profile.counts, profile.functions[0].file.as_str()), ([1, 2, 0], "[last]"));
    }

    #[test]
    fn processes_without_samples_are_counted() {
        let mut places = Places::default();
        let started = |time: u64, process: u32| at(time, Sampled::Started { process, parent: 1 });
        places.take(vec![sample(1, 1, 16), started(2, 2), started(3, 3), sample(4, 3, 16), started(5, 3)]);
        let profile = places.finish();
        assert_eq!(profile.processes, [4, 2], "the second process with number 3 has none");
    }

    #[test]
    fn small_weights_tell_less() {
        let mut places = Places::default();
        let weighted = |time, weight| at(time, Sampled::Sample { process: 1, address: 16, weight });
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
        let mut places = Places::default();
        places.take(vec![sample(SETTLED_NS + 5, 1, 0x1010)]);
        places.take(vec![mapped(SETTLED_NS + 1, 1, 0x1000, "[late]")]);
        places.take(vec![sample(3 * SETTLED_NS, 1, 0x1010)]);
        assert_eq!(files(places), known(&[("[late]", 2)]));
    }

    /// A file that was written after the program had started is not the one that ran.
    #[test]
    fn own_function_is_named_unless_the_file_is_another() {
        let own = std::env::current_exe().expect("this program").display().to_string();
        let of = |since: SystemTime, build: Option<Vec<u8>>| {
            let file = own.clone();
            let mut places = Places::since(since);
            let whole = Sampled::Mapped { process: 1, start: 0, bytes: u64::MAX, offset: 0, file, build };
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
