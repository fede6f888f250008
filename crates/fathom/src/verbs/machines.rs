//! `fathom machines`: the described machines.

use clap::Args;

use super::{Context, Verb};
use crate::failure::{Exit, Failure};
use crate::{output, subjects};

/// Options of the list.
#[derive(Debug, Args)]
struct Machines {
    /// Name of a described machine, or a description's file.
    name: Option<String>,
}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Machines>(
        "machines",
        "Lists the described machines, or shows the effective description of one",
        "",
        run,
    )
}

fn run(options: &Machines, context: &Context) -> Result<Exit, Failure> {
    let text = match &options.name {
        Some(name) => subjects::description(name)?.to_toml(),
        None => output::columns(subjects::machines().iter().map(|(n, a)| (n.as_str(), a.as_str()))),
    };
    context.out.text(&text)
}
