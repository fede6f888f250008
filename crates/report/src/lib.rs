//! Findings to terminal, JSON, HTML and their schema. Strings out, nothing else: no I/O, and no look at the
//! environment. Width, colour and character set are arguments.
#![forbid(unsafe_code)]

pub mod html;
pub mod json;
mod number;
mod page;
pub mod schema;
mod sections;
pub mod share;
pub mod terminal;
mod text;

#[cfg(test)]
mod samples;

pub use html::html;
pub use json::{from_json, json};
pub use sections::compare::comparison;
pub use terminal::{Style, examination, terminal};
