//! How memory behaves, by its times: what the core makes of an attribute, whatever the tables say.

/// What the times of one attribute's accesses say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// Loads and stores end in a cache.
    Cached,
    /// Loads end in a cache, stores go on to memory.
    WrittenThrough,
    /// Loads go to memory; neighbouring stores go together.
    Gathered,
    /// Loads go to memory, each store by itself, and nobody waits for it.
    NonCacheable,
    /// Loads go to memory, and stores are waited for.
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

/// Times an operation, ns: medians over a working set that a first level holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// A load.
    pub(super) read: f64,
    /// A store to neighbouring words.
    pub(super) write: f64,
    /// A store to a line of its own.
    pub(super) apart: f64,
}

/// Times as long as this are another place's. A first level serves within 5 cycles and memory not within 50, on every
/// machine described; what lies between 1 and 10 is divided in the middle of its logarithm, downwards.
const ANOTHER: f64 = 2.0;

/// Stores a line apart take this much longer than neighbouring ones where these go together: the middle, by its
/// logarithm, between none and the narrowest gathering there is, two words in a block of 128 bits.
const GATHERED: f64 = std::f64::consts::SQRT_2;

/// What `times` are, beside those of write-back memory.
pub(super) fn behaves(times: Times, cached: Times) -> Behaviour {
    if times.read < ANOTHER * cached.read {
        return match times.apart < ANOTHER * cached.apart && times.write < ANOTHER * cached.write {
            true => Behaviour::Cached,
            false => Behaviour::WrittenThrough,
        };
    }
    if times.apart >= GATHERED * times.write {
        return Behaviour::Gathered;
    }
    // A store that is waited for takes its way there and back, as a load does.
    match times.write >= times.read / ANOTHER {
        true => Behaviour::Device,
        false => Behaviour::NonCacheable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WB: Times = Times { read: 1.7, write: 1.7, apart: 1.8 };

    #[test]
    fn each_memory_kind_is_identified_by_its_times() {
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
