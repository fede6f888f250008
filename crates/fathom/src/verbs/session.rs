//! The verb of every experiment: runs a session with a subject, and reports its record.

use clap::ArgMatches;
use fathom_experiment::Experiment;
use fathom_host::CoreType;
use fathom_report::html::Entry;

use super::{Context, Verb, read_back};
use crate::cli::Output;
use crate::cli::cpus::{self, Cpus};
use crate::cli::experiments::{self, RunOptions};
use crate::failure::{Exit, Failure, print_message};
use crate::html_file::Target;
use crate::measure::stop::Stop;
use crate::measure::{self, Request};
use crate::output::{all_told, one_form, shell};
use crate::records;
use crate::subjects;

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
    let options: RunOptions = read_back(matches)?;
    let types = of_types(experiment, &options, matches)?;
    if types.len() < 2 {
        let cpu = types.first().map(|one| Cpus::One(one.cpu)).or_else(|| options.cpu.clone());
        return run_on(experiment, RunOptions { cpu, ..options }, matches, context, || Ok(()));
    }
    let form: Output = read_back(matches)?;
    let single = [
        ("--json", form.json),
        ("--html", form.html.is_some()),
        ("--record", options.output.record.is_some()),
        ("--resume", experiments::resume(experiment, matches).is_some()),
    ];
    if let Some((option, _)) = single.into_iter().find(|(_, set)| *set) {
        let names: Vec<String> = types.iter().map(|one| format!("--cpu {}", one.name)).collect();
        let what = format!(
            "{option}: this machine has CPUs of {} types, each with a report of its own",
            types.len()
        );
        return Err(Failure::usage(what, format!("name one: {}", names.join(", "))));
    }
    let stop = Stop::listen()?;
    let mut exit = Ok(Exit::Done);
    // The fastest last: the newest survey of this host is then of it, from which other verbs take their access times.
    for one in types.into_iter().rev() {
        let options = RunOptions { cpu: Some(Cpus::One(one.cpu)), ..read_back(matches)? };
        let before = || context.out.text(&format!("CPUs {} ({}):\n\n", one.list(), one.name)).map(drop);
        let ended = run_on(experiment, options, matches, context, before);
        // What one type cannot do, such as a wrong option, no other can.
        let last = ended.as_ref().map_or_else(|failure| failure.exit, |exit| *exit);
        exit = match (exit, ended) {
            (Ok(worst), Ok(other)) => Ok(worst.max(other)),
            (exit, ended) => all_told(exit, [ended.map(drop)]),
        };
        if matches!(last, Exit::Signal(_) | Exit::Usage) {
            break;
        }
        if let Some(signal) = stop.signal() {
            return exit.map(|_| Exit::Signal(signal));
        }
    }
    exit
}

/// Returns the types of cores to measure, if this host is measured and has several or if types are asked for.
fn of_types(
    experiment: &Experiment,
    options: &RunOptions,
    matches: &ArgMatches,
) -> Result<Vec<CoreType>, Failure> {
    let host = options.on.as_deref().is_none_or(|on| on == subjects::HOST);
    // A record goes on with the CPU that is named, or as any other session does.
    let goes_on = options.cpu.is_none() && experiments::resume(experiment, matches).is_some();
    if !host || goes_on {
        return Ok(Vec::new());
    }
    Ok(cpus::types(options.cpu.as_ref(), &fathom_host::core_types())?.into_iter().cloned().collect())
}

/// Runs one session. `before` prints what comes before its report.
fn run_on(
    experiment: &'static Experiment,
    options: RunOptions,
    matches: &ArgMatches,
    context: &Context,
    before: impl FnOnce() -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let form: Output = read_back(matches)?;
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
    before()?;
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
