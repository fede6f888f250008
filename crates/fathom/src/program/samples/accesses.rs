//! Sampled accesses: how many, and how long they took.

use std::collections::{BTreeMap, HashMap};

use fathom_experiment::record::{DataLevel, ProfileLatency, ProfileLevel};
use fathom_host::SampledAccess;

use super::calls::Count;
use crate::program::call_tree::Amount as _;

/// Latencies that are told apart, at most; longer ones are the same. A processor's counter of a latency has 16 bits.
const MOST: u64 = u16::MAX as u64;

/// Some accesses.
#[derive(Clone, Debug, Default)]
pub struct Accesses {
    /// Samples of them.
    pub count: Count,
    /// Samples by latency, cycles, of those that tell it.
    latencies: BTreeMap<u16, u64>,
}

impl Accesses {
    /// Adds a sample. Without a latency it has 0: of stores, and of what hit in the first level of some processors.
    pub fn add(&mut self, weight: u64, access: Option<SampledAccess>) {
        self.count.add(&Count::one(weight));
        let latency = access.map(|access| access.latency).filter(|latency| *latency > 0);
        if let Some(latency) = latency.and_then(|latency| u16::try_from(latency.min(MOST)).ok()) {
            *self.latencies.entry(latency).or_default() += 1;
        }
    }

    /// Returns the latencies, if a sample tells one.
    pub fn latency(&self) -> Option<ProfileLatency> {
        let samples: u64 = self.latencies.values().sum();
        // The smallest latency that so many have or less.
        let quantile = |share: f64| {
            let wanted = (share * samples as f64).ceil() as u64;
            let mut seen = 0;
            let found = self.latencies.iter().find(|(_, samples)| {
                seen += **samples;
                seen >= wanted
            });
            found.map(|(latency, _)| u64::from(*latency))
        };
        Some(ProfileLatency { median: quantile(0.5)?, p90: quantile(0.9)?, samples })
    }
}

/// Returns the places where data were, the nearest first.
pub fn levels(all: HashMap<DataLevel, Accesses>) -> Vec<ProfileLevel> {
    let level = |(level, accesses): (DataLevel, Accesses)| ProfileLevel {
        level,
        samples: accesses.count.samples,
        weight: accesses.count.weight,
        latency: accesses.latency(),
    };
    let mut all: Vec<ProfileLevel> = all.into_iter().map(level).collect();
    all.sort_by_key(|level| level.level);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_those_of_the_samples_that_tell_them() {
        let mut all = Accesses::default();
        assert_eq!(all.latency(), None);
        for latency in (1..=100).chain([0, 0]) {
            all.add(10, Some(SampledAccess { latency, source: 0 }));
        }
        all.add(10, None);
        assert_eq!((all.count.samples, all.count.weight), (103, 1030));
        assert_eq!(all.latency(), Some(ProfileLatency { median: 50, p90: 90, samples: 100 }));
        let mut long = Accesses::default();
        long.add(1, Some(SampledAccess { latency: 1 << 40, source: 0 }));
        assert_eq!(long.latency().map(|of| of.median), Some(65535));
    }
}
