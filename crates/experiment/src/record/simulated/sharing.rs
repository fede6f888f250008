//! What CPUs of a simulated program have done to one another's lines, as part of a record's line.

use fathom_probe::wire::{Line, WireError};

use super::numbers;

/// Counts of private levels: of one, of all of them, or of the accesses to an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimulatedSharing {
    /// Of a level: lines that stores of other CPUs have invalidated there. Else: CPUs that have lost a line so.
    pub invalidated: u64,
    /// Loads and fetches of a line that another CPU had modified.
    pub transfers: u64,
    /// Stores to a line that the CPU itself and others had, clean.
    pub upgrades: u64,
}

impl SimulatedSharing {
    /// Adds counts that are known.
    pub(super) fn add(of: Option<SimulatedSharing>, line: Line) -> Line {
        let list = |of: SimulatedSharing| [of.invalidated, of.transfers, of.upgrades];
        of.into_iter().fold(line, |line, of| line.list("sharing", &list(of)))
    }

    pub(super) fn of_list(list: &[u64]) -> Result<Option<SimulatedSharing>, WireError> {
        if list.is_empty() {
            return Ok(None);
        }
        let [invalidated, transfers, upgrades] = numbers("sharing", list)?;
        Ok(Some(SimulatedSharing { invalidated, transfers, upgrades }))
    }
}
