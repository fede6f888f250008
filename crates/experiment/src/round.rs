//! A round of an experiment whose points stand from the start: what fits the budget, shuffled, between
//! cycle calibrations.

use fathom_probe::pattern::{Alu, Clock, Trial};
use fathom_probe::splitmix::mix;

use crate::budget::Budget;
use crate::cost::Cost;
use crate::record::Record;

/// Share of the budget that no round plans beyond: estimates err.
const MAX_PLANNED_SHARE: f64 = 0.95;
/// Operations of a cycle calibration. A prime: the clock's step is the greatest common divisor of what it reads.
const OPS: u64 = 200_003;
/// On hardware, trials between two cycle calibrations inside a round: some ten milliseconds, in which a core's clock
/// seldom changes twice.
const CALIBRATE_EVERY: usize = 12;
/// Operations of those: an eighth, and a prime.
const OPS_BETWEEN: u64 = 25_013;

/// The trial that tells what reading the clock takes and in which steps it moves.
pub(crate) fn clock() -> Trial {
    Trial { loads: 200, samples: 200, warm: 0, ..Trial::of(Clock) }
}

/// The next round, numbered; empty when nothing fits into the budget any more. What does not fit is left out, the
/// highest `rank` first and of one rank the dearest: what it loses is for the reading to tell. `salt` keeps the draws of
/// two experiments with one seed apart.
pub(crate) fn close(
    record: &Record,
    budget: &Budget,
    wanted: Vec<Trial>,
    rank: impl Fn(&Trial) -> u8,
    seeds: (u64, u64),
) -> Vec<Trial> {
    let cost = Cost { modelled: budget.modelled, latency_curve: &[] };
    close_at(record, budget, wanted, (rank, |trial: &Trial| cost.of(trial)), seeds)
}

/// The same of an experiment that knows better what its trials cost.
pub(crate) fn close_at(
    record: &Record,
    budget: &Budget,
    mut wanted: Vec<Trial>,
    (rank, price): (impl Fn(&Trial) -> u8, impl Fn(&Trial) -> u64),
    (seed, salt): (u64, u64),
) -> Vec<Trial> {
    let round = record.round() + 1;
    wanted.sort_by_key(|trial| (rank(trial), price(trial)));
    let mut left = budget.share(MAX_PLANNED_SHARE).saturating_sub(budget.spent);
    wanted.retain(|trial| {
        let price = price(trial);
        let fits = price <= left;
        left -= if fits { price } else { 0 };
        fits
    });
    if wanted.is_empty() {
        return Vec::new();
    }
    let seed = mix(seed ^ mix(round ^ salt));
    shuffle(&mut wanted, seed);
    let cycle_calibration = Trial { loads: OPS, samples: 5, warm: 1000, ..Trial::of(Alu) };
    let mut all = vec![cycle_calibration.clone()];
    for (i, trial) in wanted.into_iter().enumerate() {
        if i > 0 && i.is_multiple_of(CALIBRATE_EVERY) && !budget.modelled {
            all.push(Trial { loads: OPS_BETWEEN, ..cycle_calibration.clone() });
        }
        all.push(trial);
    }
    all.push(cycle_calibration);
    let first = record.trials.iter().map(|r| r.trial.id).max().unwrap_or(0);
    for (i, trial) in all.iter_mut().enumerate() {
        let nth = mix(seed ^ mix(i as u64 + 1));
        // 48 bits of seed are plenty and keep the lines short.
        (trial.id, trial.round, trial.seed) = (first + 1 + i as u64, round, nth >> 16);
        // A place that a plan has chosen stays.
        if trial.memory.place == 0 {
            trial.memory.place = mix(nth) >> 40;
        }
    }
    all
}

/// Fisher and Yates, from a seed.
pub(crate) fn shuffle(trials: &mut [Trial], mut seed: u64) {
    for i in (1..trials.len()).rev() {
        seed = mix(seed);
        trials.swap(i, (seed % (i as u64 + 1)) as usize);
    }
}
