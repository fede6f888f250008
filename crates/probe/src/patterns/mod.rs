//! The inner loops, one file each, written once and generic over the machine.

use alloc::vec::Vec;

use crate::machine::{Controls, LoadReport, Machine, Refusal};
use crate::wire::{Around, Moved, PatternKind, Sample, Trial, Woken};

pub mod alias;
pub mod alu;
pub mod chase;
pub mod clock;
pub mod copy;
pub mod eviction_set;
pub mod shared;
pub mod single;
pub mod stride;
pub mod transfer;
pub mod wake;

/// What a trial yielded.
#[derive(Debug)]
pub struct TrialOutput {
    /// The samples, in order.
    pub samples: Vec<Sample>,
    /// Page size in force, bytes; 0 where the pattern maps nothing.
    pub page_bytes: u64,
    /// Where the mapping began in the arena, bytes.
    pub base: u64,
    /// The activations of the pattern `wake`.
    pub woken: Woken,
    /// What ran around some of them.
    pub around: Vec<Around>,
    /// What co-running stressors did.
    pub load_report: LoadReport,
    /// The transfers of the pattern `transfer`.
    pub moved: Moved,
}

impl TrialOutput {
    /// Samples of a mapping, and nothing beside them.
    #[must_use]
    pub fn of(samples: Vec<Sample>, page_bytes: u64, base: u64) -> TrialOutput {
        let (woken, around, load_report) = (Woken::default(), Vec::new(), LoadReport::default());
        TrialOutput { samples, page_bytes, base, woken, around, load_report, moved: Moved::default() }
    }
}

/// Maps what a trial needs and runs its pattern.
///
/// # Errors
/// The machine's [`Refusal`] of the controls, of the co-running streams, or of what the pattern needs.
pub fn run<M: Machine>(machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
    machine.control(&trial.controls)?;
    let outcome = match machine.disturb(&trial.with) {
        Err(refusal) => Err(refusal),
        Ok(()) => {
            let outcome = load_stats(machine, trial);
            machine.disturb(&[])?;
            outcome
        }
    };
    if trial.controls != Controls::default() {
        machine.control(&Controls::default())?;
    }
    outcome
}

/// The pattern beside the stressors that the trial names.
fn load_stats<M: Machine>(machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
    if trial.load.is_none() {
        return alone(machine, trial);
    }
    machine.start_load(&trial.load, trial.wakes.confined)?;
    let outcome = alone(machine, trial);
    let load_report = machine.stop_load();
    outcome.map(|outcome| TrialOutput { load_report, ..outcome })
}

/// The pattern itself, whatever the machine is set to and runs beside it.
fn alone<M: Machine>(machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
    let samples = match trial.pattern {
        PatternKind::Clock => clock::measure(machine, trial),
        PatternKind::Alu => alu::measure(machine, trial),
        PatternKind::Chase | PatternKind::Pages | PatternKind::Conflict | PatternKind::Pair => {
            return chase::measure(machine, trial);
        }
        PatternKind::EvictionSet => return eviction_set::measure(machine, trial),
        PatternKind::Single => return single::measure(machine, trial),
        PatternKind::Stride if trial.frames > 0 => return shared::measure(machine, trial),
        PatternKind::Stride => return stride::measure(machine, trial),
        PatternKind::Copy => return copy::measure(machine, trial),
        PatternKind::Alias => return alias::measure(machine, trial),
        PatternKind::Wake => return wake::measure(machine, trial),
        PatternKind::Transfer => return transfer::measure(machine, trial),
    };
    Ok(TrialOutput::of(samples, 0, 0))
}

/// Calls `one` `count` times, the odd ones first and then in turns of `N`: the shape of a machine's own loops, which
/// they share with the generic bodies.
#[inline(always)]
pub fn unrolled<const N: u64>(count: u64, mut one: impl FnMut()) {
    for _ in 0..count % N {
        one();
    }
    for _ in 0..count / N {
        for _ in 0..N {
            one();
        }
    }
}

/// What the machine's counters read, where it has them.
#[derive(Clone, Copy, Default)]
struct Counted {
    cycles: Option<u64>,
    misses: Option<u64>,
}

/// Reads the counter `cycles` and, where the trial asks for it, the refills of a level.
fn counters<M: Machine>(machine: &mut M, trial: &Trial) -> Counted {
    let counts = machine.counters().unwrap_or_default();
    Counted {
        cycles: counts.into_iter().find(|c| c.name == "cycles").map(|c| c.value),
        misses: if trial.counted > 0 { machine.refills(trial.counted) } else { None },
    }
}

/// What a counter counted over n and over 2n operations, where there is one.
type OverBoth = Option<(u64, u64)>;

impl Counted {
    /// The increases from this reading over the two runs of a sample.
    fn since(self, between: Counted, after: Counted) -> (OverBoth, OverBoth) {
        let over =
            |a: Option<u64>, b: Option<u64>, c: Option<u64>| Some((b?.wrapping_sub(a?), c?.wrapping_sub(b?)));
        (over(self.cycles, between.cycles, after.cycles), over(self.misses, between.misses, after.misses))
    }
}
