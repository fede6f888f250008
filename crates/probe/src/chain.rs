//! Chains: one cycle through every cell of a working set, defined by a keyed bijection.
//!
//! A cell is a place in memory that holds a link to another cell; a lap is one visit of every cell.
//! Position `i` of a chain is cell `P(i)`, and the cell after `P(i)` is `P(i + 1)`. If `P` is a bijection, that is one
//! cycle by construction. The cell where a run of `n` loads must end is one evaluation of `P`, and a model can follow
//! the chain without storing it. The tests use Sattolo's algorithm as the reference.

use crate::splitmix::mix;

/// A keyed bijection of `0..n`: a Feistel network over the next power of two, with cycle walking.
///
/// Four rounds with an avalanche mix (the finaliser constants of SplitMix64, Steele, Lea and Flood 2014) are not
/// cryptographically strong. They only have to leave no structure for a prefetcher or a replacement policy. The tests
/// compare its cycle structure with that of Sattolo's algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bijection {
    n: u64,
    /// Bits of the right and of the left half; they differ by at most one.
    right: u32,
    left: u32,
    keys: [u64; 4],
}

fn mask(bits: u32) -> u64 {
    // bits is at most 32 here: halves of a 64-bit number.
    (1u64 << bits) - 1
}

impl Bijection {
    /// Returns the bijection of `0..n` under `seed`. `n` is at least 1.
    #[must_use]
    pub fn new(n: u64, seed: u64) -> Bijection {
        let n = n.max(1);
        let bits = (64 - (n - 1).leading_zeros()).max(2);
        let k = |round: u64| mix(seed ^ mix(n.wrapping_add(round << 56)));
        Bijection { n, right: bits / 2, left: bits - bits / 2, keys: [k(1), k(2), k(3), k(4)] }
    }

    /// Returns `n`, the size of the domain.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.n
    }

    #[inline]
    fn round(value: u64, key: u64) -> u64 {
        let z = (value ^ key).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z ^ (z >> 32)
    }

    #[inline]
    fn once(&self, x: u64) -> u64 {
        let (mut l, mut r) = (x >> self.right, x & mask(self.right));
        // Two rounds per iteration: the halves swap twice, so each keeps its width even if the widths differ.
        for pair in 0..2 {
            l ^= Self::round(r, self.keys[2 * pair]) & mask(self.left);
            r ^= Self::round(l, self.keys[2 * pair + 1]) & mask(self.right);
        }
        (l << self.right) | r
    }

    #[inline]
    fn undo(&self, x: u64) -> u64 {
        let (mut l, mut r) = (x >> self.right, x & mask(self.right));
        for pair in (0..2).rev() {
            r ^= Self::round(l, self.keys[2 * pair + 1]) & mask(self.right);
            l ^= Self::round(r, self.keys[2 * pair]) & mask(self.left);
        }
        (l << self.right) | r
    }

    /// Returns the image of `i`, which must be below [`count`](Self::count).
    #[inline]
    #[must_use]
    pub fn at(&self, i: u64) -> u64 {
        let mut x = self.once(i);
        while x >= self.n {
            x = self.once(x);
        }
        x
    }

    /// Returns the number whose image is `x`.
    #[inline]
    #[must_use]
    pub fn index(&self, x: u64) -> u64 {
        let mut i = self.undo(x);
        while i >= self.n {
            i = self.undo(i);
        }
        i
    }
}

/// The order in which a chain visits its cells.
///
/// [`Random`](Order::Random), [`Window`](Order::Window) and [`Once`](Order::Once) keep neighbours apart: cells 2k and
/// 2k + 1 are visited exactly half a lap from each other. So a line of twice the stride, or a prefetcher that fetches
/// the other line of a pair, brings nothing that is still cached when it is used, if the lap is larger than the cache.
/// A working set then counts by its bytes, independent of the line size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Ascending addresses: the easiest order for prefetchers.
    Sequential,
    /// All pairs of a window of this many bytes in random order, then the next window. The windows are in random order.
    /// This is TLB-friendly and still unpredictable inside a window. One half of each pair is in the first half of the
    /// lap, the other in the second.
    Window(u64),
    /// One random cycle over all cells.
    Random,
    /// As `Random`, to be walked once. Its links are written in address order ([`Chain::walked_once`]), so that no
    /// prefetcher has seen the chain's order before the timed loads.
    Once,
    /// Every nth cell, ascending if n is positive and descending if it is negative, in n interleaved passes. Each cell
    /// is visited once per lap, and all strides are equal except those from pass to pass. 0 counts as 1.
    Strided(i8),
    /// Groups of this many cells: the groups in random order, the cells of a group ascending. Neighbours are visited
    /// together, to show what one access fetches for the next.
    Groups(u64),
    /// Passes over all groups in the same random order, so that a group comes back exactly after all others. Cells k and k + `per` / 2 of
    /// every group are visited in one pass, one after the other, or in two. After two passes of one cell, or one of both, the same cells were
    /// visited.
    Passes {
        /// Cells of a group, an even number.
        per: u64,
        /// Whether a pass visits two cells of a group.
        both: bool,
    },
}

