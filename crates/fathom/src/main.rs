//! The command: subjects, records, findings. The only crate with user-facing I/O.
#![forbid(unsafe_code)]

mod child;
mod cli;
mod failure;
mod keep;
mod measure;
mod output;
mod serve;
mod subjects;

use std::io::Read as _;
use std::process::ExitCode;

use clap::Parser as _;
use cli::{Cli, Verb};
use failure::Failure;
use fathom_experiment::record::Record;
use fathom_experiment::survey;
use fathom_model::catalog;
use output::Out;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let out = Out::new(cli.color);
    match run(&cli, &out) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(failure.status)
        }
    }
}

fn run(cli: &Cli, out: &Out) -> Result<u8, Failure> {
    match &cli.verb {
        None => out.text(&greeting()),
        Some(Verb::Survey(options)) => run_survey(options, cli.quiet, out),
        Some(Verb::Report(options)) => report(options, out),
        Some(Verb::Machines { name }) => machines(name.as_deref(), out),
        Some(Verb::Subjects) => {
            out.text(&output::columns(subjects::all()?.iter().map(|s| (s.name.as_str(), s.about.as_str()))))
        }
        Some(Verb::Schema { json: true }) => out.text(&fathom_report::schema::schema_json(survey::WARNINGS)),
        Some(Verb::Schema { json: false }) => out.text(&fathom_report::schema::schema_text(survey::WARNINGS)),
        Some(Verb::Serve { machine }) => serve::run(machine).map(|()| failure::DONE),
    }
}

/// What `fathom` alone says: what it is, what is here, what to type.
fn greeting() -> String {
    format!(
        "Fathom measures what memory does to code: caches, TLBs and what they cost.\n\n\
         It can measure this machine and {} described ones (`fathom subjects`).\n\n\
         Next: fathom survey\n",
        catalog::names().len()
    )
}

fn run_survey(options: &cli::Survey, quiet: bool, out: &Out) -> Result<u8, Failure> {
    let measured = measure::measure(&options.run, survey::NAME, survey::plan, quiet)?;
    let report = survey::read(&measured.record);
    let next =
        measured.kept.as_ref().map(|p| format!("fathom report {}", output::shell(&p.display().to_string())));
    let status = out.report(&report, options.out.json, next.as_deref())?;
    if let Some(failure) = measured.failure {
        return Err(failure);
    }
    Ok(match measured.signal {
        Some(signal) => 128u8.saturating_add(u8::try_from(signal).unwrap_or(0)),
        None => status,
    })
}

fn report(options: &cli::Report, out: &Out) -> Result<u8, Failure> {
    let shown = options.file.display();
    let mut bytes = Vec::new();
    let read = if options.file.as_os_str() == "-" {
        std::io::stdin().lock().take(MOST_RECORD).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(&options.file).and_then(|f| f.take(MOST_RECORD).read_to_end(&mut bytes))
    };
    read.map_err(|e| Failure::usage(format!("{shown}: {e}"), "name a record, or - for stdin"))?;
    if bytes.len() as u64 == MOST_RECORD {
        let what = format!("{shown}: longer than {} MiB", MOST_RECORD >> 20);
        return Err(Failure::usage(what, "no session writes that much: is it a record?"));
    }
    let record = Record::parse(&String::from_utf8_lossy(&bytes))
        .map_err(|e| Failure::usage(format!("{shown}: {e}"), "records are written by --record FILE"))?;
    out.report(&survey::read(&record), options.out.json, None)
}

/// No record is longer; an endless stdin ends here.
const MOST_RECORD: u64 = 256 << 20;

fn machines(name: Option<&str>, out: &Out) -> Result<u8, Failure> {
    if let Some(name) = name {
        return out.text(&subjects::description(name)?.to_toml());
    }
    let list: Vec<(&str, String)> = catalog::names()
        .map(|name| match catalog::load(name) {
            Some(Ok(d)) => (name, d.about),
            _ => (name, String::new()),
        })
        .collect();
    out.text(&output::columns(list.iter().map(|(n, a)| (*n, a.as_str()))))
}
