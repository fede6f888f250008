//! One set-associative store with its replacement policy: a cache's tags, or a TLB's.

mod index;
mod words;

use wide::u32x4;

use crate::description::{Index, Replacement};
use crate::rng::Rng;
use index::Hash;
use words::Ages;

/// An entry's line (or page) was written here and not yet further out.
pub(crate) const DIRTY: u32 = 1;
/// An entry holds an older version than memory does: somebody wrote past the caches.
pub(crate) const STALE: u32 = 2;
const FLAGS: u32 = DIRTY | STALE;
const FLAG_BITS: u32 = 2;
/// No entry. As a number it is the last one that 30 bits hold, which no line in reach has.
const FREE: u32 = u32::MAX;
/// Lines and pages are numbered below this.
pub(crate) const MAX_NUMBERS: u64 = (1 << (32 - FLAG_BITS)) - 1;

/// What left a set to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evicted {
    pub number: u32,
    pub flags: u32,
}

/// Sets of entries `number << 2 | flags`, each in the way where it was put, and the policy's state.
///
/// A set takes a whole number of [`GROUP`]s, the last filled up with entries that are never found, so
/// that a look-up compares group by group. Up to 16 ways LRU and FIFO keep the ways in order of age
/// as nibbles of one word, youngest lowest, free ways oldest; with more ways the entries themselves
/// stand in order of age (which way a line sits in cannot matter to these two policies).
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    groups: Vec<[u32; GROUP]>,
    words: Vec<u64>,
    ways: usize,
    /// Groups in a set.
    stride: usize,
    sets: u32,
    /// sets - 1 where the sets are a power of two and indexed by bits, so that the modulo is a mask;
    /// else all ones.
    mask: u32,
    hash: Option<Hash>,
    state: State,
    rng: Rng,
    /// Free entries in all: with none, a fill need not look for one.
    free: usize,
    /// Fills.
    pub refills: u64,
    /// Dirty entries that left.
    pub writebacks: u64,
}

/// How a policy's state is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nibbles of a word; a use counts for LRU and not for FIFO.
    Nibbles { uses: bool },
    /// The order of the entries.
    TransferRows { uses: bool },
    /// Bits of a word.
    Tree,
    /// A bit a way of a word; when no bit is clear at a replacement, all are cleared.
    Referenced { random: bool },
    /// A bit a way of a word; when a use would leave no bit clear, it clears all others.
    Recent,
    /// The way of the last use, as a number.
    Last,
    /// Two bits a way, in a word for the low ones and a word for the high ones.
    Ages(Ages),
    /// None.
    Nothing,
}

impl State {
    /// The words of a set that nothing has been put in.
    fn start(self) -> u64 {
        match self {
            // The nibble at each place is the place's number.
            State::Nibbles { .. } => 0xfedc_ba98_7654_3210,
            // Every age is 3: what a policy that ages looks for.
            State::Ages(_) => u64::MAX,
            _ => 0,
        }
    }

    /// Words a set.
    fn words(self) -> usize {
        match self {
            State::TransferRows { .. } | State::Nothing => 0,
            State::Ages(_) => 2,
            _ => 1,
        }
    }
}

impl Replacement {
    /// Whether a use that follows on a fill of the same line changes no state. A use that follows on a use
    /// never does.
    pub(crate) fn rests_after_a_fill(self) -> bool {
        // These two fill with one age and set another at a hit.
        !matches!(self, Replacement::Srrip | Replacement::Qlru)
    }
}

/// Entries compared at once.
const GROUP: usize = 4;
/// The most ways whose order a word of nibbles holds.
const NIBBLES: usize = 16;

