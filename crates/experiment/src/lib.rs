//! One file a question: about, plan, reading.
//!
//! An experiment's plan is a pure function of the record so far, a seed and a budget; its reading is a
//! pure function of the record. So anything can be judged again years later, from the file alone.
#![forbid(unsafe_code)]

pub mod budget;
mod clock;
pub mod disturbance;
pub mod latency;
mod reading;
pub mod record;
pub mod session;
pub mod survey;

pub use reading::WARNINGS;

/// Reads a record by the experiment that made it. Records of an experiment that this version does not know
/// are read as a survey: what it recognises in them it shows.
#[must_use]
pub fn read(record: &record::Record) -> fathom_analysis::findings::Report {
    match record.run.as_ref().map(|run| run.experiment.as_str()) {
        Some(latency::NAME) => latency::read(record),
        _ => survey::read(record),
    }
}
