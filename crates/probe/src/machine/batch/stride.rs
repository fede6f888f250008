//! The sweep: independent accesses at a stride through a buffer, ascending and wrapping.
//!
//! A program's loop over an array does the same, so the machine may overlap and prefetch the accesses. The expected
//! contents are computed in closed form. A reading sweep sums what it loaded. A writing sweep leaves in each cell the
//! number of the last lap that wrote it; a modifying sweep leaves the XOR of the numbers of all laps.

use crate::machine::{Machine, Operation, Ops, Refusal};
use crate::splitmix::mix;

/// Accesses in one iteration of the unrolled loop, as in the chase.
pub const UNROLL: u64 = 32;

/// Number of different values that laps write: words of the first KiB of the mapping. Every mapping has that and starts
/// at a multiple of it (no page is smaller). With 128, a lost lap is detected with a probability of 127 in 128.
pub const KEYS: u64 = 128;

/// A buffer and how it is swept. Positions count accesses: position p is cell `p % cells` in lap `p / cells`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Start of the buffer in the arena, bytes.
    pub base: u64,
    /// Bytes from a cell to the next, a multiple of 8.
    pub stride: u64,
    /// Cells, at least 1.
    pub cells: u64,
    /// The operation on each cell.
    pub operation: Operation,
}

/// Consecutive accesses of one lap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Arena offset of the first access, bytes.
    pub offset: u64,
    /// Number of accesses.
    pub count: u64,
    /// The value of this lap: the offset, in bytes from the buffer's start, of the cell whose address it writes, and
    /// the bits that it flips. Below [`KEYS`] words.
    pub key: u64,
}

/// Mask of the bits of a lap's number that are in its key.
const KEY_MASK: u64 = KEYS - 1;

