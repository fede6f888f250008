//! The text that is parsed, and errors at places in it.

use std::ops::Range;

use super::DescriptionError;

pub(super) type Result<T> = std::result::Result<T, DescriptionError>;

/// The file that is parsed.
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    pub(super) fn fault(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> DescriptionError {
        DescriptionError::at(self.file, self.text, span, message.into(), help.into())
    }
}

/// Returns the words for a place in a table, for messages.
pub(super) fn place_of(table: &str) -> String {
    match table {
        "" => "at the top of a description".to_string(),
        "level" | "tlb" | "neighbour" => format!("in [[{table}]]"),
        _ => format!("in [{table}]"),
    }
}
