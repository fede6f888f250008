//! The toolkit of reports: pages of tables, plots and charts, shown by a terminal, as HTML and as JSON; the schema of names;
//! drafts of descriptions. Strings out, nothing else: no I/O, and no look at the environment. Width, colour and character
//! set are arguments.
//!
//! It knows no experiment: what a report's findings mean and how they are shown is its [`ReportKind`], which is handed in.
#![forbid(unsafe_code)]

pub mod chart;
mod comparison;
pub mod draft;
pub mod finding_index;
mod head;
pub mod heat_map;
pub mod html;
pub mod json;
pub mod kind;
mod notes;
pub mod number;
pub mod page;
pub mod plot;
pub mod rows;
pub mod schema;
pub mod share;
mod style;
mod table;
pub mod terminal;
pub mod text;

mod warnings;

pub use comparison::comparison;
pub use draft::draft;
pub use html::html;
pub use json::{from_json, json};
pub use kind::{Headline, ReportKind};
pub use notes::notes;
pub use style::Style;
pub use terminal::{examination, terminal};