/// Placement of the cells of a chain in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Cell `j` at `j * stride`.
    Packed,
    /// Cell `j` in page `j`, on a line that spreads over the sets of a cache (see [`Chain::place`]).
    OnePerPage {
        /// Bytes in a page, or in a part of it that has a cell: a power of two.
        page: u64,
    },
    /// Cell `j` at `(j / group) * period + (j % group) * stride`: groups of cells at a stride, the groups at a period.
    /// With groups of one cell, the period is the distance of the cells and need not be a power of two.
    Grouped {
        /// Cells in a group, at least 1.
        group: u64,
        /// Bytes from a group to the next.
        period: u64,
    },
}

impl Layout {
    /// Returns the offset of cell `j` from the chain's base.
    #[inline]
    fn offset(self, j: u64, step: u64) -> u64 {
        match self {
            Layout::Packed => j * step,
            Layout::OnePerPage { page } => j * page + spread(j, page / step) * step,
            Layout::Grouped { group, period } => (j / group) * period + (j % group) * step,
        }
    }

    /// Returns the bytes from the base to the end of the last of `cells` cells' lines or pages; `None` on overflow. A
    /// grouped layout ends with the last word, because the line size is not known here.
    #[must_use]
    pub fn extent(self, cells: u64, step: u64) -> Option<u64> {
        match self {
            Layout::Packed => cells.checked_mul(step),
            Layout::OnePerPage { page } => cells.checked_mul(page),
            Layout::Grouped { group, period } => {
                let group = group.max(1);
                let last = cells.max(1) - 1;
                let inside = last.min(group - 1).checked_mul(step)?;
                (last / group).checked_mul(period)?.checked_add(inside)?.checked_add(8)
            }
        }
    }
}

/// A chain: its cells, their layout and the order through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Start of the chain in the arena, bytes.
    pub base: u64,
    /// Bytes from a cell to the next (packed), or the line size that spreads cells in their pages.
    pub stride: u64,
    /// Placement of the cells.
    pub layout: Layout,
    cells: u64,
    walk: Walk,
    once: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walk {
    Sequential,
    /// Passes over every `by`th cell.
    Strided {
        by: u64,
        descending: bool,
    },
    /// Pairs in random order.
    Random(Bijection),
    /// `whole` pairs in full windows of `per`, then the rest in a separate window.
    Window {
        per: u64,
        whole: u64,
        outer: Bijection,
        inner: Bijection,
        rest: Bijection,
    },
    /// Groups of `per` cells in random order; the remaining cells, fewer than a group, come last.
    Groups {
        per: u64,
        outer: Bijection,
    },
    /// Passes over groups of twice `half` cells; the remaining cells come last.
    Passes {
        half: u64,
        both: bool,
        outer: Bijection,
    },
}

impl Walk {
    /// Returns the pair at position `i` of a half lap.
    #[inline]
    fn pair_at(&self, i: u64) -> u64 {
        match self {
            Walk::Sequential | Walk::Strided { .. } | Walk::Groups { .. } | Walk::Passes { .. } => i,
            Walk::Random(p) => p.at(i),
            Walk::Window { per, whole, outer, inner, rest } => {
                if i < *whole {
                    outer.at(i / per) * per + inner.at(i % per)
                } else {
                    whole + rest.at(i - whole)
                }
            }
        }
    }

    /// Returns the position of a pair in a half lap.
    #[inline]
    fn position_of(&self, pair: u64) -> u64 {
        match self {
            Walk::Sequential | Walk::Strided { .. } | Walk::Groups { .. } | Walk::Passes { .. } => pair,
            Walk::Random(p) => p.index(pair),
            Walk::Window { per, whole, outer, inner, rest } => {
                if pair < *whole {
                    outer.index(pair / per) * per + inner.index(pair % per)
                } else {
                    whole + rest.index(pair - whole)
                }
            }
        }
    }
}

