//! Wake-ups: a task that sleeps until the next period, records when it runs, and walks its working set.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::memory::{MAX_BYTES, within, wrong};
use super::{Definition, Keys, Memory, Trial, TrialOutput, Walk, Work};
use crate::chain::{Chain, Layout};
use crate::machine::batch::stride::Sweep;
use crate::machine::{ActivationRow, ActivationTrace, Event, Machine, Operation, Places, Refusal, Wakes};
use crate::rows::{ActivationRows, Done, NearbyEvent, Rows};
use crate::wire::WireError;

/// Minimum and maximum period: 10 us, which no kernel keeps, to 10 s.
const EVERY_NS: (u64, u64) = (10_000, 10_000_000_000);
/// Maximum duration of a series, ns, so that every series ends.
pub const MAX_SERIES_NS: u64 = 1_000_000_000_000;
/// The real-time priorities of Linux (sched(7)).
const MAX_PRIORITY: u64 = 99;
/// Number of the most delayed activations for which nearby events are reported.
const MAX_LATE_ACTIVATIONS: usize = 8;
/// Maximum events of each: only the events before a late wake-up matter, and a record is not a trace.
const MAX_EVENTS: usize = 24;
/// Minimum time until the first expiry, ns. The remaining preparation takes less.
const FIRST_NS: u64 = 1_000_000;

/// The work of an activation, and the preparation for the next one.
struct Task {
    chain: Chain,
    /// The sweep that fills the nearer caches.
    evict: Option<Sweep>,
    base: u64,
}

/// Periodic wake-ups of a task that then walks a chain over packed lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wake {
    /// Parameters of the wake-ups.
    pub wakes: Wakes,
    /// The order of the chain.
    pub walk: Walk,
}

impl Wake {
    /// Creates a task with these wake-ups that walks in random order.
    #[must_use]
    pub fn of(wakes: Wakes) -> Wake {
        Wake { wakes, ..Wake::default() }
    }

    fn chain_at(&self, trial: &Trial, base: u64) -> Chain {
        let (cells, stride) = (trial.memory.cells(), trial.memory.stride);
        Chain::new(base, cells, stride, Layout::Packed, self.walk.chain_order(1), trial.seed)
    }

    fn check_series(&self, trial: &Trial) -> Result<(), WireError> {
        let series = (trial.samples + trial.warm).checked_mul(self.wakes.every_ns);
        if series.is_none_or(|ns| ns > MAX_SERIES_NS) {
            return wrong(format!(
                "samples={} and warm={} with every_ns={} take more than {} s",
                trial.samples,
                trial.warm,
                self.wakes.every_ns,
                MAX_SERIES_NS / 1_000_000_000
            ));
        }
        Ok(())
    }
}

impl Definition for Wake {
    const QUESTION: Option<&'static str> = Some("wake-ups");

    /// A quarter of an hour at 1 ms; the record takes about 30 MB.
    const MAX_SAMPLES: u64 = 1_000_000;

    fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError> {
        self.walk.keys(keys)?;
        keys.int("every_ns", &mut self.wakes.every_ns)?;
        keys.int("priority", &mut self.wakes.priority)?;
        keys.flag("traced", &mut self.wakes.traced)?;
        keys.flag("flushed", &mut self.wakes.flushed)?;
        keys.flag("timerlat", &mut self.wakes.timerlat)?;
        keys.int("evict", &mut self.wakes.evict)
    }

    fn check(&self, trial: &Trial) -> Result<(), WireError> {
        let (wakes, memory) = (&self.wakes, &trial.memory);
        memory.check_packed()?;
        self.walk.check(memory, 1)?;
        within("every_ns", wakes.every_ns, EVERY_NS.0, EVERY_NS.1)?;
        within("priority", wakes.priority, 0, MAX_PRIORITY)?;
        if wakes.timerlat && (wakes.traced || wakes.flushed || wakes.evict > 0) {
            return wrong(
                "timerlat=1 measures a kernel thread, so traced=, flushed= and evict= are not possible"
                    .into(),
            );
        }
        if wakes.evict > MAX_BYTES || !wakes.evict.is_multiple_of(memory.stride) {
            let (evict, stride) = (wakes.evict, memory.stride);
            return wrong(format!("evict={evict} must be a multiple of stride={stride} up to {MAX_BYTES}"));
        }
        self.check_series(trial)
    }

    fn extent(&self, trial: &Trial, _: u64) -> Option<u64> {
        trial.memory.cells().checked_mul(trial.memory.stride)?.checked_add(self.wakes.evict)
    }

    fn chain(&self, trial: &Trial, _: u64, base: u64, _: u64) -> Option<Chain> {
        Some(self.chain_at(trial, base))
    }

