//! The transfer: data between a packet of the CPU's and a device, in parts; and what a working set lost by it.

use alloc::format;
use alloc::vec::Vec;

use super::memory::wrong;
use super::{Definition, Keys, Trial, TrialOutput, Work};
use crate::chain::{Chain, Layout, Order};
use crate::machine::dma::{BYTES, Batch, Engine, POLLUTION_SET, TransferTimes, Transfers};
use crate::machine::{Machine, Refusal};
use crate::rows::{Done, Rows, TransferRows};
use crate::wire::WireError;

/// Laps that bring a victim's lines back before each transfer: where replacement is random one leaves some of them
/// out.
const WARM_LAPS: u64 = 2;
/// Bytes from a cell of a victim to the next: a line of most machines.
const LINE: u64 = 64;
/// Transfers of a trial, and bytes that they and their victims touch, so that no line from outside runs forever.
const MAX_COUNT: u64 = 2000;
const MAX_TOUCHED: u64 = 1 << 35;

/// Transfers of the trial's bytes between a CPU and a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// How, which way and by what.
    pub transfers: Transfers,
}

impl Transfer {
    /// The chain of the working set that is walked, from arena offset `base`.
    fn pollution_set(&self, trial: &Trial, base: u64) -> Chain {
        Chain::new(base, self.transfers.pollution_set / LINE, LINE, Layout::Packed, Order::Random, trial.seed)
    }
}

impl Definition for Transfer {
    const MAY_FLUSH: bool = true;

    fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError> {
        let transfers = &mut self.transfers;
        keys.stated("strategy", &mut transfers.strategy)?;
        keys.stated("direction", &mut transfers.direction)?;
        keys.optional("engine", &mut transfers.engine)?;
        keys.optional("maintenance", &mut transfers.maintenance)?;
        keys.optional("driver_bug", &mut transfers.driver_bug)?;
        keys.int("pollution_set", &mut transfers.pollution_set)
    }

    fn check(&self, trial: &Trial) -> Result<(), WireError> {
        trial.memory.check_packed()?;
        let (bytes, pollution_set) = (trial.memory.bytes, self.transfers.pollution_set);
        if !BYTES.contains(&bytes) {
            let (least, most) = (BYTES.start(), BYTES.end());
            return wrong(format!("bytes={bytes} of a transfer must be from {least} to {most}"));
        }
        if !pollution_set.is_multiple_of(LINE)
            || !(pollution_set == 0 || POLLUTION_SET.contains(&pollution_set))
        {
            let (least, most) = (POLLUTION_SET.start(), POLLUTION_SET.end());
            return wrong(format!(
                "pollution_set={pollution_set} must be 0 or multiples of {LINE} from {least} to {most}"
            ));
        }
        let count = trial.samples.saturating_add(trial.warm);
        // Each number is far below 2^40 by now.
        if count > MAX_COUNT || count * (bytes + 4 * pollution_set) > MAX_TOUCHED {
            return wrong(format!(
                "samples= and warm= make {count} transfers: {MAX_COUNT} are the most, and {MAX_TOUCHED} bytes of \
                 data and victims in all"
            ));
        }
        Ok(())
    }

    fn extent(&self, _: &Trial, _: u64) -> Option<u64> {
        Some(self.transfers.pollution_set)
    }

    fn work(&self, trial: &Trial) -> Work {
        let pollution_set = self.transfers.pollution_set;
        // Two walks before each, one with the clock, and one after.
        let walked = if pollution_set > 0 { (WARM_LAPS + 2) * (pollution_set / LINE + 1) } else { 0 };
        let copies = self.transfers.strategy.copies();
        Work::Transfers { count: trial.samples + trial.warm, copies, walked }
    }

    /// `warm` transfers that do not count, then `samples` that do.
    ///
    /// Where there is a victim, its working set is walked before each transfer until it is where it can be, then once
    /// more with the clock, and after the transfer again: what the second walk takes longer was lost by the transfer.
    fn run<M: Machine>(&self, machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
        let all = trial.warm + trial.samples;
        let batch = Batch { bytes: trial.memory.bytes, seed: trial.seed, first: 0, count: all };
        let (channel, mut rows, place) = if self.transfers.pollution_set == 0 {
            let (channel, rows) = machine.transfer(&self.transfers, &batch)?;
            (channel, rows, (0, 0))
        } else {
            let mapping = machine.map(&trial.request(1))?;
            let chain = self.pollution_set(trial, mapping.base);
            machine.initialise(&chain)?;
            let mut pollution_set = PollutionSet { cell: machine.cell(chain.at(0)).ok_or_else(lost)?, chain };
            let (mut channel, mut rows) = (None, Vec::with_capacity(all as usize));
            for first in 0..all {
                let before = pollution_set.settled(machine);
                let (by, moved) = machine.transfer(&self.transfers, &Batch { first, count: 1, ..batch })?;
                let after = pollution_set.lap(machine);
                let end = pollution_set.number(machine)?;
                rows.extend(moved.into_iter().map(|row| TransferTimes { before, after, end, ..row }));
                channel = Some(by);
            }
            let none = || Refusal::new("no transfer was asked for", "ask for samples");
            (channel.ok_or_else(none)?, rows, (mapping.page_bytes, mapping.base))
        };
        if (rows.len() as u64) < all {
            return Err(Refusal::new("transfers were cut off before their end", "ask for fewer at a time"));
        }
        let list = rows.split_off(trial.warm as usize);
        let moved = TransferRows { trial: trial.id, channel: Some(channel), list };
        Ok(TrialOutput::of(Rows::Transfers(moved), place.0, place.1))
    }

    /// At the far end arrived what was sent, and the victim walked to where its loads lead. What an engine moved was
    /// compared; and between two CPUs no counter of cycles counts on.
    fn verify(&self, trial: &Trial, rows: &Rows, _: &Done) -> Vec<usize> {
        let Rows::Transfers(moved) = rows else { return rows.all() };
        let chain = (self.transfers.pollution_set > 0).then(|| self.pollution_set(trial, 0));
        let engine = moved.channel.is_some_and(|channel| channel.engine != Engine::Nothing);
        let walked = |i: usize| {
            let end = |chain: &Chain| chain.cell_at(walked(chain.cells(), trial.warm.wrapping_add(i as u64)));
            chain.as_ref().is_none_or(|chain| moved.list[i].end == end(chain))
        };
        let sound = |row: &TransferTimes| row.wrong == 0 && !row.migrated && !(engine && row.unproven);
        (0..moved.list.len()).filter(|&i| !(sound(&moved.list[i]) && walked(i))).collect()
    }
}

/// The cells that have been walked when the transfer of this number is over, counted with those of the first from 0: of
/// a victim of so many cells.
fn walked(cells: u64, number: u64) -> u64 {
    // One more than a lap each time: whole laps would end where they began, and prove nothing.
    (number + 1).wrapping_mul((WARM_LAPS + 2) * (cells + 1))
}

fn lost() -> Refusal {
    Refusal::new("a cell of the chain of the pollution set is outside the mapping", "")
}

struct PollutionSet<C> {
    chain: Chain,
    cell: C,
}

impl<C: Copy + PartialEq + core::fmt::Debug> PollutionSet<C> {
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
