//! Dependent loads along a chain: shared by the patterns that walk one.

use alloc::vec::Vec;

use super::counters::{Events, counters};
use super::{Definition, Trial, TrialOutput};
use crate::chain::Chain;
use crate::machine::{Machine, MapRequest, Refusal};
use crate::rows::{Done, Rows, Sample};

fn lost() -> Refusal {
    Refusal::new("a cell of the chain is outside the mapping", "")
}

/// Maps, initialises and warms a trial's chain and takes its samples. `sample_from` takes one sample from a cell and
/// replaces it by the cell where the sample ended. It returns `None` when the loads left the chain, which only a broken
/// machine does.
pub(super) fn on_chain<M: Machine>(
    machine: &mut M,
    pattern: &impl Definition,
    trial: &Trial,
    mut sample_from: impl FnMut(&mut M, &Chain, &mut M::Cell) -> Option<Sample>,
) -> Result<TrialOutput, Refusal> {
    let chain_of = |nth, base, page_bytes| pattern.chain(trial, nth, base, page_bytes);
    sample_chains(machine, trial, &chain_of, &mut sample_from)
}

/// The chain of sample `nth` in a mapping at a base with pages of so many bytes.
type ChainOf<'a> = dyn Fn(u64, u64, u64) -> Option<Chain> + 'a;
/// Takes one sample from a cell.
type SampleFrom<'a, M> = dyn FnMut(&mut M, &Chain, &mut <M as Machine>::Cell) -> Option<Sample> + 'a;

/// The same for all patterns: one piece of code, because a bare-metal image has them all. What is called through pointers is not
/// within the timed runs.
#[inline(never)]
fn sample_chains<M: Machine>(
    machine: &mut M,
    trial: &Trial,
    chain_of: &ChainOf<'_>,
    sample_from: &mut SampleFrom<'_, M>,
) -> Result<TrialOutput, Refusal> {
    // The extent of a chain with one cell per page depends on the page size. Only a mapping shows the page size, so
    // one page is mapped first.
    let page_bytes = machine.map(&MapRequest { bytes: 8, ..trial.request(1) })?.page_bytes;
    let mapping = machine.map(&trial.request(page_bytes))?;
    if mapping.page_bytes != page_bytes {
        return Err(Refusal::new("the page size changed between two mappings", "run it again"));
    }
    let chain_of = |nth| chain_of(nth, mapping.base, page_bytes).ok_or_else(lost);
    let mut chain = chain_of(0)?;
    let mut cell = begin(machine, &chain, trial)?.ok_or_else(lost)?;
    let mut samples = Vec::with_capacity(trial.samples as usize);
    for nth in 0..trial.samples {
        if nth > 0 && chain.walked_once() {
            chain = chain_of(nth)?;
            cell = begin(machine, &chain, trial)?.ok_or_else(lost)?;
        }
        samples.push(sample_from(machine, &chain, &mut cell).ok_or_else(lost)?);
    }
    Ok(TrialOutput::of(Rows::of_samples(trial.id, samples), page_bytes, mapping.base))
}

/// Initialises and warms a chain. Returns the cell at which the timed loads start, `None` if it is outside the mapping.
fn begin<M: Machine>(machine: &mut M, chain: &Chain, trial: &Trial) -> Result<Option<M::Cell>, Refusal> {
    machine.initialise(chain)?;
    Ok(machine.cell(chain.at(0)).map(|start| machine.chase(start, trial.warm)))
}

/// Takes samples of n loads and then 2n more, each starting where the previous one ended. Analysis uses the difference,
/// in which every fixed cost cancels.
pub(super) fn run<M: Machine>(
    machine: &mut M,
    pattern: &impl Definition,
    trial: &Trial,
) -> Result<TrialOutput, Refusal> {
    run_counting(machine, pattern, trial, Events::Unread)
}

/// The same, with the events during the two runs of all samples, if `events` requests them.
pub(super) fn run_counting<M: Machine>(
    machine: &mut M,
    pattern: &impl Definition,
    trial: &Trial,
    mut events: Events,
) -> Result<TrialOutput, Refusal> {
    let output = on_chain(machine, pattern, trial, |machine, chain, cell| {
        let (sample, middle, last) = timed(machine, cell, trial, &mut events);
        let number = |cell| chain.number_at(machine.offset(cell));
        Some(Sample { end: number(middle)?, end2: number(last)?, ..sample })
    })?;
    Ok(TrialOutput { events: events.sums(), ..output })
}

/// Takes one sample, without the numbers of the cells where the two runs ended, and returns these cells. The clock is
/// read between the two runs, and again after the counters, because reading a counter may cost far more than reading
/// the clock.
pub(super) fn timed<M: Machine>(
    machine: &mut M,
    cell: &mut M::Cell,
    trial: &Trial,
    events: &mut Events,
) -> (Sample, M::Cell, M::Cell) {
    let n = trial.loads;
    let before = counters(machine, trial);
    let a = machine.now();
    let middle = machine.chase(*cell, n);
    let b = machine.now();
    let between = counters(machine, trial);
    let b2 = machine.now();
    let last = machine.chase(middle, 2 * n);
    let c = machine.now();
    let after = counters(machine, trial);
    *cell = last;
    events.add(&before, &between, &after);
    let (cycles, misses) = before.since(&between, &after);
    let sample = Sample { ticks: b.since(a), ticks2: c.since(b2), cycles, misses, ..Sample::default() };
    (sample, middle, last)
}

/// Returns the indices of the samples whose end cells are wrong. Runs of whole laps end where they began and verify
/// nothing: such a trial is unverified from its first sample, and no plan schedules one.
pub(super) fn verify(
    pattern: &impl Definition,
    trial: &Trial,
    rows: &Rows,
    done: &Done,
    (first_run, second_run): (u64, u64),
) -> Vec<usize> {
    let chain_of = |nth: usize| pattern.chain(trial, nth as u64, 0, done.page_bytes);
    let (Rows::Samples(samples), Some(mut chain)) = (rows, chain_of(0)) else { return rows.all() };
    let cells = chain.cells();
    if cells > 2 && first_run.max(second_run).is_multiple_of(cells) {
        return rows.all();
    }
    let mut position = trial.warm;
    let mut bad = Vec::new();
    for (i, sample) in samples.list.iter().enumerate() {
        if i > 0 && chain.walked_once() {
            (chain, position) = (chain_of(i).unwrap_or(chain), trial.warm);
        }
        let first = position.wrapping_add(first_run);
        position = first.wrapping_add(second_run);
        if sample.end != chain.cell_at(first) || sample.end2 != chain.cell_at(position) {
            bad.push(i);
        }
    }
    bad
}

/// Returns the two runs of a sample of [`run`], in loads.
pub(super) fn runs(trial: &Trial) -> (u64, u64) {
    (trial.loads, 2 * trial.loads)
}
