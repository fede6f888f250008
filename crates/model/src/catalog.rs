//! The described machines that travel inside the binary: every `machines/*.toml`.

use crate::description::{Description, DescriptionError};

/// Name and text of every file, by name; the list is made by `build.rs` from the folder.
const MACHINES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/machines.rs"));

/// The names that users type, in alphabetical order.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> + Clone {
    MACHINES.iter().map(|(name, _)| *name)
}

/// The text of the machine `name`, comments and sources included.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    MACHINES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The description of the machine `name`; `None` when no such machine is embedded.
///
/// # Errors
/// The inner [`DescriptionError`] when the embedded text is wrong, which a test rules out.
#[must_use]
pub fn load(name: &str) -> Option<Result<Description, DescriptionError>> {
    text(name).map(|text| Description::parse(&format!("machines/{name}.toml"), text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::nearest;

    #[test]
    fn every_embedded_machine_is_a_description_that_reads_back() {
        for name in names() {
            let description = load(name).expect("listed").unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(description.name, name);
            let again = Description::parse(name, &description.to_toml()).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(again, description);
        }
    }

    #[test]
    fn names_are_sorted_and_a_slip_finds_its_machine() {
        assert!(names().collect::<Vec<_>>().is_sorted());
        assert!(load("no-such-machine-at-all").is_none());
        for name in names() {
            assert_eq!(nearest(&name.to_uppercase(), names()), Some(name));
        }
    }
}
