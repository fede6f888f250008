//! The values of a line.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use super::quote;

/// A value on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// An integer; the key names its unit.
    Int(i128),
    /// A bare lower-case word.
    Token(String),
    /// Quoted text.
    Text(String),
    /// Bytes, `0x` and an even number of digits.
    Hex(Vec<u8>),
    /// Integers separated by commas (two or more; one alone is an `Int` and reads as a list too).
    List(Vec<i128>),
}

impl Value {
    /// Appends the value in wire format.
    pub(crate) fn render(&self, out: &mut String) {
        match self {
            Value::Int(v) => {
                let _ = write!(out, "{v}");
            }
            Value::Token(t) => out.push_str(t),
            Value::Text(t) => quote(out, t),
            Value::Hex(bytes) => {
                out.push_str("0x");
                for b in bytes {
                    let _ = write!(out, "{b:02x}");
                }
            }
            Value::List(items) => {
                for (i, v) in items.iter().enumerate() {
                    let _ = write!(out, "{}{v}", if i == 0 { "" } else { "," });
                }
            }
        }
    }
}
