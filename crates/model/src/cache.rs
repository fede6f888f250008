//! One set-associative store with its replacement policy: a cache's tags, or a TLB's.

use crate::description::Replacement;
use crate::rng::Rng;

/// An entry's line (or page) was written here and not yet further out.
pub(crate) const DIRTY: u32 = 1;
/// An entry holds an older version than memory does: somebody wrote past the caches.
pub(crate) const STALE: u32 = 2;
const FLAGS: u32 = DIRTY | STALE;
const FLAG_BITS: u32 = 2;
/// No entry. As a number it is the last one that 30 bits hold, which no line in reach has.
const FREE: u32 = u32::MAX;
/// Lines and pages are numbered below this.
pub(crate) const MOST_NUMBERS: u64 = (1 << (32 - FLAG_BITS)) - 1;

/// What left a set to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evicted {
    pub number: u32,
    pub flags: u32,
}

/// Sets of entries `number << 2 | flags`.
///
/// LRU and FIFO keep each set in order of age, youngest first, free entries last: the victim is the
/// last one, and which physical way a line sits in cannot matter to them. The other policies keep
/// entries where they were put, and their state in one word a set.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    entries: Vec<u32>,
    words: Vec<u64>,
    ways: usize,
    sets: u32,
    /// sets - 1 where the sets are a power of two, so that the modulo is a mask; else all ones.
    mask: u32,
    policy: Replacement,
    /// LRU or FIFO: a set is in order of age.
    ordered: bool,
    rng: Rng,
    /// Free entries in all: with none, a fill need not look for one.
    free: usize,
    /// Fills.
    pub refills: u64,
    /// Dirty entries that left.
    pub writebacks: u64,
}

impl Cache {
    pub fn new(sets: u64, ways: u32, policy: Replacement, rng: Rng) -> Cache {
        let entries = usize::try_from(sets * u64::from(ways)).expect("checked: at most 2^26 lines");
        let stateful = matches!(policy, Replacement::TreePlru | Replacement::Nru);
        let sets = u32::try_from(sets).expect("checked: at most 2^26 lines");
        Cache {
            entries: vec![FREE; entries],
            words: vec![0; if stateful { sets as usize } else { 0 }],
            ways: ways as usize,
            sets,
            mask: if sets.is_power_of_two() { sets - 1 } else { u32::MAX },
            policy,
            ordered: matches!(policy, Replacement::Lru | Replacement::Fifo),
            rng,
            free: entries,
            refills: 0,
            writebacks: 0,
        }
    }

    /// Drops every entry, written or not; what was counted stays counted.
    pub fn empty(&mut self) {
        self.entries.fill(FREE);
        self.words.fill(0);
        self.free = self.entries.len();
    }

    /// The set of a line or page number.
    #[inline(always)]
    pub fn set_of(&self, number: u32) -> usize {
        (if self.mask == u32::MAX { number % self.sets } else { number & self.mask }) as usize
    }

    #[inline(always)]
    fn set(&mut self, set: usize) -> &mut [u32] {
        &mut self.entries[set * self.ways..(set + 1) * self.ways]
    }

    /// Looks a line up and notes the use.
    #[inline(always)]
    pub fn touch(&mut self, number: u32) -> bool {
        self.touch_in_set(self.set_of(number), number)
    }

    /// Looks `number` up in a set and notes the use.
    ///
    /// The common numbers of ways have code of their own, which compiles to a few vector
    /// instructions without a branch but the last.
    #[inline(always)]
    pub fn touch_in_set(&mut self, set: usize, number: u32) -> bool {
        match self.ways {
            16 => self.touch_in::<16>(set, number),
            8 => self.touch_in::<8>(set, number),
            4 => self.touch_in::<4>(set, number),
            12 => self.touch_in::<12>(set, number),
            _ => self.touch_any(set, number),
        }
    }

    #[inline(always)]
    fn touch_in<const WAYS: usize>(&mut self, set: usize, number: u32) -> bool {
        let lru = self.policy == Replacement::Lru;
        let entries = self.array::<WAYS>(set);
        let Some(way) = find_in(entries, number) else { return false };
        if lru {
            to_front_in(entries, way);
        } else {
            self.note(set, way);
        }
        true
    }

    fn touch_any(&mut self, set: usize, number: u32) -> bool {
        let lru = self.policy == Replacement::Lru;
        let entries = self.set(set);
        let Some(way) = find(entries, number) else { return false };
        if lru {
            entries[..=way].rotate_right(1);
        } else {
            self.note(set, way);
        }
        true
    }

    #[inline(always)]
    fn array<const WAYS: usize>(&mut self, set: usize) -> &mut [u32; WAYS] {
        let entries = &mut self.entries[set * WAYS..(set + 1) * WAYS];
        entries.try_into().expect("a slice of this length")
    }

    /// The flags of `number`, if it is here; no use is noted.
    pub fn flags(&self, number: u32) -> Option<u32> {
        let set = self.set_of(number);
        let entries = &self.entries[set * self.ways..(set + 1) * self.ways];
        find(entries, number).map(|way| entries[way] & FLAGS)
    }

    /// Adds flags to an entry that is here.
    pub fn mark(&mut self, number: u32, flags: u32) {
        let entries = self.set(self.set_of(number));
        if let Some(way) = find(entries, number) {
            entries[way] |= flags;
        }
    }

    /// Takes flags from an entry; says which of them it had.
    pub fn unmark(&mut self, number: u32, flags: u32) -> u32 {
        let entries = self.set(self.set_of(number));
        let Some(way) = find(entries, number) else { return 0 };
        let had = entries[way] & flags;
        entries[way] &= !flags;
        had
    }

