//! One set-associative store with its replacement policy: a cache's tags, or a TLB's.

use wide::u32x4;

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
    /// sets - 1 where the sets are a power of two, so that the modulo is a mask; else all ones.
    mask: u32,
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
    Moved { uses: bool },
    /// Bits of a word.
    Tree,
    /// A bit a way of a word.
    Referenced,
    /// None.
    Nothing,
}

impl State {
    /// The word of a set that nothing has been put in.
    fn start(self) -> u64 {
        // The nibble at each place is the place's number.
        if let State::Nibbles { .. } = self { 0xfedc_ba98_7654_3210 } else { 0 }
    }
}

/// Entries compared at once.
const GROUP: usize = 4;
/// The most ways whose order a word of nibbles holds.
const NIBBLES: usize = 16;

impl Cache {
    pub fn new(sets: u64, ways: u32, policy: Replacement, rng: Rng) -> Cache {
        let sets = u32::try_from(sets).expect("checked: at most 2^24 lines");
        let ways = ways as usize;
        let short = ways <= NIBBLES;
        let state = match policy {
            Replacement::Lru if short => State::Nibbles { uses: true },
            Replacement::Fifo if short => State::Nibbles { uses: false },
            Replacement::Lru => State::Moved { uses: true },
            Replacement::Fifo => State::Moved { uses: false },
            Replacement::TreePlru => State::Tree,
            Replacement::Nru => State::Referenced,
            Replacement::Random => State::Nothing,
        };
        let words = match state {
            State::Moved { .. } | State::Nothing => Vec::new(),
            _ => vec![state.start(); sets as usize],
        };
        let stride = ways.div_ceil(GROUP);
        Cache {
            groups: vec![[FREE; GROUP]; sets as usize * stride],
            words,
            ways,
            stride,
            sets,
            mask: if sets.is_power_of_two() { sets - 1 } else { u32::MAX },
            state,
            rng,
            free: sets as usize * ways,
            refills: 0,
            writebacks: 0,
        }
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
        (if self.mask == u32::MAX { number % self.sets } else { number & self.mask }) as usize
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
        if self.state == (State::Nibbles { uses: true }) {
            self.words[set] = youngest(self.words[set], way as u64);
        } else {
            self.note(set, way);
        }
        true
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
        if let State::Moved { .. } = self.state {
            let entries = self.set(set);
            entries.rotate_right(1);
            return std::mem::replace(&mut entries[0], entry);
        }
        let way = self.way_for(set);
        let old = std::mem::replace(&mut self.set(set)[way], entry);
        self.note(set, way);
        old
    }

    /// Takes `number` out; its flags, if it was here.
    pub fn remove(&mut self, number: u32) -> Option<u32> {
        let set = self.set_of(number);
        let way = self.find(set, number)?;
        let flags = self.set(set)[way] & FLAGS;
        self.set(set)[way] = FREE;
        match self.state {
            State::Nibbles { .. } => self.words[set] = eldest(self.words[set], way as u64, self.ways),
            State::Moved { .. } => self.set(set)[way..].rotate_left(1),
            State::Referenced => self.words[set] &= !(1 << way),
            State::Tree | State::Nothing => {}
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
        match self.state {
            State::Tree => tree_victim(self.words[set], self.ways),
            State::Referenced => {
                let all = u64::MAX >> (64 - self.ways);
                if self.words[set] == all {
                    self.words[set] = 0;
                }
                self.words[set].trailing_ones() as usize
            }
            _ => self.rng.below(self.ways as u64) as usize,
        }
    }

    /// Notes a use of `way`, which under LRU in nibbles is done on the spot.
    #[inline]
    fn note(&mut self, set: usize, way: usize) {
        match self.state {
            State::Tree => self.words[set] = tree_use(self.words[set], self.ways, way),
            State::Referenced => self.words[set] |= 1 << way,
            State::Moved { uses: true } => self.set(set)[..=way].rotate_right(1),
            _ => {}
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

/// Ones in every nibble.
const ONES: u64 = 0x1111_1111_1111_1111;

/// Four times the lowest position at which a nibble stands in a word that has it.
#[inline(always)]
fn bit_of(word: u64, nibble: u64) -> u32 {
    // The nibble's own place becomes zero, and the lowest borrow is there.
    let differs = word ^ nibble.wrapping_mul(ONES);
    let zero = differs.wrapping_sub(ONES) & !differs & (ONES << 3);
    zero.trailing_zeros() & !3
}

/// A word of nibbles with one of them moved to the youngest place.
#[inline(always)]
fn youngest(word: u64, nibble: u64) -> u64 {
    let bit = bit_of(word, nibble);
    let younger = word & ((1 << bit) - 1);
    let older = word >> bit >> 4 << bit << 4;
    older | younger << 4 | nibble
}

/// A word of nibbles with one of them moved to the oldest of `ways` places; what is beyond those
/// means nothing.
fn eldest(word: u64, nibble: u64, ways: usize) -> u64 {
    let bit = bit_of(word, nibble);
    let younger = word & ((1 << bit) - 1);
    let top = 4 * (ways as u32 - 1);
    let between = (word >> bit >> 4 << bit) & ((1 << top) - 1);
    nibble << top | between | younger
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
