//! A cache whose policy and whose number of ways are known to the compiler: one dispatch for many look-ups.
//!
//! The common policies and sizes have a type of their own, [`Typed`]; for all others the cache itself does the same work
//! and finds out at each look-up. Both are [`Sets`], so that a [`Kernel`], the loop over many look-ups, is written once.

use super::replacement_state::{self, lru_row, matrix_use};
use super::{Cache, DIRTY, FLAG_BITS, FLAGS, FREE, GROUP, State, equal};
use crate::rng::Rng;

/// Look-ups and fills. `place` selects the set, `number` is what the set holds: different for TLBs only.
pub(crate) trait Sets {
    /// Looks a number up and records the use. Returns whether it hit.
    fn touch(&mut self, place: u32, number: u32) -> bool;

    /// The same, for an access that leaves flags in the entry that it hits. Returns the flags that the entry had.
    fn touch_and_mark(&mut self, place: u32, number: u32, flags: u32) -> Option<u32>;

    /// Fills a number that is not present. Returns the number that was evicted if it was dirty.
    fn fill(&mut self, place: u32, number: u32, flags: u32) -> Option<u32>;

    /// Reads a set, so that it is in this computer's nearest cache when it is looked up. The result means nothing.
    fn approach(&self, place: u32) -> u32;
}

/// A loop over look-ups.
pub(crate) trait Kernel {
    type Out;
    fn run(self, sets: &mut impl Sets) -> Self::Out;
}

/// The state of a set under a policy that keeps one word.
trait Policy {
    /// Whether free ways are the oldest, so that a fill need not search for one.
    const FREE_ARE_OLDEST: bool;
    /// Whether the state is in words.
    const WORDS: bool = true;
    fn used(word: &mut u64, ways: usize, way: usize);
    /// Returns the way of a fill and records it.
    fn replace(word: &mut u64, ways: usize, rng: &mut Rng) -> usize;
    /// Records the fill of a free way.
    fn filled(word: &mut u64, ways: usize, way: usize) {
        Self::used(word, ways, way);
    }
}

struct Matrix;
struct NibblesLru;
struct NibblesFifo;
struct Tree;
struct Nru;
struct Random;

impl Policy for Matrix {
    const FREE_ARE_OLDEST: bool = true;
    #[inline(always)]
    fn used(word: &mut u64, ways: usize, way: usize) {
        *word = matrix_use(*word, ways, way);
    }
    #[inline(always)]
    fn replace(word: &mut u64, ways: usize, _: &mut Rng) -> usize {
        let way = lru_row(*word);
        *word = matrix_use(*word, ways, way);
        way
    }
}

impl Policy for NibblesLru {
    const FREE_ARE_OLDEST: bool = true;
    #[inline(always)]
    fn used(word: &mut u64, _: usize, way: usize) {
        *word = replacement_state::make_youngest(*word, way as u64);
    }
    #[inline(always)]
    fn replace(word: &mut u64, ways: usize, _: &mut Rng) -> usize {
        let oldest = *word >> (4 * (ways - 1)) & 15;
        *word = *word << 4 | oldest;
        oldest as usize
    }
}

impl Policy for NibblesFifo {
    const FREE_ARE_OLDEST: bool = true;
    #[inline(always)]
    fn used(_: &mut u64, _: usize, _: usize) {}
    #[inline(always)]
    fn replace(word: &mut u64, ways: usize, rng: &mut Rng) -> usize {
        NibblesLru::replace(word, ways, rng)
    }
}

impl Policy for Tree {
    const FREE_ARE_OLDEST: bool = false;
    #[inline(always)]
    fn used(word: &mut u64, ways: usize, way: usize) {
        *word = replacement_state::tree_use(*word, ways, way);
    }
    #[inline(always)]
    fn replace(word: &mut u64, ways: usize, _: &mut Rng) -> usize {
        let way = replacement_state::tree_victim(*word, ways);
        Tree::used(word, ways, way);
        way
    }
}

impl Policy for Nru {
    const FREE_ARE_OLDEST: bool = false;
    #[inline(always)]
    fn used(word: &mut u64, _: usize, way: usize) {
        *word |= 1 << way;
    }
    #[inline(always)]
    fn replace(word: &mut u64, ways: usize, _: &mut Rng) -> usize {
        if *word == replacement_state::all(ways) {
            *word = 0;
        }
        let way = word.trailing_ones() as usize;
        *word |= 1 << way;
        way
    }
}

impl Policy for Random {
    const FREE_ARE_OLDEST: bool = false;
    const WORDS: bool = false;
    #[inline(always)]
    fn used(_: &mut u64, _: usize, _: usize) {}
    #[inline(always)]
    fn replace(_: &mut u64, ways: usize, rng: &mut Rng) -> usize {
        rng.below(ways as u64) as usize
    }
}

/// The parts of a cache, with its policy `P` and its `G` groups to a set.
struct Typed<'a, P, const G: usize> {
    rows: &'a mut [[[u32; GROUP]; G]],
    words: &'a mut [u64],
    mask: u32,
    ways: usize,
    rng: &'a mut Rng,
    free: usize,
    refills: u64,
    writebacks: u64,
    policy: std::marker::PhantomData<P>,
}

impl<P: Policy, const G: usize> Typed<'_, P, G> {
    #[inline(always)]
    fn find(&self, set: usize, number: u32) -> u32 {
        let tag = number << FLAG_BITS;
        let row = &self.rows[set];
        let mut hits = 0;
        for (index, group) in row.iter().enumerate() {
            hits |= equal(group, tag) << (GROUP * index);
        }
        hits
    }

    #[inline(always)]
    fn entry(&mut self, set: usize, way: usize) -> &mut u32 {
        &mut self.rows[set][way / GROUP % G][way % GROUP]
    }

    #[inline(always)]
    fn word<R>(&mut self, set: usize, change: impl FnOnce(&mut u64, usize, &mut Rng) -> R) -> R {
        if P::WORDS {
            change(&mut self.words[set], self.ways, self.rng)
        } else {
            change(&mut 0, self.ways, self.rng)
        }
    }
}

