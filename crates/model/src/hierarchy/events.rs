//! What happens to lines in the caches, for those who explain misses: kept only on request.

use super::Hierarchy;

/// Why a cache lost a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Another line took its way.
    Replaced,
    /// A farther level that includes this one lost it.
    Included,
    /// Another CPU stored to it.
    Invalidated,
}

/// Something that happened to a line beside the access itself. Agents are numbered in the order of their first access, levels
/// in the order of the description; addresses are physical.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A cache lost the line at `address`.
    Lost {
        /// Whose cache it is; of a shared level, who caused it.
        agent: usize,
        /// The level.
        level: usize,
        /// First byte of the line.
        address: u64,
        /// Why.
        how: Loss,
    },
    /// A nearer level has passed a store or a dirty line to this level.
    Written {
        /// Whose path it is.
        agent: usize,
        /// The level.
        level: usize,
        /// An address in the line.
        address: u64,
    },
    /// A walk has read a descriptor.
    Walked {
        /// Its address.
        address: u64,
        /// Position in the path of data at which the walk begins.
        from: usize,
        /// The level that served it; `None` for memory.
        served: Option<usize>,
    },
}

impl Hierarchy {
    /// Keeps events from now on. Lines move by the general path then, which tells all of them.
    pub fn keep_events(&mut self) {
        self.copies = false;
        self.events = Some(Vec::new());
    }

    /// Returns the events since the last [`Hierarchy::forget_events`].
    pub fn events(&self) -> &[Event] {
        self.events.as_deref().unwrap_or_default()
    }

    /// Forgets the events until now.
    pub fn forget_events(&mut self) {
        if let Some(events) = &mut self.events {
            events.clear();
        }
    }

    /// Notes an event, if events are kept.
    #[inline(always)]
    pub fn happened(&mut self, event: impl FnOnce() -> Event) {
        if let Some(events) = &mut self.events {
            events.push(event());
        }
    }
}
