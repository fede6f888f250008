//! The plan of `fathom stride`: a coarse scan if the sizes are not given; then rounds over every working set, stride
//! and operation.

use fathom_probe::machine::Operation;
use fathom_probe::pattern::{Memory, Stride, Trial};

use super::options::Options;
use super::request::{Request, SAMPLES};
use super::{SIZES, STRIDES, coarse_scan, first_touch, operations, prefetch};
use crate::budget::Budget;
use crate::clock::resolution_ticks;
use crate::record::Record;
use crate::round;
use crate::scale::Scale;

/// Rounds that measure every point, after the clock's round, on a model and on hardware. Each has other placements,
/// which shows the effect of placement. Hardware gets more rounds, of a quarter of a second each.
const ROUNDS: [u64; 2] = [3, 8];
/// Minimum n: a power of two, so that a run touches whole lines and pages.
const MIN_LOADS: u64 = 8192;
/// Maximum n: at least a millisecond, even for the fastest accesses.
const MAX_LOADS: u64 = 1 << 17;
/// Minimum length, in resolutions of the clock, of a run of accesses of one core cycle each.
const MIN_CLOCK_RESOLUTIONS: f64 = 32.0;
/// Working sets up to this size are warmed by two laps, because random replacement needs them to settle; larger ones by
/// one.
const TWO_LAP_BYTES: u64 = 1 << 20;
/// Rounds that measure first touches, each in other pages.
const FIRST_TOUCH_ROUNDS: u64 = 3;

/// Returns the next round; empty at the end. Working sets, strides and operations are those of the record's options.
#[must_use]
pub fn plan(record: &Record, seed: u64, budget_ms: u64) -> Vec<Trial> {
    let number = record.round() + 1;
    let budget = Budget::of(record, budget_ms);
    let rounds = ROUNDS[usize::from(!budget.modelled)];
    let before = 1 + u64::from(coarse_scan::is_needed(record));
    if number > before + rounds {
        return Vec::new();
    }
    let trials = match number {
        1 => vec![round::clock()],
        2 if before == 2 => coarse_scan::trials(record, &budget, loads(record)),
        _ => all(record, number - before),
    };
    round::assemble(record, &budget, trials, |_| 0, (seed, 0x57de))
}

/// Returns the nth round of points, with first touches and prefetch orders if requested.
fn all(record: &Record, nth: u64) -> Vec<Trial> {
    let sizes = sizes(record, coarse_scan::CoarseScan::of(record, &Scale::of(record)).as_ref());
    let requested = requested(record, &sizes);
    let mut all = points(record, &requested);
    if nth <= FIRST_TOUCH_ROUNDS {
        all.extend(first_touch::trials(record, &requested));
    }
    if let Some(&largest) = sizes.last().filter(|_| nth <= prefetch::ROUNDS) {
        all.extend(prefetch::trials(record, largest));
    }
    all
}

/// Returns one trial per valid point.
fn points(record: &Record, requested: &[Request]) -> Vec<Trial> {
    let loads = loads(record);
    requested
        .iter()
        .filter(|(bytes, stride, _)| stride <= bytes)
        .map(|&(bytes, stride, operation)| {
            let laps = if bytes <= TWO_LAP_BYTES { 2 } else { 1 };
            let warm = (bytes / stride).saturating_mul(laps).min(1 << 32);
            let memory = Memory::of(bytes, stride);
            Trial { memory, loads, samples: SAMPLES, warm, ..Trial::of(Stride::of(operation)) }
        })
        .collect()
}

/// Returns the working sets, ascending: the requested ones, else those from the coarse scan.
pub(super) fn sizes(record: &Record, coarse_scan: Option<&coarse_scan::CoarseScan>) -> Vec<u64> {
    let mut all = Options::of(record).bytes;
    if all.is_empty() {
        all = coarse_scan.map_or(SIZES.to_vec(), |coarse_scan| coarse_scan.sizes(record));
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns every requested point, once.
pub(super) fn requested(record: &Record, sizes: &[u64]) -> Vec<Request> {
    let asked = Options::of(record);
    let sorted = |requested: Vec<u64>, default: &[u64]| {
        let mut all = if requested.is_empty() { default.to_vec() } else { requested };
        all.sort_unstable();
        all.dedup();
        all
    };
    let strides = sorted(asked.strides, &STRIDES);
    let mut points = Vec::new();
    for &operation in Operation::STRIDES.iter().filter(|o| operations(&asked.operations).contains(o)) {
        for &bytes in sizes {
            points.extend(strides.iter().map(|&stride| (bytes, stride, operation)));
        }
    }
    points
}

/// Returns n: more if the clock is coarse.
fn loads(record: &Record) -> u64 {
    let cycles = Scale::of(record).cycle().map_or(1.0, |cycle| resolution_ticks(record) as f64 / cycle);
    ((MIN_CLOCK_RESOLUTIONS * cycles) as u64).next_power_of_two().clamp(MIN_LOADS, MAX_LOADS)
}
