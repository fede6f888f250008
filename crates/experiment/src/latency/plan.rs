//! The plan of `fathom latency`: from the record so far to the next round of trials.

use fathom_probe::pattern::{Chase, Memory, Single, Trial, Walk};

use super::sizes::sizes;
use super::{REFERENCE, STRIDE, ladder};
use crate::budget::Budget;
use crate::clock::{loads_per_sample, resolution_ticks};
use crate::record::Record;
use crate::round;
use crate::scale::Scale;
use crate::scale::WINDOW_PAGES;

/// Rounds that measure every size, after the clock's round. Three placements show the effect of placement.
const ROUNDS: u64 = 3;
/// Timed loads per trial, as in study S4.
const SAMPLES: u64 = 1000;
/// Untimed loads between two timed ones if a lap is longer. More than the lines with which the timing code could share
/// sets, and few enough that a thousand samples in 64 MiB take a second. A prime, so that timed loads do not repeat the
/// same cells.
const SPACING: u64 = 2053;
/// n of the mean's samples: a few hundred steps of a slow clock in the first level, and a prime.
const LOADS: u64 = 8209;

/// Returns the next round; empty at the end. The sizes are those of the record's options.
#[must_use]
pub fn plan(record: &Record, seed: u64, budget_ms: u64) -> Vec<Trial> {
    let number = record.round() + 1;
    if number > 1 + ROUNDS {
        return Vec::new();
    }
    let scale = Scale::of(record);
    let budget = Budget::of(record, budget_ms);
    let trials = if number == 1 {
        vec![round::clock()]
    } else {
        sizes(record)
            .flat_map(|b| {
                let base = basic_trials(b, &scale, record);
                let ladder_steps = ladder::trials(&base, record);
                base.into_iter().chain(ladder_steps)
            })
            .collect()
    };
    // Without the reference there is no bias, and without the bias no peak.
    round::assemble(
        record,
        &budget,
        trials,
        |trial| u8::from(trial.memory.bytes != REFERENCE),
        (seed, 0x1a7e),
    )
}

/// Returns the three basic trials of a working set: single loads and the mean in random order, and the mean in an order
/// that stays in a few pages at a time, which any TLB holds.
fn basic_trials(bytes: u64, scale: &Scale, record: &Record) -> [Trial; 3] {
    let cells = bytes / STRIDE;
    let mut timed = loads_per_sample(scale.cycle(), resolution_ticks(record)).unwrap_or(1);
    while cells > 2 && timed.is_multiple_of(cells) {
        timed += 2;
    }
    let warm = cells.saturating_mul(2).min(1 << 20);
    let base = Trial { memory: Memory::of(bytes, STRIDE), warm, ..Trial::default() };
    let single = Trial {
        pattern: Single { timed, ..Single::default() }.into(),
        loads: spacing(cells, timed),
        samples: SAMPLES,
        ..base.clone()
    };
    let mut loads = LOADS;
    while cells > 2 && (2 * loads).is_multiple_of(cells) {
        loads += 1;
    }
    let chase = Chase { events: true, ..Chase::default() };
    let random = Trial { loads, samples: 5, pattern: chase.into(), ..base };
    let windows = Chase::over(Walk::windows(WINDOW_PAGES * scale.base));
    let window = Trial { pattern: windows.into(), ..random.clone() };
    [single, random, window]
}

/// Returns the untimed loads before a timed one: a lap and one more, or [`SPACING`]. Never whole laps, with or without
/// the timed loads: they would prove nothing or time one cell forever.
fn spacing(cells: u64, timed: u64) -> u64 {
    let mut loads = (cells + 1).min(SPACING);
    while cells > 2 && (loads.is_multiple_of(cells) || (loads + timed).is_multiple_of(cells)) {
        loads += 1;
    }
    loads
}
