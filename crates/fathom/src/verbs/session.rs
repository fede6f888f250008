//! The verb of every experiment: runs a session with a subject, and reports its record.

use clap::ArgMatches;
use fathom_experiment::Experiment;
use fathom_report::html::Entry;

use super::{Context, Verb, read_back};
use crate::cli::Output;
use crate::cli::experiments::{self, RunOptions};
use crate::failure::{Exit, Failure, print_message};
use crate::html_file::Target;
use crate::measure::{self, Request};
use crate::output::{all_told, one_form, shell};
use crate::records;

/// Returns the verb of an experiment.
pub fn verb(experiment: &'static Experiment) -> Verb {
    Verb {
        name: experiment.name,
        about: experiment.about,
        help: experiment.help,
        options: Box::new(move |command| experiments::arguments(experiment, command)),
        run: Box::new(move |matches, context| run(experiment, matches, context)),
    }
}

fn run(experiment: &'static Experiment, matches: &ArgMatches, context: &Context) -> Result<Exit, Failure> {
    let (options, form): (RunOptions, Output) = (read_back(matches)?, read_back(matches)?);
    let asked = experiments::selected(experiment, matches)?;
    let resume = experiments::resume(experiment, matches);
    let mut page =
        Target::open(form.html.as_deref(), options.output.record.as_deref().into_iter().chain(resume))?;
    one_form(form.json, form.html.as_deref())?;
    let request = Request { experiment, asked, options: &options, resume };
    let measured = measure::measure(request, page.as_mut(), context.quiet)?;
    let next = measured.kept.as_ref().map(|p| format!("fathom report {}", shell(&p.display().to_string())));
    let lost = measured.lost.map_or(Ok(()), Err);
    if let Some(mut failure) = measured.failure {
        // An incomplete report on stdout would look like a complete one; the record has the data.
        if let Some(next) = next {
            failure.remedy.push_str(&format!("\n  partial results: {next}"));
        }
        return all_told(lost.map(|()| Exit::Done), [Err(failure)]);
    }
    let report = records::judged(&measured.record)?;
    let out = context.out.with_studies(form.study);
    let exit = out.report(&report, experiment.report, &form, next.as_deref());
    let entry = Entry { name: &report.subject, report: &report, kind: experiment.report };
    let page = page.map_or(Ok(()), |page| page.write(&[entry], &[], &out));
    let exit = all_told(exit, [page, lost]);
    match measured.signal {
        Some(signal) => {
            exit.inspect_err(print_message).ok();
            Ok(Exit::Signal(signal))
        }
        None => exit,
    }
}
