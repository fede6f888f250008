//! The command: subjects, records, findings. The only crate with user-facing I/O.
#![forbid(unsafe_code)]

mod build;
mod child;
mod cli;
mod doctor;
mod failure;
mod keep;
mod measure;
mod output;
mod progress;
mod serve;
mod subjects;

use std::io::{BufRead, Read as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use cli::{Cli, Generated, Verb};
use failure::Failure;
use fathom_experiment::record::Record;
use fathom_experiment::session::Plan;
use fathom_experiment::{latency, survey};
use fathom_model::catalog;
use fathom_probe::wire::MAX_LINE;
use output::Out;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let out = Out::new(cli.color);
    match run(&cli, &out) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            failure::tell(&failure);
            ExitCode::from(failure.status)
        }
    }
}

fn run(cli: &Cli, out: &Out) -> Result<u8, Failure> {
    match &cli.verb {
        None => out.text(&greeting(&keep::newest(3))),
        Some(Verb::Survey(o)) => {
            run_experiment(&o.run, &o.out, survey::NAME, survey::plan, &[], cli.quiet, out)
        }
        Some(Verb::Latency(o)) => {
            run_experiment(&o.run, &o.out, latency::NAME, latency::plan, &o.bytes, cli.quiet, out)
        }
        Some(Verb::Report(options)) => report(options, out),
        Some(Verb::Compare(options)) => compare(options, out),
        Some(Verb::Doctor(options)) => doctor::run(options, out),
        Some(Verb::Machines { name: Some(name) }) => out.text(&subjects::description(name)?.to_toml()),
        Some(Verb::Machines { name: None }) => {
            out.text(&output::columns(subjects::machines().iter().map(|(n, a)| (n.as_str(), a.as_str()))))
        }
        Some(Verb::Subjects) => {
            out.text(&output::columns(subjects::all()?.iter().map(|s| (s.name.as_str(), s.about.as_str()))))
        }
        Some(Verb::Share(options)) => share(options, out),
        Some(Verb::Schema { json: true, of: cli::Document::Comparison }) => {
            out.text(&fathom_report::json::comparison_schema())
        }
        Some(Verb::Schema { json: true, of: cli::Document::Findings }) => {
            out.text(&fathom_report::schema::schema_json(fathom_experiment::WARNINGS))
        }
        Some(Verb::Schema { json: false, .. }) => {
            out.text(&fathom_report::schema::schema_text(fathom_experiment::WARNINGS))
        }
        Some(Verb::Generate { what: Generated::Completions { shell } }) => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "fathom", &mut text);
            out.text(&String::from_utf8_lossy(&text))
        }
        Some(Verb::Generate { what: Generated::Man { directory } }) => man(directory),
        Some(Verb::Serve { machine }) => serve::run(machine).map(|()| failure::DONE),
    }
}

/// Writes the manual pages.
fn man(directory: &std::path::Path) -> Result<u8, Failure> {
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), directory))
        .map_err(|e| {
            Failure::usage(format!("{}: {e}", directory.display()), "name a directory that can be written")
        })?;
    Ok(failure::DONE)
}

/// What `fathom` alone says: what it is, what is here, what was measured last, what to type.
fn greeting(kept: &[std::path::PathBuf]) -> String {
    let mut text = format!(
        "Fathom measures what memory does to code: caches, TLBs and what they cost.\n\n\
         It can measure this machine and {} described ones (`fathom subjects`), and say\n\
         what this machine cannot give for that (`fathom doctor`).\n",
        catalog::names().len()
    );
    if let [newest, ..] = kept {
        text += "\nMeasured last, and kept:\n";
        for record in kept {
            let name = record.file_name().unwrap_or_default().to_string_lossy();
            text += &format!("  {name}\n");
        }
        let directory = newest.parent().unwrap_or(newest).display().to_string();
        text += &format!("in {}\n", output::shell(&directory));
    }
    text + "\nNext: fathom survey\n"
}

fn run_experiment(
    options: &cli::RunOptions,
    form: &cli::Output,
    name: &str,
    plan: Plan,
    bytes: &[u64],
    quiet: bool,
    out: &Out,
) -> Result<u8, Failure> {
    let measured = measure::measure(options, name, plan, bytes, quiet)?;
    let next =
        measured.kept.as_ref().map(|p| format!("fathom report {}", output::shell(&p.display().to_string())));
    if let Some(mut failure) = measured.failure {
        // Half a report on stdout would look like one; the record has what there is.
        if let Some(next) = next {
            failure.remedy.push_str(&format!("\n  what there is: {next}"));
        }
        return Err(failure);
    }
    let status = out.report(&fathom_experiment::read(&measured.record), form.json, next.as_deref())?;
    match (measured.signal, measured.lost) {
        (Some(signal), _) => Ok(128u8.saturating_add(u8::try_from(signal).unwrap_or(0))),
        (None, Some(lost)) => Err(lost),
        (None, None) => Ok(status),
    }
}

fn report(options: &cli::Report, out: &Out) -> Result<u8, Failure> {
    out.report(&fathom_experiment::read(&record(&options.file)?), options.out.json, None)
}

