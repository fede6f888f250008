//! The described value on which a finding depends most.

use fathom_units::facts::ValueClass;

/// A value of a description that was varied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Varied {
    /// The value: `core.clock`, `level[2].latency`.
    pub value: String,
    /// Its class.
    pub class: ValueClass,
    /// The ends of its range, in the words of the description; `None` for an end that is not a possible machine.
    pub ends: [Option<String>; 2],
}

/// What a finding becomes while a value is varied.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Outcome {
    /// Smallest and largest number, the finding itself included, in its unit; `None` if it is a word.
    pub range: Option<(f64, f64)>,
    /// The words, if it is a word and another one occurs: its own first.
    pub words: Vec<String>,
    /// Whether there is no such finding at one of the ends.
    pub missing: bool,
}

/// The value on which a finding depends most.
#[derive(Clone, Debug, PartialEq)]
pub struct Dependence {
    /// The value.
    pub varied: Varied,
    /// What the finding becomes over its range.
    pub outcome: Outcome,
}
