//! `fathom count`: runs a program on this machine and counts what it does.

use std::ffi::OsString;
use std::time::Instant;

use clap::Args;
use fathom_experiment::count::{KIND, NAME, times_of_survey};
use fathom_experiment::record::{
    End, MAX_RUNS, ProgramRuns, ProgramTimes, Record, RefusedEvent, Run, TriedEvent,
};
use fathom_host::{ProgramCounters, ProgramEvent};
use fathom_report::html::Entry;
use fathom_units::facts;

use super::{Context, Verb, all_told, one_form};
use crate::child::left;
use crate::cli::{Output, RecordOptions};
use crate::failure::{Exit, Failure, print_message};
use crate::html_file::Target;
use crate::measure::{self, stop::Stop};
use crate::output::{shell, short};
use crate::record_writer::RecordWriter;
use crate::records;

mod input;
mod runs;

use input::Input;
use runs::Runner;

/// Options of the count.
#[derive(Debug, Args)]
struct Options {
    /// Runs with each set of events that can be counted at the same time, and as many without counting. Six have an interval that
    /// covers the median with 95 %; fewer have their whole range.
    #[arg(long, default_value_t = 6, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Run the program only once, with the first set of events.
    #[arg(long, conflicts_with = "runs")]
    once: bool,
    #[command(flatten)]
    output: RecordOptions,
    #[command(flatten)]
    out: Output,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Options>(
        NAME,
        fathom_experiment::count::EXPERIMENT.about,
        "Examples:
  fathom count -- ./program argument
  fathom count --once -- make                 a program that must not run twice
  fathom count --runs 20 --record before.fathom -- ./program
  fathom compare before.fathom after.fathom

The program's output appears once for each run; the report follows on stderr. With --json or --html -, stdout has that, and \
         the program's output goes to stderr. Each run has the same stdin from its beginning, unless that is a terminal. Events \
         are counted in user space, times and faults of everything that the program starts and waits for. Where the processor's \
         events cannot be counted, the report tells why, and `fathom simulate` counts on described machines. Exit status: 0 \
         counted, 1 failed, or the program did not end with 0, 2 wrong command line, 3 low confidence, 5 nothing was counted",
        run,
    )
}

/// Counts, keeps the record, and prints the report.
fn run(options: &Options, context: &Context) -> Result<Exit, Failure> {
    one_form(options.out.json, options.out.html.as_deref())?;
    let on_stdout =
        options.out.json || options.out.html.as_deref().is_some_and(|file| file.as_os_str() == "-");
    let out = if on_stdout { context.out.clone() } else { context.out.on_stderr() };
    let requested = options.output.requested(None);
    let mut page = Target::open(options.out.html.as_deref(), options.output.record.as_deref())?;
    requested.check()?;
    let program = std::path::Path::new(&options.command[0]).file_name().unwrap_or(&options.command[0]);
    let head = Run {
        experiment: NAME.to_owned(),
        subject: short(&program.to_string_lossy()),
        build: crate::build_id::id(),
        command: typed(options),
        ..Run::default()
    };
    let input = Input::take(options.once)?;
    let stop = Stop::listen()?;
    left::adopt();
    let lines = [Record::first_line(), head.line().render()];
    let stopped = || stop.signal().is_some();
    let writer = RecordWriter::open(requested, NAME, &head.subject, &lines, &stopped)?;
    if let Some(page) = &mut page {
        page.exclude_files(writer.files()).inspect_err(|_| writer.remove_copy())?;
    }
    let name = head.subject.clone();
    let (record, writer) = measure::begin_record(head, writer, stop.clone())?;
    let found = ProgramCounters::find();
    let runner = Runner { command: &options.command, divert: on_stdout, input, stop: stop.clone() };
    let mut counting = Counting { record, writer };
    let counted = counting.count(options, &name, &found, &runner);
    let Counting { record, writer } = counting;
    if counted.is_err() && record.program.as_ref().is_none_or(|program| program.runs.is_empty()) {
        writer.remove_copy();
        return counted;
    }
    let report = records::judged(&record)?;
    let kept = writer.path().map(|path| path.display().to_string());
    let lost = writer.close();
    let next = kept.map(|file| format!("fathom report {}", shell(&file)));
    let exit = out.report(&report, &KIND, &options.out, next.as_deref());
    let exit = exit.and_then(|exit| Ok(exit.max(counted?)));
    let page = page
        .map_or(Ok(()), |page| page.write(&[Entry { name: &name, report: &report, kind: &KIND }], &[], &out));
    let exit = all_told(exit, [page, lost.map_or(Ok(()), Err)]);
    stop.signal().map_or(exit, |signal| Ok(Exit::Signal(signal)))
}

