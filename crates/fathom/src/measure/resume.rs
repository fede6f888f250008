//! Reading of a record that is to be resumed: its lines without its end, and its options.

use std::path::Path;

use fathom_experiment::record::file::resumable;
use fathom_experiment::record::{Record, Run};
use fathom_model::catalog;
use fathom_units::facts;

use crate::cli::experiments::RunOptions;
use crate::failure::Failure;
use crate::output::shell;
use crate::records;
use crate::subjects::{HOST, Subject};

/// Contents of an interrupted record.
pub struct Resumed {
    /// Its options.
    pub run: Run,
    /// Its complete lines, without the end.
    pub lines: Vec<String>,
    /// Facts of its machine.
    pub machine: Vec<(&'static str, String)>,
    /// Time that it has taken, ms.
    pub elapsed_ms: u64,
}

/// Reads a record of `experiment`.
pub fn read(file: &Path, experiment: &str) -> Result<Resumed, Failure> {
    let shown = file.display();
    let record = records::load(file, 0)?;
    let Some(run) = record.run.clone().filter(|run| run.experiment == experiment) else {
        let what = format!("--resume {shown}: not a record of {experiment}");
        let remedy = format!("name one that `fathom {experiment} --record FILE` started");
        return Err(Failure::usage(what, remedy));
    };
    if record.end.as_ref().is_some_and(|end| end.status == "complete") && record.trust.is_none() {
        return Err(Failure::usage(
            format!("--resume {shown}: it has no measurements"),
            "start a new record",
        ));
    }
    let text = std::fs::read(file).map_err(|e| Failure::usage(format!("--resume {shown}: {e}"), ""))?;
    let text = String::from_utf8_lossy(&text);
    let mut lines = resumable(&text);
    lines.retain(|line| !line.starts_with("end "));
    let elapsed_ms = record.end.as_ref().map_or(0, |end| end.elapsed_ms);
    Ok(Resumed { run, lines, machine: machine(&record), elapsed_ms })
}

/// Facts that tell machines apart, and the clock, whose ticks one record counts.
const OF_A_MODEL: [&str; 6] = [
    facts::MACHINE,
    facts::BOARD_MODEL,
    facts::CPU_MODEL,
    facts::MACHINE_NAME,
    facts::DESCRIBED_DIGEST,
    facts::CLOCK_NAME,
];

/// Returns whether two records are of machines of the same model, as far as these name theirs.
pub fn same_model(one: &Record, other: &Record) -> bool {
    let is_named = [facts::BOARD_MODEL, facts::CPU_MODEL].iter().any(|fact| one.text(fact).is_some());
    is_named && known(one, &OF_A_MODEL) == known(other, &OF_A_MODEL)
}

/// Returns the facts of a record that tell its machine from others, and its type of cores.
fn machine(record: &Record) -> Vec<(&'static str, String)> {
    [known(record, &OF_A_MODEL), known(record, &[facts::CPU_TYPE])].concat()
}

fn known(record: &Record, names: &[&'static str]) -> Vec<(&'static str, String)> {
    names.iter().filter_map(|name| Some((*name, record.text(name)?.to_owned()))).collect()
}

/// Remedy for a record of another type of cores.
const TYPE_REMEDY: &str = "name the type of the record (--cpu), or start a new record";

/// Checks that a record of the `resumed` machine can go on with the machine of which `now` has the facts. A record that was
/// cut off before its facts goes on anywhere.
pub fn same_machine(resumed: &[(&'static str, String)], now: &Record) -> Result<(), Failure> {
    for (name, before) in resumed {
        let now = now.text(name).unwrap_or("unknown");
        if now != before {
            return Err(Failure::usage(
                format!("--resume: the record is of another machine: {name} was {before:?} and is {now:?}"),
                if *name == facts::CPU_TYPE {
                    TYPE_REMEDY
                } else {
                    "continue it on its machine, or start a new record"
                },
            ));
        }
    }
    Ok(())
}

/// Returns the subject of a record to resume. A record may come from a stranger: it does not choose a machine or a
/// command. Without `--on` it is this host or one of the machines that this program describes.
pub fn subject(options: &RunOptions, run: &Run) -> Result<Subject, Failure> {
    let named = options.on.as_ref() == Some(&run.subject);
    let harmless = run.subject == HOST || catalog::text(&run.subject).is_some();
    if !named && (options.on.is_some() || !harmless) {
        let what = format!("--resume: the record is of '{}'", run.subject);
        let remedy = if harmless {
            "leave --on out".to_owned()
        } else {
            format!("if that is the machine to go on with: --on {}", shell(&run.subject))
        };
        return Err(Failure::usage(what, remedy));
    }
    let (cpu, wait) = (options.cpu.clone(), options.wait);
    super::find(&RunOptions { on: Some(run.subject.clone()), cpu, wait, ..RunOptions::default() })
}
