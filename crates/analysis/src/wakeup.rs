//! Wake-up latency: statistics of the activations of a periodic task.
//!
//! Latencies are in microseconds, in the order of activation, each with the number of its period. One module per
//! analysis: [`summary`] (percentiles, refused if there are too few samples), [`extremes`] (the latency exceeded once
//! per hour), [`changepoint`] (the size at which latency changes), [`cadence`] (periods of recurring late activations),
//! [`stages`] (where the worst activations lost their time) and [`factorial`] (the cost of each single factor).
//! Everything random takes a seed.

pub mod cadence;
pub mod changepoint;
pub mod extremes;
pub mod factorial;
mod random;
pub mod stages;
pub mod summary;

/// An activation of a periodic task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Activation {
    /// Number of its period, counted from any start; skipped numbers were missed.
    pub period: u64,
    /// Wake-up latency in us; may be negative if it is corrected for gravity.
    pub us: f64,
}

#[cfg(test)]
mod tests;
