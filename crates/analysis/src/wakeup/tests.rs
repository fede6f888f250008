//! Tests of the modules of wake-up latency against simulated data.

mod cadence;
mod extremes;
mod factorial;
mod inflection;
mod stages;
mod summary;
mod synthetic;
