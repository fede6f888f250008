//! The command line: one definition for help, usage errors and (later) man pages.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use fathom_experiment::latency::ladder::Ladder;
use fathom_probe::machine::Operation;

/// What memory does to code: measured, with its uncertainty.
#[derive(Debug, Parser)]
#[command(name = "fathom", version, about, max_term_width = 80, disable_help_subcommand = true)]
#[command(after_help = "Begin with:  fathom survey")]
pub struct Cli {
    /// When to use colour: auto asks the terminal, NO_COLOR and CLICOLOR_FORCE.
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    pub color: Colour,
    /// No progress on stderr.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// What to do.
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// If stdout is a terminal that has not said otherwise.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// The whole memory hierarchy of a subject, in seconds: tiers, TLBs, prefetch, claims.
    #[command(after_help = "Examples:
  fathom survey                                   this machine, ten seconds
  fathom survey --budget 3s --record here.fathom  less time, and keep the record
  fathom survey --on bcm2711 --json               a described machine, for a script

Exit status: 0 done, 1 failed, 2 wrong command line or file, 3 done below the
quality bar (disturbed, cut short, less certain than promised), 5 all refused,
130 or 143 interrupted (the record and the report hold what there is)")]
    Survey(Survey),
    /// Access time load by load: histograms of single loads, their bias, tier and TLB of each size.
    #[command(after_help = "Examples:
  fathom latency                                   16K, 256K, 1M, 16M and 64M
  fathom latency --bytes 8K,48K,2M --budget 5s
  fathom latency --on bcm2835 --bytes 8K,64K,256K,1M --json
  fathom latency --bytes 64M --ladder order,page --budget 30s

Every sample times one load (or, where the clock is coarse, a few dependent
ones, which is said). What the timing itself adds is the row bias.sample; the
peaks are without it, the histograms with it. Exit status: as of the survey.")]
    Latency(Latency),
    /// Time an access and time a line touched, by working set, step and operation: independent accesses.
    #[command(after_help = "Examples:
  fathom stride                                    inside and beyond each tier
  fathom stride --bytes 16K,1M,64M --steps 8,64 --op rmw --budget 20s
  fathom stride --on am5728 --bytes 256K --json
  fathom stride --unfaulted --ladder --budget 30s  page faults, and prefetch

Below the line's length several accesses share a line; from there on each brings
its own. A size between two levels tells whether the farther one is on; without
--bytes a sketch of dependent loads finds such sizes, and a sentence at each says
what answers there. What the core overlaps and fetches ahead is in the times of
sweeps. Exit status: as of the survey.")]
    Stride(Stride),
    /// How each level is built: ways, sets, line, replacement; and what lines that compete for a set cost.
    #[command(after_help = "Examples:
  fathom conflict                                  this machine
  fathom conflict --on s1-8way --json              a described one, for a script

Lines at a step of 4 KiB fall into the same sets of most first levels; with one
more of them than ways, some miss. Exit status: as of the survey.")]
    #[command(mut_arg("budget", |budget| budget.default_value("5s")))]
    Conflict(Conflict),
    /// Judges records again: the same findings, from the files alone.
    #[command(after_help = "Examples:
  fathom report here.fathom
  fathom report here.fathom --html here.html        one page, with figures
  fathom report pi3.fathom pi4.fathom --html pis.html
  fathom report - --json < here.fathom
  fathom report here.fathom --against bcm2711       is it the machine described?

A page that --html wrote is read back like a record. Exit status: as of the
survey, and 4 where --against finds a claim of the description contradicted")]
    Report(Report),
    /// Drafts a machine description from a survey: to read, to correct, and to measure with --on.
    #[command(after_help = "Examples:
  fathom describe here.fathom                         to stdout
  fathom describe here.fathom -o board.toml --name 'my board'
  fathom survey --on ./board.toml                     what it says, measured
  fathom report here.fathom --against ./board.toml    and checked

Behind every value stands where it comes from: a finding with its interval, a
claim that nothing measured, or an assumption. Exit status: 0 drafted, 1 failed,
2 wrong command line, no record of a survey, or a file that is there already")]
    Describe(Describe),
    /// Two or more records side by side: what differs, by how much, and how surely.
    #[command(after_help = "Examples:
  fathom compare before.fathom after.fathom
  fathom compare quiet.fathom loaded.fathom --fail-if 5%   for a script: 4 if so
  fathom compare pi3.fathom pi4.fathom pi5.fathom --all
  fathom compare before.fathom after.fathom --json

Every record after the first is compared with the first. What was asked
differently is listed before any figure. Exit status: 0 compared, 2 wrong
command line or file, 4 a difference surely beyond --fail-if")]
    Compare(Compare),
    /// A record for others: a table's row, a block for an issue, YAML; without names, paths or numbers of yours.
    #[command(after_help = "Examples:
  fathom share here.fathom                        all three forms
  fathom share here.fathom --as row --header >> MACHINES.md
  fathom share here.fathom --as details           paste it into an issue
  fathom share - --as yaml < here.fathom > here.yaml

Left out are host, user and subject names, paths, addresses, serial numbers, the
kernel's command line and every reason of a refusal. Still: read it before you
post it. Exit status: 0 printed, 1 failed, 2 wrong command line or file")]
    Share(Share),
    /// What a machine can and cannot give for measuring, what that costs, and the line that changes it.
    #[command(after_help = "Examples:
  fathom doctor                this machine
  fathom doctor --on pi        a subject of yours, through its own command
  fathom doctor --json         for a script
  fathom doctor --restore      what a killed fathom may have left

It changes nothing itself. Exit status: 0 nothing costs the measurement
anything, 1 failed, 2 wrong command line or file, 3 something does, 5 nothing
can be measured there")]
    Doctor(Doctor),
    /// Lists the described machines, or shows the effective description of one.
    Machines {
        /// Name of a described machine, or a description's file.
        name: Option<String>,
    },
    /// Lists what can be measured from here.
    Subjects,
    /// Every name and token that findings may have; with --json the JSON Schema of --json.
    Schema {
        /// Print the JSON Schema.
        #[arg(long)]
        json: bool,
        /// The document whose JSON Schema is printed.
        #[arg(long, value_enum, default_value_t = Document::Findings, requires = "json")]
        of: Document,
    },
    /// Prints the completions of a shell, or writes all manual pages into a directory.
    #[command(after_help = "Examples:
  fathom generate completions bash > ~/.local/share/bash-completion/completions/fathom
  fathom generate man ~/.local/share/man/man1 && man fathom-survey")]
    Generate {
        /// What to generate.
        #[command(subcommand)]
        what: Generated,
    },
    /// Serves a probe on stdin and stdout; a human may type trials: `trial bytes=8192`.
    Serve {
        /// What to serve.
        #[command(subcommand)]
        machine: Served,
    },
}

