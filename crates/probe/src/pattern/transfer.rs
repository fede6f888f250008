//! The transfer: data between a packet of the CPU and a device, with the time of each part, and what a working set
//! lost.

use alloc::format;
use alloc::vec::Vec;

use super::memory::wrong;
use super::{Definition, Keys, Trial, TrialOutput, Work};
use crate::chain::{Chain, Layout, Order};
use crate::machine::dma::{BYTES, Batch, Engine, POLLUTION_SET, TransferTimes, Transfers};
use crate::machine::{Machine, Refusal};
use crate::rows::{Done, Rows, TransferRows};
use crate::wire::WireError;

/// Laps that load the lines of the pollution set again before each transfer: with random replacement, one lap leaves some of them
/// out.
const WARM_LAPS: u64 = 2;
/// Bytes from one cell of a pollution set to the next: the line size of most machines.
const LINE: u64 = 64;
/// Maximum transfers of a trial, and maximum bytes that they and their pollution sets touch, so that no line from outside runs
/// forever.
const MAX_COUNT: u64 = 2000;
const MAX_TOUCHED: u64 = 1 << 35;

/// Transfers of the trial's bytes between a CPU and a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Strategy, direction, engine and the other parameters.
    pub transfers: Transfers,
}

impl Transfer {
    /// Returns the chain of the pollution set, from arena offset `base`.
    fn pollution_set(&self, trial: &Trial, base: u64) -> Chain {
        Chain::new(base, self.transfers.pollution_set / LINE, LINE, Layout::Packed, Order::Random, trial.seed)
    }
}

impl Definition for Transfer {
    const MAY_FLUSH: bool = true;

    fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError> {
        let transfers = &mut self.transfers;
        keys.always("strategy", &mut transfers.strategy)?;
        keys.always("direction", &mut transfers.direction)?;
        keys.optional("engine", &mut transfers.engine)?;
        keys.optional("maintenance", &mut transfers.maintenance)?;
        keys.optional("driver_bug", &mut transfers.driver_bug)?;
        keys.int("pollution_set", &mut transfers.pollution_set)
    }

    fn check(&self, trial: &Trial) -> Result<(), WireError> {
        trial.memory.check_packed()?;
        let (bytes, pollution_set) = (trial.memory.bytes, self.transfers.pollution_set);
        if !BYTES.contains(&bytes) {
            let (min, max) = (BYTES.start(), BYTES.end());
            return wrong(format!("bytes={bytes} of a transfer must be from {min} to {max}"));
        }
        if !pollution_set.is_multiple_of(LINE)
            || !(pollution_set == 0 || POLLUTION_SET.contains(&pollution_set))
        {
            let (min, max) = (POLLUTION_SET.start(), POLLUTION_SET.end());
            return wrong(format!(
                "pollution_set={pollution_set} must be 0 or a multiple of {LINE} from {min} to {max}"
            ));
        }
        let count = trial.samples.saturating_add(trial.warm);
        // No overflow: each number is far below 2^40 here.
        if count > MAX_COUNT || count * (bytes + 4 * pollution_set) > MAX_TOUCHED {
            return wrong(format!(
                "samples= and warm= make {count} transfers: the maximum is {MAX_COUNT}, and {MAX_TOUCHED} bytes of \
                 data and pollution sets in total"
            ));
        }
        Ok(())
    }

    fn extent(&self, _: &Trial, _: u64) -> Option<u64> {
        Some(self.transfers.pollution_set)
    }

    fn work(&self, trial: &Trial) -> Work {
        let pollution_set = self.transfers.pollution_set;
        // Before each transfer the warm-up laps and one timed walk, and one timed walk after it.
        let walked = if pollution_set > 0 { (WARM_LAPS + 2) * (pollution_set / LINE + 1) } else { 0 };
        let copies = self.transfers.strategy.copies();
        Work::Transfers { count: trial.samples + trial.warm, copies, walked }
    }

    /// Makes `warm` transfers that do not count, then `samples` that do.
    ///
    /// A requested pollution set is walked before each transfer until it is cached, then once more timed,
    /// and timed again after the transfer. The increase is the cost of the lines that the transfer evicted.
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
                let (by, times) = machine.transfer(&self.transfers, &Batch { first, count: 1, ..batch })?;
                let after = pollution_set.lap(machine);
                let end = pollution_set.number(machine)?;
                rows.extend(times.into_iter().map(|row| TransferTimes { before, after, end, ..row }));
                channel = Some(by);
            }
            let none = || Refusal::new("no transfer was requested", "set samples=1 or more");
            (channel.ok_or_else(none)?, rows, (mapping.page_bytes, mapping.base))
        };
        if (rows.len() as u64) < all {
            return Err(Refusal::new("transfers were interrupted", "request fewer samples"));
        }
        let list = rows.split_off(trial.warm as usize);
        let transfers = TransferRows { trial: trial.id, channel: Some(channel), list };
        Ok(TrialOutput::of(Rows::Transfers(transfers), place.0, place.1))
    }

    /// Checks that the data at the far end are those that were sent, and that the walk of the pollution set ended where its loads
    /// lead. Data that an engine moved must have been compared. A transfer that migrated between CPUs fails, because
    /// cycle counters of two CPUs are not comparable.
    fn verify(&self, trial: &Trial, rows: &Rows, _: &Done) -> Vec<usize> {
        let Rows::Transfers(transfers) = rows else { return rows.all() };
        let chain = (self.transfers.pollution_set > 0).then(|| self.pollution_set(trial, 0));
        let engine = transfers.channel.is_some_and(|channel| channel.engine != Engine::Nothing);
        let walked = |i: usize| {
            let end = |chain: &Chain| chain.cell_at(walked(chain.cells(), trial.warm.wrapping_add(i as u64)));
            chain.as_ref().is_none_or(|chain| transfers.list[i].end == end(chain))
        };
        let sound = |row: &TransferTimes| row.wrong == 0 && !row.migrated && !(engine && row.unverified);
        (0..transfers.list.len()).filter(|&i| !(sound(&transfers.list[i]) && walked(i))).collect()
    }
}

/// Returns the number of cells of a pollution set of `cells` cells that have been walked after transfer `number`, counted from
/// 0.
fn walked(cells: u64, number: u64) -> u64 {
    // One more than a lap each time: whole laps would end where they began and verify nothing.
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

    /// Walks the working set and returns the ticks.
    fn lap<M: Machine<Cell = C>>(&mut self, machine: &mut M) -> u64 {
        let began = machine.now();
        self.walk(machine);
        machine.now().since(began)
    }

    /// Walks the working set until it is cached as far as possible, then returns the ticks of one more walk.
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
