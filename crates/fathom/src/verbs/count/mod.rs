//! `fathom count`: runs a program on this machine and counts what it does.

use std::time::Duration;

use clap::Args;
use fathom_experiment::count::{KIND, NAME, times_of_survey};
use fathom_experiment::record::{
    AskedRegions, MAX_RUNS, ProgramRun, ProgramRuns, ProgramTimes, Record, RefusedEvent, TriedEvent,
};
use fathom_host::{ProgramCount, ProgramCounters, ProgramCounting, ProgramEvent};
use fathom_probe::wire::Line;
use fathom_units::facts;

use super::{Context, Verb, simulate};
use crate::failure::{Exit, Failure};
use crate::measure::same_model;
use crate::program::Runner;
use crate::program::process::{ProcessOptions, time_within};
use crate::program::recorded::{Asked, Filling, ProgramOptions, typed};
use crate::program::runner::Ended;
use crate::records;

mod regions;
mod slices;

use regions::RegionOptions;

/// Length of a process's slices by default.
const EVERY: Duration = Duration::from_secs(1);

/// Options of the count.
#[derive(Debug, Args)]
#[command(mut_arg("command", |command| command.required(false).required_unless_present_any(["process", "time"])))]
struct Options {
    /// Runs with each set of events that can be counted at the same time, and as many without counting. Six have an interval that
    /// covers the median with 95 %; fewer have their whole range.
    #[arg(long, default_value_t = 6, conflicts_with = "process", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Run the program only once, with the first set of events.
    #[arg(long, conflicts_with_all = ["runs", "process"])]
    once: bool,
    /// Tell what it does in each such time too: 100ms, 1s. The program runs once, with the first set of events.
    #[arg(long, value_name = "TIME", value_parser = every, conflicts_with = "runs")]
    every: Option<Duration>,
    /// Simulate the program on a described machine instead, once, and count the events of its processor: exact, and without
    /// counters.
    #[arg(long, requires = "on", conflicts_with_all = ["runs", "once", "every", "names", "all", "process", "time"])]
    simulated: bool,
    /// The described machine, by name or file.
    #[arg(long, value_name = "MACHINE", requires = "simulated")]
    on: Option<String>,
    #[command(flatten)]
    regions: RegionOptions,
    #[command(flatten)]
    process: ProcessOptions,
    #[command(flatten)]
    program: ProgramOptions,
}

/// Parses the length of a slice.
fn every(text: &str) -> Result<Duration, String> {
    time_within(text, [10, 3_600_000], "must be from 10ms to 60m")
}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Options>(
        NAME,
        fathom_experiment::count::EXPERIMENT.about,
        "Examples:
  fathom count -- ./program argument
  fathom count --once -- make                 a program that must not run twice
  fathom count --every 100ms -- ./program     also over time
  fathom count --pid 1234 --for 30s           a process that runs already
  fathom count --region inner -- ./program    also between its marks (include/fathom.h)
  fathom count --simulated --on bcm2835 -- ./program    the events of that processor, exactly
  fathom count --runs 20 --record before.fathom -- ./program
  fathom compare before.fathom after.fathom

The program's output appears once for each run; the report follows on stderr. With --json or --html -, stdout has that, and \
         the program's output goes to stderr. stdin is read to its end first, and each run has all of it, unless that is a terminal. Events \
         are counted in user space, times and faults of everything that the program starts and waits for. Where the processor's \
         events cannot be counted, the report tells why, and --simulated counts on described machines. Exit status: 0 \
         counted, 1 failed, or the program did not end with 0, 2 wrong command line, 3 low confidence, 5 nothing was counted",
        run,
    )
}