/// Prints a record for others.
fn share(options: &cli::Share, out: &Out) -> Result<u8, Failure> {
    use fathom_report::share;
    let report = fathom_experiment::read(&record(&options.file)?);
    // A name that anybody has tells nothing of whoever typed it.
    let common = report.subject == "host" || catalog::names().any(|name| name == report.subject);
    let subject = common.then_some(report.subject.as_str());
    let report = share::anonymous(&report, subject, fathom_experiment::WARNINGS);
    let row =
        || format!("{}{}", if options.header { share::header() } else { String::new() }, share::row(&report));
    out.text(&match options.form {
        Some(cli::Form::Row) => row(),
        Some(cli::Form::Details) => share::details(&report),
        Some(cli::Form::Yaml) => share::yaml(&report),
        None => format!(
            "<!-- a row for a table of machines (its header: --header) -->\n{}\n\
             <!-- a block for an issue or a forum -->\n{}\n# YAML for a database\n{}",
            row(),
            share::details(&report),
            share::yaml(&report)
        ),
    })
}

/// Findings that a comparison leaves out unless all are asked for: points of curves, clocks, claims.
const DETAILS: [&str; 5] = ["pages.", "clock.", "bias.timer", "claim.", "bias.walk"];

fn compare(options: &cli::Compare, out: &Out) -> Result<u8, Failure> {
    if options.files.iter().filter(|f| f.as_os_str() == "-").count() > 1 {
        return Err(Failure::usage("stdin is there only once", "name a file in the place of one -"));
    }
    let mut reports = Vec::new();
    for file in &options.files {
        let record = record(file)?;
        reports.push((file.display().to_string(), fathom_experiment::read(&record), record));
    }
    let Some(((first_name, first, asked), others)) = reports.split_first() else {
        return Err(Failure::usage("nothing to compare", "name two records"));
    };
    let survey = first.experiment == survey::NAME;
    let wanted = |name: &str| {
        options.all
            || !(DETAILS.iter().any(|d| name.starts_with(d)) || survey && name.starts_with("latency."))
    };
    let mut failed = false;
    let mut compared = Vec::new();
    for (name, other, record) in others {
        if other.experiment != first.experiment {
            let what = format!(
                "{name} is a record of '{}', {first_name} of '{}'",
                other.experiment, first.experiment
            );
            return Err(Failure::usage(what, "compare records of one experiment"));
        }
        let mut comparison = fathom_analysis::compare::compare(first, other, wanted);
        comparison.plans.extend(fathom_experiment::asked_differently(asked, record));
        failed |= options.fail_if.is_some_and(|share| comparison.beyond(share).next().is_some());
        compared.push((name.clone(), comparison));
    }
    out.text(&if options.json {
        fathom_report::json::comparison(&first.experiment, first_name, &compared, options.fail_if)
    } else {
        let one = |(name, c): &(String, _)| {
            fathom_report::comparison(c, [first_name, name], options.fail_if, out.style())
        };
        compared.iter().map(one).collect()
    })?;
    Ok(if failed { failure::DIFFERS } else { failure::DONE })
}

/// Reads the record in a file, or on stdin for `-`.
fn record(file: &std::path::Path) -> Result<Record, Failure> {
    let shown = file.display();
    let record = if file.as_os_str() == "-" {
        read_record(std::io::stdin().lock())
    } else {
        match std::fs::File::open(file) {
            Ok(file) => read_record(std::io::BufReader::new(file)),
            Err(e) => {
                return Err(Failure::usage(format!("{shown}: {e}"), "name a record, or - for stdin"));
            }
        }
    };
    record.map_err(|what| {
        Failure::usage(format!("{shown}: {what}"), "records are written by `fathom survey --record FILE`")
    })
}

/// No record is longer; an endless stdin ends here.
const MOST_RECORD: u64 = 256 << 20;

/// Reads a record line by line, so that what is none is refused at its first line, however long it is.
fn read_record(from: impl BufRead) -> Result<Record, String> {
    let mut from = from.take(MOST_RECORD);
    let mut record = Record::default();
    let mut bytes = Vec::new();
    let mut lines = 0u64;
    loop {
        bytes.clear();
        // A line that is too long is read to this length, to be a problem with its number, and skipped.
        from.by_ref().take(MAX_LINE as u64 + 2).read_until(b'\n', &mut bytes).map_err(|e| e.to_string())?;
        if bytes.is_empty() {
            break;
        }
        lines += 1;
        let whole = bytes.ends_with(b"\n");
        let text = String::from_utf8_lossy(&bytes);
        record.push(text.trim_end_matches('\n').trim_end_matches('\r'))?;
        if !whole {
            from.skip_until(b'\n').map_err(|e| e.to_string())?;
        }
    }
    match (lines, from.limit()) {
        (0, _) => Record::parse(""),
        (_, 0) => Err(format!("longer than {} MiB, as no session is", MOST_RECORD >> 20)),
        _ => Ok(record),
    }
}
