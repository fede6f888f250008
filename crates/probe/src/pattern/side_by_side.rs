//! Chains side by side: how many loads a core has under way at the same time.
//!
//! One random cycle is cut into arcs, and each chain walks an arc of its own. The arcs of a sample follow each other along the
//! cycle, and those of the next sample begin where they end. So no cell is visited twice in a lap, whatever the numbers of chains, and no
//! chain finds in a cache what another one has loaded.

use alloc::format;
use alloc::vec::Vec;

use super::memory::wrong;
use super::{Definition, Keys, Loads, Trial, TrialOutput, Work, dependent};
use crate::chain::{Chain, Layout, Order};
use crate::machine::batch::together::{CHAINS, CHAINS_TEXT};
use crate::machine::{Machine, Refusal};
use crate::rows::{Done, Rows, Sample};
use crate::wire::WireError;

/// Loads that overlap at least, for the estimate of the time: an out-of-order core of the last ten years has more.
const OVERLAPPING: u64 = 8;

/// Dependent loads along several chains, one of each in turn, over packed lines in random order.
///
/// `trial.loads` are the steps in the first run of a sample, each one load of every chain. Untimed loads before the first
/// sample (`trial.warm`) are those of one chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SideBySide {
    /// Numbers of chains: each sample has the next of them, from the first again after the last.
    pub chains: Vec<u64>,
}

impl SideBySide {
    /// Returns the number of chains of sample `nth`, from 0.
    #[must_use]
    pub fn chains_of(&self, nth: usize) -> u64 {
        self.chains.get(nth % self.chains.len().max(1)).copied().unwrap_or(1)
    }

    /// Returns the positions at which the chains of sample `nth` begin, if the first one begins at `from`.
    fn begins(&self, trial: &Trial, nth: usize, from: u64) -> impl Iterator<Item = u64> + use<> {
        let arc = arc(trial);
        (0..self.chains_of(nth)).map(move |chain| from.wrapping_add(chain.wrapping_mul(arc)))
    }
}

/// Returns the cells that each chain visits in a sample.
fn arc(trial: &Trial) -> u64 {
    3 * trial.loads
}

impl Definition for SideBySide {
    const QUESTION: Option<&'static str> = Some("overlap");
    const TIME_GROWS: bool = true;

    fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError> {
        keys.list("chains", &mut self.chains)
    }

    /// Checks also that a sample is within half a lap: neighbouring cells are half a lap apart.
    fn check(&self, trial: &Trial) -> Result<(), WireError> {
        trial.memory.check_packed()?;
        let known = |chains: &u64| CHAINS.contains(chains);
        let Some(most) = self.chains.iter().max().filter(|_| self.chains.iter().all(known)) else {
            return wrong(format!("pattern=side-by-side needs a list chains= of numbers from{CHAINS_TEXT}"));
        };
        let (needs, half) = (most.saturating_mul(arc(trial)), trial.memory.cells() / 2);
        if needs > half {
            return wrong(format!(
                "chains={most} needs {needs} cells in half of bytes= (three times loads for each chain), but there are {half}"
            ));
        }
        Ok(())
    }

    fn chain(&self, trial: &Trial, _: u64, base: u64, _: u64) -> Option<Chain> {
        let (cells, stride) = (trial.memory.cells(), trial.memory.stride);
        Some(Chain::new(base, cells, stride, Layout::Packed, Order::Random, trial.seed))
    }

    fn work(&self, trial: &Trial) -> Work {
        let one_by_one = |nth| (self.chains_of(nth) / OVERLAPPING).max(1);
        let times: u64 = (0..trial.samples as usize).map(one_by_one).sum();
        Work::Loads(Loads::packed(trial, trial.warm + arc(trial) * times, 1))
    }

    /// Takes the samples. In each, `end` is the sum of the numbers of the cells that the chains reach in the first run, and
    /// `end2` that of the second run.
    fn run<M: Machine>(&self, machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
        machine.chase_together(&mut [], 0)?;
        let (mut nth, mut from) = (0, trial.warm);
        dependent::on_chain(machine, self, trial, |machine, chain, _| {
            let mut cells = Vec::new();
            for begin in self.begins(trial, nth, from) {
                cells.push(machine.cell(chain.at(begin))?);
            }
            nth += 1;
            from = from.wrapping_add(cells.len() as u64 * arc(trial));
            sample(machine, chain, &mut cells, trial.loads)
        })
    }

    fn verify(&self, trial: &Trial, rows: &Rows, done: &Done) -> Vec<usize> {
        let (Rows::Samples(samples), Some(chain)) = (rows, self.chain(trial, 0, 0, done.page_bytes)) else {
            return rows.all();
        };
        let mut from = trial.warm;
        let mut bad = Vec::new();
        for (nth, sample) in samples.list.iter().enumerate() {
            let after = |steps: u64| -> u64 {
                let number = |begin: u64| chain.cell_at(begin.wrapping_add(steps));
                self.begins(trial, nth, from).map(number).fold(0, u64::wrapping_add)
            };
            if sample.end != after(trial.loads) || sample.end2 != after(arc(trial)) {
                bad.push(nth);
            }
            from = from.wrapping_add(self.chains_of(nth).wrapping_mul(arc(trial)));
        }
        bad
    }
}

/// Takes a sample of n steps, and then 2n more.
fn sample<M: Machine>(machine: &mut M, chain: &Chain, cells: &mut [M::Cell], n: u64) -> Option<Sample> {
    let a = machine.now();
    machine.chase_together(cells, n).ok()?;
    let b = machine.now();
    let end = numbers(machine, chain, cells)?;
    let b2 = machine.now();
    machine.chase_together(cells, 2 * n).ok()?;
    let c = machine.now();
    let end2 = numbers(machine, chain, cells)?;
    Some(Sample { ticks: b.since(a), ticks2: c.since(b2), end, end2, ..Sample::default() })
}

/// Returns the sum of the numbers of these cells; `None` if one is not of the chain.
fn numbers<M: Machine>(machine: &M, chain: &Chain, cells: &[M::Cell]) -> Option<u64> {
    let number = |cell: &M::Cell| chain.number_at(machine.offset(*cell));
    cells.iter().map(number).try_fold(0u64, |sum, number| Some(sum.wrapping_add(number?)))
}
