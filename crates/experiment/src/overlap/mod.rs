//! Misses to memory that a core has under way at the same time: chains side by side over a working set in memory, on hardware.
//!
//! On a described machine nothing is planned and nothing reported: it executes one access at a time, so its answer would be an
//! assumption of the model.

mod reading;
pub(crate) mod view;

use fathom_analysis::findings::{Metric, Refused};
use fathom_analysis::metrics::survey::MEMORY_OVERLAP;
use fathom_probe::machine::batch::together::CHAINS;
use fathom_probe::pattern::{Memory, PatternKind, SideBySide, Trial};
use fathom_probe::splitmix::mix;
use fathom_units::size;

use crate::budget::Budget;
use crate::latency_curve::{self, Curves, MIN_MEMORY_NS, unexceeded_claim};
use crate::record::{Record, TrialRun};
use crate::round::{self, shuffle};
use crate::scale::Scale;

pub(crate) use reading::{add_conditions, rows, why_not};

/// Share of the budget for the trials.
const SHARE: f64 = 0.05;
/// Least and most trials. The interval of fewer than six is their range.
const TRIALS: (u64, u64) = (3, 9);
/// Working set, as a multiple of the last capacity: what a chain finds again after half a lap is not in a cache any more.
pub(crate) const BEYOND: f64 = 4.0;
/// The same where a curve that was measured further shows a larger capacity: of twice the capacity, 80 % of the loads miss with random
/// replacement, all with LRU.
pub(crate) const STILL_BEYOND: f64 = 2.0;
/// Ratio of the latencies at the largest working set and at the first beyond the caches, from which on there may be another cache
/// between: the smallest step of two tiers.
const MAX_RISE: f64 = 1.25;
/// Smallest working set, bytes: room for the most chains, with enough steps of each.
const MIN_BYTES: u64 = 16 << 20;
/// Most steps in the first run of a sample: with loads of 100 ns it takes 0.1 ms, a tenth of the time between two interrupts of a
/// kernel's timer at 1000 Hz.
const MAX_STEPS: u64 = 1021;
/// Least steps: with fewer, the loads at the ends of a run, of which fewer are under way, count too much.
const MIN_STEPS: u64 = 250;
/// Samples of each number of chains in a trial.
const TIMES: u64 = 3;
/// The same of one chain, by which all others are judged.
const TIMES_OF_ONE: u64 = 3 * TIMES;
/// Separates the random numbers from those of the latency curve.
const SALT: u64 = 0x0e71;

/// Returns the working set from which on loads come from memory, bytes: this multiple of the last capacity. Or why it is not known, so
/// that there is no such finding.
pub(crate) fn memory_from(
    record: &Record,
    curves: &Curves,
    beyond: f64,
    finding: &Metric,
) -> Result<f64, Refused> {
    let because = |reason: String| {
        let remedy = "give it a larger --budget or more free memory".to_owned();
        Err(Refused { what: finding.pattern.to_owned(), reason, remedy })
    };
    let curve = &curves.latency_curve;
    let (Some(reading), Some(last)) = (&curves.reading, curve.last()) else {
        return because("no tiers were measured".to_owned());
    };
    let time = reading.tiers.last().map_or(0.0, |tier| tier.latency.value);
    if time < MIN_MEMORY_NS {
        return because(format!(
            "loads of the last tier take {time:.1} ns, less than a read of DRAM: they may be hits in a cache whose end was not reached"
        ));
    }
    let to = size(last.bytes as f64);
    if let Some(claimed) = unexceeded_claim(record, curve) {
        let claimed = size(claimed as f64);
        return because(format!(
            "a cache of {claimed} is claimed, and working sets up to {to} were measured: their loads may be hits in it"
        ));
    }
    let capacity =
        reading.tiers.iter().rev().find_map(|tier| tier.capacity).map_or(0.0, |end| end.onset.high);
    let from = (beyond * capacity).max(MIN_BYTES as f64);
    let Some(first) = curve.iter().find(|at| at.bytes as f64 >= from) else {
        let from = size(from);
        return because(format!(
            "it needs a working set of {from}, and the largest that was measured is {to}"
        ));
    };
    if !reading.flat_end && last.time() > MAX_RISE * first.time() {
        return because(format!(
            "loads take {:.1} ns at {} and still {:.1} ns at {to}: from where on they come from memory is not known",
            first.time(),
            size(first.bytes as f64),
            last.time()
        ));
    }
    Ok(from)
}

