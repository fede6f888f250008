//! Events in a record that the machine counted while a trial ran.

use fathom_probe::rows::EventCount;
use fathom_probe::wire::{Line, WireError};

use super::{Record, TrialRun};

impl Record {
    /// Adds the count of an event.
    pub(super) fn take_counted(&mut self, line: &Line) -> Result<(), WireError> {
        let (trial, counted) = EventCount::read(line)?;
        let run = self.running(trial)?;
        if run.events.iter().any(|known| known.event == counted.event) {
            let token = counted.event.token();
            return Err(WireError::new(format!(
                "trial {trial}: a second count of {token}: the first one counts"
            )));
        }
        run.events.push(counted);
        self.held += size_of::<EventCount>() as u64;
        Ok(())
    }
}

impl TrialRun {
    /// Drops the counts if samples were left out: they are sums over all samples.
    pub(super) fn keep_whole_counts(&mut self) {
        if self.unverified > 0 || self.samples.len() as u64 != self.trial.samples {
            self.events.clear();
        }
    }
}
