//! The metrics of every experiment, in display order.

pub mod cacheability;
pub mod claims;
pub mod common;
pub mod conflict;
pub mod count;
pub mod counted;
pub mod dma;
pub mod latency;
pub mod profile;
pub mod simulate;
pub mod stride;
pub mod survey;
pub mod wakeup;

use crate::findings::{Metric, Registry};

/// Every metric.
pub static REGISTRY: Registry = Registry::new(LISTS);

static LISTS: &[&[&Metric]] = &[
    common::ALL,
    latency::ALL,
    stride::ALL,
    cacheability::ALL,
    dma::ALL,
    survey::ALL,
    conflict::ALL,
    wakeup::ALL,
    simulate::ALL,
    count::ALL,
    profile::ALL,
    claims::ALL,
];

#[cfg(test)]
mod tests;
