//! The verbs of the command, each in a separate file, and their one list.

use std::io::Write as _;
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
mod count;
mod describe;
mod doctor;
mod events;
mod explain;
mod export;
mod generate;
mod image;
mod import;
mod machines;
mod profile;
mod report;
mod schema;
mod serve;
mod session;
mod share;
mod simulate;
mod subjects;

/// Returns all verbs, in the order of the help: first the experiments, then the others.
pub fn all() -> Vec<Verb> {
    let others = [
        count::verb,
        profile::verb,
        simulate::verb,
        import::verb,
        export::verb,
        report::verb,
        describe::verb,
        compare::verb,
        share::verb,
        doctor::verb,
        events::verb,
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

/// Returns the whole command line.
pub fn command(verbs: &[Verb]) -> Command {
    Cli::command().subcommands(verbs.iter().map(Verb::command))
}

/// A verb.
pub struct Verb {
    /// Name.
    pub name: &'static str,
    /// One-line description, without a full stop.
    pub about: &'static str,
    /// Text below the options in its help; may be empty.
    pub help: &'static str,
    /// Adds its options.
    pub options: Box<dyn Fn(Command) -> Command>,
    /// Runs the verb and returns the exit status.
    pub run: Run,
}

/// Function that runs a verb.
type Run = Box<dyn Fn(&ArgMatches, &Context) -> Result<Exit, Failure>>;

/// Global options of the command line.
pub struct Context {
    /// Output of results.
    pub out: Out,
    /// Whether progress is disabled.
    pub quiet: bool,
}

impl Verb {
    /// Creates a verb whose options are those of a type.
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

    /// Returns its command line.
    pub fn command(&self) -> Command {
        let command = (self.options)(Command::new(self.name)).about(self.about);
        if self.help.is_empty() { command } else { command.after_help(self.help) }
    }
}

/// Returns the options of a type from the matches of clap.
fn read_back<A: Args>(matches: &ArgMatches) -> Result<A, Failure> {
    A::from_arg_matches(matches).map_err(|e| Failure::usage(e.to_string(), ""))
}

/// Returns the named files, without stdin.
fn read(files: &[PathBuf]) -> impl Iterator<Item = &Path> {
    files.iter().map(PathBuf::as_path).filter(|file| file.as_os_str() != "-")
}

/// Writes bytes to stdout as they are. A closed pipe is not an error.
fn print(bytes: &[u8]) -> Result<Exit, Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write to stdout: {e}"), "is the disk full?"))
        }
        _ => Ok(Exit::Done),
    }
}

/// Checks that stdin is named at most once.
fn one_stdin(files: &[PathBuf]) -> Result<(), Failure> {
    if files.iter().filter(|f| f.as_os_str() == "-").count() > 1 {
        return Err(Failure::usage("stdin can be named once", "name a file instead of one -"));
    }
    Ok(())
}

/// Returns reports with their kinds.
fn entries<'a>(named: impl Iterator<Item = (&'a str, &'a Report)>) -> Result<Vec<Entry<'a>>, Failure> {
    named.map(|(name, report)| Ok(Entry { name, report, kind: records::kind(name, report)? })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_definition_is_valid() {
        command(&all()).debug_assert();
    }

    /// Returns the words of an example command: up to the two spaces before its description, or a shell operator.
    /// Quotes keep spaces within a word.
    fn words(line: &str) -> Vec<String> {
        let typed = line.trim().split("  ").next().unwrap_or_default();
        let mut kept = String::new();
        for (n, part) in typed.split('\'').enumerate() {
            if n % 2 == 1 {
                kept += &part.replace(' ', "\0");
                continue;
            }
            let plain = part.split([';', '|', '&', '<', '>']).next().unwrap_or_default();
            kept += plain;
            if plain.len() < part.len() {
                break;
            }
        }
        kept.split_whitespace().map(|word| word.replace('\0', " ")).collect()
    }

    #[test]
    fn every_example_of_a_help_text_is_parsed() {
        let verbs = all();
        let mut count = 0;
        for verb in &verbs {
            for line in verb.help.lines().filter(|line| line.starts_with("  fathom ")) {
                let parsed = command(&verbs).try_get_matches_from(words(line));
                let matches = parsed.unwrap_or_else(|e| panic!("help of {}: {line}\n{e}", verb.name));
                let (name, matches) = matches.subcommand().expect("a verb");
                // Values of an experiment's options are checked by the experiment, not by clap.
                if let Some(experiment) = EXPERIMENTS.iter().find(|experiment| experiment.name == name) {
                    let selected = crate::cli::experiments::selected(experiment, matches);
                    assert!(selected.is_ok(), "help of {}: {line}: {:?}", verb.name, selected.err());
                }
                count += 1;
            }
        }
        assert!(count >= verbs.len(), "{count} examples of {} verbs", verbs.len());
    }
}
