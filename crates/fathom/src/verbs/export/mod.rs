//! `fathom export`: profiles in the formats of other tools.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fathom_experiment::record::{Profile, Record};

use super::{Context, Verb};
use crate::failure::{Exit, Failure};
use crate::records;

mod firefox;
mod folded;
mod pprof;

/// Options of `export`.
#[derive(Debug, Args)]
struct Export {
    /// The record of a profile; `-` is stdin.
    #[arg(value_name = "RECORD")]
    file: PathBuf,
    /// Format that stdout has.
    #[arg(long = "as", value_enum, value_name = "FORMAT")]
    format: Format,
}

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Of pprof: `go tool pprof`, speedscope, Perfetto.
    Pprof,
    /// Of the Firefox Profiler, as JSON.
    Firefox,
    /// A line for each sequence of calls, with its samples: flamegraph.pl, inferno, speedscope.
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
    samples: u64,
    /// Events of these samples.
    weight: u64,
}

/// What all samples are in that no function of the record has.
const OTHERS: (&str, &str) = ("[others]", "");

/// Returns the sequences of calls that have samples. Together they have all samples of the profile.
fn sequences(profile: &Profile) -> Vec<Sequence<'_>> {
    let mut all: Vec<Sequence> = if profile.calls.is_empty() {
        let alone = profile.functions.iter().map(|place| Sequence {
            calls: vec![(&place.function, &place.file)],
            samples: place.samples,
            weight: place.weight,
        });
        alone.collect()
    } else {
        let sampled = profile.calls.iter().filter(|call| call.samples > 0);
        let with_callers = sampled.map(|call| {
            let mut calls = vec![(call.function.as_str(), call.file.as_str())];
            let mut caller = call.caller;
            // A caller's number is smaller: the record was read so.
            while let Some(call) = caller.checked_sub(1).and_then(|at| profile.calls.get(at as usize)) {
                calls.push((&call.function, &call.file));
                caller = call.caller.min(caller - 1);
            }
            calls.reverse();
            Sequence { calls, samples: call.samples, weight: call.weight }
        });
        with_callers.collect()
    };
    let rest = |whole: u64, of: fn(&Sequence) -> u64| {
        whole.saturating_sub(all.iter().map(of).fold(0, u64::saturating_add))
    };
    let [samples, ..] = profile.counts;
    let (samples, weight) = (rest(samples, |s| s.samples), rest(profile.weight, |s| s.weight));
    if samples > 0 {
        all.push(Sequence { calls: vec![OTHERS], samples, weight });
    }
    all
}

/// Writes the profile to stdout.
fn run(options: &Export, _: &Context) -> Result<Exit, Failure> {
    let shown = options.file.display();
    let record = records::load(&options.file, 0)?;
    let Some(profile) = &record.profile else {
        return Err(Failure::usage(
            format!("{shown}: no record of `fathom profile`"),
            "name one: fathom profile --record FILE -- PROGRAM",
        ));
    };
    if profile.counts[0] == 0 {
        return Err(Failure::usage(
            format!("{shown}: the profile has no samples"),
            "let the program work longer, or sample more often: --rate",
        ));
    }
    super::print(&contents(options.format, &record, profile)?)
}

fn contents(format: Format, record: &Record, profile: &Profile) -> Result<Vec<u8>, Failure> {
    let sequences = sequences(profile);
    match format {
        Format::Folded => Ok(folded::contents(&sequences)),
        Format::Firefox => firefox::contents(profile, &sequences)
            .map_err(|e| Failure::new(format!("cannot write the profile as JSON: {e}"), "")),
        Format::Pprof if std::io::stdout().is_terminal() => Err(Failure::usage(
            "--as pprof is binary, and stdout is a terminal",
            "send it to a file: > profile.pb",
        )),
        Format::Pprof => {
            let command = record.run.as_ref().map(|run| run.command.as_str());
            Ok(pprof::contents(profile, &sequences, command.unwrap_or_default()))
        }
    }
}

#[cfg(test)]
mod tests {
    use fathom_experiment::record::{ProfileCall, ProfilePlace};

    use super::*;

    /// 10 samples: 4 of `a` in `main`, 5 of `b` in `a`, and one that no call has.
    pub fn planted() -> Profile {
        let call = |caller: u64, function: &str, samples: u64| ProfileCall {
            caller,
            function: function.to_owned(),
            file: "program".to_owned(),
            samples,
            weight: samples * 1000,
        };
        let place = |function: &str, samples: u64| ProfilePlace {
            function: function.to_owned(),
            file: "program".to_owned(),
            samples,
            weight: samples * 1000,
            ..ProfilePlace::default()
        };
        Profile {
            program: "program".to_owned(),
            event: "cpu-clock".to_owned(),
            rate: 1000,
            counts: [10, 0, 0],
            weight: 10_000,
            wall_ns: 11_000,
            calls: vec![call(0, "main", 0), call(1, "a", 4), call(2, "b", 5)],
            functions: vec![place("b", 5), place("a", 4)],
            ..Profile::default()
        }
    }

    fn names(sequence: &Sequence) -> Vec<String> {
        sequence.calls.iter().map(|(function, _)| (*function).to_owned()).collect()
    }

    #[test]
    fn sequences_have_all_samples() {
        let planted = planted();
        let all = sequences(&planted);
        let shown: Vec<(String, u64, u64)> =
            all.iter().map(|s| (names(s).join(" "), s.samples, s.weight)).collect();
        let expected = [("main a", 4, 4000), ("main a b", 5, 5000), ("[others]", 1, 1000)];
        assert_eq!(shown, expected.map(|(calls, samples, weight)| (calls.to_owned(), samples, weight)));
    }

    #[test]
    fn functions_stand_for_calls_that_are_not_known() {
        let planted = Profile { calls: Vec::new(), ..planted() };
        let all = sequences(&planted);
        let shown: Vec<(String, u64)> = all.iter().map(|s| (names(s).join(" "), s.samples)).collect();
        assert_eq!(shown, [("b".to_owned(), 5), ("a".to_owned(), 4), ("[others]".to_owned(), 1)]);
    }

    /// A record that claims more than there are ends too.
    #[test]
    fn hostile_calls_end() {
        let mut hostile = planted();
        hostile.calls[0].caller = 3;
        hostile.calls[1].caller = u64::MAX;
        hostile.calls[2].samples = u64::MAX;
        hostile.calls[1].samples = u64::MAX;
        assert!(sequences(&hostile).iter().all(|s| s.calls.len() <= 3));
    }
}
