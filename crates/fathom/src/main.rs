//! The command: subjects, records, findings. The only crate with user-facing I/O.
#![forbid(unsafe_code)]

mod against;
mod build;
mod child;
mod cli;
mod describe;
mod doctor;
mod explain;
mod failure;
mod image;
mod import;
mod measure;
mod memory_budget;
mod output;
mod page;
mod progress;
mod record_writer;
mod records;
mod request;
mod sd_card;
mod serve;
mod subjects;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use cli::{Cli, Generated, Verb};
use failure::Failure;
use fathom_analysis::findings::{Compared, Key, Report};
use fathom_experiment::report_kinds::REPORT_KINDS;
use fathom_model::catalog;
use fathom_report::html::{Change, Entry};
use output::Out;
use page::Target;
use request::Request;

fn main() -> ExitCode {
    // A file that reaches the limit of its size (ulimit -f) is an error like a full disk, and not the end: the
    // signal is taken, and the write that caused it fails. Where it cannot be taken, it is as it was.
    let taken = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, taken);
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
    let Some(verb) = &cli.verb else { return out.text(&greeting(&record_writer::newest(3))) };
    match verb {
        Verb::Survey(_)
        | Verb::Latency(_)
        | Verb::Stride(_)
        | Verb::Conflict(_)
        | Verb::Cacheability(_)
        | Verb::Dma(_)
        | Verb::Wakeup(_) => request::of(verb)
            .map_or(Ok(failure::FAILED), |requested| run_experiment(requested, cli.quiet, out)),
        Verb::Import(options) => import::run(options, out),
        Verb::Report(options) => report(options, out),
        Verb::Describe(options) => describe::run(options, out),
        Verb::Compare(options) => compare(options, out),
        Verb::Doctor(options) => doctor::run(options, out),
        Verb::Image(options) => sd_card::write(options, out),
        Verb::Machines { name: Some(name) } => out.text(&subjects::description(name)?.to_toml()),
        Verb::Machines { name: None } => {
            out.text(&output::columns(subjects::machines().iter().map(|(n, a)| (n.as_str(), a.as_str()))))
        }
        Verb::Subjects => {
            let all = subjects::all()?;
            let named = all.iter().map(|s| (s.name.as_str(), s.about.as_str()));
            out.text(&output::columns(named.chain(subjects::forms())))
        }
        Verb::Share(options) => share(options, out),
        Verb::Schema { json: true, of: cli::Document::Comparison } => {
            out.text(&fathom_report::json::comparison_schema())
        }
        Verb::Schema { json: true, of: cli::Document::Findings } => {
            out.text(&fathom_report::schema::schema_json(REPORT_KINDS, fathom_experiment::WARNINGS))
        }
        Verb::Schema { json: false, .. } => {
            out.text(&fathom_report::schema::schema_text(REPORT_KINDS, fathom_experiment::WARNINGS))
        }
        Verb::Explain { name } => explain::run(name, out),
        Verb::Generate { what: Generated::Completions { shell } } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "fathom", &mut text);
            out.text(&String::from_utf8_lossy(&text))
        }
        Verb::Generate { what: Generated::Man { directory } } => man(directory),
        Verb::Serve { machine } => serve::run(machine).map(|()| failure::DONE),
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

fn run_experiment(requested: Request<'_>, quiet: bool, out: &Out) -> Result<u8, Failure> {
    let Request { run: requested, plan, options, form, resume } = requested;
    let mut page = Target::open(form.html.as_deref(), options.record.as_deref().into_iter().chain(resume))?;
    one_form(form.json, form.html.as_deref())?;
    let measured = measure::measure(options, requested, plan, resume, page.as_mut(), quiet)?;
    let next =
        measured.kept.as_ref().map(|p| format!("fathom report {}", output::shell(&p.display().to_string())));
    if let Some(mut failure) = measured.failure {
        // Half a report on stdout would look like one; the record has what there is.
        if let Some(next) = next {
            failure.remedy.push_str(&format!("\n  what there is: {next}"));
        }
        return Err(failure);
    }
    let report = fathom_experiment::read(&measured.record);
    let kind = records::kind(&report.subject, &report)?;
    let status = out.report(&report, kind, form, next.as_deref())?;
    if let Some(page) = page {
        page.write(&[Entry { name: &report.subject, report: &report, kind }], &[], out)?;
    }
    match (measured.signal, measured.lost) {
        (Some(signal), _) => Ok(128u8.saturating_add(u8::try_from(signal).unwrap_or(0))),
        (None, Some(lost)) => Err(lost),
        (None, None) => Ok(status),
    }
}

