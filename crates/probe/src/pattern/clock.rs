//! The clock: back-to-back readings.

use alloc::vec::Vec;

use super::{Definition, Keys, Trial, TrialOutput, Work};
use crate::machine::{Machine, Refusal};
use crate::rows::{Done, Rows, Sample};
use crate::wire::WireError;

/// Back-to-back readings of the clock, for its resolution and overhead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock;

impl Definition for Clock {
    const QUESTION: Option<&'static str> = Some("clocks");

    fn keys(&mut self, _: &mut Keys<'_>) -> Result<(), WireError> {
        Ok(())
    }

    fn work(&self, trial: &Trial) -> Work {
        Work::Readings((trial.loads + 2) * trial.samples)
    }

    /// Reads the clock. In each sample `ticks` is the time between two readings with nothing between them, and `ticks2`
    /// that over `loads` consecutive readings, which shows a mean below the clock's resolution.
    fn run<M: Machine>(&self, machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
        let sample = |_| {
            let a = machine.now();
            let b = machine.now();
            let mut c = b;
            for _ in 0..trial.loads {
                c = machine.now();
            }
            Sample { ticks: b.since(a), ticks2: c.since(b), ..Sample::default() }
        };
        let samples: Vec<Sample> = (0..trial.samples).map(sample).collect();
        Ok(TrialOutput::of(Rows::of_samples(trial.id, samples), 0, 0))
    }

    /// Accepts all samples: nothing is loaded, so nothing can be verified.
    fn verify(&self, _: &Trial, rows: &Rows, _: &Done) -> Vec<usize> {
        if matches!(rows, Rows::Samples(_)) { Vec::new() } else { rows.all() }
    }
}
