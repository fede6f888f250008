//! Cells in groups that lie a period apart: what the patterns of cache sets and TLB sets share.

use alloc::format;

use super::keys::Keys;
use super::memory::{MAX_PERIOD, Memory, wrong};
use crate::chain::Layout;
use crate::wire::WireError;

const MAX_GROUP: u64 = 1 << 20;

/// Where groups of cells lie; the cells of a group are a stride apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Bytes from a group to the next.
    pub period: u64,
    /// Cells in a group.
    pub group: u64,
    /// Bytes from the mapping's beginning to the first cell: which set it is.
    pub offset: u64,
}

impl Default for Groups {
    /// None: a period of 0.
    fn default() -> Groups {
        Groups { period: 0, group: 1, offset: 0 }
    }
}

impl Groups {
    /// Single cells a period apart, from the mapping's beginning.
    #[must_use]
    pub fn apart(period: u64) -> Groups {
        Groups { period, ..Groups::default() }
    }

    /// The layout of a chain over them.
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
        for (key, value, least) in
            [("stride", memory.stride, 8), ("period", period, 8), ("offset", offset, 0)]
        {
            if !(least..=MAX_PERIOD).contains(&value) || !value.is_multiple_of(8) {
                return wrong(format!("{key}={value} must be a multiple of 8 from {least} to {MAX_PERIOD}"));
            }
        }
        if !(1..=MAX_GROUP).contains(&group) {
            return wrong(format!("group={group} must be from 1 to {MAX_GROUP}"));
        }
        if (group - 1) * memory.stride + 8 > period {
            return wrong(format!(
                "{group} cells at a stride of {} are more than a period of {period}",
                memory.stride
            ));
        }
        Ok(())
    }

    /// Bytes that they take, from the mapping's beginning.
    pub(super) fn extent(&self, memory: &Memory) -> Option<u64> {
        self.layout().extent(memory.cells(), memory.stride)?.checked_add(self.offset)
    }
}
