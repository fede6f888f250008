//! Wake-ups: a task that sleeps until the next period, says when it is awake, and walks its working set.

use alloc::vec;
use alloc::vec::Vec;

use super::TrialOutput;
use crate::chain::Chain;
use crate::machine::{Event, Machine, Operation, Places, Refusal, Traced};
use crate::patterns::stride::Sweep;
use crate::wire::{Around, Trial, Woke, Woken};

/// Activations of which it is told what ran around them.
const WORST: usize = 8;
/// Events of each, at most: what matters of a late wake-up comes first, and a record is not a trace.
const MOST_EVENTS: usize = 24;
/// The first expiry is at least so far away, ns: what is still to be done before the first sleep takes less.
const FIRST_NS: u64 = 1_000_000;

/// What an activation does and what is prepared for the next one.
struct Task {
    chain: Chain,
    /// What is swept so that it lies in the nearer caches.
    evict: Option<Sweep>,
    base: u64,
}

/// Runs a trial of the pattern `wake`: `warm` activations that do not count, then `samples` that do.
///
/// Each sleeps until an absolute time on a grid of periods, so that no lateness adds up, reads the clock when it is
/// awake, walks `loads` cells of its working set and reads it again. The loop allocates nothing and writes nowhere but
/// into rows that were there before.
///
/// # Errors
/// The machine's refusal of the memory, of the timer, or of what was asked for beside it.
pub fn measure<M: Machine>(machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
    if trial.wakes.timerlat {
        return of_kernel(machine, trial);
    }
    let (task, page_bytes) = prepare(machine, trial)?;
    // A row that is not 0 is in memory that has been written to.
    let mut rows = vec![Woke { user_ns: 1, ..Woke::default() }; trial.samples as usize];
    let now = machine.wake_begin(&trial.wakes, trial.warm + trial.samples)?;
    let first = series(machine, trial, &task, now, &mut rows);
    let traced = machine.wake_end();
    let first = first?;
    let traced = traced?;
    let times = join(&mut rows, first, trial.wakes.every_ns, &traced);
    let around = around(machine, &rows, &times);
    let woken = Woken { trial: trial.id, first_ns: Some(first), lost: traced.lost, list: rows };
    Ok(TrialOutput { woken, around, ..TrialOutput::of(Vec::new(), page_bytes, task.base) })
}

/// The same of the kernel's own thread: whoever waits is not this loop, and nothing is walked.
fn of_kernel<M: Machine>(machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
    let (rows, lost) = machine.timerlat(&trial.wakes, trial.warm + trial.samples)?;
    let mut list: Vec<Woke> =
        rows.into_iter().skip(trial.warm as usize).take(trial.samples as usize).collect();
    if let Some(first) = list.first_mut() {
        (first.missed, first.skipped) = (0, 0);
    }
    let woken = Woken { trial: trial.id, first_ns: None, lost, list };
    Ok(TrialOutput { woken, ..TrialOutput::of(Vec::new(), 0, 0) })
}

/// Maps and lays what an activation walks, and behind it what is swept.
fn prepare<M: Machine>(machine: &mut M, trial: &Trial) -> Result<(Task, u64), Refusal> {
    let mapping = machine.map(&trial.request(1))?;
    let chain = trial.chain(mapping.base, mapping.page_bytes);
    machine.initialise(&chain)?;
    let sweep = Sweep {
        base: mapping.base + trial.cells() * trial.stride,
        stride: trial.stride,
        cells: trial.wakes.evict / trial.stride,
        operation: Operation::Read,
    };
    let evict = (sweep.cells > 0).then_some(sweep);
    if let Some(sweep) = &evict {
        machine.initialise_sweep(sweep, trial.seed)?;
    }
    Ok((Task { chain, evict, base: mapping.base }, mapping.page_bytes))
}

