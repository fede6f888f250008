//! DMA transfers in a record.

use fathom_probe::machine::dma::{Channel, TransferTimes};
use fathom_probe::rows::TransferRows;
use fathom_probe::wire::{Line, WireError};

use super::{Record, TrialRun};

/// The results of a trial of transfers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransferRecord {
    /// The channel that made them.
    pub channel: Option<Channel>,
    /// The transfers, in order. Once the trial is done: only the verified ones.
    pub rows: Vec<TransferTimes>,
    /// Number of transfers that delivered wrong data; they are left out.
    pub wrong: usize,
    /// Number of wrong bytes in them.
    pub wrong_bytes: u64,
}

impl Record {
    /// Adds a line of transfers.
    pub(super) fn take_moved(&mut self, line: &Line) -> Result<(), WireError> {
        let TransferRows { trial, channel, list } = TransferRows::read(line)?;
        let bytes = size_of_val(list.as_slice()) as u64;
        let transfers = &mut self.running(trial)?.accept_rows_of("moved")?.transfers;
        transfers.channel = transfers.channel.or(channel);
        transfers.rows.extend(list);
        self.held += bytes;
        Ok(())
    }
}

impl TransferRecord {
    /// Takes the transfers out of the record.
    pub(super) fn take_moved(&mut self, trial: u64) -> TransferRows {
        TransferRows { trial, channel: self.channel, list: std::mem::take(&mut self.rows) }
    }
}

impl TrialRun {
    /// Keeps the transfers whose work is verified. Wrong data are counted separately: they are not a fault of the probe.
    pub(super) fn keep_verified_transfers(&mut self, rows: Vec<TransferTimes>, bad: &[usize]) {
        let transfers = &mut self.transfers;
        for wrong in bad.iter().map(|&i| rows[i].wrong) {
            transfers.wrong += usize::from(wrong > 0);
            transfers.wrong_bytes = transfers.wrong_bytes.saturating_add(wrong);
        }
        self.unverified += bad.len() - transfers.wrong;
        transfers.rows = super::verified(rows, bad).collect();
    }
}
