//! The chase: dependent loads along a chain.

use crate::chain::Chain;
use crate::machine::{Machine, Ops, Refusal};

/// Loads in one iteration of the unrolled loop. 32 keeps the loop's decrement and branch at 1/32 of an instruction each
/// per load, and the loop inside 256 bytes of code.
pub const UNROLL: u64 = 32;

/// Makes `n` dependent loads from `start`. The first `n % UNROLL` are not unrolled. The loops count in a register: a
/// counter of 64 bits would be two instructions more in each iteration on a 32-bit core.
#[inline(always)]
pub fn body<M: Machine + ?Sized>(machine: &mut M, start: M::Cell, n: u64) -> M::Cell {
    let mut cell = start;
    for _ in 0..(n % UNROLL) as usize {
        cell = machine.follow(cell);
        machine.charge(Ops { alu: 1, branch: 1 });
    }
    let mut left = n / UNROLL;
    while left != 0 {
        // All at once, except for more than a register counts.
        let part = usize::try_from(left).unwrap_or(usize::MAX);
        let mut iterations = part;
        while iterations != 0 {
            for _ in 0..UNROLL {
                cell = machine.follow(cell);
            }
            machine.charge(Ops { alu: 1, branch: 1 });
            iterations -= 1;
        }
        left -= part as u64;
    }
    cell
}

/// Writes the links of `chain` in the chain's order. If the caches allocate on writes, that leaves them as one lap of
/// the chase would, so it is also the warm-up. A chain that is to be walked once is written in address order, so that
/// no prefetcher has seen its order.
///
/// # Errors
/// A [`Refusal`] if a cell of the chain is outside the machine's mapped memory.
pub fn initialise<M: Machine + ?Sized>(machine: &mut M, chain: &Chain) -> Result<(), Refusal> {
    let outside = || Refusal::new("the chain reaches outside the mapped memory", "request fewer bytes");
    if chain.walked_once() {
        for number in 0..chain.cells() {
            let at = machine.cell(chain.place(number)).ok_or_else(outside)?;
            let to = machine.cell(chain.at(chain.position_of(number) + 1)).ok_or_else(outside)?;
            machine.link(at, to);
        }
        return Ok(());
    }
    let first = machine.cell(chain.at(0)).ok_or_else(outside)?;
    let mut at = first;
    for i in 1..chain.cells() {
        let to = machine.cell(chain.at(i)).ok_or_else(outside)?;
        machine.link(at, to);
        at = to;
    }
    machine.link(at, first);
    Ok(())
}
