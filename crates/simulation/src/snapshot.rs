//! What a machine has counted so far, while its guest runs.

use crate::counts::LevelCounts;
use crate::regions::Sums;

/// Counts of one CPU or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotCounts {
    /// Accesses by kind.
    pub accesses: [u64; 3],
    /// Accesses that reached each level, in the order of the description.
    pub reached: Vec<u64>,
    /// Those that it did not serve.
    pub misses: Vec<u64>,
    /// Walks.
    pub walks: u64,
    /// Accesses that memory served.
    pub memory: u64,
    /// Time of accesses, translations and fetches, in units, without that of the instructions themselves.
    pub units: u64,
}

/// What a machine has counted so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Of one CPU.
    pub of_cpu: SnapshotCounts,
    /// Of all.
    pub of_all: SnapshotCounts,
    /// Time of one operation, in units.
    pub operation_units: u64,
}

/// What each CPU has made, if that is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByCpu(Option<Vec<Sums>>);

impl ByCpu {
    /// Counts by CPU from now on, on a machine with so many levels, memory included.
    pub fn begin(&mut self, cpus: u32, levels: usize) {
        self.0 = Some(vec![Sums::new(levels); cpus as usize]);
    }

    pub fn is_asked_for(&self) -> bool {
        self.0.is_some()
    }

    /// Adds what has been added from `before` to `now`, by a CPU.
    pub fn add(&mut self, cpu: u32, before: &Sums, now: &Sums) {
        if let Some(sums) = self.0.as_mut().and_then(|all| all.get_mut(cpu as usize)) {
            sums.add(before, now);
        }
    }

    /// Returns what a CPU has made; nothing, if that is not counted.
    pub fn of(&self, cpu: u32, levels: usize) -> Sums {
        let known = self.0.as_ref().and_then(|all| all.get(cpu as usize).cloned());
        known.unwrap_or_else(|| Sums::new(levels))
    }
}

impl SnapshotCounts {
    /// Returns sums with what levels and memory make of them.
    pub(crate) fn of(
        sums: &Sums,
        levels: &[LevelCounts],
        memory: [u64; 3],
        memory_units: u64,
    ) -> SnapshotCounts {
        let time: u64 = levels.iter().map(|level| level.units).sum();
        SnapshotCounts {
            accesses: sums.accesses,
            reached: levels.iter().map(|level| level.accesses.iter().sum()).collect(),
            misses: levels.iter().map(LevelCounts::misses).collect(),
            walks: sums.walks,
            memory: memory.iter().sum(),
            units: time + memory_units + sums.translation_units + sums.fetch_units,
        }
    }
}
