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
    OtherCache = "other-cache", "A cache of another core or node.";
    Memory = "memory", "Memory of this node.";
    OtherMemory = "other-memory", "Memory of another node, or behind a link (CXL).";
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
        ProfileLatency::add(self.latency, line.list("counts", &[self.samples, self.weight]))
    }

    pub(super) fn of_line(line: &Line) -> Result<ProfileLevel, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let token = f.text("level")?.unwrap_or_default().to_owned();
        let level = DataLevel::of_token(&token)
            .ok_or_else(|| WireError::new(format!("profile: level={token} is no place of data")))?;
        let [samples, weight] = numbers("counts", &f.list("counts")?)?;
        let latency = ProfileLatency::of_list(&f.list("latency")?)?;
        f.finish()?;
        Ok(ProfileLevel { level, samples, weight, latency })
    }
}
