//! The plan: a look at each attribute; then every operation on every working set through each that was granted, some
//! rounds.

use fathom_probe::machine::{Attribute, Controls, Operation};
use fathom_probe::pattern::{Alias, Memory, Trial};

use super::points::DECISIVE;
use super::trials::{FLUSHES, refused, strided, trial};
use super::{Request, SEPARATE_LINES, STRIDE, STUDY_BYTES, UncachedMethod, mair_bytes, walks};
use crate::budget::Budget;
use crate::clock::step_ticks;
use crate::record::Record;
use crate::round;
use crate::scale::Scale;

/// Rounds in which every point is measured, after the look, on a model and on hardware.
const ROUNDS: [u64; 2] = [2, 5];
/// n, at least: even, so that pairs of words stay pairs of 16 aligned bytes, and twice a prime otherwise, so that runs
/// end anywhere in a lap.
const LOADS: u64 = 2 * 4111;
/// n, at most: the like above 2^17.
const MAX_LOADS: u64 = 2 * 65_539;
/// Steps of the clock in a run of accesses of one core cycle, at least.
const CLOCK_STEPS: f64 = 128.0;
/// Words stored and loaded through two mappings: the study's.
const ALIASES: u64 = STUDY_BYTES;

/// The next round; empty at the end. A record says itself what was asked.
#[must_use]
pub fn plan(record: &Record, seed: u64, budget_ms: u64) -> Vec<Trial> {
    let number = record.round() + 1;
    let budget = Budget::of(record, budget_ms);
    let requested = Request::of(record);
    let wanted = match number {
        1 => look(&requested),
        n if n > 1 + ROUNDS[usize::from(!budget.modelled)] => return Vec::new(),
        _ => {
            let mut all = all(record, &requested);
            all.extend(mair_bytes::trials(record, number));
            all.extend(walks::trials(record));
            all
        }
    };
    round::assemble(record, &budget, wanted, rank, (seed, 0xcac4))
}

/// What the budget loses last is what tells how memory behaves, without which no ratio is one; what it loses first is
/// what was asked for beside the attributes.
fn rank(trial: &Trial) -> u8 {
    let Controls { mair, tables, .. } = trial.controls;
    if mair.is_some() || tables != Attribute::WriteBack {
        return 2;
    }
    u8::from(!DECISIVE.contains(&(trial.pattern.operation(), trial.memory.bytes, trial.memory.stride)))
}

/// One small trial of each attribute, which is granted or refused with its reason; and whether two mappings with
/// different ones are of the same memory.
fn look(requested: &Request) -> Vec<Trial> {
    let small = |means| trial(means, Operation::Read, STUDY_BYTES, FLUSHES);
    let mut all: Vec<Trial> = requested.means.iter().map(|&means| small(means)).collect();
    let others = all.iter().filter(|t| t.memory.attribute != Attribute::WriteBack);
    let alias = |t: &Trial| {
        let memory = Memory { bytes: ALIASES, ..t.memory };
        Trial { pattern: Alias.into(), memory, samples: 2, ..t.clone() }
    };
    let aliases: Vec<Trial> = others.map(alias).collect();
    all.extend(aliases);
    all.push(round::clock());
    all
}

/// One trial of each point that was not refused, and stores that cannot gather, to tell those that can.
fn all(record: &Record, requested: &Request) -> Vec<Trial> {
    let granted = |means: &UncachedMethod| !refused(record, *means);
    let points = requested.points().into_iter().filter(|(means, _, _)| granted(means));
    let mut all: Vec<Trial> =
        points.map(|(means, op, bytes)| trial(means, op, bytes, loads(record, means))).collect();
    for &means in requested.means.iter().filter(|means| granted(means)) {
        let bytes = STUDY_BYTES / STRIDE * SEPARATE_LINES;
        all.push(strided(SEPARATE_LINES, trial(means, Operation::Write, bytes, loads(record, means))));
        // What tells how it behaves, whatever was asked.
        for operation in [Operation::Read, Operation::Write] {
            if !(requested.operations.contains(&operation) && requested.sizes.contains(&STUDY_BYTES)) {
                all.push(trial(means, operation, STUDY_BYTES, loads(record, means)));
            }
        }
    }
    all
}

/// n: more where the clock is coarse.
fn loads(record: &Record, means: UncachedMethod) -> u64 {
    if means == UncachedMethod::Flush {
        return FLUSHES;
    }
    let cycles = Scale::of(record).cycle().map_or(1.0, |cycle| step_ticks(record) as f64 / cycle);
    ((CLOCK_STEPS * cycles) as u64 & !1).clamp(LOADS, MAX_LOADS)
}
