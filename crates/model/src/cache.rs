//! A set-associative array with its replacement policy: the tags of a cache, or a TLB.

mod index;
mod replacement_state;
mod taken;
mod typed;

use wide::u32x4;

use crate::description::{Index, Replacement};
use crate::rng::Rng;
use index::Hash;
use replacement_state::Ages;
pub(crate) use typed::{Kernel, Sets};

/// Flag: the line (or page) was written here and not yet further out.
pub(crate) const DIRTY: u32 = 1;
/// Flag: the entry is older than memory, because memory was written without the caches.
pub(crate) const STALE: u32 = 2;
const FLAGS: u32 = DIRTY | STALE;
const FLAG_BITS: u32 = 2;
/// A free entry. As a number it is the largest of 30 bits, which no line in the arena has.
const FREE: u32 = u32::MAX;
/// Numbers of lines and pages are below this.
pub(crate) const MAX_NUMBERS: u64 = (1 << (32 - FLAG_BITS)) - 1;

/// An entry that was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evicted {
    pub number: u32,
    pub flags: u32,
}

/// Sets of entries `number << 2 | flags`, and the policy's state.
///
/// A set is a whole number of [`GROUP`]s, so that a look-up compares group by group. The last group is padded with
/// entries that never match. LRU with up to 8 ways is a matrix of 8 x 8 bits in one word. With up to 16 ways, LRU and FIFO
/// store the order of the ways as nibbles of one word: youngest lowest. In both, free ways are the oldest. With more ways
/// the entries themselves are in order of age, because the position of a line does not matter to these two policies.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    groups: Vec<[u32; GROUP]>,
    words: Vec<u64>,
    /// Ways in use.
    ways: usize,
    /// Ways of the description. More than those in use while a neighbour has some.
    all_ways: usize,
    /// Groups per set.
    groups_per_set: usize,
    sets: u32,
    /// sets - 1 if the number of sets is a power of two and the index is not hashed, so that the modulo is a mask;
    /// otherwise all ones.
    mask: u32,
    hash: Option<Hash>,
    state: State,
    rng: Rng,
    /// Number of free entries. At 0, a fill need not search for one.
    free: usize,
    /// Number of fills.
    pub refills: u64,
    /// Number of dirty entries that were evicted.
    pub writebacks: u64,
}

/// Representation of a policy's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// LRU: which way was used after which, as a matrix of bits.
    Matrix,
    /// Order of the ways as nibbles of a word; a hit changes it for LRU and not for FIFO.
    Nibbles { uses: bool },
    /// Order of the entries; a hit changes it for LRU and not for FIFO.
    Order { uses: bool },
    /// Bits of a tree in a word.
    Tree,
    /// One bit per way in a word. If no bit is clear at a replacement, all are cleared.
    Referenced { random: bool },
    /// One bit per way in a word. If a use would leave no bit clear, it clears all others.
    Recent,
    /// The number of the last used way.
    Last,
    /// Two bits per way: a word of low bits and a word of high bits.
    Ages(Ages),
    /// No state.
    Nothing,
}

impl State {
    /// Returns the words of an empty set of `ways` ways.
    fn start(self, ways: usize) -> u64 {
        match self {
            State::Matrix => replacement_state::matrix(ways),
            // Each nibble is its position.
            State::Nibbles { .. } => 0xfedc_ba98_7654_3210,
            // Every age is 3, the age of the next victim.
            State::Ages(_) => u64::MAX,
            _ => 0,
        }
    }

    /// Returns the number of words per set.
    fn words(self) -> usize {
        match self {
            State::Order { .. } | State::Nothing => 0,
            State::Ages(_) => 2,
            _ => 1,
        }
    }
}

impl Replacement {
    /// Returns whether a hit right after a fill of the same line changes no state. A hit right after a hit never does.
    pub(crate) fn use_after_fill_is_idempotent(self) -> bool {
        // These two fill with one age and set another one at a hit.
        !matches!(self, Replacement::Srrip | Replacement::Qlru)
    }
}

/// Entries compared at the same time.
const GROUP: usize = 4;
/// Maximum number of ways whose order fits in a matrix of bits.
const MATRIX: usize = 8;
/// Maximum number of ways whose order fits in a word of nibbles.
const NIBBLES: usize = 16;

