//! One file a question: about, plan, reading.
//!
//! An experiment's plan is a pure function of the record so far, a seed and a budget; its reading is a
//! pure function of the record. So anything can be judged again years later, from the file alone.
#![forbid(unsafe_code)]

mod asked;
pub mod budget;
pub mod cacheability;
mod clock;
mod common;
pub mod conflict;
pub mod disturbance;
pub mod dma;
pub mod doctor;
mod environment;
mod geometry;
pub mod latency;
pub mod pressure;
mod reading;
pub mod record;
pub mod session;
pub mod stride;
pub mod survey;

pub use asked::asked_differently;
pub use reading::WARNINGS;

/// Reads a record by the experiment that made it. Records of an experiment that this version does not know
/// are read as a survey: what it recognises in them it shows.
#[must_use]
pub fn read(record: &record::Record) -> fathom_analysis::findings::Report {
    match record.run.as_ref().map(|run| run.experiment.as_str()) {
        Some(latency::NAME) => latency::read(record),
        Some(stride::NAME) => stride::read(record),
        Some(conflict::NAME) => conflict::read(record),
        Some(cacheability::NAME) => cacheability::read(record),
        Some(dma::NAME) => dma::read(record),
        Some(pressure::NAME) => pressure::read(record),
        _ => survey::read(record),
    }
}
