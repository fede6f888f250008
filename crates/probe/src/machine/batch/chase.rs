//! The chase: dependent loads round a chain.

use crate::chain::Chain;
use crate::machine::{Machine, Ops, Refusal};

/// Loads in one turn of the unrolled loop. 32 keeps the loop's own decrement and branch at 1/32
/// of an instruction each per load and the loop inside 256 bytes of code.
pub const UNROLL: u64 = 32;

/// The bare loop: `n` dependent loads from `start`, of which `n % UNROLL` come first, one by one.
#[inline(always)]
pub fn body<M: Machine + ?Sized>(machine: &mut M, start: M::Cell, n: u64) -> M::Cell {
    let mut cell = start;
    for _ in 0..n % UNROLL {
        cell = machine.follow(cell);
        machine.charge(Ops { alu: 1, branch: 1 });
    }
    let mut turns = n / UNROLL;
    while turns != 0 {
        for _ in 0..UNROLL {
            cell = machine.follow(cell);
        }
        machine.charge(Ops { alu: 1, branch: 1 });
        turns -= 1;
    }
    cell
}

/// Writes the links of `chain`, in the chain's own order: where the caches allocate on writes, laying
/// leaves them as one lap of the chase would, so the lap is its own warm-up. A chain that is to be walked once
/// is laid by addresses: no prefetcher that remembers has met its order.
///
/// # Errors
/// A [`Refusal`] when a cell of the chain lies outside the machine's mapped memory.
pub fn initialise<M: Machine + ?Sized>(machine: &mut M, chain: &Chain) -> Result<(), Refusal> {
    let outside = || Refusal::new("the chain reaches outside the mapped memory", "ask for fewer bytes");
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
