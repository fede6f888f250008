//! Findings to terminal, JSON, HTML and their schema. Strings out, nothing else: no I/O, and no look at the
//! environment. Width, colour and character set are arguments.
#![forbid(unsafe_code)]

pub mod html;
pub mod json;
pub mod schema;
pub mod terminal;

#[cfg(test)]
mod samples;

pub use html::html;
pub use json::{from_json, json};
pub use terminal::{Style, comparison, examination, share, terminal};