    fn walk(&self) -> Walk {
        self.walk
    }

    fn work(&self, trial: &Trial) -> Work {
        let each = trial.loads + self.wakes.evict / trial.memory.stride;
        Work::Wakes { count: trial.samples + trial.warm, every_ns: self.wakes.every_ns, each }
    }

    /// Makes `warm` activations that do not count, then `samples` that do.
    ///
    /// Each sleeps until an absolute time on a grid of periods, so that lateness does not accumulate. It reads the
    /// clock when it runs, walks `loads` cells of its working set and reads the clock again. The loop allocates nothing
    /// and writes only to rows that were allocated before.
    fn run<M: Machine>(&self, machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
        let wakes = &self.wakes;
        if wakes.timerlat {
            return of_kernel(machine, wakes, trial);
        }
        let (task, page_bytes) = prepare(self, machine, trial)?;
        // A row that is not 0 forces the memory to be written before the loop.
        let mut rows = vec![ActivationRow { user_ns: 1, ..ActivationRow::default() }; trial.samples as usize];
        let now = machine.wake_begin(wakes, trial.warm + trial.samples)?;
        let first = series(machine, (wakes, trial), &task, now, &mut rows);
        let traced = machine.wake_end();
        let first = first?;
        let traced = traced?;
        let times = join(&mut rows, first, wakes.every_ns, &traced);
        let events = events_near_delayed(machine, &rows, &times);
        let activations =
            ActivationRows { trial: trial.id, first_ns: Some(first), lost: traced.lost, list: rows };
        Ok(TrialOutput::of(Rows::Wakes(activations, events), page_bytes, task.base))
    }

    /// Checks that the places of an activation are in order, and that its walk ended where its loads lead (a kernel
    /// thread walks nothing). None is verified if the series took less than its periods (`wall_ns` of the whole trial).
    fn verify(&self, trial: &Trial, rows: &Rows, done: &Done) -> Vec<usize> {
        let Rows::Wakes(activations, _) = rows else { return rows.all() };
        let list = activations.list.as_slice();
        let periods_of = |w: &ActivationRow| w.missed.saturating_add(w.skipped).saturating_add(1);
        let periods = list.iter().skip(1).fold(trial.warm, |sum, w| sum.saturating_add(periods_of(w)));
        if done.watch.wall_ns < periods.saturating_mul(self.wakes.every_ns) {
            return rows.all();
        }
        let chain = self.chain_at(trial, 0);
        let ordered = |w: &ActivationRow| {
            let places = [w.irq_ns, w.wake_ns, w.switch_ns, Some(w.user_ns), Some(w.work_ns)];
            places.into_iter().flatten().is_sorted()
        };
        let position = |i: usize| trial.loads.wrapping_mul(trial.warm.wrapping_add(i as u64 + 1));
        let walked = |i: usize| self.wakes.timerlat || list[i].end == chain.cell_at(position(i));
        let verified = |i: usize| ordered(&list[i]) && walked(i);
        (0..list.len()).filter(|&i| !verified(i)).collect()
    }
}

/// Measures the kernel's thread: another thread waits, and nothing is walked.
fn of_kernel<M: Machine>(machine: &mut M, wakes: &Wakes, trial: &Trial) -> Result<TrialOutput, Refusal> {
    let (rows, lost) = machine.timerlat(wakes, trial.warm + trial.samples)?;
    let mut list: Vec<ActivationRow> =
        rows.into_iter().skip(trial.warm as usize).take(trial.samples as usize).collect();
    if let Some(first) = list.first_mut() {
        (first.missed, first.skipped) = (0, 0);
    }
    let activations = ActivationRows { trial: trial.id, first_ns: None, lost, list };
    Ok(TrialOutput::of(Rows::Wakes(activations, Vec::new()), 0, 0))
}

/// Maps and initialises the chain that an activation walks, and after it the buffer that is swept.
fn prepare<M: Machine>(wake: &Wake, machine: &mut M, trial: &Trial) -> Result<(Task, u64), Refusal> {
    let Memory { stride, .. } = trial.memory;
    let mapping = machine.map(&trial.request(1))?;
    let chain = wake.chain_at(trial, mapping.base);
    machine.initialise(&chain)?;
    let sweep = Sweep {
        base: mapping.base + trial.memory.cells() * stride,
        stride,
        cells: wake.wakes.evict / stride,
        operation: Operation::Read,
    };
    let evict = (sweep.cells > 0).then_some(sweep);
    if let Some(sweep) = &evict {
        machine.initialise_sweep(sweep, trial.seed)?;
    }
    Ok((Task { chain, evict, base: mapping.base }, mapping.page_bytes))
}

