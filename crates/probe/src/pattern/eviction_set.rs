//! An eviction set: a [sequence](crate::sequence) of loads of blocks of one set, repeated cyclically.
//!
//! Loading a line again shows whether it was evicted: a load with a `?` is timed individually. Without a `?` whole
//! runs are timed, as in a chase. Their mean shows how many loads of a lap missed, with a clock of any resolution.

use alloc::format;
use alloc::vec::Vec;

use super::counters::Events;
use super::memory::wrong;
use super::single::timed;
use super::{Definition, Groups, Keys, Loads, Trial, TrialOutput, Work, dependent};
use crate::machine::{Machine, Refusal};
use crate::rows::{Done, Rows, Sample};
use crate::sequence::Sequence;
use crate::wire::WireError;

/// Dependent loads of a `sequence` over blocks of one set, cyclically. The trial's stride is the distance of the blocks
/// that only evict from nearer levels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvictionSet {
    /// The loads.
    pub sequence: Sequence,
    /// Bytes from one block of the set to the next.
    pub period: u64,
    /// Bytes from the start of the mapping to the first block: selects the set.
    pub offset: u64,
}

impl EvictionSet {
    /// Returns the offsets of the accesses, bytes from the first block (see [`Sequence::places`]).
    fn places(&self, trial: &Trial) -> Option<Vec<u64>> {
        self.sequence.places(self.period, trial.memory.stride, trial.seed)
    }
}

impl Definition for EvictionSet {
    fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError> {
        keys.int("period", &mut self.period)?;
        keys.int("offset", &mut self.offset)?;
        keys.text("sequence", &mut self.sequence, Sequence::parse)
    }

    fn check(&self, trial: &Trial) -> Result<(), WireError> {
        if self.sequence.accesses().is_empty() {
            return wrong("pattern=eviction-set needs a sequence=".into());
        }
        self.groups().check(&trial.memory)?;
        if self.places(trial).is_none() {
            return wrong(format!(
                "the blocks a-z need a period of at least two strides; period={} stride={}",
                self.period, trial.memory.stride
            ));
        }
        Ok(())
    }

    fn extent(&self, trial: &Trial, _: u64) -> Option<u64> {
        let last = self.places(trial).unwrap_or_default().into_iter().max()?;
        last.checked_add(8)?.checked_add(self.offset)
    }

    fn groups(&self) -> Groups {
        Groups { period: self.period, group: 1, offset: self.offset }
    }

    fn work(&self, trial: &Trial) -> Work {
        let (lap, timed) = (self.sequence.accesses().len() as u64, self.sequence.timed().len() as u64);
        let per_sample = lap.checked_div(timed).unwrap_or(3 * trial.loads);
        let cells = trial.memory.cells().max(lap);
        Work::Loads(Loads::apart(cells, trial.warm + per_sample * trial.samples))
    }

    /// Runs the sequence. With `?` each sample is one timed load, in the order of the sequence, cyclically. `ticks` is
    /// the time between two readings of the clock with the load between them, `ticks2` that between two readings with
    /// nothing between. `end` is the number of the access that was reached before the load, `end2` after it. Without
    /// `?`, samples are those of the chase, and `end` and `end2` are also numbers of accesses.
    fn run<M: Machine>(&self, machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
        let outside = || Refusal::new("a block is outside the mapped memory", "use fewer blocks");
        let mapping = machine.map(&trial.request(1))?;
        let places = self.places(trial).ok_or_else(outside)?;
        let cell = |place: u64| machine.cell((mapping.base + self.offset).checked_add(place)?);
        let cells: Vec<M::Cell> = places.into_iter().map(cell).collect::<Option<_>>().ok_or_else(outside)?;
        machine.initialise_cells(&cells);
        let lap = Lap::<M> { cells, timed: self.sequence.timed() };
        let mut cell = machine.chase(*lap.cells.first().ok_or_else(outside)?, trial.warm);
        let mut samples = Vec::with_capacity(trial.samples as usize);
        for nth in 0..trial.samples {
            let sample = match lap.timed.len() {
                0 => {
                    let (sample, middle, last) =
                        dependent::timed(machine, &mut cell, trial, &mut Events::Unread);
                    let ends = lap.number(middle).zip(lap.number(last));
                    ends.map(|(end, end2)| Sample { end, end2, ..sample })
                }
                many => sample_at(machine, &lap, &mut cell, lap.timed[nth as usize % many]),
            };
            samples.push(sample.ok_or_else(|| Refusal::new("a load led off the sequence", ""))?);
        }
        Ok(TrialOutput::of(Rows::of_samples(trial.id, samples), mapping.page_bytes, mapping.base))
    }

    /// Checks the numbers of the accesses that were reached.
    fn verify(&self, trial: &Trial, rows: &Rows, _: &Done) -> Vec<usize> {
        let Rows::Samples(samples) = rows else { return rows.all() };
        let cells = (self.sequence.accesses().len() as u64).max(1);
        let timed = self.sequence.timed();
        if timed.is_empty() && (2 * trial.loads).is_multiple_of(cells) && cells > 2 {
            return rows.all();
        }
        let mut position = trial.warm % cells;
        let expected = |(i, _): (usize, &Sample)| match timed.get(i % timed.len().max(1)) {
            Some(&at) => (at as u64, (at as u64 + 1) % cells),
            None => {
                let middle = position.wrapping_add(trial.loads) % cells;
                position = middle.wrapping_add(2 * trial.loads) % cells;
                (middle, position)
            }
        };
        let ends: Vec<(u64, u64)> = samples.list.iter().enumerate().map(expected).collect();
        let end = |i: usize| (samples.list[i].end, samples.list[i].end2);
        (0..ends.len()).filter(|&i| end(i) != ends[i]).collect()
    }
}

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

/// Takes a sample of one timed load, after all loads that precede it.
fn sample_at<M: Machine>(machine: &mut M, lap: &Lap<M>, cell: &mut M::Cell, at: usize) -> Option<Sample> {
    let empty = machine.now();
    let begin = machine.now();
    let ticks2 = begin.since(empty);
    let (from, of) = (lap.number(*cell)?, lap.cells.len() as u64);
    let before = (at as u64 + of - from) % of;
    // The last of the untimed loads runs through the same code as the timed one (see the pattern `single`).
    let mut reached = *cell;
    if before > 0 {
        reached = machine.chase(reached, before - 1);
        reached = timed(machine, reached, 1).1;
    }
    let (ticks, last) = timed(machine, reached, 1);
    *cell = last;
    Some(Sample { ticks, ticks2, end: lap.number(reached)?, end2: lap.number(last)?, ..Sample::default() })
}
