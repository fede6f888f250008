//! Schema of findings, as text and as a JSON Schema, from the metrics of the kinds of report.

mod closed;
mod document;

use fathom_analysis::findings::tokens::{self, Tokens};

pub(crate) use closed::closed;
pub use document::{schema_json, schema_text};

/// The `format` of the document that `--json` prints.
pub const FORMAT: &str = "fathom.findings";

/// `version` of that document. It is increased only if an old reader would misread a new document; a new name does not
/// count.
pub const VERSION: u64 = 1;

/// Tokens of clock trust.
pub(crate) static TRUST: &Tokens = &tokens::TRUST;
