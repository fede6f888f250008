//! Output of reports: pages of tables, plots and charts, as terminal text, HTML and JSON; the schema of names; drafts
//! of descriptions. Returns strings only: no I/O and no access to the environment. Width, colour and character set are
//! arguments.
//!
//! This crate knows no experiment: the meaning and the view of a report's findings come from its [`ReportKind`].
#![forbid(unsafe_code)]

pub mod call_tree;
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
mod sensitivity;
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
pub use sensitivity::fitted;
pub use style::Style;
pub use terminal::{examination, terminal};
