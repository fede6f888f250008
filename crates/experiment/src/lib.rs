//! One file a question: about, plan, reading.
//!
//! An experiment's plan is a pure function of the record so far, a seed and a budget; its reading is a
//! pure function of the record. So anything can be judged again years later, from the file alone.
#![forbid(unsafe_code)]

pub mod budget;
pub mod disturbance;
pub mod record;
pub mod session;
pub mod survey;
