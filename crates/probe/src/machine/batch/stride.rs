//! The sweep: accesses at a stride through a buffer, ascending and wrapping, none depending on another.
//!
//! What a program's own loops over an array do, so what the machine can overlap and fetch ahead it may. What cells hold
//! is known without adding it up: a reading sweep sums what it loaded; a writing one leaves in each cell the number of
//! the lap that wrote it last, a modifying one the numbers of all laps, flipped in one after the other.

use crate::machine::{Machine, Operation, Ops, Refusal};
use crate::splitmix::mix;

/// Accesses in one turn of the unrolled loop, as in the chase.
pub const UNROLL: u64 = 32;

/// Different values that laps leave: words of the first kibibyte of the mapping, which every mapping has and
/// begins at a multiple of (no page is smaller). More would catch a lost lap with more certainty than 127 in 128.
pub const KEYS: u64 = 128;

/// A buffer and how it is swept. Positions count accesses: position p is cell `p % cells` in lap `p / cells`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Where the buffer begins in the arena, bytes.
    pub base: u64,
    /// Bytes from a cell to the next, a multiple of 8.
    pub stride: u64,
    /// Cells, at least 1.
    pub cells: u64,
    /// What is done to each.
    pub operation: Operation,
}

/// Neighbouring accesses of one lap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Arena offset of the first, bytes.
    pub offset: u64,
    /// How many.
    pub count: u64,
    /// Distance in bytes, from the buffer's beginning, of the cell that this lap writes; and the bits that it
    /// flips. Below [`KEYS`] words.
    pub key: u64,
}

/// Bits of a lap's number that its key has.
const LOW: u64 = KEYS - 1;

impl Sweep {
    /// The parts, a lap each, of `n` accesses from position `from`.
    pub fn parts(&self, from: u64, n: u64) -> impl Iterator<Item = Part> + use<> {
        let Sweep { base, stride: step, cells, .. } = *self;
        let (mut index, mut lap, mut left) = (from % cells, from / cells, n);
        core::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let part =
                Part { offset: base + index * step, count: left.min(cells - index), key: 8 * (lap & LOW) };
            left -= part.count;
            (index, lap) = (0, lap.wrapping_add(1));
            Some(part)
        })
    }

    /// Pages of `page` bytes in which the first `n` cells lie, if the buffer begins with one.
    #[must_use]
    pub fn pages(&self, n: u64, page: u64) -> u64 {
        match page {
            page if page > self.stride => n.saturating_mul(self.stride).div_ceil(page),
            _ => n,
        }
    }

    /// Instructions that one access takes beside loads and stores: the next address, and the sum or the flip.
    #[must_use]
    pub fn ops(&self) -> Ops {
        let alu = match self.operation {
            Operation::Write | Operation::Set => 1,
            _ => 2,
        };
        Ops { alu, branch: 0 }
    }

    /// The words of the buffer, counted from its beginning, that cells are laid with from cell `number` on.
    /// Where the sweep reads, a square polynomial modulo a prime: the sum of it over any neighbouring cells is
    /// known without adding it up ([`Sweep::sum`]), and no part, multiple or rearrangement of a lap has the same
    /// sum by rule. (Modulo a power of two, half a lap twice has.) Else the first word.
    #[must_use]
    pub fn initialised(&self, number: u64, seed: u64) -> Initialised {
        let prime = self.prime();
        let [a, b, c] = self.coefficients(seed);
        let n = number % prime;
        let (twice, least) = (mul(a, 2, prime), mul(a, 1, prime));
        Initialised {
            word: (mul(mul(a, n, prime), n, prime) + mul(b, n, prime) + c) % prime,
            // From n to n + 1 it grows by a (2 n + 1) + b.
            more: (mul(twice, n, prime) + least + b) % prime,
            twice,
            prime,
        }
    }

    /// The modulus of the sums: a prime, below which all words that are laid lie, and not beyond the buffer.
    #[must_use]
    pub fn prime(&self) -> u64 {
        let bits = (self.cells.saturating_mul(self.stride) / 8).max(1).ilog2() as usize;
        let bits = bits.min(BELOW.len() - 1);
        (1 << bits) - BELOW[bits]
    }

    fn coefficients(&self, seed: u64) -> [u64; 3] {
        match self.operation {
            Operation::Read => {
                let prime = self.prime();
                // A square part of nothing would leave a straight line.
                [1 + mix(seed) % (prime - 1).max(1), mix(seed ^ 1) % prime, mix(seed ^ 2) % prime]
            }
            _ => [0; 3],
        }
    }

    /// The sum of what `n` reads from position `from` load, in words and modulo [`Sweep::prime`].
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

    /// The sum of what cells 0 to n - 1 are laid with, modulo [`Sweep::prime`]. Exact before the division:
    /// buffers are below 2^40 bytes, so n^3 fits 128 bits.
    fn prefix(&self, n: u64, seed: u64) -> u64 {
        let prime = self.prime();
        let [a, b, c] = self.coefficients(seed);
        let m = u128::from(n.saturating_sub(1));
        let low = |x: u128| (x % u128::from(prime)) as u64;
        let squares = low(m * (m + 1) / 2 * (2 * m + 1) / 3);
        let numbers = low(m * (m + 1) / 2);
        (mul(a, squares, prime) + mul(b, numbers, prime) + mul(c, n % prime, prime)) % prime
    }

    /// The word that cell `number` holds once a writing or modifying sweep has reached position `reached`.
    /// Lap 0 leaves everything as it is.
    #[must_use]
    pub fn held(&self, number: u64, reached: u64) -> u64 {
        let (laps, index) = (reached / self.cells, reached % self.cells);
        // The last lap that came by.
        let lap = if number < index { laps } else { laps.saturating_sub(1) };
        match self.operation {
            // 0 ^ 1 ^ 2 ^ ... ^ lap.
            Operation::Rmw => [lap, 1, lap.wrapping_add(1), 0][(lap % 4) as usize] & LOW,
            _ => lap & LOW,
        }
    }

    /// The sum over all cells of what each holds at position `reached`, in words, times its number counted
    /// from 1; wraps.
    #[must_use]
    pub fn contents(&self, reached: u64) -> u64 {
        let index = reached % self.cells;
        let (before, after) = (self.held(0, reached), self.held(self.cells - 1, reached));
        let (all, first) = (triangle(self.cells), triangle(index));
        if index == 0 {
            return all.wrapping_mul(after);
        }
        first.wrapping_mul(before).wrapping_add(all.wrapping_sub(first).wrapping_mul(after))
    }
}

