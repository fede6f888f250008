//! The answer of a report, in three lines.

/// What a person would say first: the number, how sure, what to do. A line that is empty is not shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headline {
    /// The number, in a sentence.
    pub answer: String,
    /// How sure it is.
    pub confidence: String,
    /// What to do about it.
    pub action: String,
}
