//! What an access is, what is asked about it, and its result.

/// Kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads data.
    Load,
    /// Writes data.
    Store,
    /// Reads an instruction.
    Fetch,
}

/// Result of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The level that served it, as its index in the description from 0; `None` for memory.
    pub level: Option<usize>,
    /// Its cost, translation included, in units of 1 / [`UNITS_PER_CYCLE`](crate::UNITS_PER_CYCLE) core cycle.
    pub cost: u64,
    /// The part of the cost that its translation took: TLBs, and walks with their fetches.
    pub translation: u64,
    /// Whether its translation needed a walk.
    pub walked: bool,
    /// Whether the nearest TLB did not have its translation; a farther one may have.
    pub tlb_missed: bool,
    /// Whether it read a version older than memory's (see [`Model::written_behind`](crate::Model::written_behind)).
    pub stale: bool,
}

/// What a batch is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Levels and their refills and write-backs. Nothing is translated and no time passes.
    Counts,
    /// Levels, TLBs, walks, attributes and time.
    Full,
}
