//! The cycle calibration: a dependent chain of single-cycle integer operations.

use alloc::vec::Vec;

use super::counters::counters;
use super::{Definition, Keys, Trial, TrialOutput, Work};
use crate::machine::{Machine, Refusal};
use crate::rows::{Done, Rows, Sample};
use crate::wire::WireError;

/// A dependent chain of single-cycle integer operations, to count core cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alu;

impl Definition for Alu {
    const QUESTION: Option<&'static str> = Some("clocks");
    const TIME_GROWS: bool = true;

    fn keys(&mut self, _: &mut Keys<'_>) -> Result<(), WireError> {
        Ok(())
    }

    fn work(&self, trial: &Trial) -> Work {
        Work::Operations(trial.warm + 3 * trial.loads * trial.samples)
    }

    fn run<M: Machine>(&self, machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
        machine.alu(trial.warm);
        let sample = |_| {
            let before = counters(machine, trial);
            let a = machine.now();
            machine.alu(trial.loads);
            let b = machine.now();
            let between = counters(machine, trial);
            let b2 = machine.now();
            machine.alu(2 * trial.loads);
            let c = machine.now();
            let after = counters(machine, trial);
            let (cycles, _) = before.since(&between, &after);
            Sample { ticks: b.since(a), ticks2: c.since(b2), cycles, ..Sample::default() }
        };
        let samples: Vec<Sample> = (0..trial.samples).map(sample).collect();
        Ok(TrialOutput::of(Rows::of_samples(trial.id, samples), 0, 0))
    }

    /// Accepts all samples: nothing is loaded, so nothing can be verified.
    fn verify(&self, _: &Trial, rows: &Rows, _: &Done) -> Vec<usize> {
        if matches!(rows, Rows::Samples(_)) { Vec::new() } else { rows.all() }
    }
}
