//! The inner loops, one file each, written once and generic over the machine.

use alloc::vec::Vec;

use crate::machine::{Machine, Refusal};
use crate::wire::{PatternKind, Sample, Trial};

pub mod alu;
pub mod chase;
pub mod clock;
pub mod single;
pub mod stride;

/// What a trial yielded.
#[derive(Debug)]
pub struct Yield {
    /// The samples, in order.
    pub samples: Vec<Sample>,
    /// Page size in force, bytes; 0 where the pattern maps nothing.
    pub page_bytes: u64,
    /// Where the mapping began in the arena, bytes.
    pub base: u64,
}

/// Maps what a trial needs and runs its pattern.
///
/// # Errors
/// The machine's [`Refusal`].
pub fn run<M: Machine>(machine: &mut M, trial: &Trial) -> Result<Yield, Refusal> {
    let samples = match trial.pattern {
        PatternKind::Clock => clock::measure(machine, trial),
        PatternKind::Alu => alu::measure(machine, trial),
        PatternKind::Chase | PatternKind::Pages => return chase::measure(machine, trial),
        PatternKind::Single => return single::measure(machine, trial),
        PatternKind::Stride => return stride::measure(machine, trial),
    };
    Ok(Yield { samples, page_bytes: 0, base: 0 })
}

/// The counter `cycles`, where the machine has one.
fn cycles<M: Machine>(machine: &mut M) -> Option<u64> {
    machine.counters().ok()?.into_iter().find(|c| c.name == "cycles").map(|c| c.value)
}

/// The increases over the two runs of a sample.
fn counted(before: Option<u64>, between: Option<u64>, after: Option<u64>) -> Option<(u64, u64)> {
    Some((between?.wrapping_sub(before?), after?.wrapping_sub(between?)))
}
