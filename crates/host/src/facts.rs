//! Making facts.

use fathom_probe::machine::{Fact, FactValue};

/// A fact that is a number.
pub(crate) fn int(name: impl AsRef<str>, value: u64) -> Fact {
    Fact { name: token(name.as_ref()), value: FactValue::Int(value) }
}

/// A fact that is text: one line, newlines inside become semicolons.
pub(crate) fn text(name: impl AsRef<str>, value: impl AsRef<str>) -> Fact {
    let value = value.as_ref().trim_end().replace('\n', "; ");
    Fact { name: token(name.as_ref()), value: FactValue::Text(value) }
}

/// A fact's name as the wire carries it: a token of lower-case letters, digits, `_`, `.` and `-`. Names are
/// partly made of file names, which hold what they like (`hugepages-2048kB`).
fn token(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_.-".contains(c);
    name.chars().map(|c| c.to_ascii_lowercase()).map(|c| if plain(c) { c } else { '_' }).collect()
}
