//! Sampled accesses: where their data were, and how long they took.

use fathom_probe::wire::{Line, WireError};

use super::numbers;

macro_rules! levels {
    ($($level:ident = $token:literal, $about:literal;)*) => {
        /// Where the data of an access were.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DataLevel {
            $(#[doc = $about] $level,)*
        }

        impl DataLevel {
            /// All of them, the nearest first.
            pub const ALL: &'static [DataLevel] = &[$(DataLevel::$level,)*];

            /// Its word in records and reports.
            #[must_use]
            pub const fn token(self) -> &'static str {
                match self { $(DataLevel::$level => $token,)* }
            }
        }
    };
}

levels! {
    L1 = "L1", "The first level.";
    FillBuffer = "fill-buffer", "A line that was on its way already.";
    L2 = "L2", "The second level.";
    L3 = "L3", "The third level.";
    L4 = "L4", "The fourth level.";
    LastLevel = "last-level", "The last level of the core's caches.";
    BehindFirst = "behind-L1", "Somewhere behind the first level.";
    SystemCache = "system-cache", "A cache of the system, behind those of the cores.";
    OtherCache = "other-cache", "A cache of another core or node.";
    BehindLast = "behind-last-level", "Somewhere behind the last level of the core's caches.";
    Memory = "memory", "Memory of this node.";
    OtherMemory = "other-memory", "Memory of another node, or behind a link (CXL).";
    Remote = "remote", "Another chip or node: its caches or its memory.";
    Device = "device", "No memory: a device, or uncached memory.";
    Unknown = "unknown", "The processor does not tell it.";
}

impl DataLevel {
    /// Returns the level with this word.
    #[must_use]
    pub fn of_token(token: &str) -> Option<DataLevel> {
        DataLevel::ALL.iter().copied().find(|level| level.token() == token)
    }
}

/// Accesses whose data were in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileLevel {
    /// Where.
    pub level: DataLevel,
    /// Number of the place, if the processor's is not known to be one of these.
    pub number: Option<u64>,
    /// Samples.
    pub samples: u64,
    /// Events of these samples.
    pub weight: u64,
    /// Latencies, if the processor tells them.
    pub latency: Option<ProfileLatency>,
}

/// Latencies of sampled accesses, cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileLatency {
    /// Median.
    pub median: u64,
    /// 90th percentile.
    pub p90: u64,
    /// Samples that tell it.
    pub samples: u64,
}

impl ProfileLatency {
    pub(super) fn add(of: Option<ProfileLatency>, line: Line) -> Line {
        match of {
            Some(ProfileLatency { median, p90, samples }) => line.list("latency", &[median, p90, samples]),
            None => line,
        }
    }

    /// Reads it; an empty list is none.
    pub(super) fn of_list(list: &[u64]) -> Result<Option<ProfileLatency>, WireError> {
        if list.is_empty() {
            return Ok(None);
        }
        let [median, p90, samples] = numbers("latency", list)?;
        Ok(Some(ProfileLatency { median, p90, samples }))
    }
}

impl ProfileLevel {
    pub(super) fn record_line(&self) -> Line {
        let line = Line::new("profile").token("part", "level").text("level", self.level.token());
        let line = self.number.into_iter().fold(line, |line, number| line.int("number", number));
        ProfileLatency::add(self.latency, line.list("counts", &[self.samples, self.weight]))
    }

    pub(super) fn of_line(line: &Line) -> Result<ProfileLevel, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let token = f.text("level")?.unwrap_or_default().to_owned();
        let level = DataLevel::of_token(&token)
            .ok_or_else(|| WireError::new(format!("profile: level={token} is no place of data")))?;
        let number = f.int("number")?;
        let [samples, weight] = numbers("counts", &f.list("counts")?)?;
        let latency = ProfileLatency::of_list(&f.list("latency")?)?;
        f.finish()?;
        Ok(ProfileLevel { level, number, samples, weight, latency })
    }
}

/// Accesses whose translation was in no TLB, so that page tables were walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileWalks {
    /// Samples that tell whether it was, and events of them.
    pub told: [u64; 2],
    /// Samples whose translation was not.
    pub samples: u64,
    /// Events of these samples.
    pub weight: u64,
    /// Latencies of these, if the processor tells them.
    pub latency: Option<ProfileLatency>,
}

impl ProfileWalks {
    pub(super) fn record_line(&self) -> Line {
        let [told, told_weight] = self.told;
        let line = Line::new("profile").token("part", "walk");
        ProfileLatency::add(
            self.latency,
            line.list("counts", &[told, told_weight, self.samples, self.weight]),
        )
    }

    pub(super) fn of_line(line: &Line) -> Result<ProfileWalks, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let [told, told_weight, samples, weight] = numbers("counts", &f.list("counts")?)?;
        let latency = ProfileLatency::of_list(&f.list("latency")?)?;
        f.finish()?;
        Ok(ProfileWalks { told: [told, told_weight], samples, weight, latency })
    }
}
