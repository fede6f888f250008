//! The clock against itself: back-to-back readings.

use alloc::vec::Vec;

use crate::machine::Machine;
use crate::wire::{Sample, Trial};

/// `trial.samples` samples: the ticks between two readings with nothing between them (`ticks`), and
/// over `loads` readings in a row (`ticks2`), which shows a mean below the clock's resolution.
pub fn measure<M: Machine>(machine: &mut M, trial: &Trial) -> Vec<Sample> {
    (0..trial.samples)
        .map(|_| {
            let a = machine.now();
            let b = machine.now();
            let mut c = b;
            for _ in 0..trial.loads {
                c = machine.now();
            }
            Sample { ticks: b.since(a), ticks2: c.since(b), ..Sample::default() }
        })
        .collect()
}
