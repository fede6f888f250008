//! `fathom share`: publishable forms of a record.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fathom_experiment::MACHINE_COLUMNS;
use fathom_model::catalog;
use fathom_report::share;

use super::{Context, Verb};
use crate::failure::{Exit, Failure};
use crate::records;

/// Options of `share`.
#[derive(Debug, Args)]
struct Share {
    /// The record; `-` is stdin.
    file: PathBuf,
    /// Print only this form. Default: the row and the block, each under a comment.
    #[arg(long = "as", value_enum, value_name = "FORM")]
    form: Option<Form>,
    /// Also print the table's header.
    #[arg(long)]
    header: bool,
}

/// A publishable form of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A row of a Markdown table of machines.
    Row,
    /// A collapsible block with the report, for an issue or a forum.
    Details,
    /// The findings as JSON for a database: the document of --json.
    Json,
}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Share>(
        "share",
        "Prints a record for publication, without personal data",
        "Examples:
  fathom share here.fathom                        a table's row, a block for an issue
  fathom share here.fathom --as row --header >> MACHINES.md
  fathom share here.fathom --as details           paste it into an issue
  fathom share - --as json < here.fathom > here.json

Host, user and subject names, paths, addresses, serial numbers, the kernel's command line and the \
         reasons of refusals are removed. Check the output before publishing it. Exit status: 0 printed, 1 failed, \
         2 wrong command line or file",
        run,
    )
}

/// Prints the publishable forms of a record.
fn run(options: &Share, context: &Context) -> Result<Exit, Failure> {
    let out = &context.out;
    let report = records::judged(&records::load(&options.file, 0)?)?;
    // A built-in name does not identify the user.
    let common = report.subject == "host" || catalog::names().any(|name| name == report.subject);
    let subject = common.then_some(report.subject.as_str());
    let kind = records::kind(&options.file.display().to_string(), &report)?;
    let report = share::anonymous(&report, subject);
    let header = if options.header { share::header(MACHINE_COLUMNS) } else { String::new() };
    let row = || format!("{header}{}", share::row(&report, MACHINE_COLUMNS));
    out.text(&match options.form {
        Some(Form::Row) => row(),
        Some(Form::Details) => share::details(&report, kind),
        Some(Form::Json) => share::json(&report, kind),
        None => format!(
            "<!-- a row for a table of machines (its header: --header) -->\n{}\n\
             <!-- a block for an issue or a forum -->\n{}",
            row(),
            share::details(&report, kind)
        ),
    })
}
