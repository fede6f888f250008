//! `fathom describe`: a description drafted from a record, read by the reader of descriptions before anybody else
//! gets it.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;

use fathom_analysis::draft::{Options, draft};
use fathom_analysis::findings::Report;
use fathom_analysis::hierarchy::Hierarchy;
use fathom_model::Description;
use fathom_model::description::Replacement;

use super::{Context, Verb};
use crate::failure::{Exit, Failure};
use crate::output::shell;
use crate::records;

/// Options of the draft.
#[derive(Debug, Args)]
struct Describe {
    /// The record of a survey, or a page of --html with one report; `-` is stdin.
    file: PathBuf,
    /// Write it to this file, which must not be there yet; `-` is stdout. Default: stdout.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What the machine is called in the line about it. Default: what the record says that it is.
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
  fathom survey --on ./board.toml                     what it says, measured
  fathom report here.fathom --against ./board.toml    and checked

Behind every value stands where it comes from: a finding with its interval, a
claim that nothing measured, or an assumption. Exit status: 0 drafted, 1 failed,
2 wrong command line, no record of a survey, or a file that is there already",
        run,
    )
}

/// Drafts, and prints the draft or writes its file.
fn run(options: &Describe, context: &Context) -> Result<Exit, Failure> {
    let out = &context.out;
    let shown = options.file.display().to_string();
    let reports = records::reports(&options.file)?;
    let [(_, report)] = reports.as_slice() else {
        let what = format!("{shown}: a page of {} reports, and a description is of one", reports.len());
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

/// The draft of a report as text that is a description.
fn drafted(report: &Report, name: &str) -> Result<String, Failure> {
    let hierarchy = Hierarchy::of(report).map_err(|lacking| Failure::usage(lacking.what, lacking.remedy))?;
    let policies: Vec<&str> = Replacement::ALL.iter().map(|p| p.word()).collect();
    let text = fathom_report::draft(&draft(&hierarchy, &Options { name, policies: &policies }));
    // No record of a session says what no machine can be; a damaged or invented one may.
    Description::parse("draft", &text).map_err(|e| {
        let what = format!("its findings make no machine: {}", e.message);
        Failure::usage(
            what,
            "are the findings what a survey printed? make a record: fathom survey --record FILE",
        )
    })?;
    Ok(text)
}

/// Writes a file that was not there: a description is edited by hand, and no draft is worth that work.
fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let shown = file.display();
    let mut open = File::options();
    // A device or a pipe is there, and has nothing to lose.
    let plain = std::fs::metadata(file).map_or(true, |m| m.is_file() || m.is_dir());
    let opened =
        if plain { open.write(true).create_new(true).open(file) } else { open.write(true).open(file) };
    let mut to = opened.map_err(|e| {
        let what = format!("--output {shown}: {e}");
        Failure::usage(what, "name a new file in a directory that can be written, or - for stdout")
    })?;
    to.write_all(text.as_bytes()).map_err(|e| {
        if plain {
            // Half a draft is none; where it cannot be removed either, its reader will say so.
            let _ = std::fs::remove_file(file);
        }
        Failure::new(format!("--output {shown}: {e}"), "name a file with room for it")
    })
}

/// The file as `--on` takes it: a name without a slash or `.toml` would be a machine's.
fn subject(file: &Path) -> String {
    let name = file.display().to_string();
    if name.contains('/') { name } else { format!("./{name}") }
}
