//! Machine for Linux: mappings, pages, clocks, counters, disturbance.
//!
//! [`Host`] is a [`fathom_probe::machine::Machine`] over one pinned Linux thread, on x86-64 and AArch64 in
//! one code path. The only crate with `unsafe`: the argument for the cells is at the head of `arena.rs`.
#![cfg(target_os = "linux")]

mod arena;
mod ceiling;
mod clock;
mod counters;
mod environment;
mod facts;
#[cfg(test)]
mod fixture;
mod host;
mod identify;
mod lent;
mod memory;
mod pages;
mod placement;
mod process;
mod quiet;
mod read;
mod redact;
mod room;
mod trace;
mod wake;
mod watch;
mod wide;
mod worth;

pub use arena::HostCell;
pub use host::{Host, Options};
pub use room::{Room, room};
