//! Making facts.

use fathom_probe::machine::{Fact, FactValue};

/// A fact that is a number.
pub(crate) fn int(name: impl Into<String>, value: u64) -> Fact {
    Fact { name: name.into(), value: FactValue::Int(value) }
}

/// A fact that is text.
pub(crate) fn text(name: impl Into<String>, value: impl Into<String>) -> Fact {
    Fact { name: name.into(), value: FactValue::Text(value.into()) }
}
