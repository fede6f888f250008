//! Facts by name.

use alloc::string::{String, ToString};

use fathom_probe::machine::{Fact, FactValue};

/// Returns a fact with a number.
pub(super) fn int(name: impl ToString, value: u64) -> Fact {
    Fact { name: name.to_string(), value: FactValue::Int(value) }
}

/// Returns a fact with text.
pub(super) fn text(name: impl ToString, value: impl Into<String>) -> Fact {
    Fact { name: name.to_string(), value: FactValue::Text(value.into()) }
}