impl Cache {
    /// Creates an array of `sets` sets, a power of two if the index is hashed.
    pub fn new(sets: u64, ways: u32, policy: Replacement, index: Index, rng: Rng) -> Cache {
        let sets = u32::try_from(sets).expect("checked: at most 2^24 lines");
        let ways = ways as usize;
        let short = ways <= NIBBLES;
        let state = match policy {
            Replacement::Lru if ways <= MATRIX => State::Matrix,
            Replacement::Lru if short => State::Nibbles { uses: true },
            Replacement::Fifo if short => State::Nibbles { uses: false },
            Replacement::Lru => State::Order { uses: true },
            Replacement::Fifo => State::Order { uses: false },
            Replacement::TreePlru => State::Tree,
            Replacement::Nru => State::Referenced { random: false },
            Replacement::NruRandom => State::Referenced { random: true },
            Replacement::BitPlru => State::Recent,
            Replacement::NotMruRandom => State::Last,
            Replacement::Srrip => State::Ages(Ages::Srrip),
            Replacement::Qlru => State::Ages(Ages::Qlru),
            Replacement::Random => State::Nothing,
        };
        let words = vec![state.start(ways); sets as usize * state.words()];
        let masked = index == Index::Bits && sets.is_power_of_two();
        let groups_per_set = ways.div_ceil(GROUP);
        Cache {
            groups: vec![[FREE; GROUP]; sets as usize * groups_per_set],
            words,
            ways,
            all_ways: ways,
            groups_per_set,
            sets,
            mask: if masked { sets - 1 } else { u32::MAX },
            hash: (index == Index::Hashed).then(|| Hash::new(sets)),
            state,
            rng,
            free: sets as usize * ways,
            refills: 0,
            writebacks: 0,
        }
    }

    /// Returns whether both have the same state, counters excepted.
    pub fn state_equals(&self, other: &Cache) -> bool {
        self.groups == other.groups
            && self.words == other.words
            && self.rng == other.rng
            && self.free == other.free
    }

    /// Adds the counts since `before` another `times` times.
    pub fn repeat_counts(&mut self, before: &Cache, times: u64) {
        self.refills += (self.refills - before.refills) * times;
        self.writebacks += (self.writebacks - before.writebacks) * times;
    }

    /// Removes every entry, without a write-back. The counters remain.
    pub fn empty(&mut self) {
        self.groups.fill([FREE; GROUP]);
        self.words.fill(self.state.start(self.ways));
        self.free = self.sets as usize * self.ways;
    }

    /// Returns the set of a line or page number.
    #[inline(always)]
    pub fn set_of(&self, number: u32) -> usize {
        (if self.mask == u32::MAX { self.indexed_set_of(number) } else { number & self.mask }) as usize
    }

    /// Returns the set if it is not a bit field of the number. Separate, to keep it out of the common path.
    #[inline(always)]
    fn indexed_set_of(&self, number: u32) -> u32 {
        match &self.hash {
            Some(hash) => hash.of(number),
            None => number % self.sets,
        }
    }

    /// Returns the entries of the ways in use. Not if the policy keeps its order in nibbles: those may be any of the ways.
    #[inline(always)]
    fn set(&mut self, set: usize) -> &mut [u32] {
        let start = set * self.groups_per_set;
        &mut self.groups[start..start + self.groups_per_set].as_flattened_mut()[..self.ways]
    }

    /// Returns the entry of a way, in use or not.
    #[inline]
    fn entry(&mut self, set: usize, way: usize) -> &mut u32 {
        &mut self.groups[set * self.groups_per_set + way / GROUP][way % GROUP]
    }

    /// Returns the way of a set that holds `number`. The common numbers of groups are constants here, so that all
    /// groups are compared without a branch between them.
    #[inline(always)]
    fn find(&self, set: usize, number: u32) -> Option<usize> {
        let tag = number << FLAG_BITS;
        let hits = match self.groups_per_set {
            2 => {
                let [a, b] = &self.groups.as_chunks::<2>().0[set];
                equal(a, tag) | equal(b, tag) << 4
            }
            4 => {
                let [a, b, c, d] = &self.groups.as_chunks::<4>().0[set];
                let low = equal(a, tag) | equal(b, tag) << 4;
                let high = equal(c, tag) | equal(d, tag) << 4;
                low | high << 8
            }
            1 => equal(&self.groups[set], tag),
            3 => {
                let [a, b, c] = &self.groups.as_chunks::<3>().0[set];
                equal(a, tag) | equal(b, tag) << 4 | equal(c, tag) << 8
            }
            many => return find_long(&self.groups[set * many..(set + 1) * many], tag),
        };
        (hits != 0).then(|| hits.trailing_zeros() as usize)
    }

