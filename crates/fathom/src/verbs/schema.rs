//! `fathom schema`: lists all names of findings.

use clap::{Args, ValueEnum};
use fathom_experiment::report_kinds::REPORT_KINDS;
use fathom_report::{json, schema};

use super::{Context, Verb};
use crate::failure::{Exit, Failure};

/// Options of the schema.
#[derive(Debug, Args)]
struct Schema {
    /// Print the JSON Schema.
    #[arg(long)]
    json: bool,
    /// Document whose JSON Schema is printed.
    #[arg(long, value_enum, default_value_t = Document::Findings, requires = "json")]
    of: Document,
}

/// A document with a published schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Document {
    /// Output of `--json` of an experiment and of `fathom report`.
    Findings,
    /// Output of `fathom compare --json`.
    Comparison,
}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Schema>("schema", "Lists all finding names; --json prints the JSON Schema", "", run)
}

fn run(options: &Schema, context: &Context) -> Result<Exit, Failure> {
    context.out.text(&match (options.json, options.of) {
        (true, Document::Comparison) => json::comparison_schema(),
        (true, Document::Findings) => schema::schema_json(&REPORT_KINDS),
        (false, _) => schema::schema_text(&REPORT_KINDS),
    })
}
