//! The command line: options common to all verbs, and parsers of values. The options of a verb are in its file.

pub mod cpus;
pub mod experiments;
mod parse;

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};

pub use experiments::RecordOptions;
pub use parse::{milliseconds, percent, wait};

use crate::subjects;

/// What memory does to code: measured, with its uncertainty.
#[derive(Debug, Parser)]
#[command(name = "fathom", version, about, max_term_width = 80, disable_help_subcommand = true)]
#[command(disable_version_flag = true)]
#[command(after_help = "Begin with:  fathom survey")]
pub struct Cli {
    /// When to use colour: auto depends on the terminal, NO_COLOR and CLICOLOR_FORCE.
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    pub color: Colour,
    /// Do not show progress on stderr.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Print the version.
    #[arg(long, short = 'V')]
    pub version: bool,
    /// With --version: also print the revision, the formats, and what is inside (machines, tables of events, images).
    #[arg(long, requires = "version")]
    pub verbose: bool,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// If stdout is a terminal, unless the environment disables it.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Options for the output of findings.
#[derive(Clone, Debug, Args)]
pub struct Output {
    /// Print the findings as JSON (its schema: `fathom schema --json`).
    #[arg(long)]
    pub json: bool,
    /// Write one page of HTML, with figures, that works offline; `-` is stdout, instead of the text.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Also print comparisons with the published studies that the experiment repeats (docs/method).
    #[arg(long, conflicts_with = "json")]
    pub study: bool,
}

/// Returns the parser of a baud rate.
pub fn baud() -> clap::builder::RangedI64ValueParser<u32> {
    let all = subjects::serial::BAUDS;
    clap::value_parser!(u32).range(i64::from(*all.start())..=i64::from(*all.end()))
}
