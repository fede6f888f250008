//! Other values that a description gives for its own: plausible ranges, and values in place of those of a study.

use std::collections::BTreeMap;

use fathom_units::facts::ValueClass;

use super::classes::ValueKey;

/// The key of a table that gives plausible ranges of its values.
pub(super) const RANGES: &str = "ranges";
/// The key of a table that gives the values to use instead of those of a study.
pub(super) const INSTEAD: &str = "instead";

/// Other values than the description's own. Each is written as in a file: `"21 cycles"` with its quotes, `16`, `true`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alternatives {
    /// The ends of plausible ranges.
    pub ranges: BTreeMap<ValueKey, [String; 2]>,
    /// Values from other sources than the study, with their classes.
    pub instead: BTreeMap<ValueKey, (ValueClass, String)>,
}
