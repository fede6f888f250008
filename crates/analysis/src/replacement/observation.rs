//! Observations of a set: of single timed accesses, or of whole laps.

use super::program::Program;

/// Observation of the timed accesses of one program.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Program, run repeatedly.
    pub program: Program,
    /// Number of laps in which each timed access was classified as a miss, in order.
    pub missed: Vec<u32>,
    /// Number of laps in which each access was timed.
    pub of: Vec<u32>,
}

/// Observation of whole laps of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Total {
    /// Program, run repeatedly. It is irrelevant which of its accesses are timed.
    pub program: Program,
    /// Observed value.
    pub seen: LapObservation,
    /// Standard error, in the unit of the observed value.
    pub error: f64,
}

/// Kind of value observed for a whole lap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LapObservation {
    /// Accesses that missed in the level under test: counted, or classified one by one and added up.
    Misses(f64),
    /// Time of the lap, in any unit that is the same for all totals of a test.
    Time(f64),
    /// Added cost of a miss over a hit, in the unit of the times, if known independently; not a lap. It is needed
    /// because a cache that keeps more of every program than any policy does looks like a policy with cheap misses.
    Cost(f64),
}

impl LapObservation {
    pub(super) fn value(self) -> f64 {
        let (LapObservation::Misses(value) | LapObservation::Time(value) | LapObservation::Cost(value)) =
            self;
        value
    }
}