/// Runs the series and returns the time for which the first counted activation was set.
fn series<M: Machine>(
    machine: &mut M,
    (wakes, trial): (&Wakes, &Trial),
    task: &Task,
    now: u64,
    rows: &mut [ActivationRow],
) -> Result<u64, Refusal> {
    let lost = || Refusal::new("a cell of the chain is outside the mapping", "");
    let period = wakes.every_ns;
    let mut cell = machine.cell(task.chain.at(0)).ok_or_else(lost)?;
    let mut at = now + period.max(FIRST_NS);
    let (mut missed, mut skipped, mut involuntary) = (0, 0, 0);
    let mut first = at;
    for i in 0..trial.warm + trial.samples {
        let awake = machine.wake_at(at)?;
        cell = machine.chase(cell, trial.loads);
        let done = machine.wake_now();
        if let Some(row) = i.checked_sub(trial.warm).and_then(|i| rows.get_mut(i as usize)) {
            *row = ActivationRow {
                missed,
                skipped,
                user_ns: awake.now_ns.saturating_sub(at),
                work_ns: done.saturating_sub(at),
                end: task.chain.number_at(machine.offset(cell)).ok_or_else(lost)?,
                cpu: awake.cpu,
                involuntary: awake.involuntary.saturating_sub(involuntary),
                ..ActivationRow::default()
            };
            if i == trial.warm {
                (row.missed, row.skipped, first) = (0, 0, at);
            }
        }
        involuntary = awake.involuntary;
        missed = done.saturating_sub(at) / period;
        at += (missed + 1) * period;
        evict(machine, (wakes, trial), task)?;
        // The preparation may have taken longer than the rest of the period. That is not a missed period.
        skipped = machine.wake_now().checked_sub(at).map_or(0, |late| late / period + 1);
        at += skipped * period;
    }
    Ok(first)
}

/// Flushes or evicts cache lines before a sleep, as requested.
#[inline(always)]
fn evict<M: Machine>(machine: &mut M, (wakes, trial): (&Wakes, &Trial), task: &Task) -> Result<(), Refusal> {
    if let Some(sweep) = &task.evict {
        let outside = || Refusal::new("the sweep reaches outside the mapped memory", "request fewer bytes");
        machine.sweep(sweep, 0, sweep.cells).ok_or_else(outside)?;
    }
    if wakes.flushed {
        machine.clean_invalidate(task.base, trial.memory.cells() * trial.memory.stride)?;
    }
    Ok(())
}

/// Adds the traced timestamps to each activation, matched by the time for which it was set, and returns these times.
fn join(rows: &mut [ActivationRow], first: u64, every: u64, traced: &ActivationTrace) -> Vec<u64> {
    let mut at = first;
    let mut times = Vec::with_capacity(rows.len());
    for (i, row) in rows.iter_mut().enumerate() {
        if i > 0 {
            at += (1 + row.missed + row.skipped) * every;
        }
        times.push(at);
        if let Ok(found) = traced.places.binary_search_by_key(&at, |places| places.expires_ns) {
            let Places { irq_ns, wake_ns, switch_ns, .. } = traced.places[found];
            // If the tracer missed the task's own switch, a later one does not belong to this activation.
            let late = row.user_ns;
            let after = |place: Option<u64>| place.and_then(|ns| ns.checked_sub(at)).filter(|ns| *ns <= late);
            (row.irq_ns, row.wake_ns, row.switch_ns) = (after(irq_ns), after(wake_ns), after(switch_ns));
        }
    }
    times
}

/// Returns the events near the most delayed activations, between the timer's expiry and the time at which the task ran.
/// The task that had the CPU before is reported at the time of the expiry.
fn events_near_delayed<M: Machine>(
    machine: &mut M,
    rows: &[ActivationRow],
    times: &[u64],
) -> Vec<NearbyEvent> {
    let mut worst: Vec<usize> = (0..rows.len()).collect();
    worst.sort_by_key(|&i| core::cmp::Reverse(rows[i].user_ns));
    worst.truncate(MAX_LATE_ACTIVATIONS);
    worst.sort_unstable();
    let mut all = Vec::new();
    for i in worst {
        let at = times[i];
        let events = machine.wake_around(at, at + rows[i].user_ns, MAX_EVENTS);
        let nearby = |event: Event| NearbyEvent {
            nth: i as u64,
            at_ns: event.at_ns.saturating_sub(at),
            what: event.what,
        };
        all.extend(events.into_iter().map(nearby));
    }
    all
}

#[cfg(test)]
mod tests;
