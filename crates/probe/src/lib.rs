//! What a machine is asked and what it answers.
//!
//! The trait [`Machine`](machine::Machine), the words on the wire, the patterns and the server that
//! joins them. No I/O of its own, no standard library, no unsafe code: the same crate runs in a Linux
//! process, on bare metal and over a model.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod calibration;
pub mod chain;
pub mod divisor;
pub mod load;
pub mod machine;
pub mod mair;
pub mod pattern;
pub mod rows;
pub mod sequence;
pub mod serve;
pub mod splitmix;
pub mod tokens;
pub mod wire;
