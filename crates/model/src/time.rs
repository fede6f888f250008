//! The model's time: whole units of 1/4096 core cycle, and the timer that the probe reads.
//!
//! Integers make a run the same on every platform and a sum of a billion costs exact. A cost in ns is rounded to a unit
//! once, when the description is loaded: at 1 GHz that is within 0.13 ps.

use fathom_probe::machine::Ticks;

use crate::description::{Description, Time};
use crate::rng::{Rng, Use};

/// Units of the model's time per core cycle. 2^52 cycles then fit in 64 bits: weeks of any core.
pub const UNITS_PER_CYCLE: u64 = 1 << 12;

/// The core clock, which converts a described time into units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    hz: f64,
}

impl Scale {
    pub fn new(description: &Description) -> Scale {
        Scale { hz: description.core.clock_hz }
    }

    pub fn units(self, time: Time) -> u64 {
        // Checked descriptions keep times below 2^40 cycles, where this is exact to the unit.
        (time.in_cycles(self.hz) * UNITS_PER_CYCLE as f64).round() as u64
    }
}

/// The counter that the probe reads.
#[derive(Clone, Debug)]
pub(crate) struct Timer {
    /// Ticks per second, and units per second.
    hz: u128,
    pub units_hz: u128,
    pub overhead: u64,
    jitter: u64,
    resolution: u64,
    rng: Rng,
    last: u64,
}

impl Timer {
    pub fn new(description: &Description, seed: u64) -> Timer {
        let scale = Scale::new(description);
        let timer = &description.timer;
        Timer {
            hz: timer.clock_hz.round() as u128,
            units_hz: description.core.clock_hz.round() as u128 * u128::from(UNITS_PER_CYCLE),
            overhead: scale.units(timer.overhead),
            jitter: scale.units(timer.jitter),
            resolution: timer.resolution,
            rng: Rng::new(seed, Use::Jitter, 0),
            last: 0,
        }
    }

    /// Returns the reading at `time`, never below an earlier one.
    pub fn read(&mut self, time: u64) -> Ticks {
        let mut time = time;
        if self.jitter > 0 {
            time = (time + self.rng.below(2 * self.jitter + 1)).saturating_sub(self.jitter);
        }
        let ticks = u128::from(time) * self.hz / self.units_hz;
        let ticks = u64::try_from(ticks).unwrap_or(u64::MAX);
        self.last = self.last.max(ticks - ticks % self.resolution);
        Ticks(self.last)
    }
}
