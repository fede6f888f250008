//! Conflict: how is each level built, and what does it cost when lines compete for a set?

mod colours;
mod plan;
mod reading;
mod study;

pub use plan::plan;
pub use reading::read;

/// The experiment's name.
pub const NAME: &str = "conflict";
