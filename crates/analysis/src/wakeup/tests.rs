//! The rooms of wake-up latency, held against truth that was made up.

mod cadence;
mod changepoint;
mod extremes;
mod factorial;
mod stages;
mod summary;
mod synthetic;
