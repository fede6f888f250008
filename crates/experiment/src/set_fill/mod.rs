//! Time between two fills of one set: independent loads, served by the second level, of lines in one set of the nearest level and in
//! two, on hardware. If the set limits them, one takes twice as long.
//!
//! On a described machine nothing is planned and nothing reported: its accesses wait for each other.

mod reading;
pub(crate) mod view;

use fathom_analysis::claims::decode;
use fathom_probe::machine::Operation;
use fathom_probe::pattern::{Memory, PatternKind, Stride, Trial};

use crate::budget::Budget;
use crate::geometry;
use crate::latency_curve::{self, Curves};
use crate::record::Record;
use crate::round;
use crate::scale::Scale;

pub(crate) use reading::rows;

/// Lines in each set, as a multiple of the nearest level's ways: so many that hardly one is found there again. On a Zen 5 guest, whose
/// L1 has 12 ways, 32 lines of one set take 0.95 ns a load, 48 take 1.26, 64 take 1.67, and 80 to 256 take 1.72 to 1.75.
const LINES_PER_WAY: u64 = 8;
/// Trials of each kind, in one round.
const TRIALS: u64 = 5;
/// Loads in the first run of a sample: some microseconds.
const LOADS: u64 = 4096;
/// Samples of a trial.
const SAMPLES: u64 = 6;
/// Largest ratio of the claimed size of the nearest level to the measured one, or the reverse, for which the claim is about that level.
const CLAIM_RATIO: f64 = 1.25;
/// Separates the random numbers from those of other plans.
const SALT: u64 = 0x5e7f;

/// Ways of the nearest level, and the distance of two lines of one of its sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ways {
    number: u64,
    bytes: u64,
}

/// Returns the ways of the nearest level: as claimed, if the claimed size is the measured one, else as measured.
fn ways(record: &Record, scale: &Scale, curves: &Curves) -> Option<Ways> {
    let measured = curves.steps().first()?.capacity.value;
    let claims = decode(&record.facts).claims;
    let nearest =
        claims.iter().filter(|claim| claim.level == 1 && claim.holds.data() && !claim.fully_associative);
    let mut claimed = nearest.filter_map(|claim| {
        let (size, number) = (claim.size?, u64::from(claim.ways?));
        let agrees = (size as f64 / measured).max(measured / size as f64) <= CLAIM_RATIO;
        (agrees && number > 1 && size.is_multiple_of(number)).then(|| Ways { number, bytes: size / number })
    });
    let first = claimed.next();
    if first.is_some() {
        return first.filter(|first| claimed.all(|other| other == *first));
    }
    let level = geometry::levels(record, scale, &curves.steps()[..1]).into_iter().next()?;
    level.geometry().filter(|one| one.ways > 1).map(|one| Ways { number: one.ways, bytes: one.way_bytes })
}

/// Returns the trials' working sets: of lines in one set, and in two, which are as many lines in each, on the same pages.
fn working_sets(ways: Ways) -> [Memory; 2] {
    let bytes = LINES_PER_WAY * ways.number * ways.bytes;
    [ways.bytes, ways.bytes / 2].map(|stride| Memory::of(bytes, stride))
}

/// Returns the only round; empty before the nearest levels are known, without ways, after that round, and on a described machine.
pub(crate) fn plan(record: &Record, (seed, budget_ms): (u64, u64)) -> Vec<Trial> {
    let budget = Budget::of(record, budget_ms);
    let had = record.trials.iter().any(|run| run.trial.kind() == PatternKind::Stride);
    if budget.modelled || had || record.round() < latency_curve::SCAN_ROUNDS {
        return Vec::new();
    }
    let scale = Scale::of(record);
    let known = ways(record, &scale, &Curves::of(record, &scale));
    // The probe's strides are powers of two.
    let Some(ways) = known.filter(|ways| ways.bytes.is_power_of_two()) else { return Vec::new() };
    let of = |memory: Memory| Trial {
        memory: Memory { page: scale.pages(), ..memory },
        loads: LOADS,
        samples: SAMPLES,
        warm: 2 * memory.cells(),
        ..Trial::of(Stride::of(Operation::Read))
    };
    let trials = (0..TRIALS).flat_map(|_| working_sets(ways).map(of));
    round::assemble(record, &budget, trials.collect(), |_| 0, (seed, SALT))
}

#[cfg(test)]
mod tests;
