//! The amount of work of a trial, for estimates of its time.

use super::trial::Trial;

/// The amount of work of a trial. The cost depends on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Readings of the clock.
    Readings(u64),
    /// Single-cycle operations.
    Operations(u64),
    /// Dependent loads.
    Loads(Loads),
    /// Independent accesses through the trial's memory.
    Sweep {
        /// Timed accesses.
        timed: u64,
        /// Warm-up accesses.
        warm: u64,
        /// Memory operations per access: 1 for a load or a store, 2 for both.
        each: u64,
        /// Additional passes over all cells, to write or to check them.
        passes: u64,
    },
    /// Accesses to memory that was released before each sample.
    FirstTouches {
        /// Faults per page and sample.
        faults: u64,
        /// Additional passes over all cells per sample, to check them.
        passes: u64,
    },
    /// Periodic wake-ups.
    Wakes {
        /// Number of activations.
        count: u64,
        /// The period, ns.
        every_ns: u64,
        /// Accesses per activation.
        each: u64,
    },
    /// Transfers between a CPU and a device, each of the trial's bytes.
    Transfers {
        /// Number of transfers.
        count: u64,
        /// Whether the bytes are also copied.
        copies: bool,
        /// Loads per transfer, in the walks that show what it evicted.
        walked: u64,
    },
}

/// Dependent loads along a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loads {
    /// Number of loads.
    pub count: u64,
    /// Links that are written before.
    pub links: u64,
    /// Bytes of the chain's working set.
    pub bytes: u64,
    /// Bytes that are touched for the first time.
    pub fresh: u64,
    /// Whether each cell is in a separate page.
    pub one_per_page: bool,
}

impl Loads {
    /// Returns `count` loads over the packed cells of a trial, whose links are written `times` times.
    pub(super) fn packed(trial: &Trial, count: u64, times: u64) -> Loads {
        let (cells, bytes) = (trial.memory.cells(), trial.memory.bytes);
        Loads { count, links: cells.saturating_mul(times), bytes, fresh: bytes, one_per_page: false }
    }

    /// Returns `count` loads over cells that are far apart. They are few lines, and the memory between them is touched
    /// once for all trials.
    pub(super) fn apart(cells: u64, count: u64) -> Loads {
        /// The most common line size, bytes.
        const LINE: u64 = 64;
        Loads { count, links: cells, bytes: cells.saturating_mul(LINE), fresh: 0, one_per_page: false }
    }
}
