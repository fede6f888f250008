//! Misses to memory that a core has under way at the same time: chains side by side over a working set in memory, on hardware.
//!
//! On a described machine nothing is planned and nothing reported: it executes one access at a time, so its answer would be an
//! assumption of the model.

mod reading;
pub(crate) mod view;

use fathom_analysis::findings::Refused;
use fathom_analysis::metrics::survey::MEMORY_OVERLAP;
use fathom_probe::machine::batch::together::CHAINS;
use fathom_probe::pattern::{Memory, PatternKind, SideBySide, Trial};
use fathom_probe::splitmix::mix;
use fathom_units::size;

use crate::budget::Budget;
use crate::latency_curve::{Curves, MIN_MEMORY_NS, unexceeded_claim};
use crate::record::Record;
use crate::round::shuffle;
use crate::scale::Scale;

pub(crate) use reading::rows;

/// Share of the budget for the trials.
const SHARE: f64 = 0.05;
/// Trials: the interval of fewer than six is their range.
const TRIALS: (u64, u64) = (3, 9);
/// Working set, as a multiple of the last capacity: nothing that a chain finds again after half a lap is still in a cache, even
/// under random replacement.
const BEYOND: f64 = 4.0;
/// Smallest working set, bytes: room for the most chains, with enough steps of each.
const MIN_BYTES: u64 = 16 << 20;
/// Most steps in the first run of a sample. With loads of 100 ns that run takes 0.1 ms, as most interruptions are apart from
/// each other by far more.
const MAX_STEPS: u64 = 1021;
/// Least steps: with fewer, the loads at the ends of a run, of which fewer are under way, count too much.
const MIN_STEPS: u64 = 250;
/// Samples of each number of chains in a trial.
const TIMES: u64 = 3;
/// The same of one chain, by which all others are judged.
const TIMES_OF_ONE: u64 = 3 * TIMES;

/// Returns a working set whose loads come from memory, bytes, or why there is none.
fn working_set(record: &Record, scale: &Scale, curves: &Curves) -> Result<u64, Refused> {
    let because = |reason: String| {
        let remedy = "give it a larger --budget or more free memory".to_owned();
        Err(Refused { what: MEMORY_OVERLAP.pattern.to_owned(), reason, remedy })
    };
    let (Some(reading), Some(last)) = (&curves.reading, curves.latency_curve.last()) else {
        return because("no tiers were measured".to_owned());
    };
    let Some(memory) = reading.tiers.last().filter(|_| reading.flat_end) else {
        return because(
            "latency still rises at the largest working set: which loads come from memory is not known"
                .to_owned(),
        );
    };
    if memory.latency.value < MIN_MEMORY_NS {
        return because(format!(
            "loads of the last tier take {:.1} ns, less than a read of DRAM: they may be hits in a cache whose end was not reached",
            memory.latency.value
        ));
    }
    if let Some(claimed) = unexceeded_claim(record, &curves.latency_curve) {
        return because(format!(
            "a cache of {} is claimed, and working sets up to {} were measured: their loads may be hits in it",
            size(claimed as f64),
            size(last.bytes as f64)
        ));
    }
    let capacity =
        reading.tiers.iter().rev().find_map(|tier| tier.capacity).map_or(0.0, |end| end.onset.high);
    let wanted = (BEYOND * capacity).max(memory.begin).max(MIN_BYTES as f64);
    let bytes = (wanted / scale.stride as f64).ceil() as u64 * scale.stride;
    if bytes > last.bytes {
        return because(format!(
            "chains side by side need a working set of {} to come from memory, and the largest that was measured is {}",
            size(bytes as f64),
            size(last.bytes as f64)
        ));
    }
    Ok(bytes)
}

/// Returns the next trials; empty if there are enough, and on a described machine.
pub(crate) fn next_trials(record: &Record, scale: &Scale, curves: &Curves, budget: &Budget) -> Vec<Trial> {
    if budget.modelled {
        return Vec::new();
    }
    let Ok(bytes) = working_set(record, scale, curves) else { return Vec::new() };
    let Some(next) = trial(scale, bytes) else { return Vec::new() };
    let had: Vec<_> =
        record.trials.iter().filter(|run| run.trial.kind() == PatternKind::SideBySide).collect();
    if had.iter().any(|run| run.refusal.is_some()) {
        return Vec::new();
    }
    // The first trial shows what one costs.
    let cost = had.iter().filter_map(|run| Some(run.done.as_ref()?.spent_ns)).max();
    let wanted = match cost {
        _ if had.is_empty() => 1,
        Some(cost) => (budget.share(SHARE) / cost.max(1)).clamp(TRIALS.0, TRIALS.1),
        None => return Vec::new(),
    };
    (had.len() as u64..wanted).map(|nth| in_another_order(&next, nth)).collect()
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