/// What cells are laid with, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initialised {
    /// The word of the present cell.
    pub word: u64,
    more: u64,
    twice: u64,
    prime: u64,
}

impl Initialised {
    /// On to the next cell: two additions, so that laying is nearly as fast as storing.
    #[inline(always)]
    pub fn advance(&mut self) {
        let down = |sum: u64| if sum >= self.prime { sum - self.prime } else { sum };
        (self.word, self.more) = (down(self.word + self.more), down(self.more + self.twice));
    }
}

/// How far the largest prime below 2^n lies below it, n from 0 to 40 (2^40 bytes is the largest buffer); the
/// tests check them. Below 2 there is none, and every word is the first.
const BELOW: [u64; 41] = [
    0, 1, 1, 1, 3, 1, 3, 1, 5, 3, 3, 9, 3, 1, 3, 19, 15, 1, 5, 1, 3, 9, 3, 15, 3, 39, 5, 39, 57, 3, 35, 1, 5,
    9, 41, 31, 5, 25, 45, 7, 87,
];

fn mul(a: u64, b: u64, prime: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(prime)) as u64
}

/// 1 + 2 + ... + n, wrapped.
pub(crate) fn triangle(n: u64) -> u64 {
    (u128::from(n) * (u128::from(n) + 1) / 2) as u64
}

/// The loop, with a check of each cell: `n` accesses from position `from`, of each lap's part `count % UNROLL`
/// first, one by one. Returns the sum of the arena offsets that were loaded (0 where nothing is read), `None`
/// when the buffer leaves the machine's memory.
pub fn body<M: Machine + ?Sized>(machine: &mut M, sweep: &Sweep, from: u64, n: u64) -> Option<u64> {
    let mut sum = 0u64;
    for part in sweep.parts(from, n) {
        let to = machine.cell(sweep.base + part.key)?;
        let mut at = part.offset;
        for _ in 0..part.count % UNROLL {
            sum = sum.wrapping_add(one(machine, sweep.operation, at, part.key, to)?);
            at += sweep.stride;
            machine.charge(turn(sweep, 1));
        }
        for _ in 0..part.count / UNROLL {
            for _ in 0..UNROLL {
                sum = sum.wrapping_add(one(machine, sweep.operation, at, part.key, to)?);
                at += sweep.stride;
            }
            machine.charge(turn(sweep, UNROLL));
        }
    }
    Some(sum)
}

/// What a turn of `n` accesses is charged: the loop's decrement and branch, and each access's own.
#[must_use]
pub fn turn(sweep: &Sweep, n: u64) -> Ops {
    // Two neighbouring cells are one store of a set, and have one address.
    let accesses = if sweep.operation == Operation::Set { n.div_ceil(2) } else { n };
    Ops { alu: 1 + accesses * sweep.ops().alu, branch: 1 }
}

#[inline(always)]
fn one<M: Machine + ?Sized>(m: &mut M, operation: Operation, at: u64, key: u64, to: M::Cell) -> Option<u64> {
    let at = m.cell(at)?;
    Some(match operation {
        Operation::Read => {
            let held = m.follow(at);
            m.offset(held)
        }
        Operation::Write | Operation::Set => {
            m.link(at, to);
            0
        }
        // What copies is no sweep.
        Operation::CopyTo | Operation::CopyFrom => return None,
        Operation::Rmw => {
            let held = m.follow(at);
            let flipped = m.cell(m.offset(held) ^ key)?;
            m.link(at, flipped);
            0
        }
    })
}

pub(crate) fn outside() -> Refusal {
    Refusal::new("the sweep reaches outside the mapped memory", "ask for fewer bytes")
}

/// Writes what a sweep's cells are laid with, ascending.
///
/// # Errors
/// A [`Refusal`] when a cell lies outside the machine's mapped memory.
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
