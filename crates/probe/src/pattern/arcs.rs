//! Chains that are walked in turn, one load of each in every step.
//!
//! One random cycle is cut into arcs, and each chain walks an arc of its own. The arcs of a sample follow each other along the
//! cycle, and those of the next sample begin where they end. So no cell is visited twice in a lap, whatever the numbers of chains, and no
//! chain finds in a cache what another one has loaded.

use alloc::format;
use alloc::vec::Vec;

use super::memory::wrong;
use super::{Definition, Trial, TrialOutput, dependent};
use crate::chain::{Chain, Layout, Order};
use crate::machine::{Machine, Refusal};
use crate::rows::{Done, Rows, Sample};
use crate::wire::WireError;

/// Returns the cells that each chain visits in a sample.
pub(super) fn arc(trial: &Trial) -> u64 {
    3 * trial.loads
}

/// Checks that a sample of so many chains is within half a lap: neighbouring cells are half a lap apart.
pub(super) fn check(trial: &Trial, chains: u64) -> Result<(), WireError> {
    let (needs, half) = (chains.saturating_mul(arc(trial)), trial.memory.cells() / 2);
    if needs > half {
        return wrong(format!(
            "chains={chains} needs {needs} cells in half of bytes= (three times loads for each chain), but there are {half}"
        ));
    }
    Ok(())
}

/// Returns the cycle from arena offset `base` on.
pub(super) fn chain(trial: &Trial, base: u64) -> Chain {
    let (cells, stride) = (trial.memory.cells(), trial.memory.stride);
    Chain::new(base, cells, stride, Layout::Packed, Order::Random, trial.seed)
}

/// Returns the positions at which so many chains begin, if the first one begins at `from`.
fn begins(trial: &Trial, chains: u64, from: u64) -> impl Iterator<Item = u64> + use<> {
    let arc = arc(trial);
    (0..chains).map(move |chain| from.wrapping_add(chain.wrapping_mul(arc)))
}

/// Takes the samples, each of n steps and then 2n more. Sample `nth` has `chains_of(nth)` chains, and `steps` makes steps of it. Its `end` is
/// the sum of the numbers of the cells that the chains reach in the first run, and `end2` that of the second run.
pub(super) fn run<M: Machine>(
    machine: &mut M,
    pattern: &impl Definition,
    trial: &Trial,
    chains_of: impl Fn(usize) -> u64,
    mut steps: impl FnMut(&mut M, usize, &mut [M::Cell], u64) -> Result<(), Refusal>,
) -> Result<TrialOutput, Refusal> {
    let (mut nth, mut from) = (0, trial.warm);
    dependent::on_chain(machine, pattern, trial, |machine, chain, _| {
        let mut cells = Vec::new();
        for begin in begins(trial, chains_of(nth), from) {
            cells.push(machine.cell(chain.at(begin))?);
        }
        from = from.wrapping_add(cells.len() as u64 * arc(trial));
        let a = machine.now();
        steps(machine, nth, &mut cells, trial.loads).ok()?;
        let b = machine.now();
        let end = numbers(machine, chain, &cells)?;
        let b2 = machine.now();
        steps(machine, nth, &mut cells, 2 * trial.loads).ok()?;
        let c = machine.now();
        let end2 = numbers(machine, chain, &cells)?;
        nth += 1;
        Some(Sample { ticks: b.since(a), ticks2: c.since(b2), end, end2, ..Sample::default() })
    })
}

/// Returns the sum of the numbers of these cells; `None` if one is not of the chain.
fn numbers<M: Machine>(machine: &M, chain: &Chain, cells: &[M::Cell]) -> Option<u64> {
    let number = |cell: &M::Cell| chain.number_at(machine.offset(*cell));
    cells.iter().map(number).try_fold(0u64, |sum, number| Some(sum.wrapping_add(number?)))
}

/// Returns the indices of the samples that do not end where their chains had to.
pub(super) fn verify(
    trial: &Trial,
    rows: &Rows,
    done: &Done,
    pattern: &impl Definition,
    chains_of: impl Fn(usize) -> u64,
) -> Vec<usize> {
    let (Rows::Samples(samples), Some(chain)) = (rows, pattern.chain(trial, 0, 0, done.page_bytes)) else {
        return rows.all();
    };
    let mut from = trial.warm;
    let mut bad = Vec::new();
    for (nth, sample) in samples.list.iter().enumerate() {
        let chains = chains_of(nth);
        let after = |steps: u64| -> u64 {
            let number = |begin: u64| chain.cell_at(begin.wrapping_add(steps));
            begins(trial, chains, from).map(number).fold(0, u64::wrapping_add)
        };
        if sample.end != after(trial.loads) || sample.end2 != after(arc(trial)) {
            bad.push(nth);
        }
        from = from.wrapping_add(chains.wrapping_mul(arc(trial)));
    }
    bad
}
