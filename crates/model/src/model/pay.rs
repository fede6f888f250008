//! What an access costs by the level that serves it, and less if its line has been prefetched.

use super::Model;
use crate::hierarchy::{MEMORY, Path};

impl Model {
    /// Charges the latency of a read that `level` serves.
    #[inline(always)]
    pub(super) fn pay(&mut self, agent: usize, level: usize, physical: u64) {
        let clock = self.agents[agent].clock;
        let cost = if level == MEMORY {
            self.memory.reads += 1;
            self.memory.cost(clock, physical)
        } else {
            self.hierarchy.latency(level)
        };
        self.agents[agent].clock = clock + cost;
    }

    /// Charges the latency of a load or store of write-back memory that `level` serves; at most what a line of a run costs, if
    /// it continues one.
    #[inline(always)]
    pub(super) fn pay_for_data(&mut self, agent: usize, level: usize, physical: u64) {
        let before = self.agents[agent].clock;
        self.pay(agent, level, physical);
        if self.prefetch.is_some() {
            let latency = self.agents[agent].clock - before;
            self.agents[agent].clock -= self.saved(agent, level, physical, latency);
        }
    }

    /// Returns what an access that takes `latency`, without translation, takes less because its line has been prefetched.
    #[inline(never)]
    pub(super) fn saved(&mut self, agent: usize, level: usize, physical: u64, latency: u64) -> u64 {
        let (Some(prefetch), Some(nearest)) = (&self.prefetch, self.hierarchy.nearest(Path::Data)) else {
            return 0;
        };
        if level == nearest {
            return 0;
        }
        let line = physical >> self.hierarchy.line_shift(nearest);
        match prefetch.follows(&mut self.agents[agent].runs, line) {
            true => latency.saturating_sub(prefetch.cost),
            false => 0,
        }
    }
}
