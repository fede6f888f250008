//! The user's programs: how one is run on this machine, and how its code is named.

pub mod input;
pub mod recorded;
pub mod runner;
pub mod symbols;

use input::Input;
pub use runner::Runner;
