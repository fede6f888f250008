//! `fathom report`: reports records again.

use std::path::PathBuf;

use clap::Args;
use fathom_report::Style;
use fathom_report::html::Entry;
use fathom_report::page::Page;

use super::{Context, Verb, one_stdin};
use crate::cli::Output;
use crate::failure::{Exit, Failure};
use crate::html_file::{Target, shortened};
use crate::output::one_form;
use crate::{against, records};

/// Options of the report.
#[derive(Debug, Args)]
struct Report {
    /// The records, or pages of --html; `-` is stdin.
    #[arg(required = true, value_name = "RECORD")]
    files: Vec<PathBuf>,
    /// Check the claims of a description, by name or file: agrees, disagrees or undecided for each claim.
    #[arg(long, value_name = "MACHINE")]
    against: Option<String>,
    #[command(flatten)]
    out: Output,
}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Report>(
        "report",
        "Reports records again: the same findings, from the files alone",
        "Examples:
  fathom report here.fathom
  fathom report here.fathom --html here.html        one page, with figures
  fathom report pi3.fathom pi4.fathom --html pis.html
  fathom report textbook.fathom blocked.fathom      two programs that were simulated, side by side
  fathom report - --json < here.fathom
  fathom report here.fathom --against bcm2711       check it against a description

A page written by --html can be read like a record. Exit status: as of the survey, and 4 if --against \
         finds that a claim of the description is contradicted",
        run,
    )
}

/// Reads, checks if requested, and prints.
fn run(options: &Report, context: &Context) -> Result<Exit, Failure> {
    let out = &context.out.with_studies(options.out.study);
    one_form(options.out.json, options.out.html.as_deref())?;
    one_stdin(&options.files)?;
    let mut named = Vec::new();
    for file in &options.files {
        named.extend(records::reports(file)?);
    }
    if let Some(machine) = &options.against {
        against::check(&mut named, machine)?;
    }
    if options.out.json && named.len() > 1 {
        return Err(Failure::usage("--json prints one report", "name one record, or use a loop"));
    }
    let page = Target::open(options.out.html.as_deref(), super::read(&options.files))?;
    let mut worst = Exit::Done;
    let entries = super::entries(named.iter().map(|(name, report)| (name.as_str(), report)))?;
    let together = || together(&entries, *out.style());
    if let Some(together) = together().filter(|_| !page.as_ref().is_some_and(Target::is_stdout)) {
        out.text(&together.finish())?;
    }
    for Entry { name, report, kind } in &entries {
        if entries.len() > 1 && !page.as_ref().is_some_and(Target::is_stdout) {
            out.text(&format!("==> {name} <==\n"))?;
        }
        worst = worst.max(out.report(report, kind, &options.out, None)?);
        if options.against.is_some() && fathom_analysis::against::contradicted(report) {
            worst = worst.max(Exit::Differs);
        }
    }
    if let Some(page) = page {
        let together = together().map_or_else(Vec::new, Page::blocks);
        page.write_together(&entries, &[], &together, out)?;
    }
    Ok(worst)
}

/// Returns what is shown of several reports before each of them, if they are of one kind that has such a view.
fn together(entries: &[Entry], style: Style) -> Option<Page> {
    let [first, _, ..] = entries else { return None };
    let show =
        first.kind.together.filter(|_| entries.iter().all(|entry| entry.kind.name == first.kind.name))?;
    let names: Vec<&str> = entries.iter().map(|entry| entry.name).collect();
    let reports = entries.iter().map(|entry| entry.report);
    let mut page = Page::new(style);
    show(&shortened(&names).into_iter().zip(reports).collect::<Vec<_>>(), &mut page);
    Some(page)
}
