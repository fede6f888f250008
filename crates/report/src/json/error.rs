//! Errors of reading a document.

use fathom_analysis::findings::{Basis, UNITS};

use crate::schema::{FORMAT, VERSION};

/// Error of reading a document.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not JSON, or a key that is missing, unknown or of the wrong type; the message has line and column.
    #[error("not findings: {0}; the document is described by `fathom schema`")]
    Syntax(#[from] serde_json::Error),
    /// A page without data.
    #[error("no data in this page: it was not made by fathom's --html, or cut off")]
    NoData,
    /// Another format.
    #[error("`format` is {0:?}, which this fathom does not read: {FORMAT:?} is what its --json prints")]
    Format(String),
    /// A version newer than this reader.
    #[error("`version` is {0}, this reads up to {VERSION}: use a newer fathom")]
    Version(u64),
    /// A unit that is not in the schema.
    #[error("unit {unit:?} of {name:?} is not one of {}", known(UNITS))]
    Unit {
        /// Finding or histogram.
        name: String,
        /// Unit.
        unit: String,
    },
    /// A name of no metric.
    #[error(
        "no finding or histogram is called {0:?}: `fathom schema` lists them; read the document with the fathom that wrote it"
    )]
    Name(String),
    /// A metric or coordinates that do not match the name.
    #[error("`metric` and `at` of {0:?} are not those of its name")]
    Key(String),
    /// An unknown basis.
    #[error("basis {basis:?} of {name:?} is not one of {}", known(&Basis::ALL.map(Basis::token)))]
    Basis {
        /// Finding.
        name: String,
        /// Basis.
        basis: String,
    },
    /// An unknown class of a described value.
    #[error("class {0:?} of a described value is not one that this fathom knows")]
    Class(String),
    /// An unknown study.
    #[error("study {study:?} of {name:?} is not one of S0 to S4")]
    Study {
        /// Finding.
        name: String,
        /// Study.
        study: String,
    },
    /// A field of detail that the metric does not declare, or with another type.
    #[error("field {field:?} in the detail of {name:?} is not declared by its metric")]
    Detail {
        /// Finding.
        name: String,
        /// Field.
        field: String,
    },
    /// An unknown warning token.
    #[error(
        "warning {0:?} is not one that this fathom gives: read the document with the fathom that wrote it"
    )]
    Warning(String),
}

fn known(values: &[&str]) -> String {
    values.iter().map(|v| format!("{v:?}")).collect::<Vec<_>>().join(", ")
}
