//! `fathom export`: profiles, measured or simulated, in the formats of other tools.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Context, Verb};
use crate::failure::{Exit, Failure};
use crate::records;

mod firefox;
mod folded;
mod pprof;
mod sampled;
mod simulated;

/// Options of `export`.
#[derive(Debug, Args)]
struct Export {
    /// The record of a profile, or of a simulation with --calls; `-` is stdin.
    #[arg(value_name = "RECORD")]
    file: PathBuf,
    /// Format that stdout has.
    #[arg(long = "as", value_enum, value_name = "FORMAT")]
    format: Format,
    /// What is exported: of a profile samples; of a simulation cycles (the default: every access waits), cycles.least (accesses overlap),
    /// instructions, accesses, walks, or the misses of a level, as misses.L1D. pprof has all of them, and shows this one first.
    #[arg(long, value_name = "WHAT")]
    by: Option<String>,
}

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Of pprof: `go tool pprof`, speedscope, Perfetto.
    Pprof,
    /// Of the Firefox Profiler, as JSON.
    Firefox,
    /// A line for each sequence of calls, with its number: flamegraph.pl, inferno, speedscope.
    Folded,
}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Export>(
        "export",
        "Converts a profile for pprof, the Firefox Profiler, and tools that draw flame graphs",
        "Examples:
  fathom profile --record here.fathom -- ./program
  fathom export here.fathom --as pprof > here.pb && go tool pprof -http : here.pb
  fathom export here.fathom --as firefox > here.json        open it on profiler.firefox.com
  fathom export here.fathom --as folded | flamegraph.pl > here.svg
  fathom simulate --on bcm2711 --calls --record there.fathom -- ./program
  fathom export there.fathom --as folded --by misses.L1D > there.folded

A record has sequences of calls with their samples, and no times of samples: a tool's axis of time is the order of the calls. Exit \
         status: 0 written, 1 failed, 2 wrong command line or file",
        run,
    )
}

/// A sequence of calls, or a function without its callers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sequence<'a> {
    /// Function and file of each call, the first call of all first.
    calls: Vec<(&'a str, &'a str)>,
    /// What was counted, in the order of [`Exported::amounts`].
    values: Vec<u64>,
}

/// What is counted of each sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Amount {
    /// Its name.
    name: String,
    /// Its unit, in the words of pprof.
    unit: &'static str,
}

/// What is exported.
#[derive(Clone, Debug)]
struct Exported<'a> {
    program: &'a str,
    command: &'a str,
    amounts: Vec<Amount>,
    /// The amount that is shown where there is one only.
    shown: usize,
    /// Together they have everything that was counted.
    sequences: Vec<Sequence<'a>>,
    /// What has made samples, and how much of it one stands for.
    period: (Amount, u64),
    /// Duration, ns; 0 if there is none.
    duration_ns: u64,
    /// Time that one of the shown amount stands for on an axis of time, ns.
    step_ns: u64,
}

/// What everything is in that no call of the record has.
const OTHERS: (&str, &str) = ("[others]", "");

/// Returns the calls that led to one, itself included, the first one of all first. `call` returns the function, the file and the
/// caller's number, from 1, of a call.
fn callers<'a>(
    at: usize,
    call: impl Fn(usize) -> Option<(&'a str, &'a str, u64)>,
) -> Vec<(&'a str, &'a str)> {
    let (mut calls, mut number) = (Vec::new(), at as u64 + 1);
    while let Some((function, file, caller)) = number.checked_sub(1).and_then(|at| call(at as usize)) {
        calls.push((function, file));
        // It is smaller: the record was read so.
        number = caller.min(number - 1);
    }
    calls.reverse();
    calls
}

/// Adds what no sequence has: `whole` is what there is of each amount.
fn with_others<'a>(mut sequences: Vec<Sequence<'a>>, whole: &[u64]) -> Vec<Sequence<'a>> {
    let sum = |at: usize| sequences.iter().map(|s| s.values[at]).fold(0, u64::saturating_add);
    let values: Vec<u64> = whole.iter().enumerate().map(|(at, all)| all.saturating_sub(sum(at))).collect();
    if values.first().is_some_and(|first| *first > 0) {
        sequences.push(Sequence { calls: vec![OTHERS], values });
    }
    sequences
}

/// Writes the profile to stdout.
fn run(options: &Export, _: &Context) -> Result<Exit, Failure> {
    let shown = options.file.display().to_string();
    let record = records::load(&options.file, 0)?;
    let mut exported = match (&record.profile, &record.simulated) {
        (Some(profile), _) => sampled::exported(&record, profile, &shown)?,
        (None, Some(simulated)) => simulated::exported(&record, simulated, &shown)?,
        (None, None) => {
            return Err(Failure::usage(
                format!("{shown}: no record of `fathom profile`, or of `fathom simulate --calls`"),
                "name one: fathom profile --record FILE -- PROGRAM",
            ));
        }
    };
    if let Some(by) = &options.by {
        let known = exported.amounts.iter().position(|amount| amount.name.eq_ignore_ascii_case(by));
        exported.shown = known.ok_or_else(|| {
            let names: Vec<&str> = exported.amounts.iter().map(|amount| amount.name.as_str()).collect();
            Failure::usage(format!("--by {by}: {shown} has none"), format!("it has {}", names.join(", ")))
        })?;
    }
    super::print(&contents(options.format, &exported)?)
}

fn contents(format: Format, exported: &Exported) -> Result<Vec<u8>, Failure> {
    match format {
        Format::Folded => Ok(folded::contents(exported)),
        Format::Firefox => firefox::contents(exported)
            .map_err(|e| Failure::new(format!("cannot write the profile as JSON: {e}"), "")),
        Format::Pprof if std::io::stdout().is_terminal() => Err(Failure::usage(
            "--as pprof is binary, and stdout is a terminal",
            "send it to a file: > profile.pb",
        )),
        Format::Pprof => Ok(pprof::contents(exported)),
    }
}
