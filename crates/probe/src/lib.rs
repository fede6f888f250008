//! The measurement protocol and the probe: the [`Machine`](machine::Machine) trait, the wire format, the patterns and
//! the server.
//!
//! The crate does no I/O, uses no standard library and has no unsafe code. The same crate runs in a Linux process, on
//! bare metal and over a model.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod calibration;
pub mod chain;
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
