//! The plan: a coarse scan, where the sizes are not given; then every working set at every step with every operation,
//! some rounds.

use fathom_probe::machine::Operation;
use fathom_probe::pattern::{Memory, Stride, Trial};

use super::options::Options;
use super::request::{Request, SAMPLES};
use super::{SIZES, STRIDES, coarse_scan, first_touch, operations, prefetch};
use crate::budget::Budget;
use crate::clock::step_ticks;
use crate::record::Record;
use crate::round;
use crate::scale::Scale;

/// Rounds in which every point is measured, after the clock's, on a model and on hardware: each has placements
/// of its own, which show a placement's part; on hardware, where they take a quarter of a second each, more.
const ROUNDS: [u64; 2] = [3, 8];
/// n, at least: a power of two, so that a run touches whole lines and pages.
const LOADS: u64 = 8192;
/// n, at most: a millisecond and more even where an access takes no time.
const MAX_LOADS: u64 = 1 << 17;
/// Steps of the clock in a run of accesses of one core cycle, at least.
const CLOCK_STEPS: f64 = 32.0;
/// Working sets up to this are warmed by two laps: where replacement is random, sets need them to settle. Farther
/// ones by one.
const TWO_LAPS: u64 = 1 << 20;
/// Rounds in which first touches are measured: each has pages of its own.
const FRESH_ROUNDS: u64 = 3;

/// The next round; empty at the end. Working sets, steps and operations are the record's own.
#[must_use]
pub fn plan(record: &Record, seed: u64, budget_ms: u64) -> Vec<Trial> {
    let number = record.round() + 1;
    let budget = Budget::of(record, budget_ms);
    let rounds = ROUNDS[usize::from(!budget.modelled)];
    let before = 1 + u64::from(coarse_scan::wanted(record));
    if number > before + rounds {
        return Vec::new();
    }
    let wanted = match number {
        1 => vec![round::clock()],
        2 if before == 2 => coarse_scan::trials(record, &budget, loads(record)),
        _ => all(record, number - before),
    };
    round::assemble(record, &budget, wanted, |_| 0, (seed, 0x57de))
}

/// The nth round of points, with what was asked for beside them.
fn all(record: &Record, nth: u64) -> Vec<Trial> {
    let sizes = sizes(record, coarse_scan::CoarseScan::of(record, &Scale::of(record)).as_ref());
    let requested = requested(record, &sizes);
    let mut all = points(record, &requested);
    if nth <= FRESH_ROUNDS {
        all.extend(first_touch::trials(record, &requested));
    }
    if let Some(&largest) = sizes.last().filter(|_| nth <= prefetch::ROUNDS) {
        all.extend(prefetch::trials(record, largest));
    }
    all
}

/// One trial of each point that is one.
fn points(record: &Record, requested: &[Request]) -> Vec<Trial> {
    let loads = loads(record);
    requested
        .iter()
        .filter(|(bytes, step, _)| step <= bytes)
        .map(|&(bytes, step, operation)| {
            let laps = if bytes <= TWO_LAPS { 2 } else { 1 };
            let warm = (bytes / step).saturating_mul(laps).min(1 << 32);
            let memory = Memory::of(bytes, step);
            Trial { memory, loads, samples: SAMPLES, warm, ..Trial::of(Stride::of(operation)) }
        })
        .collect()
}

/// The working sets, ascending: those asked for, else those that the coarse scan asks for.
pub(super) fn sizes(record: &Record, coarse_scan: Option<&coarse_scan::CoarseScan>) -> Vec<u64> {
    let mut all = Options::of(record).bytes;
    if all.is_empty() {
        all = coarse_scan.map_or(SIZES.to_vec(), |coarse_scan| coarse_scan.sizes(record));
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Every point asked for, once.
pub(super) fn requested(record: &Record, sizes: &[u64]) -> Vec<Request> {
    let asked = Options::of(record);
    let sorted = |requested: Vec<u64>, otherwise: &[u64]| {
        let mut all = if requested.is_empty() { otherwise.to_vec() } else { requested };
        all.sort_unstable();
        all.dedup();
        all
    };
    let steps = sorted(asked.strides, &STRIDES);
    let mut points = Vec::new();
    for &operation in Operation::STRIDES.iter().filter(|o| operations(&asked.operations).contains(o)) {
        for &bytes in sizes {
            points.extend(steps.iter().map(|&step| (bytes, step, operation)));
        }
    }
    points
}

/// n: more where the clock is coarse.
fn loads(record: &Record) -> u64 {
    let cycles = Scale::of(record).cycle().map_or(1.0, |cycle| step_ticks(record) as f64 / cycle);
    ((CLOCK_STEPS * cycles) as u64).next_power_of_two().clamp(LOADS, MAX_LOADS)
}
