//! The chase: dependent loads round a chain. The patterns `pages`, `conflict` and `pair` are the same loads round
//! other layouts of cells.

use alloc::vec::Vec;

use super::TrialOutput;
use crate::chain::Chain;
use crate::machine::{Machine, Ops, Refusal};
use crate::wire::{Sample, Trial};

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

/// Runs a trial of the patterns `chase`, `pages`, `conflict` and `pair`: the same loads round other layouts.
///
/// Each sample times n loads and then 2n more, from where the last one stopped; analysis takes the
/// difference, in which every fixed cost cancels. The clock is read between the two runs and, because
/// reading a counter may cost far more than reading the clock, once more after it.
///
/// # Errors
/// The machine's refusal of the memory.
pub fn measure<M: Machine>(machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
    on_chain(machine, trial, on_cells)
}

/// One sample from a cell on; leaves the cell where it ended. `None` when the loads led off the chain, which
/// only a broken machine does.
pub(super) type One<M> = fn(&mut M, &Chain, &mut <M as Machine>::Cell, &Trial) -> Option<Sample>;

/// Maps, lays and warms a trial's chain and takes its samples.
pub(super) fn on_chain<M: Machine>(
    machine: &mut M,
    trial: &Trial,
    one: One<M>,
) -> Result<TrialOutput, Refusal> {
    let lost = || Refusal::new("a cell of the chain is outside the mapping", "");
    // The page size decides how far a chain of one cell a page reaches, and only the mapping knows
    // it: a first mapping of one page tells.
    let page_bytes = machine.map(&crate::machine::MapRequest { bytes: 8, ..trial.request(1) })?.page_bytes;
    let mapping = machine.map(&trial.request(page_bytes))?;
    if mapping.page_bytes != page_bytes {
        return Err(Refusal::new("the page size changed between two mappings", "run it again"));
    }
    let mut chain = trial.chain(mapping.base, page_bytes);
    let mut cell = begin(machine, &chain, trial)?.ok_or_else(lost)?;
    let mut samples = Vec::with_capacity(trial.samples as usize);
    for nth in 0..trial.samples {
        if nth > 0 && chain.walked_once() {
            chain = trial.chain_of(nth, mapping.base, page_bytes);
            cell = begin(machine, &chain, trial)?.ok_or_else(lost)?;
        }
        let sample = one(machine, &chain, &mut cell, trial);
        samples.push(sample.ok_or_else(lost)?);
    }
    Ok(TrialOutput::of(samples, page_bytes, mapping.base))
}

/// Lays a chain and warms it; where the timed loads begin, `None` where that is outside of the mapping.
fn begin<M: Machine>(machine: &mut M, chain: &Chain, trial: &Trial) -> Result<Option<M::Cell>, Refusal> {
    machine.initialise(chain)?;
    Ok(machine.cell(chain.at(0)).map(|start| machine.chase(start, trial.warm)))
}

/// One sample: n loads, then 2n more.
fn on_cells<M: Machine>(machine: &mut M, chain: &Chain, cell: &mut M::Cell, trial: &Trial) -> Option<Sample> {
    let (sample, middle, last) = one(machine, cell, trial);
    let number = |cell| chain.number_at(machine.offset(cell));
    Some(Sample { end: number(middle)?, end2: number(last)?, ..sample })
}

/// The same without the numbers of the cells where the two runs ended, and these.
pub(super) fn one<M: Machine>(
    machine: &mut M,
    cell: &mut M::Cell,
    trial: &Trial,
) -> (Sample, M::Cell, M::Cell) {
    let n = trial.loads;
    let before = super::counters(machine, trial);
    let a = machine.now();
    let middle = machine.chase(*cell, n);
    let b = machine.now();
    let between = super::counters(machine, trial);
    let b2 = machine.now();
    let last = machine.chase(middle, 2 * n);
    let c = machine.now();
    let after = super::counters(machine, trial);
    *cell = last;
    let (cycles, misses) = before.since(between, after);
    let sample = Sample { ticks: b.since(a), ticks2: c.since(b2), cycles, misses, ..Sample::default() };
    (sample, middle, last)
}
