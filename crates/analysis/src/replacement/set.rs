//! One set of a cache under a replacement policy.
//!
//! Written to be read, and by the policies' definitions alone: it shares nothing with the model, so that the
//! model cannot confirm itself.

use super::Policy;
use super::rng::Rng;

/// A way that holds nothing.
const FREE: u16 = u16::MAX;
/// A block that is in no way.
const OUT: u8 = u8::MAX;
/// The most ways of a set: a bit each in one word. The widest sets of real caches have 64 (XScale: 32).
pub const MAX_WAYS: usize = 64;

/// One set: what its ways hold, and what the policy remembers of them. Free ways are filled first, the lowest
/// first.
#[derive(Clone, Debug)]
pub struct Set {
    policy: Policy,
    /// What each way holds. LRU and FIFO keep the ways in the order of their age instead, the youngest first,
    /// because to them it cannot matter in which way a line sits.
    held: Vec<u16>,
    /// The way of each block that was ever here; not kept for LRU and FIFO.
    places: Vec<u8>,
    /// NRU and bit-PLRU: a bit a way, set by a use. Random but the most recently used: only that way's bit.
    /// Tree-PLRU: the tree's bits, the root at 1, a node's halves at twice it; 1 says that the right half is older.
    bits: u64,
    /// SRRIP and QLRU: the age of each way, 0 to 3: the word of its low bits and that of its high ones.
    ages: [u64; 2],
    rng: Rng,
}

impl Set {
    /// An empty set. 1 to [`MAX_WAYS`] ways; what lies outside is taken as the nearer end. `seed` is the chance's.
    #[must_use]
    pub fn new(policy: Policy, ways: usize, seed: u64) -> Set {
        let ways = ways.clamp(1, MAX_WAYS);
        // Free ways are as old as can be.
        let ages = [u64::MAX; 2];
        Set { policy, held: vec![FREE; ways], places: Vec::new(), bits: 0, ages, rng: Rng::new(seed) }
    }

    /// Visits a block (below 65 535), which is in the set afterwards; was it there before?
    pub fn visit(&mut self, block: u16) -> bool {
        if matches!(self.policy, Policy::Lru | Policy::Fifo) { self.queue(block) } else { self.place(block) }
    }

    /// Does the set hold the same, and remember the same of it?
    pub(super) fn same_state(&self, other: &Set) -> bool {
        self.held == other.held && self.bits == other.bits && self.ages == other.ages
    }

    /// LRU and FIFO: the oldest goes, and a free way is the oldest of all.
    fn queue(&mut self, block: u16) -> bool {
        let at = self.held.iter().position(|&h| h == block);
        let oldest = self.held.len() - 1;
        if at.is_none() || self.policy == Policy::Lru {
            self.held[..=at.unwrap_or(oldest)].rotate_right(1);
            self.held[0] = block;
        }
        at.is_some()
    }

    /// The others: a block stays in its way.
    fn place(&mut self, block: u16) -> bool {
        let index = usize::from(block);
        if index >= self.places.len() {
            self.places.resize(index + 1, OUT);
        }
        let hit = self.places[index] != OUT;
        if !hit {
            let way = self.free().unwrap_or_else(|| self.victim());
            if let Some(old) = self.places.get_mut(usize::from(self.held[way])) {
                *old = OUT;
            }
            self.held[way] = block;
            self.places[index] = way as u8;
        }
        self.used(usize::from(self.places[index]), hit);
        hit
    }

    /// The lowest free way: they are filled in order and never freed, so the highest way tells whether there is one.
    fn free(&self) -> Option<usize> {
        if self.held.last() != Some(&FREE) {
            return None;
        }
        self.held.iter().position(|&h| h == FREE)
    }

    /// A word with every way's bit.
    fn all(&self) -> u64 {
        u64::MAX >> (MAX_WAYS - self.held.len())
    }

    /// The way whose block makes room, in a full set.
    fn victim(&mut self) -> usize {
        let ways = self.held.len();
        match self.policy {
            Policy::Lru | Policy::Fifo => ways - 1,
            Policy::Random => self.rng.below(ways),
            Policy::NotMruRandom if ways == 1 => 0,
            Policy::NotMruRandom => {
                let last = self.bits.trailing_zeros() as usize;
                (last + 1 + self.rng.below(ways - 1)) % ways
            }
            Policy::TreePlru => self.older(),
            Policy::BitPlru => (!self.bits).trailing_zeros() as usize % ways,
            Policy::Nru | Policy::NruRandom => {
                if self.bits == self.all() {
                    self.bits = 0;
                }
                if self.policy == Policy::Nru {
                    self.bits.trailing_ones() as usize
                } else {
                    self.draw_clear()
                }
            }
            Policy::Srrip => {
                self.age_until_oldest(self.all());
                self.oldest()
            }
            Policy::QlruH00M1R2U1 => self.oldest(),
        }
    }

    /// One of the ways whose bit is clear, of which there is one, each with the same chance.
    fn draw_clear(&mut self) -> usize {
        loop {
            let way = self.rng.below(self.held.len());
            if self.bits >> way & 1 == 0 {
                return way;
            }
        }
    }

    /// These ways age together until one of them has age 3.
    fn age_until_oldest(&mut self, ways: u64) {
        let [low, high] = &mut self.ages;
        while ways != 0 && *low & *high & ways == 0 {
            *high ^= *low & ways;
            *low ^= ways;
        }
    }

    /// The lowest way of age 3. QLRU has none where there is but one way: that one.
    fn oldest(&self) -> usize {
        let oldest = self.ages[0] & self.ages[1] & self.all();
        if oldest == 0 { 0 } else { oldest.trailing_zeros() as usize }
    }

    fn set_age(&mut self, way: usize, age: u64) {
        self.ages[0] = self.ages[0] & !(1 << way) | (age & 1) << way;
        self.ages[1] = self.ages[1] & !(1 << way) | (age >> 1) << way;
    }

    /// What the policy remembers of a use of `way`, which was a hit or a fill.
    fn used(&mut self, way: usize, hit: bool) {
        match self.policy {
            Policy::Lru | Policy::Fifo | Policy::Random => {}
            Policy::NotMruRandom => self.bits = 1 << way,
            Policy::Nru | Policy::NruRandom => self.bits |= 1 << way,
            Policy::BitPlru => {
                self.bits |= 1 << way;
                if self.bits == self.all() {
                    self.bits = 1 << way;
                }
            }
            Policy::TreePlru => self.point_away(way),
            Policy::Srrip => self.set_age(way, if hit { 0 } else { 2 }),
            Policy::QlruH00M1R2U1 => {
                self.set_age(way, u64::from(!hit));
                self.age_until_oldest(self.all() & !(1 << way));
            }
        }
    }

    /// Tree-PLRU: the way that the bits lead to.
    fn older(&self) -> usize {
        let ways = self.held.len();
        let (mut node, mut low, mut width) = (1, 0, ways.next_power_of_two());
        while width > 1 {
            width /= 2;
            // A half without ways is never entered.
            let right = self.bits >> node & 1 == 1 && low + width < ways;
            low += if right { width } else { 0 };
            node = 2 * node + usize::from(right);
        }
        low
    }

    /// Tree-PLRU: on the way's path every bit points to the other half.
    fn point_away(&mut self, way: usize) {
        let mut node = self.held.len().next_power_of_two() + way;
        while node > 1 {
            let left = u64::from(node.is_multiple_of(2));
            node /= 2;
            self.bits = self.bits & !(1 << node) | left << node;
        }
    }
}