/// Options of the survey.
#[derive(Debug, Args)]
pub struct Survey {
    /// What each level replaces, too: two fifths of the budget then ask how levels are built, and not one.
    #[arg(long)]
    pub deep: bool,
    #[command(flatten)]
    pub run: RunOptions,
    #[command(flatten)]
    pub out: Output,
}

/// Options of the latency histograms.
#[derive(Debug, Args)]
pub struct Latency {
    /// Working sets, separated by commas: bytes or K, M, G (binary), as in 8K,64KiB,1M.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = working_set)]
    pub bytes: Vec<u64>,
    /// The same loads in three orders, two page sizes or six placements too; from the same budget.
    #[arg(long, value_delimiter = ',', value_parser = ladder())]
    pub ladder: Vec<Ladder>,
    #[command(flatten)]
    pub run: RunOptions,
    #[command(flatten)]
    pub out: Output,
}

/// Options of the strides.
#[derive(Debug, Args)]
pub struct Stride {
    /// Working sets, separated by commas: bytes or K, M, G (binary), as in 16K,1M. Default: inside and beyond each
    /// tier of a sketch.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = working_set)]
    pub bytes: Vec<u64>,
    /// Steps from access to access, powers of two from 8 to 1M. Default: 8,16,32,64,128,256,1K,4K.
    #[arg(long, value_name = "STEPS", value_delimiter = ',', value_parser = step)]
    pub steps: Vec<u64>,
    /// What is done to each cell. Default: all three.
    #[arg(long, value_delimiter = ',', value_parser = operation())]
    pub op: Vec<Operation>,
    /// The same over memory that nobody has touched, beside: what page faults add. From the same budget.
    #[arg(long)]
    pub unfaulted: bool,
    /// Dependent loads over the largest size in orders from ascending to random: what prefetch is worth, and how
    /// far it reaches. From the same budget.
    #[arg(long)]
    pub ladder: bool,
    #[command(flatten)]
    pub run: RunOptions,
    #[command(flatten)]
    pub out: Output,
}

