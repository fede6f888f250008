//! `fathom compare`: compares records.

use std::path::PathBuf;

use clap::Args;
use fathom_analysis::findings::{Compared, Key};
use fathom_report::html::Change;

use super::{Context, Verb, one_stdin};
use crate::cli::percent;
use crate::failure::{Exit, Failure};
use crate::html_file::Target;
use crate::output::one_form;
use crate::records;

/// Options of the comparison.
#[derive(Debug, Args)]
struct Compare {
    /// The records; one may be `-`, stdin.
    #[arg(required = true, num_args = 2.., value_name = "RECORD")]
    files: Vec<PathBuf>,
    /// Exit with 4 if a finding differs significantly by more than this, e.g. 5%, with its whole interval.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_if: Option<f64>,
    /// Compare all findings, including each point of the curves, clocks and claims.
    #[arg(long)]
    all: bool,
    /// Write all records and their changes as one page of HTML; `-` is stdout, instead of the text.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print the comparison as JSON (its schema: `fathom schema --json --of comparison`).
    #[arg(long)]
    json: bool,
}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Compare>(
        "compare",
        "Compares two or more records: differences, their size and significance",
        "Examples:
  fathom compare before.fathom after.fathom
  fathom compare quiet.fathom loaded.fathom --fail-if 5%   exit status 4 if exceeded
  fathom compare pi3.fathom pi4.fathom pi5.fathom --all
  fathom compare before.fathom after.fathom --json

Every further record is compared with the first. Differences in options and settings are listed \
         first. Findings whose trials were disturbed are not judged. Exit status: 0 compared, 2 wrong command line or file, 3 \
         nothing judged, because a session is unusable (`fathom explain disturbance.state`), 4 a significant difference \
         beyond --fail-if",
        run,
    )
}

/// Compares every record with the first.
fn run(options: &Compare, context: &Context) -> Result<Exit, Failure> {
    let out = &context.out;
    one_form(options.json, options.html.as_deref())?;
    one_stdin(&options.files)?;
    let page = Target::open(options.html.as_deref(), super::read(&options.files))?;
    let mut reports = Vec::new();
    let mut taken = 0;
    for file in &options.files {
        let record = records::load(file, taken)?;
        taken += record.needs();
        reports.push((file.display().to_string(), records::judged(&record)?, record));
    }
    let Some(((first_name, first, requested), others)) = reports.split_first() else {
        return Err(Failure::usage("nothing to compare", "name two records"));
    };
    let selected = |key: &Key| match key.metric.compared {
        Compared::Always => true,
        Compared::In(experiment) => options.all || first.experiment == experiment,
        Compared::OnRequest => options.all,
    };
    let mut found = Vec::new();
    for (name, other, record) in others {
        if other.experiment != first.experiment {
            let what = format!(
                "{name} is a record of '{}', {first_name} of '{}'",
                other.experiment, first.experiment
            );
            return Err(Failure::usage(what, "compare records of one experiment"));
        }
        let mut comparison = fathom_analysis::compare::compare(first, other, selected);
        comparison.plans.extend(fathom_experiment::option_differences(requested, record));
        found.push((name.clone(), comparison));
    }
    if options.json {
        out.text(&fathom_report::json::comparison(&first.experiment, first_name, &found, options.fail_if))?;
    } else if !page.as_ref().is_some_and(Target::is_stdout) {
        let text = |(name, c): &(String, _)| {
            fathom_report::comparison(c, [first_name, name], options.fail_if, out.style())
        };
        out.text(&found.iter().map(text).collect::<String>())?;
    }
    if let Some(page) = page {
        let entries = super::entries(reports.iter().map(|(name, report, _)| (name.as_str(), report)))?;
        let changes: Vec<_> = found
            .iter()
            .map(|(name, comparison)| Change {
                names: [first_name, name],
                comparison,
                beyond: options.fail_if,
            })
            .collect();
        page.write(&entries, &changes, out)?;
    }
    let beyond = |share| found.iter().any(|(_, c)| c.beyond(share).next().is_some());
    Ok(match options.fail_if.is_some_and(beyond) {
        true => Exit::Differs,
        false if found.iter().any(|(_, c)| c.unusable.contains(&true)) => Exit::LowConfidence,
        false => Exit::Done,
    })
}
