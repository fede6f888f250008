//! What was seen of a set: of single accesses, or of laps as a whole.

use super::program::Program;

/// What was seen of one program.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// What was run, over and over.
    pub program: Program,
    /// How often each asked access was told as a miss, in order.
    pub missed: Vec<u32>,
    /// Of how many laps in which it was timed.
    pub of: Vec<u32>,
}

/// What was seen of a program of which no single access was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Total {
    /// What was run, over and over. Which of its accesses are asked does not matter.
    pub program: Program,
    /// What was seen of a lap.
    pub seen: LapObservation,
    /// Its standard error, in the unit of what was seen.
    pub error: f64,
}

/// What was seen of a lap as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LapObservation {
    /// Accesses that missed in the level under test: counted, or asked one by one and added up.
    Misses(f64),
    /// Its time, in any unit that is the same for all totals of a judgement.
    Time(f64),
    /// No lap, but what a miss costs more than a hit, in the unit of the times, where that is known besides. What keeps
    /// more of every program than any policy does looks like a policy whose misses are cheap.
    Cost(f64),
}

impl LapObservation {
    pub(super) fn value(self) -> f64 {
        let (LapObservation::Misses(value) | LapObservation::Time(value) | LapObservation::Cost(value)) =
            self;
        value
    }
}
