//! The cycle calibration: a dependent chain of single-cycle integer operations.

use alloc::vec::Vec;

use crate::machine::Machine;
use crate::wire::{Sample, Trial};

/// `trial.samples` samples of `loads` and twice `loads` operations.
pub fn measure<M: Machine>(machine: &mut M, trial: &Trial) -> Vec<Sample> {
    machine.alu(trial.warm);
    (0..trial.samples)
        .map(|_| {
            let before = super::counters(machine, trial);
            let a = machine.now();
            machine.alu(trial.loads);
            let b = machine.now();
            let between = super::counters(machine, trial);
            let b2 = machine.now();
            machine.alu(2 * trial.loads);
            let c = machine.now();
            let after = super::counters(machine, trial);
            let (cycles, _) = before.since(between, after);
            Sample { ticks: b.since(a), ticks2: c.since(b2), cycles, ..Sample::default() }
        })
        .collect()
}
