//! Constructors of facts.

use fathom_probe::machine::{Fact, FactValue};

/// Returns a fact with a number.
pub(crate) fn int(name: impl AsRef<str>, value: u64) -> Fact {
    Fact { name: token(name.as_ref()), value: FactValue::Int(value) }
}

/// Returns a fact with text: one line, in which newlines become semicolons.
pub(crate) fn text(name: impl AsRef<str>, value: impl AsRef<str>) -> Fact {
    let value = value.as_ref().trim_end().replace('\n', "; ");
    Fact { name: token(name.as_ref()), value: FactValue::Text(value) }
}

/// Returns a fact's name as a token of the wire format: lower-case letters, digits, `_`, `.` and `-`. Names contain
/// parts of file names, which may have other characters (`hugepages-2048kB`).
fn token(name: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_.-".contains(c);
    name.chars().map(|c| c.to_ascii_lowercase()).map(|c| if is_allowed(c) { c } else { '_' }).collect()
}
