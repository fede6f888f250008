//! What the policies keep of a set in a word or two, and what a use or a fill makes of it.

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
pub(super) fn youngest(word: u64, nibble: u64) -> u64 {
    let bit = bit_of(word, nibble);
    let younger = word & ((1 << bit) - 1);
    let older = word >> bit >> 4 << bit << 4;
    older | younger << 4 | nibble
}

/// A word of nibbles with one of them moved to the oldest of `ways` places; what is beyond those
/// means nothing.
pub(super) fn eldest(word: u64, nibble: u64, ways: usize) -> u64 {
    let bit = bit_of(word, nibble);
    let younger = word & ((1 << bit) - 1);
    let top = 4 * (ways as u32 - 1);
    let between = (word >> bit >> 4 << bit) & ((1 << top) - 1);
    nibble << top | between | younger
}

/// The word of a tree after a use of `way`: every node on its path points to the other half.
/// Node 1 is the root, the children of `n` are `2n` and `2n + 1`; a set bit points right.
#[inline]
pub(super) fn tree_use(mut word: u64, ways: usize, way: usize) -> u64 {
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
pub(super) fn tree_victim(word: u64, ways: usize) -> usize {
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

/// A bit for each of `ways` ways, from 1 to 64.
#[inline]
pub(super) fn all(ways: usize) -> u64 {
    u64::MAX >> (64 - ways)
}

/// The place of the set bit of a word that has `skip` lower ones.
#[inline]
pub(super) fn set_bit(mut word: u64, skip: u32) -> usize {
    for _ in 0..skip {
        word &= word - 1;
    }
    word.trailing_zeros() as usize
}

/// The bits of bit-PLRU after a use of `way`.
#[inline]
pub(super) fn recent_use(word: u64, ways: usize, way: usize) -> u64 {
    let used = word | 1 << way;
    if used == all(ways) { 1 << way } else { used }
}

/// A policy of ages from 0 to 3, kept in a word of low and a word of high bits. A hit sets 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ages {
    /// SRRIP with hit priority, 2 bits: Jaleel, Theobald, Steely and Emer, ISCA 2010. A fill sets 2.
    Srrip,
    /// QLRU_H00_M1_R2_U1 as nanoBench's cacheSim.py defines it (Abel and Reineke, ISPASS 2020): H00 a hit
    /// sets 0, M1 a fill sets 1, R2 the last free way or the first of age 3, U1 the others grow older until
    /// one of them is 3.
    Qlru,
}

impl Ages {
    /// The age that a fill sets.
    pub fn filled(self) -> u8 {
        match self {
            Ages::Srrip => 2,
            Ages::Qlru => 1,
        }
    }

    /// Sets the age of a way.
    #[inline]
    pub fn put(self, ages: &mut [u64; 2], ways: usize, way: usize, age: u8) {
        for (bit, word) in ages.iter_mut().enumerate() {
            *word = *word & !(1 << way) | u64::from(age >> bit & 1) << way;
        }
        if self == Ages::Qlru && ways > 1 {
            grow_until_one_is_3(ages, all(ways) & !(1 << way));
        }
    }
}

/// Adds as much to the ages of some ways as makes the oldest of them 3.
#[inline]
fn grow_until_one_is_3(ages: &mut [u64; 2], of: u64) {
    let [low, high] = ages;
    while *low & *high & of == 0 {
        // None is 3, so nothing is carried further.
        *high ^= *low & of;
        *low ^= of;
    }
}

/// The first way of age 3, all made older until there is one.
#[inline]
pub(super) fn oldest(ages: &mut [u64; 2], ways: usize) -> usize {
    grow_until_one_is_3(ages, all(ways));
    (ages[0] & ages[1]).trailing_zeros() as usize
}
