//! The lines on the wire: `word key=value ...`, one each.
//!
//! Every line that a probe sends ends in `seq=N crc=0x........`; a line that a human types may leave
//! both out. Lines are at most [`MAX_LINE`] bytes; longer values are cut into numbered parts. This is
//! the only parser of the wire and of the record: bounded in what it allocates by the line's length,
//! and an error names what is wrong and where.

pub mod line;

pub use line::{Fields, Line, MAX_LINE, Value, WireError};

/// The version of the wire and of the record. Old keys keep their meaning and defaults forever.
pub const VERSION: u64 = 1;