impl Chain {
    /// Creates a chain of `cells` cells, `step` bytes apart. If the window does not divide the chain, the remaining
    /// cells form a smaller window, visited last in each half lap.
    #[must_use]
    pub fn new(base: u64, cells: u64, step: u64, layout: Layout, order: Order, seed: u64) -> Chain {
        let cells = cells.max(1);
        let pairs = (cells / 2).max(1);
        let walk = match order {
            Order::Sequential => Walk::Sequential,
            Order::Strided(by) => {
                Walk::Strided { by: u64::from(by.unsigned_abs()).max(1), descending: by < 0 }
            }
            Order::Random | Order::Once => Walk::Random(Bijection::new(pairs, seed)),
            Order::Groups(per) => {
                let per = per.clamp(1, cells);
                Walk::Groups { per, outer: Bijection::new(cells / per, seed) }
            }
            Order::Passes { per, both } => {
                let half = (per / 2).clamp(1, pairs);
                Walk::Passes { half, both, outer: Bijection::new(cells / (2 * half), seed) }
            }
            Order::Window(bytes) => {
                let per = (bytes / step.max(1) / 2).max(1);
                if per >= pairs {
                    Walk::Random(Bijection::new(pairs, seed))
                } else {
                    let whole = pairs - pairs % per;
                    Walk::Window {
                        per,
                        whole,
                        outer: Bijection::new(whole / per, seed),
                        inner: Bijection::new(per, mix(seed)),
                        rest: Bijection::new(pairs - whole, mix(seed ^ 1)),
                    }
                }
            }
        };
        Chain { base, stride: step, layout, cells, walk, once: order == Order::Once }
    }

    /// Returns the number of cells in the cycle.
    #[must_use]
    pub fn cells(&self) -> u64 {
        self.cells
    }

    /// Returns whether the links are to be written in address order, because writing in chain order would show the
    /// order to the prefetchers.
    #[must_use]
    pub fn walked_once(&self) -> bool {
        self.once
    }

    /// Returns the bytes from `base` to the end of the last cell's line or page; `u64::MAX` on overflow.
    #[must_use]
    pub fn extent(&self) -> u64 {
        self.layout.extent(self.cells, self.stride).unwrap_or(u64::MAX)
    }

    /// Returns the cell number at position `i` (taken modulo the cycle).
    #[inline]
    #[must_use]
    pub fn cell_at(&self, i: u64) -> u64 {
        // A walk keeps its position below the cycle's length, so the division is needed by other callers only.
        let i = if i < self.cells { i } else { i % self.cells };
        let half = self.cells / 2;
        match &self.walk {
            Walk::Sequential => i,
            Walk::Groups { per, outer } if i / per < outer.count() => outer.at(i / per) * per + i % per,
            Walk::Groups { .. } => i,
            Walk::Passes { half, both, outer } => in_passes(i, *half, *both, outer),
            &Walk::Strided { by, descending } => strided(i, self.cells, by, descending),
            // An odd cell ends the lap.
            _ if i == 2 * half => i,
            walk if i < half => 2 * walk.pair_at(i),
            walk => 2 * walk.pair_at(i - half) + 1,
        }
    }

    /// Returns the position of cell number `j`.
    #[inline]
    #[must_use]
    pub fn position_of(&self, j: u64) -> u64 {
        let half = self.cells / 2;
        match &self.walk {
            Walk::Sequential => j,
            Walk::Groups { per, outer } if j / per < outer.count() => outer.index(j / per) * per + j % per,
            Walk::Groups { .. } => j,
            Walk::Passes { half, both, outer } => in_passes_position(j, *half, *both, outer),
            &Walk::Strided { by, descending } => strided_position(j, self.cells, by, descending),
            _ if j == 2 * half => j,
            walk => walk.position_of(j / 2) + (j % 2) * half,
        }
    }

    /// Returns the arena offset of cell number `j`.
    ///
    /// With one cell per page, the line inside page `j` is the XOR of `j`'s digits in base lines-per-page. Each window
    /// of that many bits of `j` then maps one-to-one onto the lines while the other bits are fixed. So over any aligned
    /// run of pages the cells fill the sets of a cache with ANY power-of-two number of sets evenly. The TLB is
    /// measured, not a set conflict.
    #[inline]
    #[must_use]
    pub fn place(&self, j: u64) -> u64 {
        self.base + self.layout.offset(j, self.stride)
    }

    /// Returns the arena offset of position `i`.
    #[inline]
    #[must_use]
    pub fn at(&self, i: u64) -> u64 {
        self.place(self.cell_at(i))
    }