impl Sweep {
    /// Returns the parts, one per lap, of `n` accesses from position `from`.
    pub fn parts(&self, from: u64, n: u64) -> impl Iterator<Item = Part> + use<> {
        let Sweep { base, stride, cells, .. } = *self;
        let (mut index, mut lap, mut left) = (from % cells, from / cells, n);
        core::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let part = Part {
                offset: base + index * stride,
                count: left.min(cells - index),
                key: 8 * (lap & KEY_MASK),
            };
            left -= part.count;
            (index, lap) = (0, lap.wrapping_add(1));
            Some(part)
        })
    }

    /// Returns the number of pages of `page` bytes that contain the first `n` cells, if the buffer starts at a page.
    #[must_use]
    pub fn pages(&self, n: u64, page: u64) -> u64 {
        match page {
            page if page > self.stride => n.saturating_mul(self.stride).div_ceil(page),
            _ => n,
        }
    }

    /// Returns the instructions of one access other than loads and stores: the next address, and the sum or the flip.
    #[must_use]
    pub fn ops(&self) -> Ops {
        let alu = match self.operation {
            Operation::Write | Operation::Set => 1,
            _ => 2,
        };
        Ops { alu, branch: 0 }
    }

    /// Returns the generator of the initial words from cell `number` on. Words are counted from the buffer's start.
    ///
    /// For a reading sweep it is a quadratic polynomial modulo a prime. The sum over any consecutive cells is then
    /// known in closed form ([`Sweep::sum`]), and no part, multiple or rearrangement of a lap has the same sum
    /// systematically. (Modulo a power of two, half a lap twice has the same sum.) Otherwise every cell holds the first
    /// word.
    #[must_use]
    pub fn initialised(&self, number: u64, seed: u64) -> Initialised {
        let prime = self.prime();
        let [a, b, c] = self.coefficients(seed);
        let n = number % prime;
        let (twice, single) = (mul(a, 2, prime), mul(a, 1, prime));
        Initialised {
            word: (mul(mul(a, n, prime), n, prime) + mul(b, n, prime) + c) % prime,
            // From n to n + 1 it grows by a (2 n + 1) + b.
            more: (mul(twice, n, prime) + single + b) % prime,
            twice,
            prime,
        }
    }

    /// Returns the modulus of the sums: a prime not larger than the buffer's words. All initial words are below it.
    #[must_use]
    pub fn prime(&self) -> u64 {
        let bits = (self.cells.saturating_mul(self.stride) / 8).max(1).ilog2() as usize;
        let bits = bits.min(PRIME_GAPS.len() - 1);
        (1 << bits) - PRIME_GAPS[bits]
    }

    fn coefficients(&self, seed: u64) -> [u64; 3] {
        match self.operation {
            Operation::Read => {
                let prime = self.prime();
                // The quadratic coefficient must not be 0: a linear sequence would be left.
                [1 + mix(seed) % (prime - 1).max(1), mix(seed ^ 1) % prime, mix(seed ^ 2) % prime]
            }
            _ => [0; 3],
        }
    }

    /// Returns the sum of what `n` reads from position `from` load, in words and modulo [`Sweep::prime`].
    #[must_use]
    pub fn sum(&self, from: u64, n: u64, seed: u64) -> u64 {
        let prime = self.prime();
        let first = from % self.cells;
        let to = u128::from(first) + u128::from(n);
        let cells = u128::from(self.cells);
        let laps = ((to / cells) % u128::from(prime)) as u64;
        let rest = (to % cells) as u64;
        let until = mul(laps, self.prefix(self.cells, seed), prime) + self.prefix(rest, seed);
        (until + prime - self.prefix(first, seed)) % prime
    }

    /// Returns the sum of the initial words of cells 0 to n - 1, modulo [`Sweep::prime`]. Exact before the division:
    /// buffers are below 2^40 bytes, so n^3 fits in 128 bits.
    fn prefix(&self, n: u64, seed: u64) -> u64 {
        let prime = self.prime();
        let [a, b, c] = self.coefficients(seed);
        let m = u128::from(n.saturating_sub(1));
        let low = |x: u128| (x % u128::from(prime)) as u64;
        let squares = low(m * (m + 1) / 2 * (2 * m + 1) / 3);
        let numbers = low(m * (m + 1) / 2);
        (mul(a, squares, prime) + mul(b, numbers, prime) + mul(c, n % prime, prime)) % prime
    }

    /// Returns the word in cell `number` after a writing or modifying sweep has reached position `reached`. Lap 0
    /// changes nothing.
    #[must_use]
    pub fn expected_word(&self, number: u64, reached: u64) -> u64 {
        let (laps, index) = (reached / self.cells, reached % self.cells);
        // The last lap that has reached this cell.
        let lap = if number < index { laps } else { laps.saturating_sub(1) };
        match self.operation {
            // 0 ^ 1 ^ 2 ^ ... ^ lap.
            Operation::Rmw => [lap, 1, lap.wrapping_add(1), 0][(lap % 4) as usize] & KEY_MASK,
            _ => lap & KEY_MASK,
        }
    }

    /// Returns the sum over all cells, at position `reached`, of the cell's word times its number counted from 1;
    /// wraps.
    #[must_use]
    pub fn contents(&self, reached: u64) -> u64 {
        let index = reached % self.cells;
        let (before, after) = (self.expected_word(0, reached), self.expected_word(self.cells - 1, reached));
        let (all, first) = (triangle(self.cells), triangle(index));
        if index == 0 {
            return all.wrapping_mul(after);
        }
        first.wrapping_mul(before).wrapping_add(all.wrapping_sub(first).wrapping_mul(after))
    }
}

/// A generator of the initial words of consecutive cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initialised {
    /// The word of the current cell.
    pub word: u64,
    more: u64,
    twice: u64,
    prime: u64,
}

impl Initialised {
    /// Advances to the next cell with two additions, so that initialising is nearly as fast as storing.
    #[inline(always)]
    pub fn advance(&mut self) {
        let reduce = |sum: u64| if sum >= self.prime { sum - self.prime } else { sum };
        (self.word, self.more) = (reduce(self.word + self.more), reduce(self.more + self.twice));
    }
}

