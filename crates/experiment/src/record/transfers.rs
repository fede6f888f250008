//! Transfers in a record.

use fathom_probe::machine::dma::{Channel, TransferTimes};
use fathom_probe::rows::TransferRows;
use fathom_probe::wire::{Line, WireError};

use super::{Record, TrialRun};

/// What a trial of transfers left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransferRecord {
    /// What moved them.
    pub channel: Option<Channel>,
    /// The transfers, in order; only proven ones once the trial is done.
    pub rows: Vec<TransferTimes>,
    /// Transfers of which something else arrived than was sent; they are kept out.
    pub wrong: usize,
    /// Bytes of them that were wrong.
    pub wrong_bytes: u64,
}

impl Record {
    /// A line of transfers.
    pub(super) fn take_moved(&mut self, line: &Line) -> Result<(), WireError> {
        let TransferRows { trial, channel, list } = TransferRows::read(line)?;
        let bytes = size_of_val(list.as_slice()) as u64;
        let moves = &mut self.running(trial)?.takes("moved")?.transfers;
        moves.channel = moves.channel.or(channel);
        moves.rows.extend(list);
        self.held += bytes;
        Ok(())
    }
}

impl TransferRecord {
    /// The transfers; they are no more here.
    pub(super) fn take_moved(&mut self, trial: u64) -> TransferRows {
        TransferRows { trial, channel: self.channel, list: std::mem::take(&mut self.rows) }
    }
}

impl TrialRun {
    /// Keeps the transfers that prove their work. What arrived otherwise than it was sent is counted by itself: that is
    /// no fault of the probe.
    pub(super) fn keep_proven_transfers(&mut self, rows: Vec<TransferTimes>, bad: &[usize]) {
        let moves = &mut self.transfers;
        for wrong in bad.iter().map(|&i| rows[i].wrong) {
            moves.wrong += usize::from(wrong > 0);
            moves.wrong_bytes = moves.wrong_bytes.saturating_add(wrong);
        }
        self.unverified += bad.len() - moves.wrong;
        moves.rows = super::proven(rows, bad).collect();
    }
}
