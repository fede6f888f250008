//! What a trial will cost, so that a round never overruns its budget.

use fathom_probe::machine::Attribute;
use fathom_probe::pattern::{Loads, Trial, Work};

use crate::scale::At;

/// Estimates costs in a budget's coin: ns on hardware, accesses on a model.
pub(crate) struct Cost<'a> {
    pub(crate) modelled: bool,
    pub(crate) latency_curve: &'a [At],
}

/// ns a link to lay: two keyed permutation steps and a store, measured 10 to 30 ns on a 2 GHz guest.
const LAY_NS: f64 = 30.0;
/// ns a byte of first touch (a page fault and its zeroing, spread over the page), 0.1 to 0.3 there.
const TOUCH_NS: f64 = 0.2;
/// ns per trial beside its loads: two lines on a pipe, a mapping call, four readings of /proc.
const FIXED_NS: f64 = 150_000.0;

/// ns an access of a sweep, with its check: 1 to 2 on a 3 GHz guest.
const SWEEP_NS: f64 = 2.0;
/// ns an access that no cache serves: study S0 measured 162 for a load and a store.
const UNCACHED_NS: f64 = 160.0;
/// ns an access, a flush of its line and a barrier: 600 on a 2 GHz Sapphire Rapids guest.
const FLUSH_NS: f64 = 600.0;
/// The line that a sweep is reckoned to touch: the commonest.
const LINE: u64 = 64;

/// Bytes of which a first touch is paid once: the commonest page.
const PAGE: u64 = 4096;

/// What the pauses that the real-time throttle asks for add to a trial's time: 25 % there.
const QUIET: f64 = 1.25;

/// ns a reading of the clock: 20 to 40 where it is read in user space.
const READING_NS: u64 = 40;

/// What the engine of QEMU's edu device moves at a time, bytes: what an engine is reckoned to move whose limit is not
/// known.
const EDU_BYTES: u64 = 2048;
/// A transfer beside its bytes, ns: a system call, and buffers that are made and given back.
const TRANSFER_NS: f64 = 50_000.0;
/// Making, overwriting, copying and comparing a byte, ns: some five passes of a 2 GHz core.
const BYTE_NS: f64 = 5.0;
/// A load of a victim's walk, ns: a second level's.
const WALK_NS: f64 = 10.0;

/// What starting and ending the load of a series of wake-ups takes, ns: processes, and their first round. Some 25
/// workers on two 2 GHz CPUs are at work in 20 to 60 ms.
pub(crate) const WAKE_START_NS: u64 = 60_000_000;
/// Accesses that a wake-up takes on a model, beside what it walks: its path through the kernel, a few hundred lines.
const WAKE_PATH: u64 = 600;

impl Cost<'_> {
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
        match trial.work() {
            Work::Readings(_) | Work::Operations(_) | Work::FirstTouches { .. } if self.modelled => 0,
            Work::Readings(count) => READING_NS * count,
            Work::Operations(count) => count,
            Work::Loads(loads) if self.modelled => loads.count,
            Work::Loads(loads) => self.of_loads(&loads),
            Work::Sweep { timed, warm, each, .. } if self.modelled => {
                // A model warms line by line and neither pays for laying nor for the look at the end.
                (each as f64 * (timed as f64 + warm as f64 * a_line(trial))) as u64
            }
            Work::Sweep { timed, warm, passes, .. } => self.of_sweep(trial, timed + warm, passes),
            Work::FirstTouches { faults, passes } => of_touches(trial, faults, passes),
            Work::Wakes { count, each, .. } if self.modelled => count.saturating_mul(each + WAKE_PATH),
            Work::Wakes { count, every_ns, .. } => {
                let start = if trial.beside.load.is_none() { FIXED_NS as u64 } else { WAKE_START_NS };
                count.saturating_mul(every_ns).saturating_add(start)
            }
            Work::Transfers { .. } => self.of_transfers(trial, 0.0),
        }
    }

    fn of_loads(&self, loads: &Loads) -> u64 {
        let pages = if loads.one_per_page { 20.0 } else { 0.0 };
        let lay = loads.links as f64 * (LAY_NS + pages) + loads.fresh as f64 * TOUCH_NS;
        (QUIET * (FIXED_NS + lay + loads.count as f64 * (self.latency(loads.bytes) + pages))) as u64
    }

    fn of_sweep(&self, trial: &Trial, accesses: u64, passes: u64) -> u64 {
        let memory = &trial.memory;
        let (cells, bytes) = (memory.cells() as f64, memory.bytes as f64);
        let lay = passes as f64 * cells * SWEEP_NS + bytes * TOUCH_NS;
        // Half: what the next access brings is under way before this one is there.
        let access = match (trial.controls.flush, memory.attribute) {
            (true, _) => FLUSH_NS,
            (_, Attribute::WriteBack) if trial.controls.mair.is_none() => {
                SWEEP_NS + a_line(trial) * self.latency(memory.bytes) / 2.0
            }
            _ => SWEEP_NS + UNCACHED_NS,
        };
        (QUIET * (FIXED_NS + lay + accesses as f64 * access)) as u64
    }

    /// The same of a trial of transfers, whose engine takes `chunk_ns` for one of its own; 0 of any other.
    pub(crate) fn of_transfers(&self, trial: &Trial, chunk_ns: f64) -> u64 {
        let Work::Transfers { count, copies, walked } = trial.work() else { return 0 };
        let bytes = trial.memory.bytes;
        if self.modelled {
            // Words made or taken, and half as many pairs loaded and as many stored.
            let copy = if copies { bytes / 8 } else { 0 };
            return count * (bytes / 8 + copy + walked);
        }
        let chunks = bytes.div_ceil(EDU_BYTES) as f64;
        let lines = bytes.div_ceil(LINE) as f64;
        let flushes = if trial.controls.flush { 2.0 * lines * FLUSH_NS } else { 0.0 };
        // Each chunk is moved twice: what arrived is looked at.
        let moved = bytes as f64 * BYTE_NS + 2.0 * chunks * chunk_ns;
        (count as f64 * (TRANSFER_NS + moved + flushes + walked as f64 * WALK_NS)) as u64
    }
}

/// Lines that an access of a sweep touches.
fn a_line(trial: &Trial) -> f64 {
    trial.memory.stride.min(LINE) as f64 / LINE as f64
}

/// First touches: a lap a sample, its faults, and a look at what was left. A model refuses them.
fn of_touches(trial: &Trial, faults: u64, passes: u64) -> u64 {
    let memory = &trial.memory;
    let lap = memory.cells() as f64 * SWEEP_NS;
    let touched = (memory.cells() * memory.stride.min(PAGE)) as f64;
    let sample = (1.0 + passes as f64) * lap + faults as f64 * touched * TOUCH_NS;
    (QUIET * (FIXED_NS + memory.bytes as f64 * TOUCH_NS + trial.samples as f64 * sample)) as u64
}