/// Distance of the largest prime below 2^n from 2^n, for n from 0 to 40 (2^40 bytes is the largest buffer). The tests
/// check them. There is no prime below 2; the modulus is then 1, and every word is the first.
const PRIME_GAPS: [u64; 41] = [
    0, 1, 1, 1, 3, 1, 3, 1, 5, 3, 3, 9, 3, 1, 3, 19, 15, 1, 5, 1, 3, 9, 3, 15, 3, 39, 5, 39, 57, 3, 35, 1, 5,
    9, 41, 31, 5, 25, 45, 7, 87,
];

fn mul(a: u64, b: u64, prime: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(prime)) as u64
}

/// Returns 1 + 2 + ... + n, wrapped.
pub(crate) fn triangle(n: u64) -> u64 {
    (u128::from(n) * (u128::from(n) + 1) / 2) as u64
}

/// Makes `n` accesses from position `from` and checks each cell. The first `count % UNROLL` accesses of each part are
/// not unrolled. Returns the sum of the arena offsets that were loaded (0 if nothing is read), `None` if the buffer
/// exceeds the machine's memory.
pub fn body<M: Machine + ?Sized>(machine: &mut M, sweep: &Sweep, from: u64, n: u64) -> Option<u64> {
    let mut sum = 0u64;
    for part in sweep.parts(from, n) {
        let to = machine.cell(sweep.base + part.key)?;
        let mut at = part.offset;
        for _ in 0..part.count % UNROLL {
            sum = sum.wrapping_add(access(machine, sweep.operation, at, part.key, to)?);
            at += sweep.stride;
            machine.charge(loop_ops(sweep, 1));
        }
        for _ in 0..part.count / UNROLL {
            for _ in 0..UNROLL {
                sum = sum.wrapping_add(access(machine, sweep.operation, at, part.key, to)?);
                at += sweep.stride;
            }
            machine.charge(loop_ops(sweep, UNROLL));
        }
    }
    Some(sum)
}

/// Returns the instructions of one loop iteration of `n` accesses: the loop's decrement and branch, and those of the
/// accesses.
#[must_use]
pub fn loop_ops(sweep: &Sweep, n: u64) -> Ops {
    // `set` stores two adjacent cells at once, with one address.
    let accesses = if sweep.operation == Operation::Set { n.div_ceil(2) } else { n };
    Ops { alu: 1 + accesses * sweep.ops().alu, branch: 1 }
}

#[inline(always)]
fn access<M: Machine + ?Sized>(
    m: &mut M,
    operation: Operation,
    at: u64,
    key: u64,
    to: M::Cell,
) -> Option<u64> {
    let at = m.cell(at)?;
    Some(match operation {
        Operation::Read => {
            let value = m.follow(at);
            m.offset(value)
        }
        Operation::Write | Operation::Set => {
            m.link(at, to);
            0
        }
        // A copy is not a sweep.
        Operation::CopyTo | Operation::CopyFrom => return None,
        Operation::Rmw => {
            let value = m.follow(at);
            let flipped = m.cell(m.offset(value) ^ key)?;
            m.link(at, flipped);
            0
        }
    })
}

pub(crate) fn outside() -> Refusal {
    Refusal::new("the sweep reaches outside the mapped memory", "request fewer bytes")
}

/// Writes the initial words of a sweep's cells, ascending.
///
/// # Errors
/// A [`Refusal`] if a cell is outside the machine's mapped memory.
pub fn initialise<M: Machine + ?Sized>(machine: &mut M, sweep: &Sweep, seed: u64) -> Result<(), Refusal> {
    let mut initialised = sweep.initialised(0, seed);
    for number in 0..sweep.cells {
        let at = machine.cell(sweep.base + number * sweep.stride).ok_or_else(outside)?;
        let to = machine.cell(sweep.base + 8 * initialised.word).ok_or_else(outside)?;
        machine.link(at, to);
        initialised.advance();
    }
    Ok(())
}

#[cfg(test)]
mod tests;