/// Options of the conflicts.
#[derive(Debug, Args)]
pub struct Conflict {
    /// Page colours, separated by commas, each a number from 1 to 1024: how pages of one colour, of several,
    /// and pages that share one frame conflict.
    #[arg(long, value_name = "K", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub colours: Vec<u64>,
    #[command(flatten)]
    pub run: RunOptions,
    #[command(flatten)]
    pub out: Output,
}

/// What every experiment takes.
#[derive(Debug, Default, Args)]
pub struct RunOptions {
    /// What to measure: a subject of `fathom subjects`, a machine of `fathom machines`, or the file of a
    /// description. Default: this host.
    #[arg(long, value_name = "SUBJECT")]
    pub on: Option<String>,
    /// Time to spend, e.g. 3s, 500ms, 2m. On a described machine it stands for simulated accesses.
    #[arg(long, default_value = "10s", value_parser = budget, value_name = "TIME")]
    pub budget: u64,
    /// Seed of orders and placements. Default: 1 on a described machine, else from the clock.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Keep the record in this file too (it is always kept in the user's data directory).
    #[arg(long, value_name = "FILE", value_parser = RecordFile)]
    pub record: Option<PathBuf>,
    /// CPU to measure on. Default: an isolated one, else the last allowed.
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// How long the probe may say nothing before it is given up. A trial takes less than a second on
    /// hardware; the largest ones of a model compute for some ten seconds in an unoptimised build.
    #[arg(long, hide = true, default_value = "60s", value_parser = budget, value_name = "TIME")]
    pub patience: u64,
}

/// How findings leave.
#[derive(Debug, Args)]
pub struct Output {
    /// Print the findings as JSON (its schema: `fathom schema --json`).
    #[arg(long)]
    pub json: bool,
    /// Write one page of HTML, with figures, that works offline; `-` is stdout, in the place of the text.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// A document with a published schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Document {
    /// What `--json` of an experiment and of `fathom report` prints.
    Findings,
    /// What `fathom compare --json` prints.
    Comparison,
}

