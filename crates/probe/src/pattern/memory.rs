//! The memory of a trial, and errors for values out of bounds.

use alloc::format;
use alloc::string::String;

use super::keys::Keys;
use crate::machine::{Attribute, Pages};
use crate::wire::WireError;

/// More than any supported machine maps.
pub(super) const MAX_BYTES: u64 = 1 << 40;
/// Cells a gigabyte apart are more than the ways of any cache or the sets of any TLB need.
pub(super) const MAX_PERIOD: u64 = 1 << 30;
const MAX_STRIDE: u64 = 1 << 20;

/// The memory of a trial: cells, `stride` bytes from one to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Working set: whole cells, each `stride` bytes.
    pub bytes: u64,
    /// Bytes from a cell to the next (the line size assumed).
    pub stride: u64,
    /// Pages requested.
    pub page: Pages,
    /// Attribute requested.
    pub attribute: Attribute,
    /// Seed of the placement.
    pub place: u64,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { bytes: 32 << 10, stride: 64, page: Pages::Base, attribute: Attribute::WriteBack, place: 0 }
    }
}

impl Memory {
    /// Returns base pages of write-back memory: `bytes` of cells that are `stride` bytes apart.
    #[must_use]
    pub fn of(bytes: u64, stride: u64) -> Memory {
        Memory { bytes, stride, ..Memory::default() }
    }

    /// Returns the number of cells of the working set.
    #[must_use]
    pub fn cells(&self) -> u64 {
        (self.bytes / self.stride).max(1)
    }

    pub(super) fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError> {
        keys.int("bytes", &mut self.bytes)?;
        keys.int("stride", &mut self.stride)?;
        keys.token("page", &mut self.page)?;
        keys.token("attribute", &mut self.attribute)?;
        keys.int("place", &mut self.place)
    }

    /// Checks the stride of packed cells.
    pub(super) fn check_packed(&self) -> Result<(), WireError> {
        if self.stride.is_power_of_two() && self.stride <= MAX_STRIDE {
            return Ok(());
        }
        wrong(format!("stride={} must be a power of two up to {MAX_STRIDE}", self.stride))
    }
}

/// Returns an error of a trial.
pub(super) fn wrong<T>(what: String) -> Result<T, WireError> {
    Err(WireError::new(format!("trial: {what}")))
}

/// Checks that a number is from `low` to `high`, both included.
pub(super) fn within(key: &str, value: u64, low: u64, high: u64) -> Result<(), WireError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    wrong(format!("{key}={value} must be from {low} to {high}"))
}
