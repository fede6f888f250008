//! Where samples are: from addresses of processes to functions and lines of the source.

use std::collections::HashMap;

use fathom_experiment::record::{MAX_HOT, Profile, ProfilePlace};
use fathom_host::{Sampled, SampledEvent};
use fathom_simulation::protocol::Mapping;

use crate::program::symbols::{Named, Symbols, UNKNOWN};

/// Time in which the rings of all CPUs have told what came before, ns. They are read in turns.
const SETTLED_NS: u64 = 50_000_000;
/// Mappings of a process, at most: a program that maps code without end would fill the memory.
const MAX_MAPPINGS: usize = 10_000;
/// Addresses that are told apart, at most.
const MAX_ADDRESSES: usize = 1 << 20;

/// Samples and their weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    samples: u64,
    weight: u64,
}

/// What was sampled so far.
#[derive(Debug, Default)]
pub struct Places {
    /// Events that others may still precede.
    pending: Vec<SampledEvent>,
    /// Code of each process, the newest mapping last.
    processes: HashMap<u32, Vec<Mapping>>,
    /// Counts by file and offset; without a file, by the mapping's name.
    counts: HashMap<(String, u64), Count>,
    all: Count,
    lost: u64,
    throttled: u64,
}

impl Places {
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
            Sampled::Mapped { process, start, bytes, offset, file } => {
                let mappings = self.processes.entry(process).or_default();
                if mappings.len() < MAX_MAPPINGS {
                    let end = start.saturating_add(bytes);
                    mappings.push(Mapping { start, end, offset, file, checksum: None });
                }
            }
            Sampled::Executed { process } => drop(self.processes.insert(process, Vec::new())),
            Sampled::Started { process, parent } => {
                let inherited = self.processes.get(&parent).cloned().unwrap_or_default();
                self.processes.insert(process, inherited);
            }
            Sampled::Lost(samples) => self.lost += samples,
            Sampled::Throttled => self.throttled += 1,
        }
    }

    fn sample(&mut self, process: u32, address: u64, weight: u64) {
        let mappings = self.processes.get(&process).map_or(&[][..], Vec::as_slice);
        let mapping = mappings.iter().rev().find(|m| (m.start..m.end).contains(&address));
        let place = match mapping {
            Some(m) if m.file.starts_with('/') && !m.file.starts_with("//") => {
                (m.file.clone(), (address - m.start).wrapping_add(m.offset))
            }
            Some(m) => (m.file.clone(), 0),
            None => (String::new(), 0),
        };
        let full = self.counts.len() >= MAX_ADDRESSES;
        let place = if full && !self.counts.contains_key(&place) { (String::new(), 0) } else { place };
        let count = self.counts.entry(place).or_default();
        for count in [count, &mut self.all] {
            count.samples += 1;
            count.weight = count.weight.saturating_add(weight);
        }
    }

    /// Returns the counts by function and line; the rest of a profile is empty.
    pub fn finish(mut self) -> Profile {
        self.settle(u64::MAX);
        let mut symbols = Symbols::new(&[]);
        let (mut functions, mut lines) = (HashMap::new(), HashMap::new());
        for ((file, offset), count) in self.counts {
            let named = name(&mut symbols, &file, offset);
            let function = (named.function.clone(), named.file.clone(), String::new());
            add(&mut functions, function, count);
            if named.source.is_some() {
                add(&mut lines, (named.function.clone(), named.file.clone(), named.source()), count);
            }
        }
        Profile {
            counts: [self.all.samples, self.lost, self.throttled],
            weight: self.all.weight,
            functions: worst(functions),
            lines: worst(lines),
            ..Profile::default()
        }
    }
}

/// Function, file and line of the source.
type Key = (String, String, String);

fn add(to: &mut HashMap<Key, Count>, key: Key, count: Count) {
    let sum = to.entry(key).or_default();
    sum.samples += count.samples;
    sum.weight = sum.weight.saturating_add(count.weight);
}

/// Returns the name of the code at an offset of a file.
fn name(symbols: &mut Symbols, file: &str, offset: u64) -> Named {
    if file.starts_with('/') && !file.starts_with("//") {
        let mapping = Mapping { start: 0, end: u64::MAX, offset: 0, file: file.to_owned(), checksum: None };
        return symbols.name_in(&mapping, offset);
    }
    // The kernel's names of other code: [vdso]; //anon is what the program has made itself.
    let file = if file.is_empty() { UNKNOWN } else { file };
    Named { function: UNKNOWN.to_owned(), file: file.to_owned(), ..Named::default() }
}

/// Returns the places with the most events.
fn worst(counts: HashMap<Key, Count>) -> Vec<ProfilePlace> {
    let mut all: Vec<(Key, Count)> = counts.into_iter().collect();
    all.sort_by(|(a, x), (b, y)| y.weight.cmp(&x.weight).then_with(|| a.cmp(b)));
    let place = |((function, file, source), count): (Key, Count)| ProfilePlace {
        function,
        file,
        source,
        samples: count.samples,
        weight: count.weight,
    };
    all.into_iter().take(MAX_HOT).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: u64, what: Sampled) -> SampledEvent {
        SampledEvent { time, what }
    }

    fn mapped(time: u64, process: u32, start: u64, file: &str) -> SampledEvent {
        at(time, Sampled::Mapped { process, start, bytes: 0x1000, offset: 0, file: file.into() })
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
        let profile = Places { ..places };
        let Profile { counts, weight, .. } = Places {
            pending: profile.pending.clone(),
            processes: profile.processes.clone(),
            counts: profile.counts.clone(),
            ..Places::default()
        }
        .finish();
        assert_eq!((counts, weight), ([4, 5, 1], 4000));
        assert_eq!(files(profile), known(&[("?", 2), ("[new]", 1), ("[old]", 1)]));
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

    #[test]
    fn own_function_is_named_by_its_file() {
        let own = std::env::current_exe().expect("this program").display().to_string();
        let mut places = Places::default();
        places.take(vec![
            at(1, Sampled::Mapped { process: 1, start: 0, bytes: u64::MAX, offset: 0, file: own.clone() }),
            sample(2, 1, 16),
        ]);
        let profile = places.finish();
        assert!(own.ends_with(&profile.functions[0].file), "{profile:?}");
    }
}