/// Returns the next round; empty if there are enough trials, if it is not known yet what comes from memory, and on a described machine.
/// It is planned as soon as that is known, because the latency curve may use up the budget.
pub(crate) fn plan(record: &Record, (seed, budget_ms): (u64, u64)) -> Vec<Trial> {
    let budget = Budget::of(record, budget_ms);
    if budget.modelled || record.round() < latency_curve::SCAN_ROUNDS {
        return Vec::new();
    }
    let had: Vec<&TrialRun> =
        record.trials.iter().filter(|run| run.trial.kind() == PatternKind::SideBySide).collect();
    let trials = match had.first() {
        None => first_trial(record).into_iter().collect(),
        Some(first) => more_trials(first, had.len() as u64, &budget),
    };
    round::assemble(record, &budget, trials, |_| 0, (seed, SALT))
}

/// Returns the next working set of whole lines.
pub(crate) fn whole_lines(scale: &Scale, bytes: f64) -> u64 {
    (bytes / scale.stride as f64).ceil() as u64 * scale.stride
}

/// Returns the first trial.
fn first_trial(record: &Record) -> Option<Trial> {
    let scale = Scale::of(record);
    let from = memory_from(record, &Curves::of(record, &scale), BEYOND, &MEMORY_OVERLAP).ok()?;
    trial(&scale, whole_lines(&scale, from)).map(|first| in_another_order(&first, 0))
}

/// Returns the other trials, as many as the first one shows that the budget's share allows; none if it was refused or lost.
fn more_trials(first: &TrialRun, had: u64, budget: &Budget) -> Vec<Trial> {
    let Some(done) = &first.done else { return Vec::new() };
    let wanted = (budget.share(SHARE) / done.spent_ns.max(1)).clamp(TRIALS.0, TRIALS.1);
    let trial = |nth| {
        // Each gets a place of its own when the round is assembled.
        let memory = Memory { place: 0, ..first.trial.memory };
        in_another_order(&Trial { memory, ..first.trial.clone() }, nth)
    };
    (had..wanted).map(trial).collect()
}

/// Returns the trial on this working set; `None` if it is too small for enough steps of the most chains.
fn trial(scale: &Scale, bytes: u64) -> Option<Trial> {
    let memory = Memory { page: scale.pages(), ..Memory::of(bytes, scale.stride) };
    let most = CHAINS.iter().max()?;
    // The probe accepts a sample of half a lap at most.
    let steps = (memory.cells() / 2 / (3 * most)).min(MAX_STEPS);
    let chains: Vec<u64> = CHAINS
        .iter()
        .flat_map(|&chains| {
            let times = if chains == 1 { TIMES_OF_ONE } else { TIMES };
            (0..times).map(move |_| chains)
        })
        .collect();
    let samples = chains.len() as u64;
    (steps >= MIN_STEPS).then(|| Trial {
        memory,
        loads: steps,
        samples,
        warm: 0,
        ..Trial::of(SideBySide { chains })
    })
}

/// Returns the trial with its numbers of chains in another order, so that what changes during a trial changes all of them alike.
fn in_another_order(trial: &Trial, nth: u64) -> Trial {
    let mut trial = trial.clone();
    if let Some(pattern) = trial.get_mut::<SideBySide>() {
        shuffle(&mut pattern.chains, mix(nth + 1));
    }
    trial
}

#[cfg(test)]
mod tests;
