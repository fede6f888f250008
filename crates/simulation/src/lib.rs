//! Programs on described machines: a source of accesses (QEMU's plugin, a trace) passes batches of them to
//! [`Machines`], which answers each on every machine and counts by level, TLB and instruction.
//!
//! ```
//! use fathom_model::Access;
//! use fathom_simulation::{Machine, Machines};
//!
//! let text = fathom_model::catalog::text("bcm2837").expect("embedded");
//! let machine = Machine { name: "bcm2837".into(), text: text.into() };
//! let mut machines = Machines::new(&[machine], 1, 1, false)?;
//! // `pc` is the number of a place: an instruction of the program.
//! let batch: Vec<Access> = (0..4096).map(|n| Access::load(0x10000 + 8 * n, 8).at(0)).collect();
//! machines.run(0, batch);
//! let counts = machines.finish();
//! assert_eq!(counts[0].level_misses(1), 512);
//! # Ok::<(), String>(())
//! ```
//!
//! [`protocol`] is what the command and the plugin say to each other.
#![forbid(unsafe_code)]

mod allocators;
pub mod calls;
mod code;
mod counters;
mod counts;
mod entered;
mod heap;
mod machines;
mod notes;
pub mod origin;
pub mod protocol;
mod regions;
mod repeats;
mod simulator;
mod snapshot;
mod story;
mod turns;

pub use allocators::Allocator;
pub use code::{Code, NamedRange};
pub use counts::{
    CounterCounts, EntryTimes, KINDS, LevelCounts, LineCounts, MachineCounts, OverlapCounts, PairCounts,
    PlaceCounts, REASONS, Reason, RegionCounts, SharingCounts, Side, StoryCounts, TlbCounts,
};
pub use entered::{Entered, fetch_shift};
pub use heap::{HeapEvent, MAX_SITES, SiteCounts};
pub use machines::Machines;
pub use notes::{MarkedFile, Note};
pub use origin::Accessor;
pub use protocol::Machine;
pub use regions::{Event, MAX_REGIONS, Mark};
pub use repeats::Repeats;
pub use snapshot::{Snapshot, SnapshotCounts};
pub use turns::Turns;