/// Counts, keeps the record, and prints the report.
fn run(options: &Options, context: &Context) -> Result<Exit, Failure> {
    if let Some(machine) = options.on.as_deref().filter(|_| options.simulated) {
        return simulate::count(machine, &options.program, context);
    }
    let process = options.process.open()?;
    let asked = Asked {
        kind: &KIND,
        program: &options.program,
        options: options.typed(),
        once: options.is_once(),
        process: options.process.process,
    };
    let name = asked.name();
    let Some(process) = process else {
        let regions = options.regions.asked()?;
        if let Some(regions) = &regions {
            regions::check(regions, &asked.file()?)?;
        }
        return asked.record(&context.out, |filling, runner| match options.every {
            Some(every) => slices::of_program(every, &name, filling, runner),
            None => count(options, regions, &name, filling, runner),
        });
    };
    let found = slices::counters_of(&process)?;
    let every = options.every.unwrap_or(EVERY);
    asked.observe(&context.out, |filling, stop| {
        slices::of_process(&process, &found, every, &name, filling, stop)
    })
}

impl Options {
    /// Returns whether the program runs once only.
    fn is_once(&self) -> bool {
        self.once || self.every.is_some()
    }

    /// Returns them as typed.
    fn typed(&self) -> String {
        let repeated = !self.is_once() && self.process.process.is_none();
        let own = [
            ("--every", self.every.map(|every| format!("{}ms", every.as_millis()))),
            ("--runs", repeated.then(|| self.runs.to_string())),
        ];
        let mut typed = typed(self.process.typed().into_iter().chain(own).chain(self.regions.typed()));
        for (option, is_given) in [("--regions", self.regions.all()), ("--once", self.once)] {
            if is_given {
                typed = format!("{typed} {option}").trim_start().to_owned();
            }
        }
        typed
    }
}

/// Runs the program with each set in turns. Returns whether it always ended with status 0.
fn count(
    options: &Options,
    regions: Option<AskedRegions>,
    name: &str,
    filling: &mut Filling,
    runner: &Runner,
) -> Result<Exit, Failure> {
    let mut found = ProgramCounters::find();
    let times = access_times(&filling.record, &found);
    let of_whole_runs = found.sets.len();
    if regions.is_some() {
        // In runs of their own: instructions do not read them.
        let kernel = ProgramCounters::default().with_kernel_events();
        found.tried.extend(kernel.tried);
        found.refused.extend(kernel.refused);
        found.sets.extend(kernel.sets);
    }
    begin(ProgramRuns { times, regions: regions.clone(), ..head_of(name, &found) }, filling)?;
    let mut exit = Exit::Done;
    for kind in order(options, regions.is_some(), [of_whole_runs, found.sets.len()])? {
        let set = kind.set.map(|nth| (nth, found.sets[nth].as_slice()));
        let run = match regions.as_ref().filter(|_| kind.in_regions) {
            Some(asked) => regions::marked_run(runner, asked, set)?,
            None => counted_run(runner, set)?,
        };
        // A run that was cut short is none of several.
        if runner.stop.signal().is_some() && !options.once {
            break;
        }
        filling.add_result(run.lines().iter().map(Line::render))?;
        regions::check_run(&run, name)?;
        exit = exit.max(if run.ended.is_empty() { Exit::Done } else { Exit::Failed });
    }
    Ok(exit)
}

/// Adds what is known before the first run.
fn begin(head: ProgramRuns, filling: &mut Filling) -> Result<(), Failure> {
    head.head_lines().iter().try_for_each(|line| filling.add(&line.render()))
}

fn cannot_count(e: &std::io::Error) -> Failure {
    Failure::new(format!("the counters cannot be used: {e}"), "run it again, or --once")
}

/// Runs the program once, and counts the events of a set, given with its number.
fn counted_run(runner: &Runner, set: Option<(usize, &[ProgramEvent])>) -> Result<ProgramRun, Failure> {
    let failed = |e| cannot_count(&e);
    let counting = set.map(|(_, events)| ProgramCounting::open(events)).transpose().map_err(failed)?;
    let ended = runner.run(&mut || Duration::MAX)?;
    let counts = counting.map(|mut counting| counting.read()).transpose().map_err(failed)?;
    Ok(run_of(&ended, set.map(|(nth, _)| nth), &counts.unwrap_or_default()))
}

