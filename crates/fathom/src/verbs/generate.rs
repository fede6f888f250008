//! `fathom generate`: shell completions and manual pages, from the definition of the command line.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::{Context, Verb};
use crate::failure::{Exit, Failure};

/// Options of the generation.
#[derive(Debug, Args)]
struct Generate {
    /// What to generate.
    #[command(subcommand)]
    what: Generated,
}

/// Output to generate.
#[derive(Debug, Subcommand)]
enum Generated {
    /// Completions, to stdout.
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Manual pages, one per verb, into a directory, which is created if necessary.
    Man {
        /// The directory.
        directory: PathBuf,
    },
}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Generate>(
        "generate",
        "Prints the completions of a shell, or writes all manual pages into a directory",
        "Examples:
  fathom generate completions bash > ~/.local/share/bash-completion/completions/fathom
  fathom generate man ~/.local/share/man/man1 && man fathom-survey",
        run,
    )
}

fn run(options: &Generate, context: &Context) -> Result<Exit, Failure> {
    match &options.what {
        Generated::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut super::command(&super::all()), "fathom", &mut text);
            context.out.text(&String::from_utf8_lossy(&text))
        }
        Generated::Man { directory } => man(directory),
    }
}

/// Writes the manual pages.
fn man(directory: &Path) -> Result<Exit, Failure> {
    let command = super::command(&super::all()).disable_help_subcommand(true);
    std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(command, directory)).map_err(
        |e| Failure::usage(format!("{}: {e}", directory.display()), "name a directory that can be written"),
    )?;
    Ok(Exit::Done)
}