impl<P: Policy, const G: usize> Sets for Typed<'_, P, G> {
    #[inline(always)]
    fn touch(&mut self, place: u32, number: u32) -> bool {
        let set = (place & self.mask) as usize;
        let hits = self.find(set, number);
        if hits == 0 {
            return false;
        }
        self.word(set, |word, ways, _| P::used(word, ways, hits.trailing_zeros() as usize));
        true
    }

    #[inline(always)]
    fn touch_and_mark(&mut self, place: u32, number: u32, flags: u32) -> Option<u32> {
        let set = (place & self.mask) as usize;
        let hits = self.find(set, number);
        if hits == 0 {
            return None;
        }
        let way = hits.trailing_zeros() as usize;
        self.word(set, |word, ways, _| P::used(word, ways, way));
        let entry = self.entry(set, way);
        let had = *entry & FLAGS;
        if flags & !had != 0 {
            *entry |= flags;
        }
        Some(had)
    }

    #[inline(always)]
    fn fill(&mut self, place: u32, number: u32, flags: u32) -> Option<u32> {
        let set = (place & self.mask) as usize;
        self.refills += 1;
        let way = if !P::FREE_ARE_OLDEST && self.free > 0 {
            let ways = self.ways;
            match self.rows[set].as_flattened()[..ways].iter().position(|&entry| entry == FREE) {
                Some(way) => {
                    self.word(set, |word, ways, _| P::filled(word, ways, way));
                    way
                }
                None => self.word(set, P::replace),
            }
        } else {
            self.word(set, P::replace)
        };
        let old = std::mem::replace(self.entry(set, way), number << FLAG_BITS | flags);
        if old & DIRTY == 0 {
            return None;
        }
        // A free entry has all bits set.
        if old == FREE {
            self.free -= 1;
            return None;
        }
        self.writebacks += 1;
        Some(old >> FLAG_BITS)
    }

    #[inline(always)]
    fn approach(&self, place: u32) -> u32 {
        let set = (place & self.mask) as usize;
        self.rows[set][0][0] ^ if P::WORDS { self.words[set] as u32 } else { 0 }
    }
}

impl Sets for Cache {
    #[inline(always)]
    fn touch(&mut self, place: u32, number: u32) -> bool {
        self.touch_in_set(self.set_of(place), number)
    }

    #[inline(always)]
    fn touch_and_mark(&mut self, place: u32, number: u32, flags: u32) -> Option<u32> {
        let set = self.set_of(place);
        self.touch_in_set(set, number).then(|| {
            let way = self.find(set, number).expect("it has just hit");
            let entry = self.entry(set, way);
            let had = *entry & FLAGS;
            *entry |= flags;
            had
        })
    }

    #[inline(always)]
    fn fill(&mut self, place: u32, number: u32, flags: u32) -> Option<u32> {
        let old = self.fill_in_set(self.set_of(place), number, flags)?;
        (old.flags & DIRTY != 0).then_some(old.number)
    }

    #[inline(always)]
    fn approach(&self, _: u32) -> u32 {
        0
    }
}

impl Cache {
    /// Runs a loop over look-ups, compiled for the policy and the ways of this cache if they are common ones.
    pub fn run<K: Kernel>(&mut self, kernel: K) -> K::Out {
        if self.mask == u32::MAX || self.ways > GROUP * self.groups_per_set {
            return kernel.run(self);
        }
        match (self.state, self.groups_per_set) {
            (State::Matrix, 1) => self.typed::<Matrix, 1, K>(kernel),
            (State::Matrix, 2) => self.typed::<Matrix, 2, K>(kernel),
            (State::Nibbles { uses: true }, 3) => self.typed::<NibblesLru, 3, K>(kernel),
            (State::Nibbles { uses: true }, 4) => self.typed::<NibblesLru, 4, K>(kernel),
            (State::Nibbles { uses: false }, 1) => self.typed::<NibblesFifo, 1, K>(kernel),
            (State::Tree, 1) => self.typed::<Tree, 1, K>(kernel),
            (State::Tree, 2) => self.typed::<Tree, 2, K>(kernel),
            (State::Tree, 4) => self.typed::<Tree, 4, K>(kernel),
            (State::Referenced { random: false }, 2) => self.typed::<Nru, 2, K>(kernel),
            (State::Referenced { random: false }, 4) => self.typed::<Nru, 4, K>(kernel),
            (State::Nothing, 1) => self.typed::<Random, 1, K>(kernel),
            (State::Nothing, 4) => self.typed::<Random, 4, K>(kernel),
            _ => kernel.run(self),
        }
    }

    #[inline(never)]
    fn typed<P: Policy, const G: usize, K: Kernel>(&mut self, kernel: K) -> K::Out {
        let mut typed = Typed::<P, G> {
            rows: self.groups.as_chunks_mut::<G>().0,
            words: &mut self.words,
            mask: self.mask,
            ways: self.ways,
            rng: &mut self.rng,
            free: self.free,
            refills: self.refills,
            writebacks: self.writebacks,
            policy: std::marker::PhantomData,
        };
        let out = kernel.run(&mut typed);
        let Typed { free, refills, writebacks, .. } = typed;
        (self.free, self.refills, self.writebacks) = (free, refills, writebacks);
        out
    }
}