fn run_of(ended: &Ended, set: Option<usize>, counts: &[ProgramCount]) -> ProgramRun {
    let used = &ended.used;
    ProgramRun {
        set,
        wall_ns: ended.wall.as_nanos() as u64,
        cpu_us: [used.user_us, used.system_us],
        faults: [used.minor_faults, used.major_faults],
        switches: [used.voluntary_switches, used.involuntary_switches],
        shared: counts.iter().any(|count| !count.whole),
        counted_us: counts.iter().map(|count| count.enabled_ns / 1000).min(),
        left: ended.left,
        counts: counts.iter().map(|count| count.count).collect(),
        ended: ended.failure(),
        ..ProgramRun::default()
    }
}

/// Returns the access times of this machine, from the newest survey of it that is kept, if misses are counted.
fn access_times(record: &Record, found: &ProgramCounters) -> Option<ProgramTimes> {
    if found.sets.is_empty() {
        return None;
    }
    // The home may be that of several machines. Where there are several types of cores, the survey's has to be that of the probe,
    // which runs where the program may.
    let here = record.int(facts::CPU_PINNED).map(|cpu| cpu.to_string());
    let same_type = |survey: &Record| {
        let cpus = survey.text(facts::CPU_TYPE_CPUS);
        cpus.is_none_or(|cpus| here.as_deref().is_some_and(|here| cpus.split(',').any(|cpu| cpu == here)))
    };
    let usable = |survey: &Record| same_model(survey, record) && same_type(survey);
    records::surveys_of_host().filter(|(_, survey)| usable(survey)).find_map(|(path, survey)| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        times_of_survey(name, &records::judged(&survey).ok()?)
    })
}

/// Returns what is known before the first run.
fn head_of(name: &str, found: &ProgramCounters) -> ProgramRuns {
    let tried = |(name, tried): &(&str, Option<u64>)| TriedEvent { name: (*name).to_owned(), tried: *tried };
    let refused = |refused: &fathom_host::EventRefusal| RefusedEvent {
        name: refused.name.to_owned(),
        reason: refused.reason.clone(),
        remedy: refused.remedy.clone(),
    };
    let names = |set: &Vec<ProgramEvent>| set.iter().map(|event| event.name.to_owned()).collect();
    ProgramRuns {
        program: name.to_owned(),
        with_kernel: found.with_kernel,
        events: found.tried.iter().map(tried).collect(),
        refused: found.refused.iter().map(refused).collect(),
        sets: found.sets.iter().map(names).collect(),
        ..ProgramRuns::default()
    }
}

/// What is counted in a run.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// Number of the set; without one nothing is, and marks read the clock.
    set: Option<usize>,
    /// Whether it is counted between marks.
    in_regions: bool,
}

/// Returns what each run counts: all kinds in turns, so that whatever changes with time changes all of them. Each round begins with
/// another one. `sets`: how many are counted in whole runs, and how many between marks.
fn order(options: &Options, in_regions: bool, sets: [usize; 2]) -> Result<Vec<Kind>, Failure> {
    let whole = (0..sets[0]).map(|nth| Kind { set: Some(nth), in_regions: false });
    let marked = (0..sets[1]).filter(|_| in_regions).map(|nth| Kind { set: Some(nth), in_regions: true });
    if options.once {
        let first = if in_regions { marked.into_iter().next() } else { whole.into_iter().next() };
        return Ok(vec![first.unwrap_or(Kind { set: None, in_regions })]);
    }
    let kinds: Vec<Kind> =
        std::iter::once(Kind { set: None, in_regions }).chain(whole).chain(marked).collect();
    let most = MAX_RUNS / kinds.len();
    if usize::from(options.runs) > most {
        return Err(Failure::usage(
            format!(
                "--runs {}: with {} sets of events these are more than {MAX_RUNS} runs",
                options.runs,
                kinds.len() - 1
            ),
            format!("--runs {most} at most"),
        ));
    }
    let round = |round: usize| {
        let mut all = kinds.clone();
        all.rotate_left(round % kinds.len());
        all
    };
    Ok((0..usize::from(options.runs)).flat_map(round).collect())
}
