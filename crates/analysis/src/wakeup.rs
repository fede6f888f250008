//! Wake-up latency: what the activations of a periodic task say.
//!
//! Latencies come as microseconds in the order of activation, each with the number of its period. One room a
//! question: [`summary`] (percentiles that are refused where the samples do not carry them), [`extremes`] (how
//! late once an hour), [`changepoint`] (at which size it changes), [`cadence`] (what comes back periodically),
//! [`stages`] (where the worst went) and [`factorial`] (which pure factor costs how much). Whatever needs chance
//! takes a seed.

pub mod cadence;
pub mod changepoint;
pub mod extremes;
pub mod factorial;
mod random;
pub mod stages;
pub mod summary;

/// One activation of a periodic task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Activation {
    /// The number of its period, counted from any start; what is skipped was missed.
    pub period: u64,
    /// Wake-up latency in us; may be negative where it is corrected for gravity.
    pub us: f64,
}

#[cfg(test)]
mod tests;
