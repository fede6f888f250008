//! What is wrong with a trace, and where.

use std::fmt;

/// A place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Line of a text, from 1.
    Line(u64),
    /// Byte of a binary trace, from 0; after its decompression, if it is compressed.
    Byte(u64),
}

/// Why a trace cannot be read on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Where.
    pub at: At,
    /// What is wrong, and what was expected.
    pub what: String,
    /// What can be done.
    pub remedy: String,
}

impl Error {
    pub(crate) fn new(at: At, what: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error { at, what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Line(line) => write!(f, "line {line}"),
            At::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

impl std::error::Error for Error {}
