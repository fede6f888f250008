//! Sampled accesses: how many, and how long they took.

use std::collections::{BTreeMap, HashMap};

use fathom_experiment::record::{DataLevel, ProfileLatency, ProfileLevel, ProfileWalks};
use fathom_host::SampledAccess;

use super::calls::Count;
use super::source;
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

/// Accesses by what the processor tells of them.
#[derive(Debug, Default)]
pub struct AccessKinds {
    /// By where their data were.
    levels: HashMap<(DataLevel, Option<u16>), Accesses>,
    /// Those that tell whether page tables were walked, and those for which they were.
    told: Count,
    walked: Accesses,
}

impl AccessKinds {
    /// Adds a sample.
    pub fn add(&mut self, weight: u64, access: SampledAccess) {
        let place = source::place(access.source);
        self.levels.entry(place).or_default().add(weight, Some(access));
        if let Some(is_walked) = source::is_walked(access.source) {
            self.told.add(&Count::one(weight));
            if is_walked {
                self.walked.add(weight, Some(access));
            }
        }
    }

    /// Returns the places where data were, the nearest first.
    pub fn levels(&self) -> Vec<ProfileLevel> {
        let level = |((level, number), accesses): (&(DataLevel, Option<u16>), &Accesses)| ProfileLevel {
            level: *level,
            number: number.map(u64::from),
            samples: accesses.count.samples,
            weight: accesses.count.weight,
            latency: accesses.latency(),
        };
        let mut all: Vec<ProfileLevel> = self.levels.iter().map(level).collect();
        all.sort_by_key(|level| (level.level, level.number));
        all
    }

    /// Returns the accesses that walked page tables, if a sample tells of that.
    pub fn walks(&self) -> Option<ProfileWalks> {
        (self.told.samples > 0).then(|| ProfileWalks {
            told: [self.told.samples, self.told.weight],
            samples: self.walked.count.samples,
            weight: self.walked.count.weight,
            latency: self.walked.latency(),
        })
    }
}

#[cfg(test)]
mod tests {
    use fathom_host::DataSource;

    use super::*;

    const UNKNOWN: DataSource = DataSource::Kernel(0);

    #[test]
    fn latencies_are_those_of_the_samples_that_tell_them() {
        let mut all = Accesses::default();
        assert_eq!(all.latency(), None);
        for latency in (1..=100).chain([0, 0]) {
            all.add(10, Some(SampledAccess { latency, source: UNKNOWN }));
        }
        all.add(10, None);
        assert_eq!((all.count.samples, all.count.weight), (103, 1030));
        assert_eq!(all.latency(), Some(ProfileLatency { median: 50, p90: 90, samples: 100 }));
        let mut long = Accesses::default();
        long.add(1, Some(SampledAccess { latency: 1 << 40, source: UNKNOWN }));
        assert_eq!(long.latency().map(|of| of.median), Some(65535));
    }

    /// Places with and without a number, and walks of those accesses that tell of them.
    #[test]
    fn accesses_are_told_apart_by_place_and_walk() {
        let mut all = AccessKinds::default();
        assert_eq!((all.levels(), all.walks()), (vec![], None));
        let spe = |events, number| DataSource::Spe { events, number, midr: None };
        // L1 accessed; and refilled, with a walk, from place 9; the kernel's, of memory.
        for (latency, source) in [
            (4, spe(1 << 2 | 1 << 4, None)),
            (90, spe(0b11_1100, Some(9))),
            (300, DataSource::Kernel(13 << 33)),
        ] {
            all.add(512, SampledAccess { latency, source });
        }
        let levels: Vec<(DataLevel, Option<u64>, u64)> =
            all.levels().iter().map(|of| (of.level, of.number, of.samples)).collect();
        let expected =
            [(DataLevel::L1, None, 1), (DataLevel::BehindFirst, Some(9), 1), (DataLevel::Memory, None, 1)];
        assert_eq!(levels, expected);
        let latency = Some(ProfileLatency { median: 90, p90: 90, samples: 1 });
        assert_eq!(all.walks(), Some(ProfileWalks { told: [2, 1024], samples: 1, weight: 512, latency }));
    }
}
