//! Sets of one cache or TLB, with vectors and linear searches, and the documented random draws.

use std::collections::BTreeMap;

use fathom_model::description::{Index, Replacement};

pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

pub fn scramble(x: u64) -> u64 {
    let x = x.wrapping_add(GOLDEN);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Documented random streams: purposes 1 (level), 2 (TLB), 3 (spread), 6 (frames), 9 (a worker's order), 10 (a load's
/// frames).
pub struct Dice(pub u64);

impl Dice {
    pub fn new(seed: u64, purpose: u64, number: u64) -> Dice {
        Dice(scramble(seed ^ scramble(purpose << 56 ^ number)))
    }

    pub fn throw(&mut self, sides: u64) -> u64 {
        let value = scramble(self.0);
        self.0 = self.0.wrapping_add(GOLDEN);
        ((u128::from(value) * u128::from(sides)) >> 64) as u64
    }
}

/// Contents of one way.
#[derive(Clone, Copy)]
pub struct Slot {
    pub block: (u64, u64),
    pub dirty: bool,
    pub used: u64,
    pub filled: u64,
}

/// One set-associative store. A block is identified by (page kind, number).
pub struct Store {
    pub sets: Vec<Vec<Option<Slot>>>,
    /// Tree bits by set and by the lower and upper end of the node's ways. `true` points to the upper half.
    pub tree: BTreeMap<(usize, usize, usize), bool>,
    pub referenced: Vec<Vec<bool>>,
    /// Ages of SRRIP and QLRU.
    pub ages: Vec<Vec<u32>>,
    pub policy: Replacement,
    pub index: Index,
    /// Divisor polynomial of a hashed index.
    pub divisor: u64,
    pub dice: Dice,
    pub moment: u64,
    pub refills: u64,
    pub writebacks: u64,
}

impl Store {
    pub fn new(sets: u64, ways: u32, policy: Replacement, index: Index, dice: Dice) -> Store {
        Store {
            sets: vec![vec![None; ways as usize]; sets as usize],
            tree: BTreeMap::new(),
            referenced: vec![vec![false; ways as usize]; sets as usize],
            ages: vec![vec![3; ways as usize]; sets as usize],
            policy,
            index,
            divisor: if index == Index::Hashed { primitive(sets) } else { 1 },
            dice,
            moment: 0,
            refills: 0,
            writebacks: 0,
        }
    }

    pub fn place(&self, block: (u64, u64)) -> (usize, Option<usize>) {
        let sets = self.sets.len() as u64;
        let set = match self.index {
            Index::Bits => block.1 % sets,
            Index::Hashed => remainder(block.1, self.divisor, sets),
        } as usize;
        let way = self.sets[set].iter().position(|slot| slot.is_some_and(|s| s.block == block));
        (set, way)
    }

    pub fn slot(&mut self, block: (u64, u64)) -> Option<&mut Slot> {
        let (set, way) = self.place(block);
        self.sets[set][way?].as_mut()
    }

    pub fn used(&mut self, set: usize, way: usize, by_a_fill: bool) {
        self.moment += 1;
        self.sets[set][way].as_mut().unwrap().used = self.moment;
        self.referenced[set][way] = true;
        if self.policy == Replacement::BitPlru && self.referenced[set].iter().all(|&r| r) {
            self.referenced[set].fill(false);
            self.referenced[set][way] = true;
        }
        self.ages[set][way] = match self.policy {
            Replacement::Srrip if by_a_fill => 2,
            Replacement::Qlru if by_a_fill => 1,
            _ => 0,
        };
        if self.policy == Replacement::Qlru {
            let others = |(w, age): (usize, &mut u32)| (w != way).then_some(*age);
            let oldest = self.ages[set].iter_mut().enumerate().filter_map(others).max().unwrap_or(3);
            self.ages[set]
                .iter_mut()
                .enumerate()
                .for_each(|(w, a)| *a += if w == way { 0 } else { 3 - oldest });
        }
        self.point_away(set, way, 0, self.sets[set].len().next_power_of_two());
    }

    pub fn point_away(&mut self, set: usize, way: usize, low: usize, high: usize) {
        if high - low < 2 {
            return;
        }
        let middle = (low + high) / 2;
        self.tree.insert((set, low, high), way < middle);
        if way < middle {
            self.point_away(set, way, low, middle);
        } else {
            self.point_away(set, way, middle, high);
        }
    }

    pub fn pointed_to(&self, set: usize, low: usize, high: usize) -> usize {
        if high - low < 2 {
            return low;
        }
        let middle = (low + high) / 2;
        let upper = self.tree.get(&(set, low, high)).copied().unwrap_or(false);
        if upper && middle < self.sets[set].len() {
            self.pointed_to(set, middle, high)
        } else {
            self.pointed_to(set, low, middle)
        }
    }

    pub fn look(&mut self, block: (u64, u64)) -> bool {
        let (set, way) = self.place(block);
        if let Some(way) = way {
            self.used(set, way, false);
        }
        way.is_some()
    }

    pub fn victim(&mut self, set: usize) -> usize {
        let ways = self.sets[set].len();
        let oldest = |store: &Store, age: fn(&Slot) -> u64| {
            (0..ways).min_by_key(|&w| age(store.sets[set][w].as_ref().unwrap())).unwrap()
        };
        match self.policy {
            Replacement::Lru => oldest(self, |s| s.used),
            Replacement::Fifo => oldest(self, |s| s.filled),
            Replacement::Random => self.dice.throw(ways as u64) as usize,
            Replacement::NotMruRandom if ways == 1 => 0,
            Replacement::NotMruRandom => {
                let latest = (0..ways).max_by_key(|&w| self.sets[set][w].unwrap().used);
                let others: Vec<usize> = (0..ways).filter(|&w| Some(w) != latest).collect();
                others[self.dice.throw(others.len() as u64) as usize]
            }
            Replacement::TreePlru => self.pointed_to(set, 0, ways.next_power_of_two()),
            Replacement::Nru => {
                if self.referenced[set].iter().all(|&r| r) {
                    self.referenced[set].fill(false);
                }
                self.referenced[set].iter().position(|&r| !r).unwrap()
            }
            Replacement::NruRandom => {
                if self.referenced[set].iter().all(|&r| r) {
                    self.referenced[set].fill(false);
                }
                let clear: Vec<usize> = (0..ways).filter(|&w| !self.referenced[set][w]).collect();
                clear[self.dice.throw(clear.len() as u64) as usize]
            }
            // The only way is the most recently used one, whose bit is set.
            Replacement::BitPlru => self.referenced[set].iter().position(|&r| !r).unwrap_or(0),
            Replacement::Srrip | Replacement::Qlru => loop {
                if let Some(way) = self.ages[set].iter().position(|&age| age == 3) {
                    break way;
                }
                self.ages[set].iter_mut().for_each(|age| *age += 1);
            },
        }
    }

    /// Inserts a block. Returns the block that it replaces.
    pub fn put(&mut self, block: (u64, u64), dirty: bool) -> Option<Slot> {
        let (set, _) = self.place(block);
        self.refills += 1;
        let free = match self.policy {
            Replacement::Qlru => self.sets[set].iter().rposition(Option::is_none),
            _ => self.sets[set].iter().position(Option::is_none),
        };
        let way = free.unwrap_or_else(|| self.victim(set));
        let old = self.sets[set][way];
        self.moment += 1;
        self.sets[set][way] = Some(Slot { block, dirty, used: 0, filled: self.moment });
        self.used(set, way, true);
        self.writebacks += u64::from(old.is_some_and(|s| s.dirty));
        old
    }

    pub fn drop(&mut self, block: (u64, u64)) -> Option<Slot> {
        let (set, way) = self.place(block);
        self.referenced[set][way?] = false;
        let old = self.sets[set][way?].take();
        self.writebacks += u64::from(old.is_some_and(|s| s.dirty));
        old
    }
}

/// Returns the remainder of a polynomial over GF(2) divided by one of degree log2(sets), by long division.
fn remainder(mut number: u64, by: u64, sets: u64) -> u64 {
    for shift in (0..40).rev() {
        number ^= if number >= sets << shift { by << shift } else { 0 };
    }
    number
}

/// Returns the smallest polynomial of degree log2(sets) modulo which all powers of x differ.
fn primitive(sets: u64) -> u64 {
    let is = |by: &u64| {
        let powers = std::iter::successors(Some(1), |&power| Some(remainder(power << 1, *by, sets)));
        powers.skip(1).take(sets as usize).position(|power| power == 1) == Some(sets as usize - 2)
    };
    (sets + 1..2 * sets).find(is).unwrap_or(1)
}
