//! Experiments: one module a question, with its plan and its reading; and what they share: the record, the
//! session, budgets, disturbance.
//!
//! An experiment's plan is a pure function of the record so far, a seed and a budget; its reading is a
//! pure function of the record. So anything can be judged again years later, from the file alone.
#![forbid(unsafe_code)]

mod bounds;
pub mod budget;
pub mod cacheability;
mod claims;
mod clock;
mod common;
pub mod conflict;
pub mod disturbance;
pub mod dma;
pub mod doctor;
mod environment;
mod geometry;
mod headline;
pub mod latency;
mod latency_curve;
mod machine_row;
mod options;
mod prefetch;
mod reading;
pub mod record;
pub mod report_kinds;
pub mod session;
pub mod stride;
pub mod survey;
pub mod wakeup;

pub use machine_row::MACHINE_COLUMNS;
pub use options::option_differences;
pub use reading::WARNINGS;

/// Reads a record by the experiment that made it. Records of an experiment that this version does not know
/// are read as a survey: what it recognises in them it shows. A time below zero and a share outside of 0 to 1 are
/// refused.
#[must_use]
pub fn read(record: &record::Record) -> fathom_analysis::findings::Report {
    let mut report = match record.run.as_ref().map(|run| run.experiment.as_str()) {
        Some(latency::NAME) => latency::read(record),
        Some(stride::NAME) => stride::read(record),
        Some(conflict::NAME) => conflict::read(record),
        Some(cacheability::NAME) => cacheability::read(record),
        Some(dma::NAME) => dma::read(record),
        Some(wakeup::NAME) => wakeup::read(record),
        _ => survey::read(record),
    };
    bounds::refuse_impossible(&mut report);
    report
}
