//! `fathom subjects`: lists the subjects.

use clap::Args;

use super::{Context, Verb};
use crate::failure::{Exit, Failure};
use crate::{output, subjects};

/// Options of `subjects`: none.
#[derive(Debug, Args)]
struct Subjects {}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Subjects>("subjects", "Lists the subjects that can be measured from here", "", run)
}

fn run(_: &Subjects, context: &Context) -> Result<Exit, Failure> {
    let all = subjects::all()?;
    let named = all.iter().map(|s| (s.name.as_str(), s.about.as_str()));
    context.out.text(&output::columns(named.chain(subjects::forms())))
}
