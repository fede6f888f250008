//! Pairs of lines: which line took the place of which, and which stores invalidated what.

use rustc_hash::FxHashMap;

use crate::counts::{PairCounts, Reason};

/// Pairs that are counted separately, at most. Beyond it, the neighbours of each line are counted with it.
const MOST: usize = 1 << 16;
/// Number of no place.
const NO_PLACE: u32 = u32::MAX;

/// One of the two accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub address: u64,
    pub place: u32,
    pub cpu: u32,
}

impl End {
    /// A walk, whose descriptors are no data of the program.
    pub fn walk(cpu: u32) -> End {
        End { address: 0, place: NO_PLACE, cpu }
    }

    fn is_walk(self) -> bool {
        self.place == NO_PLACE
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    level: usize,
    reason: usize,
    line: u64,
    /// `None` for a walk.
    by: Option<u64>,
}

/// Counts by pair.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    shift: u32,
    most: usize,
    all: FxHashMap<Key, PairCounts>,
}

impl Pairs {
    /// Counts pairs of lines of 2^`shift` bytes.
    pub fn new(shift: u32) -> Pairs {
        Pairs { shift, most: MOST, all: FxHashMap::default() }
    }

    /// Adds a miss of `own`, whose line `by` had taken.
    pub fn add(&mut self, level: usize, reason: Reason, set: u64, own: End, by: End) {
        let key = Key {
            level,
            reason: reason as usize,
            line: own.address >> self.shift,
            by: (!by.is_walk()).then_some(by.address >> self.shift),
        };
        let new = || PairCounts {
            level: level as u64,
            reason: reason as usize as u64,
            set,
            count: 0,
            address: own.address,
            place: own.place.into(),
            cpu: own.cpu,
            by: (!by.is_walk()).then(|| (by.address, by.place.into())),
            by_cpu: by.cpu,
        };
        self.all.entry(key).or_insert_with(new).count += 1;
        if self.all.len() > self.most {
            self.merge_neighbours();
        }
    }

    #[cold]
    fn merge_neighbours(&mut self) {
        self.shift += 1;
        for of in self.all.drain().map(|(_, of)| of).collect::<Vec<_>>().into_sorted() {
            let key = Key {
                level: of.level as usize,
                reason: of.reason as usize,
                line: of.address >> self.shift,
                by: of.by.map(|(address, _)| address >> self.shift),
            };
            match self.all.get_mut(&key) {
                // The first one has the most misses: its addresses are the example.
                Some(merged) => merged.count += of.count,
                None => drop(self.all.insert(key, of)),
            }
        }
    }

    /// Returns the counts, the most first.
    pub fn counts(&self) -> Vec<PairCounts> {
        self.all.values().cloned().collect::<Vec<_>>().into_sorted()
    }
}

trait Sorted {
    fn into_sorted(self) -> Self;
}

impl Sorted for Vec<PairCounts> {
    /// Sorts by count, then by what does not depend on the order of a hash table.
    fn into_sorted(mut self) -> Self {
        self.sort_by_key(|of| (u64::MAX - of.count, of.level, of.reason, of.address, of.by));
        self
    }
}
