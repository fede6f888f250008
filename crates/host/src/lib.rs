//! Machine for Linux: mappings, pages, clocks, counters, disturbance.
//!
//! [`Host`] is a [`fathom_probe::machine::Machine`] over one pinned Linux thread, on x86-64 and AArch64 in
//! one code path; what differs between them is below `arch`. Some of it is `unsafe`, each block with its
//! argument; the argument for the cells is at the head of `arena.rs`.
#![cfg(target_os = "linux")]

mod arch;
mod arena;
mod ceiling;
mod clock;
mod clock_trust;
mod counters;
mod cycles;
mod driver;
mod driver_buffer;
mod environment;
mod facts;
#[cfg(test)]
mod fixture;
mod host;
mod identify;
mod memory;
mod memory_budget;
mod options;
mod owner;
mod pages;
mod placement;
mod process;
mod quiet;
mod read;
mod reaper;
mod redact;
mod resctrl;
mod stalls;
mod stress;
mod supervisor;
mod trace;
mod wake;
mod watch;

pub use arch::{PROGRAM, PROGRAMS, Program};
pub use arena::HostCell;
pub use host::Host;
pub use memory_budget::{MemoryBudget, memory_budget};
pub use options::Options;
pub use reaper::keep;
pub use stress::{WorkerOptions, work};

/// Removes what killed probes left: trace instances and groups of the resource control; their names. What else they
/// were, the kernel has removed with them.
#[must_use]
pub fn restore() -> Vec<String> {
    let root = read::Root::system();
    [trace::sweep(&root), resctrl::sweep(&root)].concat()
}