impl Cache {
    /// A store of `sets` sets, which are a power of two where the index is hashed.
    pub fn new(sets: u64, ways: u32, policy: Replacement, index: Index, rng: Rng) -> Cache {
        let sets = u32::try_from(sets).expect("checked: at most 2^24 lines");
        let ways = ways as usize;
        let short = ways <= NIBBLES;
        let state = match policy {
            Replacement::Lru if short => State::Nibbles { uses: true },
            Replacement::Fifo if short => State::Nibbles { uses: false },
            Replacement::Lru => State::TransferRows { uses: true },
            Replacement::Fifo => State::TransferRows { uses: false },
            Replacement::TreePlru => State::Tree,
            Replacement::Nru => State::Referenced { random: false },
            Replacement::NruRandom => State::Referenced { random: true },
            Replacement::BitPlru => State::Recent,
            Replacement::NotMruRandom => State::Last,
            Replacement::Srrip => State::Ages(Ages::Srrip),
            Replacement::Qlru => State::Ages(Ages::Qlru),
            Replacement::Random => State::Nothing,
        };
        let words = vec![state.start(); sets as usize * state.words()];
        let masked = index == Index::Bits && sets.is_power_of_two();
        let stride = ways.div_ceil(GROUP);
        Cache {
            groups: vec![[FREE; GROUP]; sets as usize * stride],
            words,
            ways,
            stride,
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

    /// Whether everything from here on would be the same in another one: all but what was counted.
    pub fn is_as(&self, other: &Cache) -> bool {
        self.groups == other.groups
            && self.words == other.words
            && self.rng == other.rng
            && self.free == other.free
    }

    /// Counts what was counted since `before` another `times`.
    pub fn count_again(&mut self, before: &Cache, times: u64) {
        self.refills += (self.refills - before.refills) * times;
        self.writebacks += (self.writebacks - before.writebacks) * times;
    }

    /// Drops every entry, written or not; what was counted stays counted.
    pub fn empty(&mut self) {
        self.groups.fill([FREE; GROUP]);
        self.words.fill(self.state.start());
        self.free = self.sets as usize * self.ways;
    }

    /// The set of a line or page number.
    #[inline(always)]
    pub fn set_of(&self, number: u32) -> usize {
        (if self.mask == u32::MAX { self.far_set_of(number) } else { number & self.mask }) as usize
    }

    /// The same where the set is not some bits of the number; out of the way of those where it is.
    #[inline(always)]
    fn far_set_of(&self, number: u32) -> u32 {
        match &self.hash {
            Some(hash) => hash.of(number),
            None => number % self.sets,
        }
    }

    #[inline(always)]
    fn set(&mut self, set: usize) -> &mut [u32] {
        let start = set * self.stride;
        &mut self.groups[start..start + self.stride].as_flattened_mut()[..self.ways]
    }

    /// The way of a set that holds `number`. Ways are a number known when this was compiled for the
    /// common ones: all groups are then compared without a branch between them.
    #[inline(always)]
    fn find(&self, set: usize, number: u32) -> Option<usize> {
        let wanted = number << FLAG_BITS;
        let hits = match self.stride {
            2 => {
                let [a, b] = &self.groups.as_chunks::<2>().0[set];
                equal(a, wanted) | equal(b, wanted) << 4
            }
            4 => {
                let [a, b, c, d] = &self.groups.as_chunks::<4>().0[set];
                let low = equal(a, wanted) | equal(b, wanted) << 4;
                let high = equal(c, wanted) | equal(d, wanted) << 4;
                low | high << 8
            }
            1 => equal(&self.groups[set], wanted),
            3 => {
                let [a, b, c] = &self.groups.as_chunks::<3>().0[set];
                equal(a, wanted) | equal(b, wanted) << 4 | equal(c, wanted) << 8
            }
            many => return find_long(&self.groups[set * many..(set + 1) * many], wanted),
        };
        (hits != 0).then(|| hits.trailing_zeros() as usize)
    }

    /// Looks a line up and notes the use.
    #[inline(always)]
    pub fn touch(&mut self, number: u32) -> bool {
        self.touch_in_set(self.set_of(number), number)
    }

    /// Looks `number` up in a set and notes the use.
    #[inline(always)]
    pub fn touch_in_set(&mut self, set: usize, number: u32) -> bool {
        let Some(way) = self.find(set, number) else { return false };
        if matches!(self.state, State::Nibbles { uses: true }) {
            self.words[set] = words::youngest(self.words[set], way as u64);
        } else {
            self.note(set, way);
        }
        true
    }

    /// Lines that it could hold, and of those that it holds how many have any of these flags.
    pub fn lines(&self, flags: u32) -> (u64, u64) {
        let entries = self.groups.iter().flatten().filter(|&&entry| entry != FREE);
        let capacity = u64::from(self.sets) * self.ways as u64;
        (capacity, entries.filter(|&&entry| entry & flags != 0).count() as u64)
    }

    /// The flags of `number`, if it is here; no use is noted.
    pub fn flags(&self, number: u32) -> Option<u32> {
        let set = self.set_of(number);
        self.find(set, number).map(|way| self.groups[set * self.stride + way / GROUP][way % GROUP] & FLAGS)
    }

    /// Adds flags to an entry that is here.
    pub fn mark(&mut self, number: u32, flags: u32) {
        let set = self.set_of(number);
        if let Some(way) = self.find(set, number) {
            self.set(set)[way] |= flags;
        }
    }

    /// Takes flags from an entry; says which of them it had.
    pub fn unmark(&mut self, number: u32, flags: u32) -> u32 {
        let set = self.set_of(number);
        let Some(way) = self.find(set, number) else { return 0 };
        let entry = &mut self.set(set)[way];
        let had = *entry & flags;
        *entry &= !flags;
        had
    }

    /// Puts a line, which is not here, into a free way or instead of a victim.
    #[inline(always)]
    pub fn fill(&mut self, number: u32, flags: u32) -> Option<Evicted> {
        self.fill_in_set(self.set_of(number), number, flags)
    }

    /// The same with the set named.
    #[inline(always)]
    pub fn fill_in_set(&mut self, set: usize, number: u32, flags: u32) -> Option<Evicted> {
        self.refills += 1;
        let entry = number << FLAG_BITS | flags;
        let old = if let State::Nibbles { .. } = self.state {
            let word = &mut self.words[set];
            let oldest = *word >> (4 * (self.ways - 1)) & 15;
            // What this pushes past the last way is a second copy, and the lowest is the one found.
            *word = *word << 4 | oldest;
            let way = oldest as usize;
            std::mem::replace(&mut self.groups[set * self.stride + way / GROUP][way % GROUP], entry)
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

    /// A fill under the policies that do not keep their order in nibbles.
    #[inline(never)]
    fn replace(&mut self, set: usize, entry: u32) -> u32 {
        if let State::TransferRows { .. } = self.state {
            let entries = self.set(set);
            entries.rotate_right(1);
            return std::mem::replace(&mut entries[0], entry);
        }
        let way = self.way_for(set);
        let old = std::mem::replace(&mut self.set(set)[way], entry);
        self.note_fill(set, way);
        old
    }

    /// Takes `number` out; its flags, if it was here.
    pub fn remove(&mut self, number: u32) -> Option<u32> {
        let set = self.set_of(number);
        let way = self.find(set, number)?;
        let flags = self.set(set)[way] & FLAGS;
        self.set(set)[way] = FREE;
        match self.state {
            State::Nibbles { .. } => self.words[set] = words::eldest(self.words[set], way as u64, self.ways),
            State::TransferRows { .. } => self.set(set)[way..].rotate_left(1),
            State::Referenced { .. } | State::Recent => self.words[set] &= !(1 << way),
            State::Tree | State::Last | State::Ages(_) | State::Nothing => {}
        }
        self.free += 1;
        Some(flags)
    }

    /// The way that a fill takes, under the policies that keep entries in place.
    fn way_for(&mut self, set: usize) -> usize {
        if self.free > 0
            && let Some(way) = self.free_way(set)
        {
            return way;
        }
        let ways = self.ways;
        match self.state {
            State::Tree => words::tree_victim(self.words[set], ways),
            State::Referenced { random } => {
                let all = words::all(ways);
                if self.words[set] == all {
                    self.words[set] = 0;
                }
                let clear = !self.words[set] & all;
                let skip = if random { self.rng.below(u64::from(clear.count_ones())) } else { 0 };
                words::set_bit(clear, skip as u32)
            }
            // A single way has no other to be clear.
            State::Recent => (self.words[set].trailing_ones() as usize).min(ways - 1),
            State::Last if ways > 1 => {
                let other = self.rng.below(ways as u64 - 1) as usize;
                other + usize::from(other as u64 >= self.words[set])
            }
            State::Last => 0,
            State::Ages(_) => words::oldest(self.ages(set), ways),
            _ => self.rng.below(ways as u64) as usize,
        }
    }

    /// The free way that is filled first.
    fn free_way(&mut self, set: usize) -> Option<usize> {
        let last = self.state == State::Ages(Ages::Qlru);
        let mut entries = self.set(set).iter();
        let free = |&entry: &u32| entry == FREE;
        if last { entries.rposition(free) } else { entries.position(free) }
    }

    /// The two words of a set's ages.
    fn ages(&mut self, set: usize) -> &mut [u64; 2] {
        &mut self.words.as_chunks_mut::<2>().0[set]
    }

    /// Notes a use of `way`, which under LRU in nibbles is done on the spot.
    #[inline]
    fn note(&mut self, set: usize, way: usize) {
        let ways = self.ways;
        match self.state {
            State::Tree => self.words[set] = words::tree_use(self.words[set], ways, way),
            State::Referenced { .. } => self.words[set] |= 1 << way,
            State::TransferRows { uses: true } => self.set(set)[..=way].rotate_right(1),
            State::TransferRows { .. } | State::Nibbles { .. } | State::Nothing => {}
            _ => self.note_more(set, way),
        }
    }

    /// The same for the policies that need more of it, out of the way of the others' inner loop.
    #[inline(never)]
    fn note_more(&mut self, set: usize, way: usize) {
        let ways = self.ways;
        match self.state {
            State::Recent => self.words[set] = words::recent_use(self.words[set], ways, way),
            State::Last => self.words[set] = way as u64,
            State::Ages(ages) => ages.put(self.ages(set), ways, way, 0),
            _ => {}
        }
    }

    /// Notes that `way` was filled.
    #[inline]
    fn note_fill(&mut self, set: usize, way: usize) {
        let ways = self.ways;
        match self.state {
            State::Ages(ages) => ages.put(self.ages(set), ways, way, ages.filled()),
            _ => self.note(set, way),
        }
    }
}

/// Which of four entries hold a wanted number: a bit each.
#[inline(always)]
fn equal(group: &[u32; GROUP], wanted: u32) -> u32 {
    let numbers = u32x4::new(*group) & u32x4::splat(!FLAGS);
    numbers.simd_eq(u32x4::splat(wanted)).to_bitmask()
}

/// [`Cache::find`] in a set of many groups.
fn find_long(groups: &[[u32; GROUP]], wanted: u32) -> Option<usize> {
    groups.iter().enumerate().find_map(|(index, group)| {
        let hits = equal(group, wanted);
        (hits != 0).then(|| index * GROUP + hits.trailing_zeros() as usize)
    })
}

#[cfg(test)]
mod tests;
