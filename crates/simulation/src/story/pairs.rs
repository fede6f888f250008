//! Pairs of lines: which line took the place of which, and which stores invalidated what.

use rustc_hash::FxHashMap;

use crate::counts::{PairCounts, Reason};
use crate::heap::Owner;
use crate::origin::Accessor;

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
    /// The block of the heap that it is in.
    pub owner: Owner,
    /// Whose code it is by.
    pub accessor: Accessor,
}

impl End {
    /// A walk, whose descriptors are no data of the program.
    pub fn walk(cpu: u32) -> End {
        End { address: 0, place: NO_PLACE, cpu, owner: Owner::NONE, accessor: Accessor::Program }
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
    site: Option<u32>,
    accessor: Accessor,
    /// `None` for a walk.
    by: Option<(u64, Option<u32>, Accessor)>,
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
            site: site(own.owner.known()),
            accessor: own.accessor,
            by: (!by.is_walk()).then_some((by.address >> self.shift, site(by.owner.known()), by.accessor)),
        };
        let new = || PairCounts {
            level: level as u64,
            reason: reason as usize as u64,
            set,
            count: 0,
            address: own.address,
            block: own.owner.known(),
            place: own.place.into(),
            accessor: own.accessor,
            cpu: own.cpu,
            by: (!by.is_walk()).then(|| (by.address, by.place.into())),
            by_block: by.owner.known(),
            by_accessor: by.accessor,
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
                site: site(of.block),
                accessor: of.accessor,
                by: of.by.map(|(address, _)| (address >> self.shift, site(of.by_block), of.by_accessor)),
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

/// Returns the allocation site of a block.
fn site(block: Option<(u32, u32)>) -> Option<u32> {
    block.map(|(site, _)| site)
}

trait Sorted {
    fn into_sorted(self) -> Self;
}

impl Sorted for Vec<PairCounts> {
    /// Sorts by count, then by what does not depend on the order of a hash table.
    fn into_sorted(mut self) -> Self {
        self.sort_by_key(|of| {
            let accessors = (of.accessor, of.by_accessor);
            (u64::MAX - of.count, of.level, of.reason, of.address, of.by, of.block, of.by_block, accessors)
        });
        self
    }
}
