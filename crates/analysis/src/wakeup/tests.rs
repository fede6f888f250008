//! The rooms of wake-up latency, held against truth that was made up.

mod cadence;
mod extremes;
mod factorial;
mod inflection;
mod stages;
mod summary;
mod synthetic;
