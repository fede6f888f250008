//! The plan of `fathom cacheability`: a pilot trial of each attribute, then rounds over every operation and working set
//! with each granted attribute.

use fathom_probe::machine::{Attribute, Controls, Operation};
use fathom_probe::pattern::{Alias, Memory, Trial};

use super::points::BEHAVIOUR_POINTS;
use super::trials::{FLUSHED_LOADS, refused, strided, trial};
use super::{Request, SEPARATE_LINES, STRIDE, STUDY_BYTES, UncachedMethod, mair_bytes, walks};
use crate::budget::Budget;
use crate::clock::resolution_ticks;
use crate::record::Record;
use crate::round;
use crate::scale::Scale;

/// Rounds that measure every point, after the pilot round, on a model and on hardware.
const ROUNDS: [u64; 2] = [2, 5];
/// Minimum n: even, so that pairs of words stay pairs of 16 aligned bytes; otherwise twice a prime, so that runs end
/// anywhere in a lap.
const MIN_LOADS: u64 = 2 * 4111;
/// Maximum n: the same, above 2^17.
const MAX_LOADS: u64 = 2 * 65_539;
/// Minimum length, in resolutions of the clock, of a run of accesses of one core cycle each.
const MIN_CLOCK_RESOLUTIONS: f64 = 128.0;
/// Bytes stored and loaded through two mappings: the study's working set.
const ALIAS_BYTES: u64 = STUDY_BYTES;

/// Returns the next round; empty at the end. The request is that of the record's options.
#[must_use]
pub fn plan(record: &Record, seed: u64, budget_ms: u64) -> Vec<Trial> {
    let number = record.round() + 1;
    let budget = Budget::of(record, budget_ms);
    let requested = Request::of(record);
    let trials = match number {
        1 => pilot(&requested),
        n if n > 1 + ROUNDS[usize::from(!budget.modelled)] => return Vec::new(),
        _ => {
            let mut all = all(record, &requested);
            all.extend(mair_bytes::trials(record, number));
            all.extend(walks::trials(record));
            all
        }
    };
    round::assemble(record, &budget, trials, rank, (seed, 0xcac4))
}

/// Returns the order in which trials are dropped from the budget. First the optional trials. Last the trials that
/// determine the behaviour of memory, which every ratio needs.
fn rank(trial: &Trial) -> u8 {
    let Controls { mair, tables, .. } = trial.controls;
    if mair.is_some() || tables != Attribute::WriteBack {
        return 2;
    }
    u8::from(!BEHAVIOUR_POINTS.contains(&(
        trial.pattern.operation(),
        trial.memory.bytes,
        trial.memory.stride,
    )))
}

/// Returns one small trial per attribute, which is granted or refused with a reason, and trials of two mappings of the
/// same memory with different attributes.
fn pilot(requested: &Request) -> Vec<Trial> {
    let small = |method| trial(method, Operation::Read, STUDY_BYTES, FLUSHED_LOADS);
    let mut all: Vec<Trial> = requested.methods.iter().map(|&method| small(method)).collect();
    let others = all.iter().filter(|t| t.memory.attribute != Attribute::WriteBack);
    let alias = |t: &Trial| {
        let memory = Memory { bytes: ALIAS_BYTES, ..t.memory };
        Trial { pattern: Alias.into(), memory, samples: 2, ..t.clone() }
    };
    let aliases: Vec<Trial> = others.map(alias).collect();
    all.extend(aliases);
    all.push(round::clock());
    all
}

/// Returns one trial per point that was not refused, and trials of stores that cannot be combined, for comparison.
fn all(record: &Record, requested: &Request) -> Vec<Trial> {
    let granted = |method: &UncachedMethod| !refused(record, *method);
    let points = requested.points().into_iter().filter(|(method, _, _)| granted(method));
    let mut all: Vec<Trial> =
        points.map(|(method, op, bytes)| trial(method, op, bytes, loads(record, method))).collect();
    for &method in requested.methods.iter().filter(|method| granted(method)) {
        let bytes = STUDY_BYTES / STRIDE * SEPARATE_LINES;
        all.push(strided(SEPARATE_LINES, trial(method, Operation::Write, bytes, loads(record, method))));
        // The trials that determine the behaviour are always needed.
        for operation in [Operation::Read, Operation::Write] {
            if !(requested.operations.contains(&operation) && requested.sizes.contains(&STUDY_BYTES)) {
                all.push(trial(method, operation, STUDY_BYTES, loads(record, method)));
            }
        }
    }
    all
}

/// Returns n: more if the clock is coarse.
fn loads(record: &Record, method: UncachedMethod) -> u64 {
    if method == UncachedMethod::Flush {
        return FLUSHED_LOADS;
    }
    let cycles = Scale::of(record).cycle().map_or(1.0, |cycle| resolution_ticks(record) as f64 / cycle);
    ((MIN_CLOCK_RESOLUTIONS * cycles) as u64 & !1).clamp(MIN_LOADS, MAX_LOADS)
}