    /// Returns the cell number at arena offset `offset`, if there is a cell.
    #[must_use]
    pub fn number_at(&self, offset: u64) -> Option<u64> {
        let rel = offset.checked_sub(self.base)?;
        let j = match self.layout {
            Layout::Packed => rel / self.stride,
            Layout::OnePerPage { page } => rel / page,
            Layout::Grouped { group, period } => rel / period * group + rel % period / self.stride,
        };
        (j < self.cells && self.place(j) == offset).then_some(j)
    }
}

/// Returns the cell at position `i` of passes over `cells` cells, every `by`th in each. The first `cells % by` passes
/// have one cell more than the others.
#[inline]
fn strided(i: u64, cells: u64, by: u64, descending: bool) -> u64 {
    let (short, longer) = (cells / by, cells % by);
    let (pass, nth) = match i.checked_sub(longer * (short + 1)) {
        None => (i / (short + 1), i % (short + 1)),
        // If the short passes have no cells, no position is beyond the longer ones.
        Some(rest) => (longer + rest / short.max(1), rest % short.max(1)),
    };
    let cell = nth * by + pass;
    if descending { cells - 1 - cell } else { cell }
}

/// Returns the position at which [`strided`] visits cell `j`.
#[inline]
fn strided_position(j: u64, cells: u64, by: u64, descending: bool) -> u64 {
    let j = if descending { cells - 1 - j } else { j };
    let (short, longer) = (cells / by, cells % by);
    let (pass, nth) = (j % by, j / by);
    pass * short + pass.min(longer) + nth
}

/// Returns the cell at position `i` of passes over groups of twice `half` cells, each with both cells of a pair of every group, or with one.
#[inline]
fn in_passes(i: u64, half: u64, both: bool, groups: &Bijection) -> u64 {
    // Two passes of one cell take as many positions as one of both.
    let two = 2 * groups.count();
    let (pair, nth) = (i / two, i % two);
    if pair >= half {
        return i;
    }
    let (group, second) =
        if both { (nth / 2, nth % 2) } else { (nth % groups.count(), nth / groups.count()) };
    (2 * groups.at(group) + second) * half + pair
}

/// Returns the position at which [`in_passes`] visits cell `j`.
#[inline]
fn in_passes_position(j: u64, half: u64, both: bool, groups: &Bijection) -> u64 {
    let (part, pair) = (j / half, j % half);
    if part / 2 >= groups.count() {
        return j;
    }
    let (group, second) = (groups.index(part / 2), part % 2);
    2 * groups.count() * pair + if both { 2 * group + second } else { second * groups.count() + group }
}

/// Returns the line of page `j` among `lines` lines, a power of two: an XOR of `j`'s base-`lines` digits, each
/// scrambled by a different function.
///
/// The XOR fills any power-of-two number of sets evenly, at any number of pages: pages that share their low bits use
/// different lines. The scrambling preserves that, because bit i of a digit depends on bits 0 to i only. It also breaks
/// the straight line of addresses that a plain XOR of small numbers is: with 1056 sets, every 33rd page had the same
/// line, and 266 pages overfilled a 16-way set.
#[inline]
fn spread(mut j: u64, lines: u64) -> u64 {
    let (bits, mask) = (lines.max(1).trailing_zeros(), lines.max(1) - 1);
    let (mut line, mut digit) = (0, 0);
    while j != 0 && bits > 0 {
        line ^= scramble(j & mask, digit) ^ scramble(0, digit);
        j >>= bits;
        digit += 1;
    }
    line & mask
}

/// Computes a bijection modulo any power of two in which bit i of the result depends on bits 0 to i of `x` only.
///
/// It multiplies by odd numbers and applies x + (x^2 | 5), Klimov and Shamir's T-function ("A New Class of Invertible
/// Mappings", 2002), twice. `digit` selects the odd numbers, from the constants of [`mix`].
#[inline]
fn scramble(x: u64, digit: u32) -> u64 {
    let odd = |of: u64, by: u32| of.rotate_right(by * digit) << 1 | 1;
    let x = x.wrapping_mul(odd(0x9e37_79b9_7f4a_7c15, 7));
    let x = x.wrapping_add(x.wrapping_mul(x) | 5);
    let x = x.wrapping_mul(odd(0xbf58_476d_1ce4_e5b9, 5));
    x.wrapping_add(x.wrapping_mul(x) | 5)
}

#[cfg(test)]
mod tests;
