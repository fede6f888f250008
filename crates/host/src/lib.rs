//! Machine for Linux: mappings, pages, clocks, counters, disturbance.
//!
//! [`Host`] is a [`fathom_probe::machine::Machine`] over one pinned Linux thread, on x86-64 and AArch64 in
//! one code path. The only crate with `unsafe`: the argument for the cells is at the head of `arena.rs`.
#![cfg(target_os = "linux")]

mod arena;
mod ceiling;
mod clock;
mod counters;
mod cycles;
mod driver;
mod environment;
mod facts;
#[cfg(test)]
mod fixture;
mod host;
mod identify;
mod keeper;
mod lent;
mod lookout;
mod memory;
mod owner;
mod pages;
mod placement;
mod process;
mod quiet;
mod read;
mod redact;
mod resctrl;
mod room;
mod stalls;
mod stress;
mod trace;
mod wake;
mod watch;
mod wide;
mod worth;

pub use arena::HostCell;
pub use host::{Host, Options};
pub use keeper::keep;
pub use room::{Room, room};
pub use stress::{Orders, work};

/// Removes what killed probes left: trace instances and groups of the resource control; their names. What else they
/// were, the kernel has removed with them.
#[must_use]
pub fn restore() -> Vec<String> {
    let root = read::Root::system();
    [trace::sweep(&root), resctrl::sweep(&root)].concat()
}
