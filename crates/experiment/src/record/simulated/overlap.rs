//! How accesses of a simulated program overlap, as part of a record's line.

use fathom_probe::wire::WireError;

use super::numbers;

/// The lower bound of a program's time: accesses that are no hits are independent of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimulatedOverlap {
    /// Accesses that may be under way at the same time, as described.
    pub outstanding: u64,
    /// Instructions that may be in flight; 0 if they are not limited.
    pub window: u64,
    /// Time of data accesses beyond hits, units of 1 / 4096 cycle.
    pub data: u64,
    /// Time of fetches beyond hits.
    pub fetches: u64,
}

impl SimulatedOverlap {
    pub(super) fn list(self) -> [u64; 4] {
        [self.outstanding, self.window, self.data, self.fetches]
    }

    pub(super) fn of_list(list: &[u64]) -> Result<Option<SimulatedOverlap>, WireError> {
        if list.is_empty() {
            return Ok(None);
        }
        let [outstanding, window, data, fetches] = numbers("overlap", list)?;
        Ok(Some(SimulatedOverlap { outstanding, window, data, fetches }))
    }
}
