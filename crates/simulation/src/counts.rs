//! What is counted on one machine.

use fathom_model::Kind;
use serde::{Deserialize, Serialize};

/// The kinds of accesses, in the order of arrays by kind.
pub const KINDS: [Kind; 3] = [Kind::Load, Kind::Store, Kind::Fetch];

/// Counts of a level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelCounts {
    /// Name in the description.
    pub name: String,
    /// `data`, `instructions` or `unified`.
    pub holds: String,
    /// Accesses that reached it, by kind: those that no nearer level served. Fetches of walks are not among them.
    pub accesses: [u64; 3],
    /// Accesses that it served, by kind.
    pub hits: [u64; 3],
    /// Dirty lines that it evicted.
    pub writebacks: u64,
    /// Time that it served data accesses, units of 1 / [`fathom_model::UNITS_PER_CYCLE`] cycle, without translation.
    pub units: u64,
}

/// Counts of a TLB.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlbCounts {
    /// Name in the description.
    pub name: String,
    /// Translations that reached it.
    pub accesses: u64,
    /// Translations that it did not have.
    pub misses: u64,
}

/// Counts of an instruction that the nearest level or the nearest TLB did not always serve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceCounts {
    /// Its number.
    pub place: u64,
    /// Misses of data accesses by level, in the order of the description: those that the level passed on.
    pub misses: Vec<u64>,
    /// Misses of instruction fetches by level.
    pub fetch_misses: Vec<u64>,
    /// Walks, of fetches too.
    pub walks: u64,
    /// Time beyond hits of the nearest level and TLB, in units.
    pub units: u64,
}

/// Counts of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineCounts {
    /// Name of the request.
    pub name: String,
    /// Why the simulation ended before the program did, if so.
    pub refused: Option<String>,
    /// Accesses by kind: loads, stores, fetches. One that crosses a line is one for each line.
    pub accesses: [u64; 3],
    /// Levels, in the order of the description.
    pub levels: Vec<LevelCounts>,
    /// TLBs, in the order of the description.
    pub tlbs: Vec<TlbCounts>,
    /// Walks.
    pub walks: u64,
    /// Accesses that memory served, by kind.
    pub memory: [u64; 3],
    /// Reads of memory, those of walks included.
    pub memory_reads: u64,
    /// Lines written back to memory, and stores that reached it.
    pub memory_writes: u64,
    /// Time that memory served data accesses, in units, without translation.
    pub memory_units: u64,
    /// Time of translations, in units: TLBs and walks.
    pub translation_units: u64,
    /// Time that fetches took beyond hits of the nearest level, in units, without translation.
    pub fetch_units: u64,
    /// Time of one operation, in units.
    pub operation_units: u64,
    /// Core clock, Hz, rounded.
    pub clock_hz: u64,
    /// Instructions with misses.
    pub places: Vec<PlaceCounts>,
}

impl MachineCounts {
    /// Returns the accesses that level `number` (from 1, in the order of the description) did not serve.
    #[must_use]
    pub fn level_misses(&self, number: usize) -> u64 {
        self.levels.get(number - 1).map_or(0, LevelCounts::misses)
    }
}

impl LevelCounts {
    /// Returns the accesses that it did not serve.
    #[must_use]
    pub fn misses(&self) -> u64 {
        (0..3).map(|kind| self.accesses[kind] - self.hits[kind]).sum()
    }
}