/// stdout takes one form.
fn one_form(json: bool, html: Option<&std::path::Path>) -> Result<(), Failure> {
    if json && html.is_some_and(|f| f.as_os_str() == "-") {
        return Err(Failure::usage("--json and --html - both want stdout", "name a file for --html"));
    }
    Ok(())
}

fn report(options: &cli::Report, out: &Out) -> Result<u8, Failure> {
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
    let page = Target::open(options.out.html.as_deref(), read(&options.files))?;
    let entries = entries(named.iter().map(|(name, report)| (name.as_str(), report)))?;
    let mut worst = failure::DONE;
    for Entry { name, report, kind } in &entries {
        if entries.len() > 1 && !page.as_ref().is_some_and(Target::is_stdout) {
            out.text(&format!("==> {name} <==\n"))?;
        }
        worst = worst.max(out.report(report, kind, &options.out, None)?);
        if options.against.is_some() && fathom_analysis::against::contradicted(report) {
            worst = worst.max(failure::DIFFERS);
        }
    }
    if let Some(page) = page {
        page.write(&entries, &[], out)?;
    }
    Ok(worst)
}

/// Reports with their kinds.
fn entries<'a>(named: impl Iterator<Item = (&'a str, &'a Report)>) -> Result<Vec<Entry<'a>>, Failure> {
    named.map(|(name, report)| Ok(Entry { name, report, kind: records::kind(name, report)? })).collect()
}

/// The files among those named, without stdin.
fn read(files: &[std::path::PathBuf]) -> impl Iterator<Item = &std::path::Path> {
    files.iter().map(std::path::PathBuf::as_path).filter(|file| file.as_os_str() != "-")
}

fn one_stdin(files: &[std::path::PathBuf]) -> Result<(), Failure> {
    if files.iter().filter(|f| f.as_os_str() == "-").count() > 1 {
        return Err(Failure::usage("stdin is there only once", "name a file in the place of one -"));
    }
    Ok(())
}

/// Prints a record for others.
fn share(options: &cli::Share, out: &Out) -> Result<u8, Failure> {
    use fathom_experiment::MACHINE_COLUMNS;
    use fathom_report::share;
    let report = fathom_experiment::read(&records::load(&options.file, 0)?);
    // A name that anybody has tells nothing of whoever typed it.
    let common = report.subject == "host" || catalog::names().any(|name| name == report.subject);
    let subject = common.then_some(report.subject.as_str());
    let kind = records::kind(&options.file.display().to_string(), &report)?;
    let report = share::anonymous(&report, subject, fathom_experiment::WARNINGS);
    let header = if options.header { share::header(MACHINE_COLUMNS) } else { String::new() };
    let row = || format!("{header}{}", share::row(&report, MACHINE_COLUMNS));
    out.text(&match options.form {
        Some(cli::Form::Row) => row(),
        Some(cli::Form::Details) => share::details(&report, kind),
        Some(cli::Form::Json) => share::json(&report, kind),
        None => format!(
            "<!-- a row for a table of machines (its header: --header) -->\n{}\n\
             <!-- a block for an issue or a forum -->\n{}",
            row(),
            share::details(&report, kind)
        ),
    })
}

fn compare(options: &cli::Compare, out: &Out) -> Result<u8, Failure> {
    one_form(options.json, options.html.as_deref())?;
    one_stdin(&options.files)?;
    let page = Target::open(options.html.as_deref(), read(&options.files))?;
    let mut reports = Vec::new();
    let mut taken = 0;
    for file in &options.files {
        let record = records::load(file, taken)?;
        taken += record.needs();
        reports.push((file.display().to_string(), fathom_experiment::read(&record), record));
    }
    let Some(((first_name, first, requested), others)) = reports.split_first() else {
        return Err(Failure::usage("nothing to compare", "name two records"));
    };
    let wanted = |key: &Key| match key.metric.compared {
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
        let mut comparison = fathom_analysis::compare::compare(first, other, wanted);
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
        let entries = entries(reports.iter().map(|(name, report, _)| (name.as_str(), report)))?;
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
    Ok(if options.fail_if.is_some_and(beyond) { failure::DIFFERS } else { failure::DONE })
}
