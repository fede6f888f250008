//! A worker's process, from its first instruction to the signal that ends it.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering;

use fathom_probe::load::Load;

use super::rounds::prepare;
use super::slots::{self, Slot, Slots, Tally};
use super::task::{Stage, WorkerError, WorkerOptions};
use crate::process::{self, set_affinity};
use crate::procfs::Root;
use crate::rt_priority;

/// Does a worker's work, with the probe's slots as standard input, until it is killed. Returns only where it cannot,
/// and why.
#[must_use]
pub fn run_worker(options: &WorkerOptions) -> String {
    let slots = match Slots::of(io::stdin().as_fd()) {
        Ok(slots) => slots,
        Err(e) => {
            return format!("a worker is started by its probe, with its memory as standard input ({e})");
        }
    };
    let Some(slot) = slots.workers().get(options.slot) else {
        return format!("there is no slot {} in this memory", options.slot);
    };
    let Err(trouble) = rounds(options, &slots, slot);
    trouble.tell(slot);
    format!("the worker {} {trouble}", Load { stressors: vec![options.stressor] })
}

fn rounds(
    options: &WorkerOptions,
    slots: &Slots,
    slot: &Slot,
) -> Result<std::convert::Infallible, WorkerError> {
    end_with(options.parent)?;
    become_ordinary(options)?;
    let mut work = prepare(options)?;
    slot.state.store(slots::READY, Ordering::Release);
    slots.wait();
    let mut tally = Tally::new(slot);
    // What it cost to get here is no part of the load.
    tally.tell();
    slot.state.store(slots::WORKING, Ordering::Release);
    loop {
        work.round(&mut tally)?;
    }
}

/// A worker that the kernel does not kill with its probe must not begin.
fn end_with(parent: u32) -> Result<(), WorkerError> {
    match process::signal_on_parent_end(Some(parent)) {
        Ok(outcome) => outcome.map_err(|e| WorkerError::new(Stage::Parent, &e.into())),
        Err(_) => Err(WorkerError { stage: Stage::Parent, errno: 0 }),
    }
}

/// First to be killed when memory runs out, without priority, on the load's CPUs: whatever the probe is.
fn become_ordinary(options: &WorkerOptions) -> Result<(), WorkerError> {
    // What comes of it the probe's own fact tells: who may not raise this here could not there.
    process::raise_oom_score(&Root::system());
    let failed = |e: io::Error| WorkerError::new(Stage::Priority, &e);
    rt_priority::set_ordinary().map_err(failed)?;
    set_affinity(&options.cpus).map_err(|e| failed(e.into()))?;
    // Seen in traces and by `ps`: which load ran. A name has 15 bytes at most (prctl(2)).
    if let Ok(name) = std::ffi::CString::new(format!("fathom-{}", options.stressor.kind.token())) {
        let _ = rustix::thread::set_name(&name);
    }
    Ok(())
}
