//! `fathom machines`: the described machines.

use clap::Args;
use fathom_model::Description;
use fathom_model::description::WithoutStudy;
use fathom_units::facts::Study;

use super::{Context, Verb};
use crate::failure::{Exit, Failure};
use crate::{output, subjects};

/// Options of the list.
#[derive(Debug, Args)]
struct Machines {
    /// Name of a described machine, or a description's file.
    name: Option<String>,
    /// Replace the values of this study (S0 to S4) by those of other sources that the description gives, to predict
    /// the study's figures.
    #[arg(long, value_name = "STUDY", requires = "name", value_parser = study)]
    without: Option<Study>,
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
        Some(name) => {
            let description = subjects::description(name)?;
            match options.without {
                Some(study) => without(&description, study)?.to_toml(),
                None => description.to_toml(),
            }
        }
        None => output::columns(subjects::machines().iter().map(|(n, a)| (n.as_str(), a.as_str()))),
    };
    context.out.text(&text)
}

/// Reads the name of a study.
fn study(text: &str) -> Result<Study, String> {
    let names: Vec<&str> = Study::ALL.iter().map(|study| study.token()).collect();
    Study::from_token(text).ok_or_else(|| format!("not a study: {}", names.join(", ")))
}

fn without(description: &Description, study: Study) -> Result<Description, Failure> {
    let token = study.token();
    description.without(study).map_err(|why| match why {
        WithoutStudy::Missing(keys) => Failure::usage(
            format!("'{}' has values of study {token} alone: {}", description.name, keys.join(", ")),
            "give other values in its file: instead = { assumed = { KEY = VALUE } }",
        ),
        WithoutStudy::Impossible(e) => Failure::usage(e.to_string(), "correct `instead` in its file"),
    })
}
