//! [`Host`]: the probe's [`fathom_probe::machine::Machine`] for Linux.
//!
//! It measures on one pinned thread, on all architectures with the same code; architecture-specific code is in
//! `arch`. Each `unsafe` block states why it is sound. The argument for the cells is at the head of `arena.rs`.
#![cfg(target_os = "linux")]

mod arch;
mod arena;
#[cfg(test)]
mod cases;
mod clock;
mod clock_trust;
mod command_memory;
mod core_pmus;
mod core_types;
mod counters;
mod cpu_lock;
mod cycles;
mod driver;
mod driver_buffer;
mod environment;
mod facts;
mod first_run;
#[cfg(test)]
mod fixture;
mod host;
mod identify;
mod memory;
mod memory_events;
mod memory_limit;
mod options;
mod owner;
mod pages;
mod perf;
mod placement;
mod process;
mod procfs;
mod program_counters;
mod program_samples;
mod psi;
mod reaper;
mod redact;
mod resctrl;
mod rt_priority;
mod spe;
mod stress;
mod supervisor;
mod trace;
mod wake;
mod watch;

use std::io;

use fathom_probe::serve::Lines;

pub use arch::{PROGRAM, PROGRAMS, Program, Registers};
pub use arena::HostCell;
pub use command_memory::command_memory_limit;
pub use core_types::{CoreType, core_types};
pub use cpu_lock::LockOptions;
pub use host::Host;
pub use memory_events::{MemoryEvent, memory_events};
pub use memory_limit::MemoryLimit;
pub use options::Options;
pub use perf::Pace;
pub use process::end_with_this_thread;
pub use program_counters::{
    EventRefusal, KERNEL_EVENTS, PROGRAM_EVENTS, ProgramCount, ProgramCounters, ProgramCounting,
    ProgramEvent, ProgramUsage,
};
pub use program_samples::{
    Callers, DataSource, Gap, ProgramSampling, Sampled, SampledAccess, SampledBy, SampledEvent, SampledPmu,
    Stack, StackMemory, mapped,
};
pub use reaper::run_reaper;
pub use spe::{SpeClock, SpeRecord, SpeTrace, read_spe};
pub use stress::{WorkerOptions, run_worker};

/// Serves `host` on `lines` until `bye` or the end of the input. The loops over memory are compiled here, as this crate is
/// optimised, and not where `lines` is known.
///
/// # Errors
/// When the stream fails.
pub fn serve(host: &mut Host, mut lines: &mut dyn Lines<Error = io::Error>) -> io::Result<()> {
    fathom_probe::serve::serve(host, &mut lines)
}

/// Removes what killed probes left behind: trace instances and resctrl groups. Returns their names. The kernel has
/// already removed everything else of those processes.
#[must_use]
pub fn remove_leftovers() -> Vec<String> {
    let root = procfs::Root::system();
    [trace::remove_stale(&root), resctrl::remove_stale(&root)].concat()
}