/// The loop. Answers when the first activation that counts was to be.
fn series<M: Machine>(
    machine: &mut M,
    trial: &Trial,
    task: &Task,
    now: u64,
    rows: &mut [Woke],
) -> Result<u64, Refusal> {
    let lost = || Refusal::new("a cell of the chain is outside the mapping", "");
    let every = trial.wakes.every_ns;
    let mut cell = machine.cell(task.chain.at(0)).ok_or_else(lost)?;
    let mut at = now + every.max(FIRST_NS);
    let (mut missed, mut skipped, mut involuntary) = (0, 0, 0);
    let mut first = at;
    for i in 0..trial.warm + trial.samples {
        let awake = machine.wake_at(at)?;
        cell = machine.chase(cell, trial.loads);
        let done = machine.wake_now();
        if let Some(row) = i.checked_sub(trial.warm).and_then(|i| rows.get_mut(i as usize)) {
            *row = Woke {
                missed,
                skipped,
                user_ns: awake.now_ns.saturating_sub(at),
                work_ns: done.saturating_sub(at),
                end: task.chain.number_at(machine.offset(cell)).ok_or_else(lost)?,
                cpu: awake.cpu,
                involuntary: awake.involuntary.saturating_sub(involuntary),
                ..Woke::default()
            };
            if i == trial.warm {
                (row.missed, row.skipped, first) = (0, 0, at);
            }
        }
        involuntary = awake.involuntary;
        missed = done.saturating_sub(at) / every;
        at += (missed + 1) * every;
        evict(machine, trial, task)?;
        // What was prepared may have taken longer than there was time: nobody was late for that.
        skipped = machine.wake_now().checked_sub(at).map_or(0, |late| late / every + 1);
        at += skipped * every;
    }
    Ok(first)
}

/// What is done to the caches before a sleep.
#[inline(always)]
fn evict<M: Machine>(machine: &mut M, trial: &Trial, task: &Task) -> Result<(), Refusal> {
    if let Some(sweep) = &task.evict {
        let outside =
            || Refusal::new("what is swept reaches outside the mapped memory", "ask for fewer bytes");
        machine.sweep(sweep, 0, sweep.cells).ok_or_else(outside)?;
    }
    if trial.wakes.flushed {
        machine.clean_invalidate(task.base, trial.cells() * trial.stride)?;
    }
    Ok(())
}

/// Gives each activation its earlier places, by the time for which it was set, and answers these times.
fn join(rows: &mut [Woke], first: u64, every: u64, traced: &Traced) -> Vec<u64> {
    let mut at = first;
    let mut times = Vec::with_capacity(rows.len());
    for (i, row) in rows.iter_mut().enumerate() {
        if i > 0 {
            at += (1 + row.missed + row.skipped) * every;
        }
        times.push(at);
        if let Ok(found) = traced.places.binary_search_by_key(&at, |places| places.expires_ns) {
            let Places { irq_ns, wake_ns, switch_ns, .. } = traced.places[found];
            // Where a tracer missed the task's own switch, the next one is none of this activation's.
            let late = row.user_ns;
            let after = |place: Option<u64>| place.and_then(|ns| ns.checked_sub(at)).filter(|ns| *ns <= late);
            (row.irq_ns, row.wake_ns, row.switch_ns) = (after(irq_ns), after(wake_ns), after(switch_ns));
        }
    }
    times
}

/// What ran around the latest, between the timer's expiry and the task's awakening; what had the CPU before that is
/// told as of the expiry.
fn around<M: Machine>(machine: &mut M, rows: &[Woke], times: &[u64]) -> Vec<Around> {
    let mut worst: Vec<usize> = (0..rows.len()).collect();
    worst.sort_by_key(|&i| core::cmp::Reverse(rows[i].user_ns));
    worst.truncate(WORST);
    worst.sort_unstable();
    let mut all = Vec::new();
    for i in worst {
        let at = times[i];
        let events = machine.wake_around(at, at + rows[i].user_ns, MOST_EVENTS);
        let one =
            |event: Event| Around { nth: i as u64, at_ns: event.at_ns.saturating_sub(at), what: event.what };
        all.extend(events.into_iter().map(one));
    }
    all
}

#[cfg(test)]
mod tests;
