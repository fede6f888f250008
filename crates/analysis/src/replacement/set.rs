//! Simulation of one set of a cache under a replacement policy.
//!
//! Written for clarity, only from the policies' definitions. It shares no code with the model, so that the model cannot
//! confirm itself.

use super::Policy;
use super::rng::Rng;

/// Content of a free way.
const FREE: u16 = u16::MAX;
/// Way of a block that is not in the set.
const ABSENT: u8 = u8::MAX;
/// Largest number of ways of a set: one bit each in a word. The widest sets of real caches have 64 (XScale: 32).
pub const MAX_WAYS: usize = 64;

/// One set: the contents of its ways and the policy's state. Free ways are filled first, the lowest first.
#[derive(Clone, Debug)]
pub struct Set {
    policy: Policy,
    /// Block in each way. For LRU and FIFO, blocks in the order of their age, the youngest first, because their way is
    /// irrelevant.
    held: Vec<u16>,
    /// Way of each block that was ever in the set; unused for LRU and FIFO.
    places: Vec<u8>,
    /// NRU and bit-PLRU: one bit per way, set by a use. Not-MRU random: only the bit of the most recently used way.
    /// Tree-PLRU: the tree's bits, the root at 1, a node's halves at twice its index; 1 means that the right half is
    /// older.
    bits: u64,
    /// SRRIP and QLRU: the age of each way, 0 to 3: a word of low bits and a word of high bits.
    ages: [u64; 2],
    rng: Rng,
}

impl Set {
    /// Creates an empty set with 1 to [`MAX_WAYS`] ways; other numbers are clamped. `seed` is for random policies.
    #[must_use]
    pub fn new(policy: Policy, ways: usize, seed: u64) -> Set {
        let ways = ways.clamp(1, MAX_WAYS);
        // Free ways have the maximum age.
        let ages = [u64::MAX; 2];
        Set { policy, held: vec![FREE; ways], places: Vec::new(), bits: 0, ages, rng: Rng::new(seed) }
    }

    /// Visits a block (below 65 535), which is in the set afterwards. Returns whether it was a hit.
    pub fn visit(&mut self, block: u16) -> bool {
        if matches!(self.policy, Policy::Lru | Policy::Fifo) { self.queue(block) } else { self.place(block) }
    }

    /// Returns whether both sets have the same contents and policy state.
    pub(super) fn same_state(&self, other: &Set) -> bool {
        self.held == other.held && self.bits == other.bits && self.ages == other.ages
    }

    /// LRU and FIFO: evicts the oldest; free ways count as oldest.
    fn queue(&mut self, block: u16) -> bool {
        if self.policy == Policy::Fifo && self.held.contains(&block) {
            return true;
        }
        // Every younger block becomes one older, up to the block's own place or the end.
        let mut younger = block;
        for held in &mut self.held {
            std::mem::swap(held, &mut younger);
            if younger == block {
                return true;
            }
        }
        false
    }

    /// Other policies: a block stays in its way.
    fn place(&mut self, block: u16) -> bool {
        let index = usize::from(block);
        if index >= self.places.len() {
            self.places.resize(index + 1, ABSENT);
        }
        let hit = self.places[index] != ABSENT;
        if !hit {
            let way = self.free().unwrap_or_else(|| self.victim());
            if let Some(old) = self.places.get_mut(usize::from(self.held[way])) {
                *old = ABSENT;
            }
            self.held[way] = block;
            self.places[index] = way as u8;
        }
        self.used(usize::from(self.places[index]), hit);
        hit
    }

    /// Returns the lowest free way. Ways are filled in order and never freed, so the highest way shows whether there is
    /// one.
    fn free(&self) -> Option<usize> {
        if self.held.last() != Some(&FREE) {
            return None;
        }
        self.held.iter().position(|&h| h == FREE)
    }

    /// Returns a word with the bits of all ways set.
    fn all(&self) -> u64 {
        u64::MAX >> (MAX_WAYS - self.held.len())
    }

    /// Returns the way to evict from a full set.
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

    /// Returns a random way whose bit is clear; there must be one.
    fn draw_clear(&mut self) -> usize {
        loop {
            let way = self.rng.below(self.held.len());
            if self.bits >> way & 1 == 0 {
                return way;
            }
        }
    }

    /// Ages these ways together until one of them has age 3.
    fn age_until_oldest(&mut self, ways: u64) {
        let [low, high] = &mut self.ages;
        while ways != 0 && *low & *high & ways == 0 {
            *high ^= *low & ways;
            *low ^= ways;
        }
    }

    /// Returns the lowest way of age 3. Under QLRU a single way never reaches age 3; then it is way 0.
    fn oldest(&self) -> usize {
        let oldest = self.ages[0] & self.ages[1] & self.all();
        if oldest == 0 { 0 } else { oldest.trailing_zeros() as usize }
    }

    fn set_age(&mut self, way: usize, age: u64) {
        self.ages[0] = self.ages[0] & !(1 << way) | (age & 1) << way;
        self.ages[1] = self.ages[1] & !(1 << way) | (age >> 1) << way;
    }

    /// Updates the policy's state after a use of `way`, which was a hit or a fill.
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

    /// Tree-PLRU: returns the way that the bits lead to.
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

    /// Tree-PLRU: makes every bit on the way's path point to the other half.
    fn point_away(&mut self, way: usize) {
        let mut node = self.held.len().next_power_of_two() + way;
        while node > 1 {
            let left = u64::from(node.is_multiple_of(2));
            node /= 2;
            self.bits = self.bits & !(1 << node) | left << node;
        }
    }
}
