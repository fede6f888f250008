//! Behaviour of memory, derived from its times: how the core treats an attribute, regardless of the page tables.

/// Behaviour of one attribute's accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// Loads and stores are served by a cache.
    Cached,
    /// Loads are served by a cache, stores go to memory.
    WrittenThrough,
    /// Loads go to memory; adjacent stores are combined.
    Gathered,
    /// Loads go to memory; each store goes separately, without waiting.
    NonCacheable,
    /// Loads go to memory, and the core waits for each store.
    Device,
}

impl Behaviour {
    pub(super) fn token(self) -> &'static str {
        match self {
            Behaviour::Cached => "cached",
            Behaviour::WrittenThrough => "written-through",
            Behaviour::Gathered => "gathered",
            Behaviour::NonCacheable => "non-cacheable",
            Behaviour::Device => "device",
        }
    }
}

/// Times per operation, ns: medians over a working set that fits in a first level.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// A load.
    pub(super) read: f64,
    /// A store to adjacent words.
    pub(super) write: f64,
    /// A store to a separate line.
    pub(super) apart: f64,
}

/// Ratio of times from which another place serves the access. On every described machine a first level serves within 5
/// cycles and memory takes more than 50. The threshold is below the middle of 1 and 10 on a logarithmic scale.
const OTHER_LEVEL_RATIO: f64 = 2.0;

/// Ratio of the times of stores a line apart and adjacent stores, from which stores are combined: the middle, on a
/// logarithmic scale, between no combining and the narrowest combining, two words in a block of 128 bits.
const GATHERING_RATIO: f64 = std::f64::consts::SQRT_2;

/// Returns the behaviour that `times` show, compared with those of write-back memory.
pub(super) fn behaves(times: Times, cached: Times) -> Behaviour {
    if times.read < OTHER_LEVEL_RATIO * cached.read {
        return match times.apart < OTHER_LEVEL_RATIO * cached.apart
            && times.write < OTHER_LEVEL_RATIO * cached.write
        {
            true => Behaviour::Cached,
            false => Behaviour::WrittenThrough,
        };
    }
    if times.apart >= GATHERING_RATIO * times.write {
        return Behaviour::Gathered;
    }
    // The core waits for the round trip of the store, as for a load.
    match times.write >= times.read / OTHER_LEVEL_RATIO {
        true => Behaviour::Device,
        false => Behaviour::NonCacheable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WB: Times = Times { read: 1.7, write: 1.7, apart: 1.8 };

    #[test]
    fn times_determine_the_behaviour() {
        for (read, write, apart, behaviour) in [
            (1.7, 1.7, 1.8, "cached"),
            (1.8, 1.2, 2.6, "cached"),
            (1.7, 20.0, 40.0, "written-through"),
            (1.7, 1.7, 40.0, "written-through"),
            (150.0, 10.0, 80.0, "gathered"),
            (150.0, 8.4, 13.3, "gathered"),
            (150.0, 30.0, 31.0, "non-cacheable"),
            (150.0, 140.0, 140.0, "device"),
        ] {
            assert_eq!(
                behaves(Times { read, write, apart }, WB).token(),
                behaviour,
                "{read} {write} {apart}"
            );
        }
    }
}
