//! Machine for a description: levels, TLBs, memory; deterministic.
//!
//! [`description`] reads what a machine is said to be, [`catalog`] holds the machines that travel
//! with the program, and the model itself runs one.
#![forbid(unsafe_code)]

pub mod catalog;
pub mod description;

pub use description::{Description, DescriptionError};
