//! Instructions that a core has in flight: two chains in memory with other instructions between their loads.
//!
//! A described machine is asked if its description has `window`, which it gives back; on others nothing is planned and nothing reported.

mod reading;
pub(crate) mod view;

use fathom_analysis::metrics::survey::MEMORY_WINDOW;
use fathom_analysis::window;
use fathom_probe::machine::batch::spaced::FILLERS;
use fathom_probe::pattern::{Memory, PatternKind, SpacedChains, Trial};
use fathom_probe::splitmix::mix;
use fathom_units::facts;

use crate::budget::Budget;
use crate::latency_curve::{self, Curves};
use crate::overlap;
use crate::record::{Record, TrialRun};
use crate::round::{self, shuffle};
use crate::scale::Scale;

pub(crate) use reading::rows;

/// Share of the budget for the trials.
const SHARE: f64 = 0.03;
/// Most trials: the first one and three that each look at a sixteenth of the range of the one before.
const TRIALS: u64 = 4;
/// Ratio of neighbouring numbers of instructions in the first trial: within the distance over which a step must be clear.
const RATIO: f64 = 1.13;
/// Parts of the range in each of the others.
const PARTS: u64 = 16;
/// Steps in the first run of a sample: with the instructions, 0.1 ms for both runs, less than a tenth of the time between two interrupts of a
/// kernel's timer at 1000 Hz.
const STEPS: u64 = 211;
/// Samples of each number of instructions in a trial.
const TIMES: u64 = 3;
/// The same of the fewest, by which all others are judged.
const TIMES_OF_NEAREST: u64 = 3 * TIMES;
/// Separates the random numbers from those of other plans.
const SALT: u64 = 0x31d0;

/// Returns whether the machine is asked.
fn is_asked(record: &Record, modelled: bool) -> bool {
    !modelled || record.int(facts::DESCRIBED_WINDOW).is_some()
}

/// Returns the next round; empty if the step is known or cannot be found, and if it is not known yet what comes from memory.
pub(crate) fn plan(record: &Record, (seed, budget_ms): (u64, u64)) -> Vec<Trial> {
    let budget = Budget::of(record, budget_ms);
    if !is_asked(record, budget.modelled) || record.round() < latency_curve::SCAN_ROUNDS {
        return Vec::new();
    }
    let had: Vec<&TrialRun> =
        record.trials.iter().filter(|run| run.trial.kind() == PatternKind::SpacedChains).collect();
    let scale = Scale::of(record);
    let trial = match had.first() {
        None => overlap::memory_from(record, &Curves::of(record, &scale), overlap::BEYOND, &MEMORY_WINDOW)
            .ok()
            .map(|from| trial(&scale, overlap::whole_lines(&scale, from), coarse())),
        Some(first) => next(record, &scale, first, (had.len() as u64, &budget)),
    };
    round::assemble(record, &budget, trial.into_iter().collect(), |_| 0, (seed, SALT))
}

/// Returns the next trial: where the step may be, if it is not known to the instruction and the budget's share allows one more; the first one again
/// if nothing is left of it. A trial that contradicts another one is made up for.
fn next(record: &Record, scale: &Scale, first: &TrialRun, (had, budget): (u64, &Budget)) -> Option<Trial> {
    let spent = if budget.modelled { 1 } else { first.done.as_ref()?.spent_ns.max(1) };
    let times = reading::trials(record, scale, 0.0).1;
    let left_out = window::left_out(&times) as u64;
    if had >= (TRIALS + left_out).min(budget.share(SHARE) / spent) {
        return None;
    }
    let Some((low, high)) = window::bracket(&times) else {
        return (left_out > 0).then(|| trial(scale, first.trial.memory.bytes, coarse()));
    };
    (high - low > 1).then(|| {
        let mut fillers: Vec<u64> = (0..=PARTS).map(|nth| low + (high - low) * nth / PARTS).collect();
        fillers.push(*FILLERS.start());
        fillers.sort_unstable();
        fillers.dedup();
        trial(scale, first.trial.memory.bytes, fillers)
    })
}

/// Returns the numbers of instructions of the first trial.
fn coarse() -> Vec<u64> {
    let (least, most) = (*FILLERS.start() as f64, *FILLERS.end());
    let mut all: Vec<u64> = (0..)
        .map(|nth| (least * RATIO.powi(nth)).round() as u64)
        .take_while(|fillers| *fillers < most)
        .chain([most])
        .collect();
    all.dedup();
    all
}

/// Returns the trial on this working set, with its numbers in an order of its own, so that what changes during a trial changes all alike.
fn trial(scale: &Scale, bytes: u64, fillers: Vec<u64>) -> Trial {
    let times = |fillers: u64| if fillers == *FILLERS.start() { TIMES_OF_NEAREST } else { TIMES };
    let mut all: Vec<u64> =
        fillers.iter().flat_map(|&fillers| (0..times(fillers)).map(move |_| fillers)).collect();
    shuffle(&mut all, mix(fillers.iter().sum()));
    let samples = all.len() as u64;
    let memory = Memory { page: scale.pages(), ..Memory::of(bytes, scale.stride) };
    Trial { memory, loads: STEPS, samples, warm: 0, ..Trial::of(SpacedChains { fillers: all }) }
}

#[cfg(test)]
mod tests;
