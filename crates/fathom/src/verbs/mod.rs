//! The verbs: what the command can do, each in a file of its own, and their one list.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, Command, CommandFactory as _};
use fathom_analysis::findings::Report;
use fathom_experiment::EXPERIMENTS;
use fathom_report::html::Entry;

use crate::cli::Cli;
use crate::failure::{Exit, Failure};
use crate::output::Out;
use crate::records;

mod compare;
mod describe;
mod doctor;
mod explain;
mod generate;
mod image;
mod import;
mod machines;
mod report;
mod schema;
mod serve;
mod session;
mod share;
mod subjects;

/// Every verb, in the order of help: each experiment is one, and behind them what does not measure.
pub fn all() -> Vec<Verb> {
    let others = [
        import::verb,
        report::verb,
        describe::verb,
        compare::verb,
        share::verb,
        doctor::verb,
        image::verb,
        machines::verb,
        subjects::verb,
        schema::verb,
        explain::verb,
        generate::verb,
        serve::verb,
    ];
    EXPERIMENTS.iter().copied().map(session::verb).chain(others.map(|verb| verb())).collect()
}

/// The whole command line.
pub fn command(verbs: &[Verb]) -> Command {
    Cli::command().subcommands(verbs.iter().map(Verb::command))
}

/// A verb.
pub struct Verb {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line, without a full stop.
    pub about: &'static str,
    /// What stands below the options in its help; may be empty.
    pub help: &'static str,
    /// Adds its options.
    pub options: Box<dyn Fn(Command) -> Command>,
    /// Does it, and says how this program ends.
    pub run: Run,
}

/// What a verb does with what was typed.
type Run = Box<dyn Fn(&ArgMatches, &Context) -> Result<Exit, Failure>>;

/// What every verb has from the command line's beginning.
pub struct Context {
    /// Where results go.
    pub out: Out,
    /// Is no progress wanted?
    pub quiet: bool,
}

impl Verb {
    /// A verb whose options are a type's.
    fn of<A: Args + 'static>(
        name: &'static str,
        about: &'static str,
        help: &'static str,
        run: fn(&A, &Context) -> Result<Exit, Failure>,
    ) -> Verb {
        Verb {
            name,
            about,
            help,
            options: Box::new(A::augment_args),
            run: Box::new(move |matches, context| run(&read_back(matches)?, context)),
        }
    }

    /// Its command line.
    pub fn command(&self) -> Command {
        let command = (self.options)(Command::new(self.name)).about(self.about);
        if self.help.is_empty() { command } else { command.after_help(self.help) }
    }
}

/// The options of a type from what clap has accepted.
fn read_back<A: Args>(matches: &ArgMatches) -> Result<A, Failure> {
    A::from_arg_matches(matches).map_err(|e| Failure::usage(e.to_string(), ""))
}

/// stdout takes one form.
fn one_form(json: bool, html: Option<&Path>) -> Result<(), Failure> {
    if json && html.is_some_and(|f| f.as_os_str() == "-") {
        return Err(Failure::usage("--json and --html - both want stdout", "name a file for --html"));
    }
    Ok(())
}

/// The files among those named, without stdin.
fn read(files: &[PathBuf]) -> impl Iterator<Item = &Path> {
    files.iter().map(PathBuf::as_path).filter(|file| file.as_os_str() != "-")
}

/// stdin can be read once.
fn one_stdin(files: &[PathBuf]) -> Result<(), Failure> {
    if files.iter().filter(|f| f.as_os_str() == "-").count() > 1 {
        return Err(Failure::usage("stdin is there only once", "name a file in the place of one -"));
    }
    Ok(())
}

/// Reports with their kinds.
fn entries<'a>(named: impl Iterator<Item = (&'a str, &'a Report)>) -> Result<Vec<Entry<'a>>, Failure> {
    named.map(|(name, report)| Ok(Entry { name, report, kind: records::kind(name, report)? })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        command(&all()).debug_assert();
    }
}
