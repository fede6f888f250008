//! The plan: which trials, from the record so far.

use fathom_probe::chain::mix;
use fathom_probe::wire::{OrderKind, PatternKind, Trial};

use super::{REFERENCE, SIZES, STEP};
use crate::budget::Budget;
use crate::clock::{coarse, step_ticks};
use crate::record::Record;
use crate::survey::cost::Cost;
use crate::survey::curves::{Scale, believable};
use crate::survey::{WINDOW_PAGES, shuffle};

/// Rounds in which every size is measured, after the clock's: three placements show a placement's part.
const ROUNDS: u64 = 3;
/// Timed loads a trial, as in the study.
const SAMPLES: u64 = 1000;
/// Untimed loads between two timed ones where a lap is longer: more than the lines of the timing itself could
/// share sets with, few enough that a thousand samples of 64 MiB take a second. A prime, so that timed loads
/// do not come round to the same cells.
const SPACING: u64 = 2053;
/// n of the mean's samples: a few hundred steps of a slow clock in the first level, and a prime.
const LOADS: u64 = 8209;
/// Share of the budget that no round plans beyond.
const LATEST: f64 = 0.95;

/// Operations of a yardstick. A prime: the clock's step is the greatest common divisor of what it reads.
const OPS: u64 = 200_003;

/// The next round; empty at the end. The sizes are the record's own.
#[must_use]
pub fn plan(record: &Record, seed: u64, budget_ms: u64) -> Vec<Trial> {
    let round = record.round() + 1;
    if round > 1 + ROUNDS || (round > 1 && !believable(record)) {
        return Vec::new();
    }
    let scale = Scale::of(record);
    let budget = Budget::of(record, budget_ms);
    let mut wanted =
        if round == 1 { vec![clock()] } else { sizes(record).flat_map(|b| at(b, &scale, record)).collect() };
    // What does not fit into the budget any more is left out, the dearest first: without the reference, which is
    // the cheapest, there is no bias. The sizes that this loses are told.
    let cost = Cost { modelled: budget.modelled, staircase: &[] };
    wanted.sort_by_key(|trial| cost.of(trial));
    let mut left = budget.share(LATEST).saturating_sub(budget.spent);
    wanted.retain(|trial| {
        let price = cost.of(trial);
        let fits = price <= left;
        left -= if fits { price } else { 0 };
        fits
    });
    if wanted.is_empty() {
        return Vec::new();
    }
    // Drawn apart from the survey's: the same seed must not give both the same orders.
    let seed = mix(seed ^ mix(round ^ 0x1a7e));
    shuffle(&mut wanted, seed);
    let yardstick =
        Trial { pattern: PatternKind::Alu, loads: OPS, samples: 5, warm: 1000, ..Trial::default() };
    let mut all = vec![yardstick.clone()];
    all.extend(wanted);
    all.push(yardstick);
    let first = record.trials.iter().map(|r| r.trial.id).max().unwrap_or(0);
    for (i, trial) in all.iter_mut().enumerate() {
        let nth = mix(seed ^ mix(i as u64 + 1));
        // 48 bits of seed are plenty and keep the lines short.
        (trial.id, trial.round, trial.seed, trial.place) =
            (first + 1 + i as u64, round, nth >> 16, mix(nth) >> 40);
    }
    all
}

/// The reference and the sizes asked for, whole cells, each once.
fn sizes(record: &Record) -> impl Iterator<Item = u64> + use<> {
    let asked = record.run.as_ref().map_or(&[][..], |r| &r.bytes);
    let asked = if asked.is_empty() { &SIZES[..] } else { asked };
    let mut sizes: Vec<u64> = asked.iter().map(|b| (b / STEP * STEP).max(2 * STEP)).collect();
    sizes.push(REFERENCE);
    sizes.sort_unstable();
    sizes.dedup();
    sizes.into_iter()
}

fn clock() -> Trial {
    Trial { pattern: PatternKind::Clock, loads: 200, samples: 200, warm: 0, ..Trial::default() }
}

/// The three trials of a working set: single loads and the mean in random order, and the mean in an order
/// that stays in a few pages at a time, which any TLB holds.
fn at(bytes: u64, scale: &Scale, record: &Record) -> [Trial; 3] {
    let cells = bytes / STEP;
    let mut timed = coarse(scale.cycle(), step_ticks(record)).unwrap_or(1);
    while cells > 2 && timed.is_multiple_of(cells) {
        timed += 2;
    }
    let warm = cells.saturating_mul(2).min(1 << 20);
    let base = Trial { bytes, step: STEP, warm, ..Trial::default() };
    let single = Trial {
        pattern: PatternKind::Single,
        loads: apart(cells, timed),
        timed,
        samples: SAMPLES,
        ..base.clone()
    };
    let mut loads = LOADS;
    while cells > 2 && (2 * loads).is_multiple_of(cells) {
        loads += 1;
    }
    let random = Trial { loads, samples: 5, ..base };
    let window = Trial { order: OrderKind::Window, window: WINDOW_PAGES * scale.base, ..random.clone() };
    [single, random, window]
}

/// Untimed loads before a timed one: a lap and one more, or [`SPACING`]; never whole laps with or without
/// what is timed, which would prove nothing or time one cell for ever.
fn apart(cells: u64, timed: u64) -> u64 {
    let mut loads = (cells + 1).min(SPACING);
    while cells > 2 && (loads.is_multiple_of(cells) || (loads + timed).is_multiple_of(cells)) {
        loads += 1;
    }
    loads
}
