//! Estimates the cost of trials, so that a round does not exceed its budget.

use fathom_probe::machine::Attribute;
use fathom_probe::pattern::{Loads, Trial, Work};

use crate::scale::At;

/// Estimates costs in the budget's unit: ns on hardware, accesses on a model.
pub(crate) struct Cost<'a> {
    pub(crate) modelled: bool,
    pub(crate) latency_curve: &'a [At],
}

/// ns per chain link to initialise: two keyed permutation steps and a store. Measured: 10 to 30 ns on a 2 GHz guest.
const LINK_NS: f64 = 30.0;
/// ns per byte of first touch (a page fault and its zeroing, spread over the page). Measured: 0.1 to 0.3 on the same
/// guest.
const TOUCH_NS: f64 = 0.2;
/// ns per trial in addition to its loads: two lines on a pipe, a mapping call, four readings of /proc.
const FIXED_NS: f64 = 150_000.0;

/// ns per access of a sweep, with its check: 1 to 2 on a 3 GHz guest.
const SWEEP_NS: f64 = 2.0;
/// ns per access that no cache serves: study S0 measured 162 for a load and a store.
const UNCACHED_NS: f64 = 160.0;
/// ns per access with a flush of its line and a barrier: 600 on a 2 GHz Sapphire Rapids guest.
const FLUSH_NS: f64 = 600.0;
/// Assumed line size of a sweep, bytes: the most common one.
const LINE: u64 = 64;

/// Bytes per page fault of a first touch: the most common page size.
const PAGE: u64 = 4096;

/// Factor for the pauses of the real-time throttle: they add 25 % to a trial's time.
const PAUSE_FACTOR: f64 = 1.25;

/// ns per reading of the clock: 20 to 40 if it is read in user space.
const READING_NS: u64 = 40;

/// Bytes per operation of the engine of QEMU's edu device. Also assumed for an engine whose limit is unknown.
const EDU_BYTES: u64 = 2048;
/// ns per transfer in addition to its bytes: a system call, and allocating and freeing the buffers.
const TRANSFER_NS: f64 = 50_000.0;
/// ns per byte to create, overwrite, copy and compare: about five passes of a 2 GHz core.
const BYTE_NS: f64 = 5.0;
/// ns per load of a walk over the pollution set: that of a second-level cache.
const WALK_NS: f64 = 10.0;

/// ns to start and end the load of a series of wake-ups: processes and their first round. About 25 workers on two 2 GHz
/// CPUs are running after 20 to 60 ms.
pub(crate) const WAKE_START_NS: u64 = 60_000_000;
/// Accesses per wake-up on a model, in addition to those of its working set: its path through the kernel, a few hundred
/// lines.
const WAKE_PATH: u64 = 600;

impl Cost<'_> {
    /// Returns the latency at a working set, ns: of the nearest larger measured point, or from a pessimistic table.
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

    /// Returns the cost of one trial.
    pub(crate) fn of(&self, trial: &Trial) -> u64 {
        match trial.work() {
            Work::Readings(_) | Work::Operations(_) | Work::FirstTouches { .. } if self.modelled => 0,
            Work::Readings(count) => READING_NS * count,
            Work::Operations(count) => count,
            Work::Loads(loads) if self.modelled => loads.count,
            Work::Loads(loads) => self.of_loads(&loads),
            Work::Sweep { timed, warm, each, .. } if self.modelled => {
                // A model warms line by line. It is charged neither for initialising nor for checking the end.
                (each as f64 * (timed as f64 + warm as f64 * lines_per_access(trial))) as u64
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
        let initialise = loads.links as f64 * (LINK_NS + pages) + loads.fresh as f64 * TOUCH_NS;
        (PAUSE_FACTOR * (FIXED_NS + initialise + loads.count as f64 * (self.latency(loads.bytes) + pages)))
            as u64
    }

    fn of_sweep(&self, trial: &Trial, accesses: u64, passes: u64) -> u64 {
        let memory = &trial.memory;
        let (cells, bytes) = (memory.cells() as f64, memory.bytes as f64);
        let initialise = passes as f64 * cells * SWEEP_NS + bytes * TOUCH_NS;
        // Half: the next access overlaps with this one.
        let access = match (trial.controls.flush, memory.attribute) {
            (true, _) => FLUSH_NS,
            (_, Attribute::WriteBack) if trial.controls.mair.is_none() => {
                SWEEP_NS + lines_per_access(trial) * self.latency(memory.bytes) / 2.0
            }
            _ => SWEEP_NS + UNCACHED_NS,
        };
        (PAUSE_FACTOR * (FIXED_NS + initialise + accesses as f64 * access)) as u64
    }

    /// Returns the cost of a trial of transfers, whose engine takes `chunk_ns` per operation; 0 for any other trial.
    pub(crate) fn of_transfers(&self, trial: &Trial, chunk_ns: f64) -> u64 {
        let Work::Transfers { count, copies, walked } = trial.work() else { return 0 };
        let bytes = trial.memory.bytes;
        if self.modelled {
            // Words written or read, and half as many pairs loaded and as many stored.
            let copy = if copies { bytes / 8 } else { 0 };
            return count * (bytes / 8 + copy + walked);
        }
        let chunks = bytes.div_ceil(EDU_BYTES) as f64;
        let lines = bytes.div_ceil(LINE) as f64;
        let flushes = if trial.controls.flush { 2.0 * lines * FLUSH_NS } else { 0.0 };
        // Each chunk is moved twice: the delivered data are checked.
        let moved = bytes as f64 * BYTE_NS + 2.0 * chunks * chunk_ns;
        (count as f64 * (TRANSFER_NS + moved + flushes + walked as f64 * WALK_NS)) as u64
    }
}

/// Returns the lines that an access of a sweep touches.
fn lines_per_access(trial: &Trial) -> f64 {
    trial.memory.stride.min(LINE) as f64 / LINE as f64
}

/// Returns the cost of first touches: a lap per sample, its faults, and a check of the result. A model refuses them.
fn of_touches(trial: &Trial, faults: u64, passes: u64) -> u64 {
    let memory = &trial.memory;
    let lap = memory.cells() as f64 * SWEEP_NS;
    let touched = (memory.cells() * memory.stride.min(PAGE)) as f64;
    let sample = (1.0 + passes as f64) * lap + faults as f64 * touched * TOUCH_NS;
    (PAUSE_FACTOR * (FIXED_NS + memory.bytes as f64 * TOUCH_NS + trial.samples as f64 * sample)) as u64
}
