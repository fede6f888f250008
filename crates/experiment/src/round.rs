//! Rounds of an experiment whose points are known from the start: the trials that fit the budget, shuffled, between
//! cycle calibrations.

use fathom_probe::pattern::{Alu, Clock, Trial};
use fathom_probe::splitmix::mix;

use crate::budget::Budget;
use crate::cost::Cost;
use crate::record::Record;

/// Share of the budget that rounds may plan, at most: estimates err.
const MAX_PLANNED_SHARE: f64 = 0.95;
/// Operations of a cycle calibration. A prime, because the clock's resolution is the greatest common divisor of its
/// readings.
const CALIBRATION_OPS: u64 = 200_003;
/// On hardware, trials between two cycle calibrations within a round: about ten milliseconds, in which a core's clock
/// seldom changes twice.
const CALIBRATE_EVERY: usize = 12;
/// Operations of the calibrations within a round: an eighth of the above, and a prime.
const SHORT_CALIBRATION_OPS: u64 = 25_013;

/// Returns the trial that measures the cost of a clock reading and the clock's resolution.
pub(crate) fn clock() -> Trial {
    Trial { loads: 200, samples: 200, warm: 0, ..Trial::of(Clock) }
}

/// Returns the next round, numbered; empty if nothing fits into the budget. Trials that do not fit are left out, first
/// those of the highest `rank`, within a rank the most expensive; the reading reports what is missing. `salt` separates
/// the random numbers of two experiments with one seed.
pub(crate) fn assemble(
    record: &Record,
    budget: &Budget,
    trials: Vec<Trial>,
    rank: impl Fn(&Trial) -> u8,
    seeds: (u64, u64),
) -> Vec<Trial> {
    let cost = Cost { modelled: budget.modelled, latency_curve: &[] };
    assemble_at_cost(record, budget, trials, (rank, |trial: &Trial| cost.of(trial)), seeds)
}

/// The same for an experiment with its own estimate of the cost of its trials.
pub(crate) fn assemble_at_cost(
    record: &Record,
    budget: &Budget,
    mut trials: Vec<Trial>,
    (rank, price): (impl Fn(&Trial) -> u8, impl Fn(&Trial) -> u64),
    (seed, salt): (u64, u64),
) -> Vec<Trial> {
    let round = record.round() + 1;
    trials.sort_by_key(|trial| (rank(trial), price(trial)));
    let mut left = budget.share(MAX_PLANNED_SHARE).saturating_sub(budget.spent);
    trials.retain(|trial| {
        let price = price(trial);
        let fits = price <= left;
        left -= if fits { price } else { 0 };
        fits
    });
    if trials.is_empty() {
        return Vec::new();
    }
    let seed = mix(seed ^ mix(round ^ salt));
    shuffle(&mut trials, seed);
    let cycle_calibration = Trial { loads: CALIBRATION_OPS, samples: 5, warm: 1000, ..Trial::of(Alu) };
    let mut all = vec![cycle_calibration.clone()];
    for (i, trial) in trials.into_iter().enumerate() {
        if i > 0 && i.is_multiple_of(CALIBRATE_EVERY) && !budget.exact {
            all.push(Trial { loads: SHORT_CALIBRATION_OPS, ..cycle_calibration.clone() });
        }
        all.push(trial);
    }
    all.push(cycle_calibration);
    let first = record.trials.iter().map(|r| r.trial.id).max().unwrap_or(0);
    for (i, trial) in all.iter_mut().enumerate() {
        let nth = mix(seed ^ mix(i as u64 + 1));
        // 48 bits of seed suffice and keep the lines short.
        (trial.id, trial.round, trial.seed) = (first + 1 + i as u64, round, nth >> 16);
        // A place that the plan has chosen is kept.
        if trial.memory.place == 0 {
            trial.memory.place = mix(nth) >> 40;
        }
    }
    all
}

/// Shuffles by Fisher and Yates, from a seed.
pub(crate) fn shuffle<T>(all: &mut [T], mut seed: u64) {
    for i in (1..all.len()).rev() {
        seed = mix(seed);
        all.swap(i, (seed % (i as u64 + 1)) as usize);
    }
}
