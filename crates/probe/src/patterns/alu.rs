//! The yardstick: a dependent chain of single-cycle integer operations.

use alloc::vec::Vec;

use crate::machine::Machine;
use crate::wire::{Sample, Trial};

/// `trial.samples` samples of `loads` and twice `loads` operations.
pub fn measure<M: Machine>(machine: &mut M, trial: &Trial) -> Vec<Sample> {
    machine.alu(trial.warm);
    (0..trial.samples)
        .map(|_| {
            let cycles = super::cycles(machine);
            let a = machine.now();
            machine.alu(trial.loads);
            let b = machine.now();
            let cycles1 = super::cycles(machine);
            let b2 = machine.now();
            machine.alu(2 * trial.loads);
            let c = machine.now();
            let cycles2 = super::cycles(machine);
            Sample {
                ticks: b.since(a),
                ticks2: c.since(b2),
                cycles: super::counted(cycles, cycles1, cycles2),
                ..Sample::default()
            }
        })
        .collect()
}
