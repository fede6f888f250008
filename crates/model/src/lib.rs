//! The simulated machine of a description: cache levels, TLBs, memory, wake-ups, loads and DMA. Deterministic.
//!
//! [`description`] parses a description, [`catalog`] contains the embedded ones, and [`Model`] runs one: as a
//! [`Machine`](fathom_probe::machine::Machine) under the probe, or address by address for traces.
#![forbid(unsafe_code)]

mod arena;
mod cache;
pub mod catalog;
pub mod description;
pub mod expected;
mod frames;
mod hierarchy;
mod machine;
mod memory;
mod model;
mod overlap;
mod prefetch;
mod rng;
mod time;
mod translate;
mod uncached;

use std::io;

use fathom_probe::serve::Lines;

pub use description::{Description, DescriptionError};
pub use hierarchy::{Event, Loss, Sharing};
pub use machine::Cell;
pub use model::{
    Access, Detail, GUEST_BATCH, GUEST_PAGE, GuestTranslation, Kind, LevelTotals, Model, Outcome, Totals,
    Traced,
};
pub use overlap::Overlap;
pub use time::UNITS_PER_CYCLE;
pub use translate::Translation;

/// Serves `model` on `lines` until `bye` or the end of the input. The loops over memory are compiled here, as this crate is
/// optimised, and not where `lines` is known.
///
/// # Errors
/// When the stream fails.
pub fn serve(model: &mut Model, mut lines: &mut dyn Lines<Error = io::Error>) -> io::Result<()> {
    fathom_probe::serve::serve(model, &mut lines)
}
