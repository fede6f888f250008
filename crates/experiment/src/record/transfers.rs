//! Transfers in a record.

use fathom_probe::machine::dma::{Channel, Engine, Transferred};
use fathom_probe::pattern::PatternKind;
use fathom_probe::proof::unproven_transfers;
use fathom_probe::rows::Moved;
use fathom_probe::wire::{Line, WireError};

use super::{Record, TrialRun};

/// What a trial of transfers left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moves {
    /// What moved them.
    pub channel: Option<Channel>,
    /// The transfers, in order; only proven ones once the trial is done.
    pub rows: Vec<Transferred>,
    /// Transfers of which something else arrived than was sent; they are kept out.
    pub wrong: usize,
    /// Bytes of them that were wrong.
    pub wrong_bytes: u64,
}

impl Record {
    /// A line of transfers.
    pub(super) fn take_moved(&mut self, line: &Line) -> Result<(), WireError> {
        let Moved { trial, channel, list } = Moved::read(line)?;
        let bytes = size_of_val(list.as_slice()) as u64;
        let moves = &mut self.running(trial)?.transfers;
        moves.channel = moves.channel.or(channel);
        moves.rows.extend(list);
        self.held += bytes;
        Ok(())
    }
}

impl TrialRun {
    /// Keeps the transfers that prove their work. What arrived otherwise than it was sent is counted by itself: that is
    /// no fault of the probe.
    pub(super) fn keep_proven_transfers(&mut self) {
        if self.trial.kind() != PatternKind::Transfer {
            return;
        }
        let mut bad = unproven_transfers(&self.trial, &self.transfers.rows);
        let moves = &mut self.transfers;
        // What an engine moved was compared; and between two CPUs no counter of cycles counts on.
        let moved = moves.channel.is_some_and(|channel| channel.engine != Engine::Nothing);
        let torn = |row: &Transferred| (moved && row.unproven) || row.migrated;
        bad.extend((0..moves.rows.len()).filter(|&i| torn(&moves.rows[i])));
        bad.sort_unstable();
        bad.dedup();
        for &i in &bad {
            let wrong = moves.rows[i].wrong;
            moves.wrong += usize::from(wrong > 0);
            moves.wrong_bytes = moves.wrong_bytes.saturating_add(wrong);
        }
        self.unverified += bad.len() - moves.wrong;
        let mut i = 0;
        moves.rows.retain(|_| {
            i += 1;
            bad.binary_search(&(i - 1)).is_err()
        });
    }
}
