//! Analysis of measurements: intervals, tiers, claims, findings. No I/O, and no dependence on probes, the wire format
//! or files.
#![forbid(unsafe_code)]

pub mod against;
pub mod attribute;
pub mod claims;
pub mod compare;
pub mod crossover;
pub mod draft;
pub mod examination;
pub mod explained;
pub mod facts;
pub mod findings;
pub mod hierarchy;
pub mod histogram;
pub mod import;
pub mod interval;
pub mod metrics;
pub mod overlap;
pub mod pages;
pub mod replacement;
#[cfg(test)]
mod seeds;
pub mod sensitivity;
pub mod sets;
pub mod tiers;
pub mod wakeup;
pub mod window;