    /// Looks a line up and records the use. Returns whether it hit.
    #[inline(always)]
    pub fn touch(&mut self, number: u32) -> bool {
        self.touch_in_set(self.set_of(number), number)
    }

    /// Looks `number` up in a set and records the use. Returns whether it hit.
    #[inline(always)]
    pub fn touch_in_set(&mut self, set: usize, number: u32) -> bool {
        let Some(way) = self.find(set, number) else { return false };
        match self.state {
            State::Matrix => self.words[set] = replacement_state::matrix_use(self.words[set], self.ways, way),
            State::Nibbles { uses: true } => {
                self.words[set] = replacement_state::make_youngest(self.words[set], way as u64);
            }
            _ => self.record_use(set, way),
        }
        true
    }

    /// Returns its capacity in lines, and the number of lines with any of these flags.
    pub fn lines(&self, flags: u32) -> (u64, u64) {
        let entries = self.groups.iter().flatten().filter(|&&entry| entry != FREE);
        let capacity = u64::from(self.sets) * self.all_ways as u64;
        (capacity, entries.filter(|&&entry| entry & flags != 0).count() as u64)
    }

    /// Returns the flags of `number`, if it is present. Records no use.
    #[inline]
    pub fn flags(&self, number: u32) -> Option<u32> {
        let set = self.set_of(number);
        self.find(set, number)
            .map(|way| self.groups[set * self.groups_per_set + way / GROUP][way % GROUP] & FLAGS)
    }

    /// Adds flags to an entry, if it is present.
    pub fn mark(&mut self, number: u32, flags: u32) {
        let set = self.set_of(number);
        if let Some(way) = self.find(set, number) {
            *self.entry(set, way) |= flags;
        }
    }

    /// Clears flags of an entry and returns those that were set.
    pub fn unmark(&mut self, number: u32, flags: u32) -> u32 {
        let set = self.set_of(number);
        let Some(way) = self.find(set, number) else { return 0 };
        let entry = self.entry(set, way);
        let had = *entry & flags;
        *entry &= !flags;
        had
    }

    /// Fills a line that is not present into a free way or in place of a victim, which it returns.
    #[inline(always)]
    pub fn fill(&mut self, number: u32, flags: u32) -> Option<Evicted> {
        self.fill_in_set(self.set_of(number), number, flags)
    }

