//! Tests of the modules of wake-up latency against simulated data.

mod cadence;
mod changepoint;
mod extremes;
mod factorial;
mod stages;
mod summary;
mod synthetic;
