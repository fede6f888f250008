//! The transfer: data between a packet of the CPU's and a device, in parts; and what a working set lost by it.

use alloc::vec;
use alloc::vec::Vec;

use super::TrialOutput;
use crate::chain::Chain;
use crate::machine::{Machine, Refusal};
use crate::transfer::{Batch, Transferred};
use crate::wire::{Moved, Trial};

/// Laps that bring a victim's lines back before each transfer: where replacement is random one leaves some of them
/// out.
const WARM_LAPS: u64 = 2;

/// Runs a trial of the pattern `transfer`: `warm` transfers that do not count, then `samples` that do.
///
/// Where there is a victim, its working set is walked before each transfer until it is where it can be, then once more
/// with the clock, and after the transfer again: what the second walk takes longer was lost by the transfer.
///
/// # Errors
/// The machine's refusal of the memory, or of the transfers.
pub fn measure<M: Machine>(machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
    let all = trial.warm + trial.samples;
    let batch = Batch { bytes: trial.bytes, seed: trial.seed, first: 0, count: all };
    let (channel, mut rows, place) = if trial.transfers.victim == 0 {
        let (channel, rows) = machine.transfer(&trial.transfers, &batch)?;
        (channel, rows, (0, 0))
    } else {
        let mapping = machine.map(&trial.request(1))?;
        let chain = trial.victim(mapping.base);
        machine.initialise(&chain)?;
        let mut victim = Victim { cell: machine.cell(chain.at(0)).ok_or_else(lost)?, chain };
        let (mut channel, mut rows) = (None, Vec::with_capacity(all as usize));
        for first in 0..all {
            let before = victim.settled(machine);
            let (by, moved) = machine.transfer(&trial.transfers, &Batch { first, count: 1, ..batch })?;
            let after = victim.lap(machine);
            let end = victim.number(machine)?;
            rows.extend(moved.into_iter().map(|row| Transferred { before, after, end, ..row }));
            channel = Some(by);
        }
        let channel = channel.ok_or_else(|| Refusal::new("no transfer was asked for", "ask for samples"))?;
        (channel, rows, (mapping.page_bytes, mapping.base))
    };
    if (rows.len() as u64) < all {
        return Err(Refusal::new("transfers were cut off before their end", "ask for fewer at a time"));
    }
    let list = rows.split_off(trial.warm as usize);
    let moved = Moved { trial: trial.id, channel: Some(channel), list };
    Ok(TrialOutput { moved, ..TrialOutput::of(vec![], place.0, place.1) })
}

/// The cells that have been walked when the transfer of this number is over, counted with those of the first from 0: of
/// a victim of so many cells.
#[must_use]
pub fn walked(cells: u64, number: u64) -> u64 {
    // One more than a lap each time: whole laps would end where they began, and prove nothing.
    (number + 1).wrapping_mul((WARM_LAPS + 2) * (cells + 1))
}

fn lost() -> Refusal {
    Refusal::new("a cell of the victim's chain is outside the mapping", "")
}

struct Victim<C> {
    chain: Chain,
    cell: C,
}

impl<C: Copy + PartialEq + core::fmt::Debug> Victim<C> {
    fn walk<M: Machine<Cell = C>>(&mut self, machine: &mut M) {
        self.cell = machine.chase(self.cell, self.chain.cells() + 1);
    }

    /// Ticks of a walk.
    fn lap<M: Machine<Cell = C>>(&mut self, machine: &mut M) -> u64 {
        let began = machine.now();
        self.walk(machine);
        machine.now().since(began)
    }

    /// The same of a working set that lies where it can.
    fn settled<M: Machine<Cell = C>>(&mut self, machine: &mut M) -> u64 {
        (0..WARM_LAPS).for_each(|_| self.walk(machine));
        self.lap(machine)
    }

    fn number<M: Machine<Cell = C>>(&self, machine: &M) -> Result<u64, Refusal> {
        self.chain.number_at(machine.offset(self.cell)).ok_or_else(lost)
    }
}

#[cfg(test)]
mod tests;