    /// Puts a line, which is not here, into a free way or in the place of a victim.
    #[inline(always)]
    pub fn fill(&mut self, number: u32, flags: u32) -> Option<Evicted> {
        self.fill_in_set(self.set_of(number), number, flags)
    }

    /// The same with the set named.
    #[inline(always)]
    pub fn fill_in_set(&mut self, set: usize, number: u32, flags: u32) -> Option<Evicted> {
        self.refills += 1;
        let entry = number << FLAG_BITS | flags;
        let old = if self.ordered {
            match self.ways {
                16 => push(self.array::<16>(set), entry),
                8 => push(self.array::<8>(set), entry),
                4 => push(self.array::<4>(set), entry),
                12 => push(self.array::<12>(set), entry),
                _ => push(self.set(set), entry),
            }
        } else {
            self.replace(set, entry)
        };
        if old == FREE {
            self.free -= 1;
            return None;
        }
        self.writebacks += u64::from(old & DIRTY);
        Some(Evicted { number: old >> FLAG_BITS, flags: old & FLAGS })
    }

    /// A fill under the policies that keep entries in place.
    #[inline(never)]
    fn replace(&mut self, set: usize, entry: u32) -> u32 {
        let way = self.way_for(set);
        let old = std::mem::replace(&mut self.set(set)[way], entry);
        self.note(set, way);
        old
    }

    /// Takes `number` out; its flags, if it was here.
    pub fn remove(&mut self, number: u32) -> Option<u32> {
        let set = self.set_of(number);
        let policy = self.policy;
        let entries = self.set(set);
        let way = find(entries, number)?;
        let flags = entries[way] & FLAGS;
        match policy {
            Replacement::Lru | Replacement::Fifo => {
                let last = entries.len() - 1;
                entries.copy_within(way + 1.., way);
                entries[last] = FREE;
            }
            Replacement::Nru => {
                entries[way] = FREE;
                self.words[set] &= !(1 << way);
            }
            Replacement::Random | Replacement::TreePlru => entries[way] = FREE,
        }
        self.free += 1;
        Some(flags)
    }

    /// The way that a fill takes, under the policies that keep entries in place.
    fn way_for(&mut self, set: usize) -> usize {
        if self.free > 0
            && let Some(way) = self.set(set).iter().position(|&entry| entry == FREE)
        {
            return way;
        }
        match self.policy {
            Replacement::TreePlru => tree_victim(self.words[set], self.ways),
            Replacement::Nru => {
                let all = u64::MAX >> (64 - self.ways);
                if self.words[set] == all {
                    self.words[set] = 0;
                }
                self.words[set].trailing_ones() as usize
            }
            _ => self.rng.below(self.ways as u64) as usize,
        }
    }

    /// Notes a use of `way` in the set's word.
    #[inline]
    fn note(&mut self, set: usize, way: usize) {
        match self.policy {
            Replacement::TreePlru => self.words[set] = tree_use(self.words[set], self.ways, way),
            Replacement::Nru => self.words[set] |= 1 << way,
            _ => {}
        }
    }
}

/// The way that holds `number`.
fn find(entries: &[u32], number: u32) -> Option<usize> {
    let wanted = number << FLAG_BITS;
    let (groups, rest) = entries.as_chunks::<8>();
    for (index, group) in groups.iter().enumerate() {
        if let Some(way) = find_in(group, number) {
            return Some(index * 8 + way);
        }
    }
    let way = rest.iter().position(|&entry| entry & !FLAGS == wanted)?;
    Some(groups.len() * 8 + way)
}

/// The way of a small set that holds `number`: all are compared at once, none is branched on.
#[inline(always)]
fn find_in<const WAYS: usize>(entries: &[u32; WAYS], number: u32) -> Option<usize> {
    let wanted = number << FLAG_BITS;
    let mut hits = 0u32;
    for (way, &entry) in entries.iter().enumerate() {
        hits |= if entry & !FLAGS == wanted { 1 << way } else { 0 };
    }
    (hits != 0).then(|| hits.trailing_zeros() as usize)
}

/// Makes `way` the youngest.
#[inline(always)]
fn to_front_in<const WAYS: usize>(entries: &mut [u32; WAYS], way: usize) {
    let old = *entries;
    let limit = way as u32;
    for index in 1..WAYS {
        entries[index] = if index as u32 <= limit { old[index - 1] } else { old[index] };
    }
    entries[0] = old[way];
}

/// Puts an entry in as the youngest; the oldest falls out.
#[inline(always)]
fn push(entries: &mut [u32], entry: u32) -> u32 {
    let last = entries.len() - 1;
    let old = entries[last];
    entries.copy_within(0..last, 1);
    entries[0] = entry;
    old
}

/// The word of a tree after a use of `way`: every node on its path points to the other half.
/// Node 1 is the root, the children of `n` are `2n` and `2n + 1`; a set bit points right.
#[inline]
fn tree_use(mut word: u64, ways: usize, way: usize) -> u64 {
    let mut node = 1usize;
    let mut span = ways.next_power_of_two();
    while span > 1 {
        span /= 2;
        let right = usize::from(way & span != 0);
        word = word & !(1 << node) | ((1 - right as u64) << node);
        node = 2 * node + right;
    }
    word
}

/// The way that a tree points to; a half without ways is never entered.
#[inline]
fn tree_victim(word: u64, ways: usize) -> usize {
    let (mut node, mut way) = (1usize, 0);
    let mut span = ways.next_power_of_two();
    while span > 1 {
        span /= 2;
        let right = word >> node & 1 == 1 && way + span < ways;
        way += if right { span } else { 0 };
        node = 2 * node + usize::from(right);
    }
    way
}

#[cfg(test)]
mod tests;
