//! Surveys random machines and counts how often each quantity is right.
//!
//! ```text
//! cargo run --release -p fathom-experiment --example score -- --generator wide --noise clean --seeds 5000..5060
//! ```
//!
//! Options: `--generator first|wide` (`tests/inference/random.rs`, `tests/inference/wide.rs`), `--noise clean|noisy` (noisy
//! needs wide), `--seeds FROM..TO` (without the end; or several: `5000..5060,6001`), `--budget MS` (default: that of a survey), `--survey-seed N`
//! (default 1: seed of the surveys' own orders and plans), `--threads N` (default 1), `--reports DIR` (writes each report there, as JSON),
//! `--write DIR` (writes the descriptions there and surveys nothing: `fathom survey --on DIR/wide-5000.toml`).
//!
//! The comparison is the one of the oracle's tests. Each wrong value is listed with its truth, its finding and the notes that the finding has.
//! It is silent if no note doubts it: none but those that a fifth of the right values of its quantity have too. Warnings that
//! lower confidence count as notes of every value.

#[path = "../../tests/inference/comparison.rs"]
mod comparison;
#[path = "../../tests/inference/entries.rs"]
mod entries;
#[path = "../../tests/inference/random.rs"]
#[allow(dead_code, reason = "close levels are not scored")]
mod random;
#[path = "../../tests/inference/sessions.rs"]
#[allow(dead_code, reason = "machines are surveyed once, without the cache of the tests")]
mod sessions;
mod table;
#[path = "../../tests/inference/wide.rs"]
mod wide;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fathom_experiment::survey;
use fathom_model::description::Description;

use crate::comparison::compare;
use crate::random::Spacing;
use crate::sessions::Experiment;
use crate::table::Machine;

/// What is asked for.
struct Options {
    machine: fn(u64) -> Description,
    named: String,
    seeds: Vec<u64>,
    /// The seeds as given.
    given: String,
    budget_ms: u64,
    /// Seed of the surveys.
    survey_seed: u64,
    threads: usize,
    /// Folder for the descriptions.
    write: Option<PathBuf>,
    /// Folder for the reports.
    reports: Option<PathBuf>,
}

/// Returns the seeds of a list of numbers and ranges without their ends.
fn seeds(given: &str) -> Option<Vec<u64>> {
    let mut all = Vec::new();
    for part in given.split(',') {
        match part.split_once("..") {
            Some((from, to)) => all.extend(from.parse::<u64>().ok()?..to.parse().ok()?),
            None => all.push(part.parse().ok()?),
        }
    }
    Some(all)
}

fn options(args: &[String]) -> Result<Options, String> {
    let (mut generator, mut noise) = ("wide", "clean");
    let mut given = "5000..5020";
    let (mut budget_ms, mut survey_seed, mut threads) = (survey::EXPERIMENT.default_budget.ms(true), 1, 1);
    let (mut write, mut reports) = (None, None);
    for pair in args.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        let number = || value.parse::<u64>().map_err(|_| format!("{name} {value}: not a number"));
        match name.as_str() {
            "--generator" => generator = value,
            "--noise" => noise = value,
            "--write" => write = Some(PathBuf::from(value)),
            "--reports" => reports = Some(PathBuf::from(value)),
            "--budget" => budget_ms = number()?,
            "--survey-seed" => survey_seed = number()?,
            "--threads" => threads = number()?.clamp(1, 256) as usize,
            "--seeds" => given = value,
            _ => return Err(format!("{name} is not an option; see the head of examples/score/main.rs")),
        }
    }
    let machine: fn(u64) -> Description = match (generator, noise) {
        ("first", "clean") => |seed| random::description(seed, Spacing::Apart),
        ("wide", "clean") => wide::clean,
        ("wide", "noisy") => wide::noisy,
        _ => return Err(format!("no machines for --generator {generator} --noise {noise}")),
    };
    let seeds = seeds(given).ok_or_else(|| format!("--seeds {given}: for example 5000..5060,6001"))?;
    let given = given.to_string();
    Ok(Options {
        machine,
        named: format!("{generator}, {noise}"),
        seeds,
        given,
        budget_ms,
        survey_seed,
        threads,
        write,
        reports,
    })
}

/// Surveys the machine of a seed.
fn survey(options: &Options, seed: u64) -> Machine {
    let d = (options.machine)(seed);
    let measured = sessions::run(Experiment::Survey, &d, options.survey_seed, options.budget_ms);
    if let Some(folder) = &options.reports {
        let json = fathom_report::json(&measured.report, &fathom_experiment::survey::KIND);
        let file = folder.join(format!("{}.json", d.name));
        if let Err(error) = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&file, json)) {
            eprintln!("score: {}: {error}", file.display());
        }
    }
    Machine { seed, rows: compare(&d, &measured.report), accesses: measured.accesses }
}

/// Writes the description of every seed to a file.
fn write(options: &Options, folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for d in options.seeds.iter().map(|seed| (options.machine)(*seed)) {
        std::fs::write(folder.join(format!("{}.toml", d.name)), d.to_toml())?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let options = match options(&args) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("score: {error}");
            return ExitCode::from(2);
        }
    };
    if let Some(folder) = &options.write {
        return match write(&options, folder) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("score: {}: {error}", folder.display());
                ExitCode::FAILURE
            }
        };
    }
    let (next, machines) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..options.threads {
            scope.spawn(|| {
                loop {
                    let Some(seed) = options.seeds.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                    let machine = survey(&options, *seed);
                    machines.lock().unwrap_or_else(|e| e.into_inner()).push(machine);
                }
            });
        }
    });
    let mut machines = machines.into_inner().unwrap_or_else(|e| e.into_inner());
    machines.sort_by_key(|machine| machine.seed);
    let Options { named, given, budget_ms, .. } = &options;
    println!("generator {named}, seeds {given}, budget {budget_ms} ms");
    print!("{}", table::score(&machines));
    ExitCode::SUCCESS
}
