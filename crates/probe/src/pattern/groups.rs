//! Cells in groups at a constant period, as the patterns for cache sets and TLB sets use them.

use alloc::format;

use super::keys::Keys;
use super::memory::{MAX_PERIOD, Memory, wrong};
use crate::chain::Layout;
use crate::wire::WireError;

const MAX_GROUP: u64 = 1 << 20;

/// Placement of groups of cells. The cells of a group are a stride apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Bytes from one group to the next.
    pub period: u64,
    /// Cells in a group.
    pub group: u64,
    /// Bytes from the start of the mapping to the first cell: selects the set.
    pub offset: u64,
}

impl Default for Groups {
    /// Returns a period of 0: no groups.
    fn default() -> Groups {
        Groups { period: 0, group: 1, offset: 0 }
    }
}

impl Groups {
    /// Returns single cells at a period, from the start of the mapping.
    #[must_use]
    pub fn apart(period: u64) -> Groups {
        Groups { period, ..Groups::default() }
    }

    /// Returns the layout of a chain over them.
    #[must_use]
    pub fn layout(&self) -> Layout {
        Layout::Grouped { group: self.group, period: self.period }
    }

    pub(super) fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError> {
        keys.int("period", &mut self.period)?;
        keys.int("group", &mut self.group)?;
        keys.int("offset", &mut self.offset)
    }

    pub(super) fn check(&self, memory: &Memory) -> Result<(), WireError> {
        let Groups { period, group, offset } = *self;
        for (key, value, min) in [("stride", memory.stride, 8), ("period", period, 8), ("offset", offset, 0)]
        {
            if !(min..=MAX_PERIOD).contains(&value) || !value.is_multiple_of(8) {
                return wrong(format!("{key}={value} must be a multiple of 8 from {min} to {MAX_PERIOD}"));
            }
        }
        if !(1..=MAX_GROUP).contains(&group) {
            return wrong(format!("group={group} must be from 1 to {MAX_GROUP}"));
        }
        if (group - 1) * memory.stride + 8 > period {
            return wrong(format!(
                "{group} cells at a stride of {} do not fit in a period of {period}",
                memory.stride
            ));
        }
        Ok(())
    }

    /// Returns the bytes that they need, from the start of the mapping.
    pub(super) fn extent(&self, memory: &Memory) -> Option<u64> {
        self.layout().extent(memory.cells(), memory.stride)?.checked_add(self.offset)
    }
}
