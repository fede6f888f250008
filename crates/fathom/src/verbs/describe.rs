//! `fathom describe`: drafts a description from a record, and checks it with the reader of descriptions.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;

use fathom_analysis::draft::{Options, draft};
use fathom_analysis::findings::Report;
use fathom_analysis::hierarchy::Hierarchy;
use fathom_model::Description;
use fathom_model::description::Replacement;

use super::{Context, Verb};
use crate::failure::{Exit, Failure};
use crate::new_file;
use crate::output::shell;
use crate::records;

/// Options of the draft.
#[derive(Debug, Args)]
struct Describe {
    /// The record of a survey, or a page of --html with one report; `-` is stdin.
    file: PathBuf,
    /// Write it to this file, which must not exist; `-` is stdout. Default: stdout.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Name of the machine in the line about it. Default: as identified by the record.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    name: String,
}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Describe>(
        "describe",
        "Drafts a machine description from a survey: to read, to correct, and to measure with --on",
        "Examples:
  fathom describe here.fathom                         to stdout
  fathom describe here.fathom -o board.toml --name 'my board'
  fathom survey --on ./board.toml                     survey of the described machine
  fathom report here.fathom --against ./board.toml    check the record against it

Every value is followed by its source: a finding with its interval, a claim that was not measured, or \
         an assumption. Exit status: 0 drafted, 1 failed, 2 wrong command line, not a record of a survey, or the \
         output file exists",
        run,
    )
}

/// Drafts, and prints the draft or writes its file.
fn run(options: &Describe, context: &Context) -> Result<Exit, Failure> {
    let out = &context.out;
    let shown = options.file.display().to_string();
    let reports = records::reports(&options.file)?;
    let [(_, report)] = reports.as_slice() else {
        let what = format!("{shown}: a page of {} reports; a description needs exactly one", reports.len());
        return Err(Failure::usage(what, "name the record of the machine to be described"));
    };
    let text =
        drafted(report, &options.name).map_err(|e| Failure { what: format!("{shown}: {}", e.what), ..e })?;
    match &options.output {
        Some(file) if file.as_os_str() != "-" => {
            write(file, &text)?;
            out.text(&format!("Next: fathom survey --on {}\n", shell(&subject(file))))
        }
        _ => out.text(&text),
    }
}

/// Returns the draft of a report as text, checked to be a valid description.
pub(super) fn drafted(report: &Report, name: &str) -> Result<String, Failure> {
    let hierarchy = Hierarchy::of(report).map_err(|missing| Failure::usage(missing.what, missing.remedy))?;
    let policies: Vec<&str> = Replacement::ALL.iter().map(|p| p.word()).collect();
    let text = fathom_report::draft(&draft(&hierarchy, &Options { name, policies: &policies }));
    // The findings of a real session always describe a possible machine; those of a damaged or invented record may not.
    Description::parse("draft", &text).map_err(|e| {
        let what = format!("its findings do not describe a possible machine: {}", e.message);
        Failure::usage(what, "use the record of a survey: fathom survey --record FILE")
    })?;
    Ok(text)
}

/// Writes a new file. Existing files are never replaced, because descriptions are edited by hand.
fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let shown = file.display();
    // Writing to an existing device or pipe replaces nothing.
    let plain = std::fs::metadata(file).map_or(true, |m| m.is_file() || m.is_dir());
    let written = if plain {
        new_file::create(file, text.as_bytes())
    } else {
        File::options().write(true).open(file).and_then(|mut to| to.write_all(text.as_bytes()))
    };
    written.map_err(|e| {
        let what = format!("--output {shown}: {e}");
        match e.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                Failure::new(what, "name a file with room for it")
            }
            _ => Failure::usage(what, "name a new file in a directory that can be written, or - for stdout"),
        }
    })
}

/// Returns the file as an argument of `--on`: a name without a slash or `.toml` would be that of a machine.
fn subject(file: &Path) -> String {
    let name = file.display().to_string();
    if name.contains('/') { name } else { format!("./{name}") }
}
