//! What all CPUs together have counted.

use super::Model;
use crate::hierarchy::Sharing;

/// Counts of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelTotals {
    /// Lines filled, those of walks included.
    pub refills: u64,
    /// Dirty lines that were evicted.
    pub writebacks: u64,
    /// What CPUs have done to one another's lines there; nothing of a shared level.
    pub sharing: Sharing,
}

/// Counts of all CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// By level, in the order of the description.
    pub levels: Vec<LevelTotals>,
    /// Translations that each TLB did not have, in the order of the description.
    pub tlbs: Vec<u64>,
    /// Walks.
    pub walks: u64,
    /// Reads of memory, those of walks included.
    pub memory_reads: u64,
    /// Lines written back to memory, and stores that reached it.
    pub memory_writes: u64,
    /// CPUs that have caches: CPU 0, and those that have made accesses.
    pub cpus: usize,
    /// What they have done to one another's lines.
    pub sharing: Sharing,
}

impl Model {
    /// Returns what all CPUs have counted.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let agents = 0..self.agents.len();
        let levels = self.description.levels.iter().enumerate().map(|(index, level)| {
            // A shared level is every CPU's.
            let of = if level.shared { 0..1 } else { agents.clone() };
            let none = LevelTotals { sharing: self.hierarchy.sharing_of(index), ..LevelTotals::default() };
            of.fold(none, |sum, agent| {
                let cache = self.hierarchy.cache(agent, index);
                LevelTotals {
                    refills: sum.refills + cache.refills,
                    writebacks: sum.writebacks + cache.writebacks,
                    ..sum
                }
            })
        });
        let tlbs = (0..self.description.tlbs.len())
            .map(|index| self.agents.iter().map(|agent| agent.tlbs.stores[index].refills).sum());
        Totals {
            levels: levels.collect(),
            tlbs: tlbs.collect(),
            walks: self.agents.iter().map(|agent| agent.tlbs.walks).sum(),
            memory_reads: self.memory.reads,
            memory_writes: self.hierarchy.memory_writes,
            cpus: self.agents.len(),
            sharing: self.hierarchy.sharing(),
        }
    }

    /// Returns the cost of a load, a store and a fetch of a base page that the nearest level and the nearest TLB serve, in units of 1 /
    /// [`UNITS_PER_CYCLE`](crate::UNITS_PER_CYCLE) core cycle.
    #[must_use]
    pub fn hit_costs(&self) -> [u64; 3] {
        use crate::hierarchy::Path;
        let latency = |path| self.hierarchy.nearest(path).map_or(0, |level| self.hierarchy.latency(level));
        let translation = self.translation_hit_cost();
        let load = latency(Path::Data);
        let store = match (self.buffered, self.hierarchy.nearest(Path::Data)) {
            (Some((level, cost)), Some(nearest)) if level == nearest => cost,
            _ => load,
        };
        [load, store, latency(Path::Code)].map(|cost| cost + translation)
    }

    /// Returns the part of these costs that the nearest TLB has.
    #[must_use]
    pub fn translation_hit_cost(&self) -> u64 {
        self.paging.base_latency()
    }
}
