//! Findings to terminal, JSON, HTML and their schema; drafts of descriptions to their format. Strings out, nothing else: no I/O, and no look at the
//! environment. Width, colour and character set are arguments.
#![forbid(unsafe_code)]

pub mod draft;
mod headline;
pub mod html;
pub mod json;
pub mod number;
mod page;
pub mod schema;
mod sections;
pub mod share;
mod style;
pub mod terminal;
mod text;

#[cfg(test)]
mod samples;

pub use draft::draft;
pub use headline::Headline;
pub use html::html;
pub use json::{from_json, json};
pub use sections::compare::comparison;
pub use style::Style;
pub use terminal::{examination, terminal};
