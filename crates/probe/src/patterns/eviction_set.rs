//! The probe of a set: a [sequence](crate::sequence) of loads, round and round.
//!
//! Which line left a set is asked by loading it once more: where a `?` stands, that one load is timed. Without
//! a `?` whole runs are timed, as of a chase: in their mean is how many loads of a lap missed, whatever the
//! clock.

use alloc::vec::Vec;

use super::TrialOutput;
use super::single::timed;
use crate::machine::{Machine, Refusal};
use crate::wire::{Sample, Trial};

/// A lap of a sequence in memory.
struct Lap<M: Machine> {
    cells: Vec<M::Cell>,
    timed: Vec<usize>,
}

impl<M: Machine> Lap<M> {
    fn number(&self, cell: M::Cell) -> Option<u64> {
        self.cells.iter().position(|&c| c == cell).map(|at| at as u64)
    }
}

/// Runs a trial of the pattern `probe`.
///
/// With `?` each sample is one asked load, in the order of the sequence and round again: `ticks` is the time
/// between two readings of the clock with the load between them, `ticks2` that between two readings with
/// nothing between; `end` is the number of the access that was reached before it, `end2` after it. Without,
/// samples are those of the chase, and both are numbers of accesses likewise.
///
/// # Errors
/// The machine's refusal of the memory.
pub fn measure<M: Machine>(machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
    let outside = || Refusal::new("a block is outside the mapped memory", "ask for fewer blocks");
    let mapping = machine.map(&trial.request(1))?;
    let places = trial.sequence.places(trial.period, trial.stride, trial.seed).ok_or_else(outside)?;
    let cell = |place: u64| machine.cell((mapping.base + trial.offset).checked_add(place)?);
    let cells: Vec<M::Cell> = places.into_iter().map(cell).collect::<Option<_>>().ok_or_else(outside)?;
    machine.initialise_cells(&cells);
    let lap = Lap::<M> { cells, timed: trial.sequence.timed() };
    let mut cell = machine.chase(*lap.cells.first().ok_or_else(outside)?, trial.warm);
    let mut samples = Vec::with_capacity(trial.samples as usize);
    for nth in 0..trial.samples {
        let sample = match lap.timed.len() {
            0 => {
                let (sample, middle, last) = super::chase::one(machine, &mut cell, trial);
                let ends = lap.number(middle).zip(lap.number(last));
                ends.map(|(end, end2)| Sample { end, end2, ..sample })
            }
            many => sample_at(machine, &lap, &mut cell, lap.timed[nth as usize % many]),
        };
        samples.push(sample.ok_or_else(|| Refusal::new("a load led off the sequence", ""))?);
    }
    Ok(TrialOutput::of(samples, mapping.page_bytes, mapping.base))
}

/// One asked load, after all that come before it.
fn sample_at<M: Machine>(machine: &mut M, lap: &Lap<M>, cell: &mut M::Cell, at: usize) -> Option<Sample> {
    let empty = machine.now();
    let begin = machine.now();
    let ticks2 = begin.since(empty);
    let (from, of) = (lap.number(*cell)?, lap.cells.len() as u64);
    let before = (at as u64 + of - from) % of;
    // The last of the untimed loads goes the timed one's way: see the pattern `single`.
    let mut reached = *cell;
    if before > 0 {
        reached = machine.chase(reached, before - 1);
        reached = timed(machine, reached, 1).1;
    }
    let (ticks, last) = timed(machine, reached, 1);
    *cell = last;
    Some(Sample { ticks, ticks2, end: lap.number(reached)?, end2: lap.number(last)?, ..Sample::default() })
}
