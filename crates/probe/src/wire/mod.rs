//! The wire format: lines of `word key=value ...`.
//!
//! Every line that a probe sends ends in `seq=N crc=0x........`; a line that a human types may omit both. Lines are at
//! most [`MAX_LINE`] bytes; longer values are cut into numbered parts. This is the only parser of the wire and of the
//! record. Its allocations are bounded by the line's length, and an error names the key or word that is wrong.

pub mod line;

pub use line::{Fields, Line, MAX_LINE, Value, WireError};

/// The version of the wire and of the record. Released keys keep their meaning and defaults.
pub const VERSION: u64 = 1;
