//! `fathom profile`: samples where a program executes on this machine.

use std::io;
use std::time::SystemTime;

use clap::{Args, ValueEnum};
use fathom_experiment::profile::{KIND, NAME};
use fathom_experiment::record::Profile;
use fathom_host::{Callers, ProgramSampling, SampledBy};

use super::{Context, Verb};
use crate::failure::{Exit, Failure};
use crate::program::Runner;
use crate::program::recorded::{Asked, Filling, ProgramOptions};
use crate::program::samples::Places;

/// Options of the profile.
#[derive(Debug, Args)]
struct Options {
    /// Event that makes samples. Default: cycles, or cpu-clock where they cannot be counted.
    #[arg(long, value_enum, value_name = "EVENT")]
    event: Option<EventName>,
    /// Samples for each second of the program on a CPU. The default, a prime number, does not keep step with timers.
    #[arg(long, default_value_t = 997, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=20_000))]
    rate: u64,
    /// How callers are found. Default: tables on x86-64 and AArch64, else frame-pointers.
    #[arg(long, value_enum, value_name = "HOW")]
    callers: Option<CallersName>,
    #[command(flatten)]
    program: ProgramOptions,
}

/// How callers are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CallersName {
    /// By the tables that programs have for their exceptions, from 8 KiB of the stack in each sample.
    Tables,
    /// By the kernel, which follows frame pointers: for code that is compiled with -fno-omit-frame-pointer.
    FramePointers,
    /// They are not.
    None,
}

impl CallersName {
    fn callers(self) -> Callers {
        match self {
            CallersName::Tables => Callers::Tables,
            CallersName::FramePointers => Callers::FramePointers,
            CallersName::None => Callers::Unknown,
        }
    }
}

/// Name of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EventName {
    /// The kernel's timer, while the program is on a CPU.
    CpuClock,
    /// Cycles of the processor.
    Cycles,
}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Options>(
        NAME,
        fathom_experiment::profile::EXPERIMENT.about,
        "Examples:
  fathom profile -- ./program argument
  fathom profile --rate 4000 --html page.html -- ./program
  fathom profile --event cpu-clock -- make
  fathom profile --callers frame-pointers -- ./program

The program has stdin, stdout and stderr; the report follows on stderr. With --json or --html -, stdout has that, and the \
         program's output goes to stderr. Samples are of everything that the program starts, in user space. Lines of the source \
         need debugging information (-g). Exact counts of misses by function and line, on described machines: `fathom \
         simulate`. Exit status: 0 sampled, 1 failed, or the program did not end with 0, 2 wrong command line, 3 low \
         confidence, 5 nothing was sampled",
        run,
    )
}

impl Options {
    fn callers(&self) -> Callers {
        self.callers.map_or(Callers::BEST, CallersName::callers)
    }
}

/// Samples, keeps the record, and prints the report.
fn run(options: &Options, context: &Context) -> Result<Exit, Failure> {
    let event = options.event.map(|event| format!(" --event {}", by_of(event).name())).unwrap_or_default();
    let named = |callers: CallersName| callers.to_possible_value().map(|value| value.get_name().to_owned());
    let callers =
        options.callers.and_then(named).map(|name| format!(" --callers {name}")).unwrap_or_default();
    let asked = Asked {
        kind: &KIND,
        program: &options.program,
        options: format!("--rate {}{event}{callers}", options.rate),
        once: true,
    };
    let name = asked.name();
    asked.record(&context.out, |filling, runner| profile(options, &name, filling, runner))
}

fn by_of(event: EventName) -> SampledBy {
    match event {
        EventName::CpuClock => SampledBy::CpuClock,
        EventName::Cycles => SampledBy::Cycles,
    }
}

/// Runs the program, and adds where it executed. Returns whether it ended with status 0.
fn profile(options: &Options, name: &str, filling: &mut Filling, runner: &Runner) -> Result<Exit, Failure> {
    let Opened { mut sampling, by, instead } = opened(options)?;
    let mut places = Places::new(Some(SystemTime::now()), options.callers());
    let ended = runner.run(&mut || places.take(sampling.take()))?;
    places.take(sampling.take());
    let total = places.finish();
    let profile = Profile {
        program: name.to_owned(),
        event: by.name().to_owned(),
        instead,
        rate: options.rate,
        left: ended.left,
        wall_ns: ended.wall.as_nanos() as u64,
        cpu_us: [ended.used.user_us, ended.used.system_us],
        ended: ended.failure(),
        ..total
    };
    filling.add_result(profile.record_lines().iter().map(|line| line.render()))?;
    Ok(if profile.ended.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Samples that are taken, and why they are not those of cycles, with the remedy.
struct Opened {
    sampling: ProgramSampling,
    by: SampledBy,
    instead: [String; 2],
}

/// Opens the event that is asked for; without one, cycles if they count, else the clock.
fn opened(options: &Options) -> Result<Opened, Failure> {
    let open = |by: SampledBy| ProgramSampling::open(by, options.rate, options.callers());
    if let Some(by) = options.event.map(by_of) {
        let sampling = open(by).map_err(|error| cannot_sample(by, &error))?;
        return Ok(Opened { sampling, by, instead: Default::default() });
    }
    match open(SampledBy::Cycles) {
        Ok(sampling) => Ok(Opened { sampling, by: SampledBy::Cycles, instead: Default::default() }),
        Err(why) => {
            let by = SampledBy::CpuClock;
            let sampling = open(by).map_err(|error| cannot_sample(by, &error))?;
            let Failure { what, remedy, .. } = cannot_sample(SampledBy::Cycles, &why);
            Ok(Opened { sampling, by, instead: [what, remedy] })
        }
    }
}

fn cannot_sample(by: SampledBy, error: &io::Error) -> Failure {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "sysctl kernel.perf_event_paranoid=2 as root, or CAP_PERFMON; in a container allow perf_event_open"
        }
        io::ErrorKind::NotFound => {
            "give the virtual machine a PMU (QEMU: -cpu host,pmu=on), or measure on the bare machine; misses by function without one: fathom \
             simulate -- PROGRAM"
        }
        io::ErrorKind::QuotaExceeded => {
            "let more memory be locked: ulimit -l, or sysctl kernel.perf_event_mlock_kb; end other profiles"
        }
        io::ErrorKind::Unsupported => "let the kernel find callers: --callers frame-pointers, or none",
        io::ErrorKind::InvalidInput => {
            "sample less often: --rate 100 (sysctl kernel.perf_event_max_sample_rate)"
        }
        _ => {
            "see perf_event_open(2) for this error; raise the limits on open files and locked memory (ulimit -n, -l)"
        }
    };
    Failure::new(format!("{} cannot be sampled: {error}", by.name()), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_events_are_those_of_the_reports() {
        let names = EventName::value_variants().iter().map(|event| by_of(*event).name());
        assert_eq!(names.collect::<Vec<_>>(), fathom_experiment::profile::EVENTS);
    }
}
