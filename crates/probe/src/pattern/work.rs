//! What a trial does, in the terms in which a machine takes time for it.

use super::trial::Trial;

/// What a trial does. Whoever knows a machine knows what it costs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// So many readings of the clock.
    Readings(u64),
    /// So many single-cycle operations.
    Operations(u64),
    /// Dependent loads.
    Loads(Loads),
    /// Independent accesses through the trial's memory.
    Sweep {
        /// Accesses that are timed.
        timed: u64,
        /// Accesses that warm.
        warm: u64,
        /// What one of them is: 1 for a load or a store, 2 for both.
        each: u64,
        /// Times that every cell is looked at or written to besides.
        passes: u64,
    },
    /// Accesses to memory that was given back before each sample.
    FirstTouches {
        /// Faults of each page, a sample.
        faults: u64,
        /// Times that every cell is looked at besides, a sample.
        passes: u64,
    },
    /// Periodic wake-ups.
    Wakes {
        /// How many.
        count: u64,
        /// The period, ns.
        every_ns: u64,
        /// Accesses of each.
        each: u64,
    },
    /// Transfers between a CPU and a device, each of the trial's bytes.
    Transfers {
        /// How many.
        count: u64,
        /// Are the bytes copied too?
        copies: bool,
        /// Loads of each, of the walks that show what it evicted.
        walked: u64,
    },
}

/// Dependent loads round a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loads {
    /// How many.
    pub count: u64,
    /// Links that are written before.
    pub links: u64,
    /// Bytes that they go round in.
    pub bytes: u64,
    /// Bytes that are touched for the first time.
    pub fresh: u64,
    /// Has each cell a page of its own?
    pub one_a_page: bool,
}

impl Loads {
    /// So many over the cells of a trial, whose links are written `times` times.
    pub(super) fn packed(trial: &Trial, count: u64, times: u64) -> Loads {
        let (cells, bytes) = (trial.memory.cells(), trial.memory.bytes);
        Loads { count, links: cells.saturating_mul(times), bytes, fresh: bytes, one_a_page: false }
    }

    /// So many over cells far apart: they are few lines, and what lies between them is touched once for all trials.
    pub(super) fn apart(cells: u64, count: u64) -> Loads {
        /// The commonest line, bytes.
        const LINE: u64 = 64;
        Loads { count, links: cells, bytes: cells.saturating_mul(LINE), fresh: 0, one_a_page: false }
    }
}
