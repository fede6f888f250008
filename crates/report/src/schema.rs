//! What findings are called, as text and as a JSON Schema: printed from the metrics of the kinds of report.

mod closed;
mod document;

use fathom_analysis::findings::tokens::{self, Tokens};

pub(crate) use closed::closed;
pub use document::{schema_json, schema_text};

/// The `format` of the document that `--json` prints.
pub const FORMAT: &str = "fathom.findings";

/// The `version` of that document. It grows only when an old reader would misread a new document;
/// a name more is not such a change.
pub const VERSION: u64 = 1;

/// A warning's stable token and what it says in one line. The list is kept where warnings are made,
/// in a crate that does not know this one; so it is handed in, as plain text.
pub type WarningKind = (&'static str, &'static str);

/// How far a subject's clock may be believed.
pub(crate) static TRUST: &Tokens = &tokens::TRUST;
