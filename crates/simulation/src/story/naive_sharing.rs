//! Sharing between CPUs a second time, as simply as possible: caches are lists, and why a line is gone is looked up in the trace.

use std::collections::BTreeMap;

use fathom_model::Access;

use super::tests::{BASE, TWO};
use crate::protocol::Machine;
use crate::{Machines, Reason, SharingCounts};

const CPUS: usize = 4;
const LINE: u64 = 64;
const SETS: u64 = 8;
const WAYS: usize = 2;

/// An access of 1 to 8 bytes within a line.
#[derive(Clone, Copy, Debug)]
struct Made {
    cpu: usize,
    address: u64,
    bytes: u64,
    store: bool,
}

impl Made {
    fn line(self) -> u64 {
        self.address / LINE
    }

    fn overlaps(self, other: Made) -> bool {
        self.address < other.address + other.bytes && other.address < self.address + self.bytes
    }
}

/// Private caches of 8 sets of 2 lines, LRU.
#[derive(Debug, Default)]
struct Naive {
    trace: Vec<Made>,
    /// Lines with whether they are modified, by CPU and set, the most recent last.
    caches: BTreeMap<(usize, u64), Vec<(u64, bool)>>,
    /// By CPU and line: when a store of another CPU took it away, unless it has been there since.
    taken: BTreeMap<(usize, u64), usize>,
    all: SharingCounts,
    /// Lines taken, by line of data; a CPU has one level that is private.
    lines: BTreeMap<u64, SharingCounts>,
    shared: u64,
    falsely: u64,
}

impl Naive {
    fn cache(&mut self, cpu: usize, line: u64) -> &mut Vec<(u64, bool)> {
        self.caches.entry((cpu, line % SETS)).or_default()
    }

    fn held(&mut self, cpu: usize, line: u64) -> Option<bool> {
        self.cache(cpu, line).iter().find(|of| of.0 == line).map(|of| of.1)
    }

    fn make(&mut self, made: Made) {
        let (line, now) = (made.line(), self.trace.len());
        self.trace.push(made);
        let own = self.held(made.cpu, line);
        let mut counts = SharingCounts::default();
        for other in (0..CPUS).filter(|&other| other != made.cpu) {
            let Some(modified) = self.held(other, line) else { continue };
            if made.store {
                counts.invalidated += 1;
                counts.upgrades = u64::from(own.is_some());
                self.cache(other, line).retain(|of| of.0 != line);
                self.taken.insert((other, line), now);
            } else {
                counts.transfers += u64::from(modified);
                self.cache(other, line).iter_mut().filter(|of| of.0 == line).for_each(|of| of.1 = false);
            }
        }
        self.all.add(counts);
        self.lines.entry(line).or_default().add(counts);
        if own.is_none()
            && let Some(when) = self.taken.remove(&(made.cpu, line))
        {
            let by_others = |of: &&Made| of.store && of.cpu != made.cpu && of.overlaps(made);
            match self.trace[when..].iter().find(by_others) {
                Some(_) => self.shared += 1,
                None => self.falsely += 1,
            }
        }
        let cache = self.cache(made.cpu, line);
        cache.retain(|of| of.0 != line);
        cache.push((line, made.store || own == Some(true)));
        if cache.len() > WAYS {
            cache.remove(0);
        }
    }
}

/// Returns accesses of several CPUs to few lines, some of which they share more than others.
fn random(seed: u64) -> Vec<Made> {
    let mut state = seed;
    let mut draw = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let (lines, stores, own) = (1 + draw(60), 1 + draw(8), draw(8));
    let made = |_| {
        let cpu = draw(CPUS as u64);
        // Some lines have words of which each is one CPU's.
        let (line, falsely) = (draw(lines), draw(8) < own);
        let within = if falsely { 16 * cpu + 8 * draw(2) } else { draw(8) * 8 };
        let bytes = 1 << draw(4);
        let address = BASE + line * LINE + within + draw(8) / bytes * bytes;
        Made { cpu: cpu as usize, address, bytes, store: draw(10) < stores }
    };
    (0..3000).map(made).collect()
}

#[test]
fn counts_of_random_traces_are_those_of_lists() {
    // The shared level takes no lines from the private ones.
    let text =
        TWO.replace("cpus = 2", "cpus = 4").replace("inclusion = \"inclusive\"", "inclusion = \"neither\"");
    let mut seen = [0; 5];
    for seed in 0..60 {
        let machine = [Machine { name: "four".to_owned(), text: text.clone() }];
        let [mut told, mut plain] =
            [true, false].map(|why| Machines::new(&machine, 1, 1, why).expect("valid"));
        let mut naive = Naive::default();
        for made in random(seed) {
            naive.make(made);
            let access = match made.store {
                true => Access::store(made.address, made.bytes as u16),
                false => Access::load(made.address, made.bytes as u16),
            };
            for machines in [&mut told, &mut plain] {
                machines.run(made.cpu as u32, vec![access]);
            }
        }
        let [told, plain] = [told, plain].map(|machines| machines.finish().pop().expect("a machine"));
        let story = told.story.as_ref().expect("asked for");
        assert_eq!((told.sharing, told.levels[0].sharing), (Some(naive.all), Some(naive.all)), "{seed}");
        assert_eq!((plain.sharing, plain.levels[1].sharing), (Some(naive.all), None), "{seed}");
        let reasons = story.levels[0].expect("not exclusive");
        let missed = [Reason::Shared, Reason::FalselyShared].map(|reason| reasons[reason as usize]);
        assert_eq!(missed, [naive.shared, naive.falsely], "{seed}");
        let lines = story.lines.iter().map(|line| (line.address / LINE, line.sharing));
        let lines: BTreeMap<u64, SharingCounts> = lines.collect();
        naive.lines.retain(|line, _| lines.contains_key(line));
        assert_eq!(lines, naive.lines, "{seed}");
        let all = naive.all;
        let counts = [all.invalidated, all.transfers, all.upgrades, naive.shared, naive.falsely];
        seen.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    assert!(seen.iter().all(|&count| count > 5000), "{seen:?}");
}
