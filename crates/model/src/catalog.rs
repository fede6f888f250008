//! The described machines that are embedded in the binary: every `machines/*.toml`.

use crate::description::{Description, DescriptionError};

/// Name and text of every file, sorted by name. `build.rs` generates the list from the folder.
const MACHINES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/machines.rs"));

/// Returns the names of the machines, in alphabetical order.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> + Clone {
    MACHINES.iter().map(|(name, _)| *name)
}

/// Returns the text of the machine `name`, comments and sources included.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    MACHINES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Returns the description of the machine `name`; `None` if no such machine is embedded.
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
    fn names_are_sorted_and_misspelled_names_are_corrected() {
        assert!(names().collect::<Vec<_>>().is_sorted());
        assert!(load("no-such-machine-at-all").is_none());
        for name in names() {
            assert_eq!(nearest(&name.to_uppercase(), names()), Some(name));
        }
    }
}
