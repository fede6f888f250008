//! Options of the verbs that read records, and of the examination.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Output;
use super::experiments::RecordFile;
use super::parse::percent;

/// Options of what is given to others.
#[derive(Debug, Args)]
pub struct Share {
    /// The record; `-` is stdin.
    pub file: PathBuf,
    /// One form only. Default: the row and the block, each under a comment.
    #[arg(long = "as", value_enum, value_name = "FORM")]
    pub form: Option<Form>,
    /// The table's header above the row.
    #[arg(long)]
    pub header: bool,
}

/// A form in which a record is given to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A row of a Markdown table of machines.
    Row,
    /// A collapsible block with the report, for an issue or a forum.
    Details,
    /// The findings as JSON for a database: the document of --json.
    Json,
}

/// Options of the draft.
#[derive(Debug, Args)]
pub struct Describe {
    /// The record of a survey, or a page of --html with one report; `-` is stdin.
    pub file: PathBuf,
    /// Write it to this file, which must not be there yet; `-` is stdout. Default: stdout.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// What the machine is called in the line about it. Default: what the record says that it is.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub name: String,
}

/// Options of the comparison.
#[derive(Debug, Args)]
pub struct Compare {
    /// The records; one may be `-`, stdin.
    #[arg(required = true, num_args = 2.., value_name = "RECORD")]
    pub files: Vec<PathBuf>,
    /// Exit with 4 where a finding surely differs by more than this, e.g. 5%: the whole interval is beyond.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub fail_if: Option<f64>,
    /// Every finding, with each point of the curves, clocks and claims.
    #[arg(long)]
    pub all: bool,
    /// Write all records and their changes as one page of HTML; `-` is stdout, in the place of the text.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print the comparison as JSON (its schema: `fathom schema --json --of comparison`).
    #[arg(long)]
    pub json: bool,
}

/// Options of the examination.
#[derive(Debug, Args)]
pub struct Doctor {
    /// What to examine: a subject of `fathom subjects`. Default: this host.
    #[arg(long, value_name = "SUBJECT")]
    pub on: Option<String>,
    /// CPU that would be measured on. Default: as for a survey.
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// Only look for what a killed fathom may have left. Settings are never among that: none is changed.
    #[arg(long, conflicts_with_all = ["on", "cpu"])]
    pub restore: bool,
    /// Print the rows as JSON: {format, version, subject, rows: [{what, state, found, cost, line}]}.
    #[arg(long)]
    pub json: bool,
}

/// Options of the import.
#[derive(Debug, Args)]
pub struct Import {
    /// What cyclictest (--json, -h, -H, T: lines) or Xenomai's latency (-h, -s, -g) wrote; one may be `-`, stdin.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Keep the record in this file too (it is always kept in the user's data directory).
    #[arg(long, short = 'o', value_name = "RECORD", value_parser = RecordFile)]
    pub record: Option<PathBuf>,
    #[command(flatten)]
    pub out: Output,
}

/// Options of the report.
#[derive(Debug, Args)]
pub struct Report {
    /// The records, or pages of --html; `-` is stdin.
    #[arg(required = true, value_name = "RECORD")]
    pub files: Vec<PathBuf>,
    /// Check what a description says, by name or file: agrees, disagrees or undecided, claim by claim.
    #[arg(long, value_name = "MACHINE")]
    pub against: Option<String>,
    #[command(flatten)]
    pub out: Output,
}
