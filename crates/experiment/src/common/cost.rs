//! What a trial will cost, so that a round never overruns its budget.

use fathom_probe::machine::{Attribute, Operation};
use fathom_probe::pattern::{OrderKind, PatternKind, Trial};

use super::scale::At;

/// Estimates costs in a budget's coin: ns on hardware, accesses on a model.
pub(crate) struct Cost<'a> {
    pub(crate) modelled: bool,
    pub(crate) latency_curve: &'a [At],
}

/// ns a link to lay: two keyed permutation steps and a store, measured 10 to 30 ns on a 2 GHz guest.
const LAY_NS: f64 = 30.0;
/// ns a byte of first touch (a page fault and its zeroing, spread over the page), 0.1 to 0.3 there.
const TOUCH_NS: f64 = 0.2;
/// ns a trial beside its loads: two lines on a pipe, a mapping call, four readings of /proc.
const FIXED_NS: f64 = 150_000.0;

/// ns an access of a sweep, with its check: 1 to 2 on a 3 GHz guest.
const SWEEP_NS: f64 = 2.0;
/// ns an access that no cache answers: study S0 measured 162 for a load and a store.
const UNCACHED_NS: f64 = 160.0;
/// ns an access, a flush of its line and a barrier: 600 on a 2 GHz Sapphire Rapids guest.
const FLUSH_NS: f64 = 600.0;
/// The line that a sweep is reckoned to touch: the commonest.
const LINE: u64 = 64;

/// Bytes of which a first touch is paid once: the commonest page.
const PAGE: u64 = 4096;

/// What the pauses that the real-time throttle asks for add to a trial's time: 25 % there.
const QUIET: f64 = 1.25;

/// What starting and ending the load of a series of wake-ups takes, ns: processes, and their first round. Some 25
/// workers on two 2 GHz CPUs are at work in 20 to 60 ms.
pub(crate) const WAKE_START_NS: u64 = 60_000_000;
/// Accesses that a wake-up takes on a model, beside what it walks: its path through the kernel, a few hundred lines.
const WAKE_PATH: u64 = 600;

impl Cost<'_> {
    fn of_wakes(&self, trial: &Trial) -> u64 {
        let wakes = trial.samples + trial.warm;
        if self.modelled {
            let evict = trial.wakes.evict / trial.memory.stride;
            return wakes.saturating_mul(trial.loads + evict + WAKE_PATH);
        }
        let start = if trial.beside.load.is_none() { FIXED_NS as u64 } else { WAKE_START_NS };
        wakes.saturating_mul(trial.wakes.every_ns).saturating_add(start)
    }

    /// Latency at a working set, ns: the nearest larger point measured, or a pessimist's table.
    fn latency(&self, bytes: u64) -> f64 {
        if let Some(at) = self.latency_curve.iter().find(|a| a.bytes >= bytes) {
            return at.time().max(0.5);
        }
        match bytes {
            0..=0x8000 => 3.0,
            0x8001..=0x20_0000 => 12.0,
            0x20_0001..=0x100_0000 => 60.0,
            _ => 160.0,
        }
    }

    /// The cost of one trial.
    pub(crate) fn of(&self, trial: &Trial) -> u64 {
        if matches!(trial.pattern, PatternKind::Stride | PatternKind::Copy) {
            return self.of_sweep(trial);
        }
        if trial.kind() == PatternKind::Wake {
            return self.of_wakes(trial);
        }
        let a_sample = match trial.pattern {
            PatternKind::Single => trial.loads + trial.timed,
            PatternKind::EvictionSet if !trial.sequence.timed().is_empty() => {
                let (lap, timed) = (trial.sequence.accesses().len(), trial.sequence.timed().len());
                lap as u64 / timed as u64
            }
            _ => 3 * trial.loads,
        };
        // What is walked once is laid and warmed for each sample.
        let anew = if trial.order == OrderKind::Repermuted { trial.samples } else { 1 };
        let loads = trial.warm * anew + a_sample * trial.samples;
        match trial.pattern {
            PatternKind::Clock | PatternKind::Alu if self.modelled => 0,
            _ if self.modelled => loads,
            PatternKind::Clock => 40 * (trial.loads + 2) * trial.samples,
            PatternKind::Alu => loads,
            _ => {
                let pages = if trial.kind() == PatternKind::Pages { 20.0 } else { 0.0 };
                let lay = (trial.memory.cells() * anew) as f64 * (LAY_NS + pages)
                    + trial.memory.bytes as f64 * TOUCH_NS;
                // Cells far apart are few lines, and what lies between them is touched once for all trials.
                let apart = trial.period > 0;
                let (bytes, lay) = if apart {
                    let cells = trial.memory.cells().max(trial.sequence.accesses().len() as u64);
                    (cells * LINE, cells as f64 * LAY_NS)
                } else {
                    (trial.memory.bytes, lay)
                };
                (QUIET * (FIXED_NS + lay + loads as f64 * (self.latency(bytes) + pages))) as u64
            }
        }
    }

    /// The same of a sweep. A model warms line by line and neither pays for laying nor for the look at the end.
    fn of_sweep(&self, trial: &Trial) -> u64 {
        let a_line = trial.memory.stride.min(LINE) as f64 / LINE as f64;
        let (timed, warm) = ((3 * trial.loads * trial.samples) as f64, trial.warm as f64);
        let each = match trial.operation {
            Operation::Rmw | Operation::CopyTo | Operation::CopyFrom => 2.0,
            _ => 1.0,
        };
        if trial.first_touch {
            return self.of_touches(trial);
        }
        if self.modelled {
            return (each * (timed + warm * a_line)) as u64;
        }
        let looks = if trial.operation == Operation::Read { 1.0 } else { 2.0 };
        let lay = looks * trial.memory.cells() as f64 * SWEEP_NS + trial.memory.bytes as f64 * TOUCH_NS;
        // Half: what the next access brings is under way before this one is there.
        let access = match (trial.controls.flush, trial.memory.attribute) {
            (true, _) => FLUSH_NS,
            (_, Attribute::WriteBack) if trial.controls.mair.is_none() => {
                SWEEP_NS + a_line * self.latency(trial.memory.bytes) / 2.0
            }
            _ => SWEEP_NS + UNCACHED_NS,
        };
        (QUIET * (FIXED_NS + lay + (timed + warm) * access)) as u64
    }

    /// The same of first touches: a lap a sample, twice as many faults where what is read is stored to, and a
    /// look at what was left. A model refuses them.
    fn of_touches(&self, trial: &Trial) -> u64 {
        if self.modelled {
            return 0;
        }
        let (touches, looks) = match trial.operation {
            Operation::Read => (1.0, 0.0),
            Operation::Rmw => (2.0, 1.0),
            _ => (1.0, 1.0),
        };
        let lap = trial.memory.cells() as f64 * SWEEP_NS;
        let touched = (trial.memory.cells() * trial.memory.stride.min(PAGE)) as f64;
        let sample = (1.0 + looks) * lap + touches * touched * TOUCH_NS;
        (QUIET * (FIXED_NS + trial.memory.bytes as f64 * TOUCH_NS + trial.samples as f64 * sample)) as u64
    }
}