    /// Fills a line in a given set (see [`Cache::fill`]).
    #[inline(always)]
    pub fn fill_in_set(&mut self, set: usize, number: u32, flags: u32) -> Option<Evicted> {
        self.refills += 1;
        let entry = number << FLAG_BITS | flags;
        let old = if self.state == State::Matrix {
            let way = replacement_state::lru_row(self.words[set]);
            self.words[set] = replacement_state::matrix_use(self.words[set], self.ways, way);
            std::mem::replace(self.entry(set, way), entry)
        } else if let State::Nibbles { .. } = self.state {
            let word = &mut self.words[set];
            let oldest = *word >> (4 * (self.ways - 1)) & 15;
            // This pushes a second copy past the last way; look-ups find the lowest one.
            *word = *word << 4 | oldest;
            let way = oldest as usize;
            std::mem::replace(&mut self.groups[set * self.groups_per_set + way / GROUP][way % GROUP], entry)
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

    /// Fills an entry under the policies that do not use nibbles. Returns the old entry.
    #[inline(never)]
    fn replace(&mut self, set: usize, entry: u32) -> u32 {
        if let State::Order { .. } = self.state {
            let entries = self.set(set);
            entries.rotate_right(1);
            return std::mem::replace(&mut entries[0], entry);
        }
        let way = self.way_for(set);
        let old = std::mem::replace(&mut self.set(set)[way], entry);
        self.record_fill(set, way);
        old
    }

    /// Removes `number` and returns its flags, if it was present.
    pub fn remove(&mut self, number: u32) -> Option<u32> {
        self.remove_in_set(self.set_of(number), number)
    }

    /// Removes `number` from a set (see [`Cache::remove`]).
    pub fn remove_in_set(&mut self, set: usize, number: u32) -> Option<u32> {
        let way = self.find(set, number)?;
        let entry = self.entry(set, way);
        let flags = *entry & FLAGS;
        *entry = FREE;
        match self.state {
            State::Matrix => {
                self.words[set] = replacement_state::matrix_oldest(self.words[set], self.ways, way)
            }
            State::Nibbles { .. } => {
                self.words[set] = replacement_state::make_oldest(self.words[set], way as u64, self.ways)
            }
            State::Order { .. } => self.set(set)[way..].rotate_left(1),
            State::Referenced { .. } | State::Recent => self.words[set] &= !(1 << way),
            State::Tree | State::Last | State::Ages(_) | State::Nothing => {}
        }
        self.free += 1;
        Some(flags)
    }

    /// Returns the way for a fill, under the policies that keep entries in place.
    fn way_for(&mut self, set: usize) -> usize {
        if self.free > 0
            && let Some(way) = self.free_way(set)
        {
            return way;
        }
        let ways = self.ways;
        match self.state {
            State::Tree => replacement_state::tree_victim(self.words[set], ways),
            State::Referenced { random } => {
                let all = replacement_state::all(ways);
                if self.words[set] == all {
                    self.words[set] = 0;
                }
                let clear = !self.words[set] & all;
                let skip = if random { self.rng.below(u64::from(clear.count_ones())) } else { 0 };
                replacement_state::set_bit(clear, skip as u32)
            }
            // With a single way there is no other way with a clear bit.
            State::Recent => (self.words[set].trailing_ones() as usize).min(ways - 1),
            State::Last if ways > 1 => {
                let other = self.rng.below(ways as u64 - 1) as usize;
                other + usize::from(other as u64 >= self.words[set])
            }
            State::Last => 0,
            State::Ages(_) => replacement_state::oldest(self.ages(set), ways),
            _ => self.rng.below(ways as u64) as usize,
        }
    }

    /// Returns the free way that is filled first.
    fn free_way(&mut self, set: usize) -> Option<usize> {
        let last = self.state == State::Ages(Ages::Qlru);
        let mut entries = self.set(set).iter();
        let free = |&entry: &u32| entry == FREE;
        if last { entries.rposition(free) } else { entries.position(free) }
    }

    /// Returns the two words of a set's ages.
    fn ages(&mut self, set: usize) -> &mut [u64; 2] {
        &mut self.words.as_chunks_mut::<2>().0[set]
    }

    /// Records a use of `way`. LRU in a word does it in [`Cache::touch_in_set`].
    #[inline]
    fn record_use(&mut self, set: usize, way: usize) {
        let ways = self.ways;
        match self.state {
            State::Tree => self.words[set] = replacement_state::tree_use(self.words[set], ways, way),
            State::Referenced { .. } => self.words[set] |= 1 << way,
            State::Order { uses: true } => self.set(set)[..=way].rotate_right(1),
            State::Order { .. } | State::Matrix | State::Nibbles { .. } | State::Nothing => {}
            _ => self.record_use_slow(set, way),
        }
    }

    /// Records a use for the policies that need more instructions, out of the inner loop of the others.
    #[inline(never)]
    fn record_use_slow(&mut self, set: usize, way: usize) {
        let ways = self.ways;
        match self.state {
            State::Recent => self.words[set] = replacement_state::recent_use(self.words[set], ways, way),
            State::Last => self.words[set] = way as u64,
            State::Ages(ages) => ages.put(self.ages(set), ways, way, 0),
            _ => {}
        }
    }

    /// Records a fill of `way`.
    #[inline]
    fn record_fill(&mut self, set: usize, way: usize) {
        let ways = self.ways;
        match self.state {
            State::Ages(ages) => ages.put(self.ages(set), ways, way, ages.filled()),
            _ => self.record_use(set, way),
        }
    }
}

/// Returns a bit mask of the entries of a group that have this tag.
#[inline(always)]
fn equal(group: &[u32; GROUP], tag: u32) -> u32 {
    let numbers = u32x4::new(*group) & u32x4::splat(!FLAGS);
    numbers.simd_eq(u32x4::splat(tag)).to_bitmask()
}

/// Finds a tag in a set of many groups (see [`Cache::find`]).
fn find_long(groups: &[[u32; GROUP]], tag: u32) -> Option<usize> {
    groups.iter().enumerate().find_map(|(index, group)| {
        let hits = equal(group, tag);
        (hits != 0).then(|| index * GROUP + hits.trailing_zeros() as usize)
    })
}

#[cfg(test)]
mod tests;