/// Options of what is given to others.
#[derive(Debug, Args)]
pub struct Share {
    /// The record; `-` is stdin.
    pub file: PathBuf,
    /// One form only. Default: all three, each under a comment.
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
    /// A YAML document for a database.
    Yaml,
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

/// What comes out of the command line's own definition.
#[derive(Debug, Subcommand)]
pub enum Generated {
    /// Completions, to stdout.
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Manual pages, one a verb, into a directory, which is made if it is not there.
    Man {
        /// The directory.
        directory: PathBuf,
    },
}

/// What a probe can be served over.
#[derive(Debug, Subcommand)]
pub enum Served {
    /// This machine.
    Host {
        /// CPU to measure on.
        #[arg(long, value_name = "N")]
        cpu: Option<u32>,
        /// Base page in the place of the kernel's own, in bytes: for testing.
        #[arg(long, value_name = "BYTES", value_parser = size)]
        base_page: Option<u64>,
        /// Most memory to take, below the ceilings that hold anyway.
        #[arg(long, value_name = "BYTES", value_parser = size)]
        max_bytes: Option<u64>,
        /// Leave the priority alone.
        #[arg(long)]
        no_priority: bool,
        /// End unless the parent is this process.
        #[arg(long, hide = true)]
        parent: Option<u32>,
    },
    /// A described machine.
    Model {
        /// Its name or its file.
        name: String,
        /// Seed of random replacement, latency spread and jitter.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

/// Parses the file of a record; any name that the system takes will do, but stdout has the report.
#[derive(Clone, Debug)]
struct RecordFile;

impl TypedValueParser for RecordFile {
    type Value = PathBuf;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<PathBuf, clap::Error> {
        let file = clap::builder::PathBufValueParser::new().parse_ref(command, arg, value)?;
        if file.as_os_str() == "-" {
            let what = "--record -: stdout has the report; name a file (./- for one of that name)\n";
            return Err(command.clone().error(clap::error::ErrorKind::ValueValidation, what));
        }
        Ok(file)
    }
}

/// `3s`, `500ms`, `2m` or plain seconds, in ms.
fn budget(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "ms" => 1.0,
        "s" | "" => 1000.0,
        "m" | "min" => 60_000.0,
        unit => return Err(format!("unknown unit '{unit}': use ms, s or m, as in 500ms, 3s, 2m")),
    };
    let value: f64 = digits.parse().map_err(|_| "expected a time such as 500ms, 3s, 2m".to_owned())?;
    let ms = value * factor;
    if (100.0..=3_600_000.0).contains(&ms) {
        Ok(ms as u64)
    } else {
        Err("must be from 100ms to 60m".to_owned())
    }
}

/// Bytes: a number with K, M, G or KiB, MiB, GiB (all binary), or plain.
pub fn size(text: &str) -> Result<u64, String> {
    let hint = || format!("'{text}' is no size: use bytes or K, M, G (binary), as in 8192, 8K, 64MiB");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        _ => return Err(hint()),
    };
    let value: u64 = digits.parse().map_err(|_| hint())?;
    value.checked_mul(1 << shift).ok_or_else(hint)
}

/// `5%` or `5`, as a share.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(v) if (0.0..=1e6).contains(&v) => Ok(v / 100.0),
        _ => Err(format!("'{text}' is no share: use percent, as in 5%")),
    }
}

/// A working set: at least two cells of a chain, and no more than the wire takes.
fn working_set(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if (128..=1 << 40).contains(&bytes) {
        Ok(bytes)
    } else {
        Err("must be from 128 bytes to 1024G".to_owned())
    }
}

/// A step: one that the wire takes.
fn step(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if (8..=1 << 20).contains(&bytes) && bytes.is_power_of_two() {
        Ok(bytes)
    } else {
        Err("must be a power of two from 8 bytes to 1M".to_owned())
    }
}

/// One of the operations of a sweep.
fn operation() -> impl TypedValueParser<Value = Operation> {
    // What the parser before lets through has its operation; the first one stands in for none.
    PossibleValuesParser::new(Operation::ALL.iter().map(|o| o.token()))
        .map(|word| Operation::from_token(&word).unwrap_or_default())
}

/// One of the ladders of the latency experiment.
fn ladder() -> impl TypedValueParser<Value = Ladder> {
    PossibleValuesParser::new(Ladder::ALL.map(Ladder::token))
        .map(|word| Ladder::from_token(&word).unwrap_or(Ladder::Order))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_and_errors_say_how() {
        assert_eq!(size("8K"), Ok(8192));
        assert_eq!(size("8KiB"), Ok(8192));
        assert_eq!(size("512"), Ok(512));
        assert_eq!(size("2g"), Ok(2 << 30));
        for bad in ["", "K", "8KB", "-1", "1.5M", "99999999999G"] {
            assert!(size(bad).unwrap_err().contains("8K"), "{bad}");
        }
    }

    #[test]
    fn budgets_have_units_and_bounds() {
        assert_eq!(budget("3s"), Ok(3000));
        assert_eq!(budget("0.5s"), Ok(500));
        assert_eq!(budget("2m"), Ok(120_000));
        assert_eq!(budget("10"), Ok(10_000));
        for bad in ["", "s", "3h", "1ms", "2000m", "-3s", "nan"] {
            assert!(budget(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn steps_are_powers_of_two() {
        assert_eq!(step("8"), Ok(8));
        assert_eq!(step("4K"), Ok(4096));
        for bad in ["4", "48", "2M", "0"] {
            assert!(step(bad).unwrap_err().contains("power of two"), "{bad}");
        }
    }

    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }
}
