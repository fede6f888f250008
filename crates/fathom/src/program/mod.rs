//! The user's programs: how one is run on this machine, and how its code is named, and who called it.

pub mod call_tree;
pub mod input;
pub mod marks;
pub mod objects;
pub mod process;
pub mod recorded;
pub mod runner;
pub mod samples;
pub mod symbols;

use input::Input;
pub use runner::Runner;
