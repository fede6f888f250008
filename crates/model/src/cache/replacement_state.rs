//! Replacement state of a set, packed in one or two words, and its updates at a use or a fill.

/// A 1 in every nibble.
const ONES: u64 = 0x1111_1111_1111_1111;

/// Returns four times the lowest position of `nibble` in a word that contains it.
#[inline(always)]
fn bit_of(word: u64, nibble: u64) -> u32 {
    // The matching nibble becomes zero, and the lowest borrow is there.
    let differs = word ^ nibble.wrapping_mul(ONES);
    let zero = differs.wrapping_sub(ONES) & !differs & (ONES << 3);
    zero.trailing_zeros() & !3
}

/// Returns a word of nibbles with `nibble` moved to the youngest position.
#[inline(always)]
pub(super) fn make_youngest(word: u64, nibble: u64) -> u64 {
    let bit = bit_of(word, nibble);
    let younger = word & ((1 << bit) - 1);
    let older = word >> bit >> 4 << bit << 4;
    older | younger << 4 | nibble
}

/// Returns a word of nibbles with `nibble` moved to the oldest of `ways` positions. Higher nibbles are undefined.
pub(super) fn make_oldest(word: u64, nibble: u64, ways: usize) -> u64 {
    let bit = bit_of(word, nibble);
    let younger = word & ((1 << bit) - 1);
    let top = 4 * (ways as u32 - 1);
    let between = (word >> bit >> 4 << bit) & ((1 << top) - 1);
    nibble << top | between | younger
}

/// A 1 in every byte.
const BYTES: u64 = 0x0101_0101_0101_0101;

/// Returns the matrix of `ways` ways, at most 8, of which way 0 is the youngest and the last one the oldest. Bit `c` of
/// byte `r`: way `r` was used after way `c`. So the oldest way is the byte that is zero. Bytes beyond the ways are never.
pub(super) fn matrix(ways: usize) -> u64 {
    (0..8).fold(0, |word, row| {
        let younger_than = if row < ways { 0xff << (row + 1) & 0xff & ((1 << ways) - 1) } else { 0xff };
        word | younger_than << (8 * row)
    })
}

/// Returns a matrix after a use of `way`.
#[inline(always)]
pub(super) fn matrix_use(word: u64, ways: usize, way: usize) -> u64 {
    let row = ((1u64 << ways) - 1) << (8 * way);
    (word | row) & !(BYTES << way)
}

/// Returns the oldest way of a matrix.
#[inline(always)]
pub(super) fn lru_row(word: u64) -> usize {
    // The lowest borrow is at the lowest byte that is zero.
    let zero = word.wrapping_sub(BYTES) & !word & (BYTES << 7);
    (zero.trailing_zeros() as usize / 8) & 7
}

/// Returns a matrix with `way` made the oldest.
pub(super) fn matrix_oldest(word: u64, ways: usize, way: usize) -> u64 {
    let rows = u64::MAX >> (64 - 8 * ways);
    (word | BYTES << way & rows) & !(0xff << (8 * way))
}

/// Returns the ways of a matrix, the youngest first.
pub(super) fn matrix_order(word: u64, ways: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..ways).collect();
    order.sort_by_key(|way| std::cmp::Reverse((word >> (8 * way) & 0xff).count_ones()));
    order
}

/// Returns the word of a tree after a use of `way`: every node on its path points to the other half. Node 1 is the
/// root, the children of `n` are `2n` and `2n + 1`; a set bit points right.
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

/// Returns the way that a tree points to. A half without ways is never entered.
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

/// Returns a mask of `ways` ways, from 1 to 64.
#[inline]
pub(super) fn all(ways: usize) -> u64 {
    u64::MAX >> (64 - ways)
}

/// Returns the position of the set bit of a word that has `skip` lower set bits.
#[inline]
pub(super) fn set_bit(mut word: u64, skip: u32) -> usize {
    for _ in 0..skip {
        word &= word - 1;
    }
    word.trailing_zeros() as usize
}

/// Returns the bits of bit-PLRU after a use of `way`.
#[inline]
pub(super) fn recent_use(word: u64, ways: usize, way: usize) -> u64 {
    let used = word | 1 << way;
    if used == all(ways) { 1 << way } else { used }
}

/// Policies with ages from 0 to 3, in a word of low bits and a word of high bits. A hit sets 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ages {
    /// SRRIP with hit priority, 2 bits: Jaleel, Theobald, Steely and Emer, ISCA 2010. A fill sets 2.
    Srrip,
    /// QLRU_H00_M1_R2_U1 as in nanoBench's cacheSim.py (Abel and Reineke, ISPASS 2020). H00: a hit sets 0. M1: a fill
    /// sets 1. R2: a fill takes the last free way or the first of age 3. U1: the other ages grow until one is 3.
    Qlru,
}

impl Ages {
    /// Returns the age after a fill.
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

/// Increases the ages of the ways in `of` equally until the oldest of them is 3.
#[inline]
fn grow_until_one_is_3(ages: &mut [u64; 2], of: u64) {
    let [low, high] = ages;
    while *low & *high & of == 0 {
        // No age is 3, so there is no carry.
        *high ^= *low & of;
        *low ^= of;
    }
}

/// Returns the first way of age 3, after increasing all ages until there is one.
#[inline]
pub(super) fn oldest(ages: &mut [u64; 2], ways: usize) -> usize {
    grow_until_one_is_3(ages, all(ways));
    (ages[0] & ages[1]).trailing_zeros() as usize
}
