//! Process of a worker, from its first instruction to the signal that ends it.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering;

use fathom_probe::load::Load;

use super::passes::prepare;
use super::slots::{self, Slot, Slots, Tally};
use super::task::{Stage, WorkerError, WorkerOptions};
use crate::process::{self, set_affinity};
use crate::procfs::Root;
use crate::rt_priority;

/// Does a worker's work, with the probe's slots as standard input, until it is killed. Returns only on failure, with
/// the reason.
#[must_use]
pub fn run_worker(options: &WorkerOptions) -> String {
    let slots = match Slots::of(io::stdin().as_fd()) {
        Ok(slots) => slots,
        Err(e) => {
            return format!("only a probe can start a worker, with shared memory as standard input ({e})");
        }
    };
    let Some(slot) = slots.workers().get(options.slot) else {
        return format!("the shared memory has no slot {}", options.slot);
    };
    let Err(error) = run_passes(options, &slots, slot);
    error.report(slot);
    format!("the worker {} {error}", Load { stressors: vec![options.stressor] })
}

fn run_passes(
    options: &WorkerOptions,
    slots: &Slots,
    slot: &Slot,
) -> Result<std::convert::Infallible, WorkerError> {
    signal_on_probe_end(options.parent)?;
    set_ordinary(options)?;
    let mut work = prepare(options)?;
    slot.state.store(slots::READY, Ordering::Release);
    slots.wait();
    let mut tally = Tally::new(slot);
    // Excludes the faults of the preparation from the load.
    tally.publish();
    slot.state.store(slots::WORKING, Ordering::Release);
    loop {
        work.pass(&mut tally)?;
    }
}

/// Requests to be killed with the probe; a worker without that must not begin.
fn signal_on_probe_end(parent: u32) -> Result<(), WorkerError> {
    match process::signal_on_parent_end(Some(parent)) {
        Ok(outcome) => outcome.map_err(|e| WorkerError::new(Stage::Parent, &e.into())),
        Err(_) => Err(WorkerError { stage: Stage::Parent, errno: 0 }),
    }
}

/// Makes the worker the first to be killed when memory runs out, without priority, on the load's CPUs, regardless of
/// the probe's settings.
fn set_ordinary(options: &WorkerOptions) -> Result<(), WorkerError> {
    // The probe's own fact reports the result: what fails here failed there.
    process::raise_oom_score(&Root::system());
    let failed = |e: io::Error| WorkerError::new(Stage::Priority, &e);
    rt_priority::set_ordinary().map_err(failed)?;
    set_affinity(&options.cpus).map_err(|e| failed(e.into()))?;
    // The name shows the load in traces and in `ps`. It has 15 bytes at most (prctl(2)).
    if let Ok(name) = std::ffi::CString::new(format!("fathom-{}", options.stressor.kind.token())) {
        let _ = rustix::thread::set_name(&name);
    }
    Ok(())
}
