//! The command: verbs, subjects, records, findings. The only crate with user-facing I/O.
#![forbid(unsafe_code)]

mod against;
mod build_id;
mod child;
mod cli;
mod failure;
mod file_id;
mod html_file;
mod image;
mod measure;
mod memory_budget;
mod new_file;
mod output;
mod program;
mod progress;
mod record_writer;
mod records;
mod subjects;
mod verbs;
mod version;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::FromArgMatches as _;
use cli::{Cli, Colour};
use failure::{Exit, Failure};
use fathom_model::catalog;
use output::{Out, is_coloured};
use verbs::Context;

fn main() -> ExitCode {
    // A file that reaches its size limit (ulimit -f) should be a write error like a full disk, instead of ending the
    // process: the signal is caught, and the write fails. If it cannot be caught, the default applies.
    let caught = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, caught);
    match run() {
        Ok(exit) => exit.into(),
        Err(failure) => {
            failure::print_message(&failure);
            failure.exit.into()
        }
    }
}

/// Runs the selected verb.
fn run() -> Result<Exit, Failure> {
    let verbs = verbs::all();
    let parsed = verbs::command(&verbs).try_get_matches();
    let parsed = parsed.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(told) => return tell(&told),
    };
    let context = Context { out: Out::new(cli.color), quiet: cli.quiet };
    if cli.version {
        let out = &context.out;
        return if cli.verbose { out.text(&version::verbose(out.style())) } else { out.text(version::LINE) };
    }
    let typed = matches.subcommand();
    let verb =
        typed.and_then(|(name, matches)| Some((verbs.iter().find(|verb| verb.name == name)?, matches)));
    match verb {
        Some((verb, matches)) => (verb.run)(matches, &context),
        None => context.out.text(&greeting(&record_writer::newest(3))),
    }
}

/// Prints the help that was asked for, or what is wrong with the command line.
fn tell(told: &clap::Error) -> Result<Exit, Failure> {
    // An argument may be a file's name, and styles in it are not this program's.
    let styled = std::env::args_os().any(|word| word.as_encoded_bytes().contains(&0x1b));
    let text = |colour: bool| match colour && !styled {
        true => told.render().ansi().to_string(),
        false => told.render().to_string(),
    };
    if told.use_stderr() {
        failure::print_styled(&text(is_coloured(Colour::Auto, std::io::stderr().is_terminal())));
        return Ok(Exit::Usage);
    }
    let out = Out::new(Colour::Auto);
    out.text(&text(out.style().colour))
}

/// Returns the text for `fathom` without a verb: purpose, subjects, recent records, next command.
fn greeting(kept: &[std::path::PathBuf]) -> String {
    let mut text = format!(
        "Fathom measures what memory does to code: caches, TLBs and what they cost.\n\n\
         It can measure this machine and {} described ones (`fathom subjects`), and show\n\
         what limits measurements on this machine (`fathom doctor`).\n",
        catalog::names().len()
    );
    if let [newest, ..] = kept {
        text += "\nRecent records:\n";
        for record in kept {
            let name = record.file_name().unwrap_or_default().to_string_lossy();
            text += &format!("  {name}\n");
        }
        let directory = newest.parent().unwrap_or(newest).display().to_string();
        text += &format!("in {}\n", output::shell(&directory));
    }
    text + "\nNext: fathom survey\n"
}