/// Returns the command line, as typed.
fn typed(options: &Options) -> String {
    let command: Vec<String> = options.command.iter().map(|word| shell(&word.to_string_lossy())).collect();
    let how = if options.once { "--once".to_owned() } else { format!("--runs {}", options.runs) };
    short(&format!("fathom {NAME} {how} -- {}", command.join(" ")))
}

/// A count that is written to a record while it goes on.
struct Counting {
    record: Record,
    writer: RecordWriter,
}

impl Counting {
    /// Runs the program with each set in turns. Returns whether it always ended with status 0.
    fn count(
        &mut self,
        options: &Options,
        name: &str,
        found: &ProgramCounters,
        runner: &Runner,
    ) -> Result<Exit, Failure> {
        let begin = Instant::now();
        let head = ProgramRuns { times: access_times(&self.record, found), ..head_of(name, found) };
        for line in head.head_lines() {
            self.add(&line.render())?;
        }
        let mut exit = Exit::Done;
        let mut failure = None;
        for set in order(options, &found.sets) {
            match runner.run(set.map(|nth| (nth, found.sets[nth].as_slice()))) {
                Ok(run) => {
                    self.add(&run.line().render())?;
                    // Whatever ends this process now, the run is on the disk.
                    self.writer.sync();
                    exit = exit.max(if run.ended.is_empty() { Exit::Done } else { Exit::Failed });
                }
                Err(why) => failure = Some(why),
            }
            if failure.is_some() || runner.stop.signal().is_some() {
                break;
            }
        }
        let status = match (&failure, runner.stop.signal()) {
            (Some(_), _) => "failed",
            (None, Some(_)) => "interrupted",
            (None, None) => "complete",
        };
        let elapsed_ms = begin.elapsed().as_millis() as u64;
        self.add(&End { status: status.to_owned(), elapsed_ms }.line().render())?;
        if exit == Exit::Failed {
            print_message(&"the program did not always end with status 0: the report tells how");
        }
        failure.map_or(Ok(exit), Err)
    }

    fn add(&mut self, line: &str) -> Result<(), Failure> {
        self.writer.line(line);
        self.record.push(line).map_err(|e| Failure::new(e, ""))
    }
}

/// Returns the access times of this machine, from the newest survey of it that is kept, if misses are counted.
fn access_times(record: &Record, found: &ProgramCounters) -> Option<ProgramTimes> {
    if found.sets.is_empty() {
        return None;
    }
    // The home may be that of several machines.
    let machine = |record: &Record| record.text(facts::CPU_MODEL).map(str::to_owned);
    let (path, survey) = records::surveys_of_host().find(|(_, survey)| machine(survey) == machine(record))?;
    let name = path.file_name()?.to_string_lossy().into_owned();
    times_of_survey(name, &records::judged(&survey).ok()?)
}

/// Returns what is known before the first run.
fn head_of(name: &str, found: &ProgramCounters) -> ProgramRuns {
    let tried = |(name, tried): &(&str, Option<u64>)| TriedEvent { name: (*name).to_owned(), tried: *tried };
    let refused = |refused: &fathom_host::EventRefusal| RefusedEvent {
        name: refused.name.to_owned(),
        reason: refused.reason.clone(),
        remedy: refused.remedy.clone(),
    };
    let names = |set: &Vec<&'static ProgramEvent>| set.iter().map(|event| event.name.to_owned()).collect();
    ProgramRuns {
        program: name.to_owned(),
        events: found.tried.iter().map(tried).collect(),
        refused: found.refused.iter().map(refused).collect(),
        sets: found.sets.iter().map(names).collect(),
        ..ProgramRuns::default()
    }
}

/// Returns the set of each run, `None` without counting: all of them in turns, so that whatever changes with time changes all
/// of them. Each round begins with another one.
fn order(options: &Options, sets: &[Vec<&'static ProgramEvent>]) -> Vec<Option<usize>> {
    if options.once {
        return vec![(!sets.is_empty()).then_some(0)];
    }
    let kinds: Vec<Option<usize>> = std::iter::once(None).chain((0..sets.len()).map(Some)).collect();
    let round = |round: usize| {
        let mut all = kinds.clone();
        all.rotate_left(round % kinds.len());
        all
    };
    (0..usize::from(options.runs)).flat_map(round).take(MAX_RUNS).collect()
}
