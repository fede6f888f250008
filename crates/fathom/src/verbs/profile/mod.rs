//! `fathom profile`: samples where a program executes on this machine.

use std::io;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant, SystemTime};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use fathom_experiment::profile::{KIND, NAME};
use fathom_experiment::record::{Profile, ProfilePmu};
use fathom_host::{
    Callers, MemoryEvent, Pace, ProgramSampling, SampledBy, SampledPmu, mapped, memory_events,
};

use super::{Context, Verb, simulate};
use crate::failure::{Exit, Failure};
use crate::measure::stop::Stop;
use crate::program::Runner;
use crate::program::process::{Process, ProcessOptions};
use crate::program::recorded::{Asked, Filling, ProgramOptions, typed};
use crate::program::samples::Places;

/// Shortest period of the kernel's clock, ns (kernel/events/core.c, `perf_swevent_start_hrtimer`).
const LEAST_CLOCK_NS: u64 = 10_000;

/// Shortest period of IBS, operations: its counter has no lower four bits (arch/x86/events/amd/ibs.c, `perf_ibs_op.min_period`).
const LEAST_OPERATIONS: u64 = 144;

/// Periods of SPE, operations: PMSIRR_EL1.INTERVAL has 24 bits, and counts each 256.
const TRACED_STEP: u64 = 256;
const MOST_TRACED: u64 = 0xff_ffff * TRACED_STEP;
/// Largest of the latencies that SPE chooses by (PMSLATFR_EL1.MINLAT), cycles.
const MOST_TRACED_LATENCY: u64 = 0xfff;

/// Largest period: the kernel keeps the upper bit for itself.
const MOST_EVENTS: u64 = i64::MAX as u64;

/// Options of the profile.
#[derive(Debug, Args)]
#[command(mut_arg("command", |command| command.required(false).required_unless_present_any(["process", "time"])))]
struct Options {
    /// Event that makes samples, by its name in perf-list(1). Default: cycles, or cpu-clock where they cannot be counted.
    #[arg(long, value_name = "EVENT", value_parser = event_of_name())]
    event: Option<SampledBy>,
    /// Samples for each second of the program on a CPU. Default: 997, a prime number, which does not keep step with timers.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=20_000))]
    rate: Option<u64>,
    /// A sample at each N events (of cpu-clock: ns) of --event, instead of a rate. Default of page-faults: 97.
    #[arg(long, value_name = "N", conflicts_with = "rate", value_parser = clap::value_parser!(u64).range(1..=MOST_EVENTS))]
    period: Option<u64>,
    /// With --event mem-loads or arm_spe: only accesses that take so many cycles at least.
    #[arg(long, value_name = "CYCLES", value_parser = clap::value_parser!(u64).range(1..=65_535))]
    least_latency: Option<u64>,
    /// How callers are found. Default: tables on x86-64 and AArch64, else frame-pointers.
    #[arg(long, value_enum, value_name = "HOW")]
    callers: Option<CallersName>,
    /// Tell which data: by addresses that samples have, those of page faults (--event page-faults) and of accesses (--event mem-loads of
    /// Intel's PEBS, ibs_op of AMD's IBS, arm_spe of Arm's SPE); or, with --simulated, with the
    /// reasons of misses, which takes several times as long.
    #[arg(long)]
    data: bool,
    /// Simulate the program on a described machine instead: exact, and without counters. The report is that of `fathom simulate
    /// --calls`.
    #[arg(long, conflicts_with_all = ["event", "rate", "period", "least_latency", "callers", "process", "time"])]
    simulated: bool,
    /// The described machine, by name or file. Default: this host, as drafted from its newest survey that is kept.
    #[arg(long, value_name = "MACHINE", value_delimiter = ',', requires = "simulated")]
    on: Vec<String>,
    #[command(flatten)]
    process: ProcessOptions,
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

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Options>(
        NAME,
        fathom_experiment::profile::EXPERIMENT.about,
        "Examples:
  fathom profile -- ./program argument
  fathom profile --rate 4000 --html page.html -- ./program
  fathom profile --event cpu-clock -- make
  fathom profile --event page-faults --data -- ./program      which data is touched first
  fathom profile --event mem-loads -- ./program               which data takes how long, and where it was
  fathom profile --event arm_spe --least-latency 30 -- ./program      the same on Arm
  fathom profile --pid 1234 --for 30s         a process that runs already
  fathom profile --callers frame-pointers -- ./program
  fathom profile --simulated --on bcm2711 -- ./program      exact, on a described machine

The program has stdin, stdout and stderr; the report follows on stderr. With --json or --html -, stdout has that, and the \
         program's output goes to stderr. Samples are of everything that the program starts, in user space. Lines of the source \
         need debugging information (-g). Exit status: 0 sampled, 1 failed, or the program did not end with 0, 2 wrong command line, 3 low \
         confidence, 5 nothing was sampled",
        run,
    )
}

impl Options {
    fn pace(&self, by: SampledBy) -> Pace {
        let asked = self.period.map(Pace::Each).or(self.rate.map(Pace::PerSecond));
        asked.unwrap_or(by.usual_pace())
    }

    /// Returns the event that is asked for.
    fn event(&self) -> Option<SampledBy> {
        match (self.event, self.least_latency) {
            (Some(SampledBy::Accesses(of, _)), least @ Some(_)) => Some(SampledBy::Accesses(of, least)),
            (event, _) => event,
        }
    }

    /// Checks what depends on two options.
    fn check(&self) -> Result<(), Failure> {
        let is_short = self.period.is_some_and(|ns| ns < LEAST_CLOCK_NS);
        self.check_accesses()?;
        match self.event {
            Some(SampledBy::CpuClock) if is_short => Err(Failure::usage(
                "--period: that of cpu-clock is in ns, and the kernel's shortest is 10000",
                format!("--period {LEAST_CLOCK_NS} at least"),
            )),
            Some(SampledBy::PageFaults) if self.rate.is_some() => Err(Failure::usage(
                "--rate: the kernel miscounts its own events at a rate",
                "--period 97: a sample at each so many page faults",
            )),
            None if self.period.is_some() => {
                Err(Failure::usage("--period: of which event?", "name it: --event page-faults --period 10"))
            }
            by if self.data && !by.is_some_and(SampledBy::tells_data) => {
                Err(no_addresses(by.unwrap_or(SampledBy::cycles())))
            }
            _ => Ok(()),
        }
    }

    /// The same of accesses.
    fn check_accesses(&self) -> Result<(), Failure> {
        let Some(SampledBy::Accesses(of, _)) = self.event else {
            return match self.least_latency {
                Some(_) => Err(Failure::usage(
                    "--least-latency is of --event mem-loads or arm_spe",
                    "name one of these events, or leave it out",
                )),
                None => Ok(()),
            };
        };
        let is_traced = of == MemoryEvent::Traced;
        let wrong_period = |step: u64, range: RangeInclusive<u64>| {
            let is_wrong = |each: u64| !range.contains(&each) || !each.is_multiple_of(step);
            self.period.is_some_and(is_wrong).then(|| {
                let (least, most) = (range.start(), range.end());
                let most = if *most < MOST_EVENTS { format!(", at most {most}") } else { String::new() };
                Failure::usage(
                    format!(
                        "--period: that of {} is a multiple of {step}, and at least {least}{most}",
                        of.name()
                    ),
                    format!("--period {least}, or another multiple of {step}"),
                )
            })
        };
        let wrong = match of {
            _ if self.rate.is_some() => Some(Failure::usage(
                "--rate: samples of accesses have addresses in place of the numbers of events",
                "--period: a sample at each so many events",
            )),
            MemoryEvent::Operations if self.least_latency.is_some() => Some(Failure::usage(
                "--least-latency is of --event mem-loads or arm_spe: IBS does not choose by it",
                "leave it out",
            )),
            MemoryEvent::Operations => wrong_period(16, LEAST_OPERATIONS..=MOST_EVENTS),
            MemoryEvent::Traced => wrong_period(TRACED_STEP, TRACED_STEP..=MOST_TRACED),
            MemoryEvent::Loads => None,
        };
        match wrong {
            Some(wrong) => Err(wrong),
            None if is_traced && self.least_latency.is_some_and(|least| least > MOST_TRACED_LATENCY) => {
                Err(Failure::usage(
                    format!("--least-latency: that of arm_spe is at most {MOST_TRACED_LATENCY} cycles"),
                    "name a smaller one",
                ))
            }
            None if is_traced && self.callers.is_some_and(|how| how != CallersName::None) => {
                Err(Failure::usage(
                    "--callers: samples of arm_spe have no callers",
                    "leave it out; with callers: --event cycles",
                ))
            }
            None => Ok(()),
        }
    }

    /// Returns them as typed.
    fn typed(&self) -> String {
        let how = self.callers.and_then(|callers| callers.to_possible_value());
        let own = [
            ("--event", self.event.map(|by| by.name().to_owned())),
            ("--rate", self.rate.map(|n| n.to_string())),
            ("--period", self.period.map(|n| n.to_string())),
            ("--least-latency", self.least_latency.map(|n| n.to_string())),
            ("--callers", how.map(|how| how.get_name().to_owned())),
        ];
        let typed = typed(self.process.typed().into_iter().chain(own));
        if self.data { format!("{typed} --data").trim_start().to_owned() } else { typed }
    }

    fn callers(&self, by: SampledBy) -> Callers {
        let best = if by.is_traced() { Callers::Unknown } else { Callers::BEST };
        self.callers.map_or(best, CallersName::callers)
    }
}

/// Samples, keeps the record, and prints the report.
fn run(options: &Options, context: &Context) -> Result<Exit, Failure> {
    if options.simulated {
        return simulate::profile(&options.on, options.data, &options.program, context);
    }
    options.check()?;
    let process = options.process.open()?;
    let asked = Asked {
        kind: &KIND,
        program: &options.program,
        options: options.typed(),
        once: true,
        process: options.process.process,
    };
    let name = asked.name();
    match process {
        Some(process) => {
            // A refusal comes before the record. The samples until the record has begun would fill the rings.
            drop(opened(options, Some(&process))?);
            let begun = Profile { program: name, process: Some(process.number.into()), ..Profile::default() };
            asked.observe(&context.out, |filling, stop| observe(options, &process, begun, filling, stop))
        }
        None => asked.record(&context.out, |filling, runner| profile(options, &name, filling, runner)),
    }
}

/// Returns the parser of events' names.
fn event_of_name() -> impl TypedValueParser<Value = SampledBy> {
    let names = PossibleValuesParser::new(SampledBy::all().map(SampledBy::name));
    names.try_map(|name| SampledBy::all().find(|by| by.name() == name).ok_or("no event has this name"))
}

/// Runs the program, and adds where it executed. Returns whether it ended with status 0.
fn profile(options: &Options, name: &str, filling: &mut Filling, runner: &Runner) -> Result<Exit, Failure> {
    let Opened { mut sampling, by, instead } = opened(options, None)?;
    let mut places = places(options, by);
    let ended = runner.run(&mut || {
        places.take(sampling.take());
        Duration::from_millis(ProgramSampling::INTERVAL_MS)
    })?;
    let run = Profile {
        program: name.to_owned(),
        event: by.name().to_owned(),
        instead,
        left: ended.left,
        wall_ns: ended.wall.as_nanos() as u64,
        cpu_us: [ended.used.user_us, ended.used.system_us],
        ended: ended.failure(),
        ..Profile::default()
    };
    let profile = finished(options, by, sampling, places, run)?;
    filling.add_result(profile.record_lines().iter().map(|line| line.render()))?;
    Ok(if profile.ended.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Returns where samples of an event will be, of a program that starts now.
fn places(options: &Options, by: SampledBy) -> Places {
    Places::new(Some(SystemTime::now()), options.callers(by))
        .with_data(by.tells_data())
        .of_trace(by.is_traced())
}

/// Takes the last samples, and adds what they say to what is known of a run.
fn finished(
    options: &Options,
    by: SampledBy,
    mut sampling: ProgramSampling,
    mut places: Places,
    run: Profile,
) -> Result<Profile, Failure> {
    places.take(sampling.take());
    let unread = |e: io::Error| Failure::new(format!("cannot read the counters: {e}"), "run it again");
    let counted = sampling.counted().map_err(unread)?;
    let pmus = sampling.pmus().map_err(unread)?.into_iter().map(pmu).collect();
    let (rate, period) = match options.pace(by) {
        Pace::PerSecond(rate) => (rate, None),
        Pace::Each(events) => (0, Some(events)),
    };
    let Profile { program, event, process, instead, left, wall_ns, cpu_us, ended, .. } = run;
    Ok(Profile {
        program,
        event,
        process,
        instead,
        left,
        wall_ns,
        cpu_us,
        ended,
        rate,
        period,
        counted,
        pmus,
        ..places.finish()
    })
}

fn pmu(of: SampledPmu) -> ProfilePmu {
    let SampledPmu { name, cpus, samples, counted, refused } = of;
    ProfilePmu { name, cpus, samples, counted, refused: refused.unwrap_or_default() }
}

/// Samples a process that runs already, and adds where it executed.
fn observe(
    options: &Options,
    process: &Process,
    begun: Profile,
    filling: &mut Filling,
    stop: &Stop,
) -> Result<Exit, Failure> {
    let Opened { mut sampling, by, instead } = opened(options, Some(process))?;
    let mut places = places(options, by);
    places.take(mapped(process.number, by.tells_data()));
    let start = Instant::now();
    while process.goes_on(start, stop) {
        process.wait(start, start.elapsed() + Duration::from_millis(ProgramSampling::INTERVAL_MS), stop);
        places.take(sampling.take());
    }
    process.tell_if_ended(start);
    let wall_ns = start.elapsed().as_nanos() as u64;
    let run = Profile { event: by.name().to_owned(), instead, wall_ns, ..begun };
    let profile = finished(options, by, sampling, places, run)?;
    filling.add_result(profile.record_lines().iter().map(|line| line.render()))?;
    Ok(Exit::Done)
}

/// Samples that are taken, and why they are not those of cycles, with the remedy.
struct Opened {
    sampling: ProgramSampling,
    by: SampledBy,
    instead: [String; 2],
}

/// Opens the event that is asked for, of a program or of a process; without one, cycles if they count, else the clock.
fn opened(options: &Options, process: Option<&Process>) -> Result<Opened, Failure> {
    let open = |by: SampledBy| {
        let (pace, callers) = (options.pace(by), options.callers(by));
        match process {
            Some(process) => ProgramSampling::of_process(process.number, by, pace, callers),
            None => ProgramSampling::open(by, pace, callers),
        }
    };
    let failed = |by: SampledBy, error: &io::Error| match process {
        // Not an event that does not exist.
        Some(process)
            if (error.raw_os_error().is_none() && error.kind() != io::ErrorKind::InvalidInput)
                || error.kind() == io::ErrorKind::PermissionDenied =>
        {
            process.failure(error)
        }
        _ => cannot_sample(options, by, error),
    };
    if let Some(by) = options.event() {
        let sampling = open(by).map_err(|error| failed(by, &error))?;
        return Ok(Opened { sampling, by, instead: Default::default() });
    }
    let cycles = SampledBy::cycles();
    match open(cycles) {
        Ok(sampling) => Ok(Opened { sampling, by: cycles, instead: Default::default() }),
        Err(why) => {
            let by = SampledBy::CpuClock;
            let sampling = open(by).map_err(|error| failed(by, &error))?;
            let Failure { what, remedy, .. } = cannot_sample(options, cycles, &why);
            Ok(Opened { sampling, by, instead: [what, remedy] })
        }
    }
}

/// Tells that samples of an event do not say which data was accessed.
fn no_addresses(by: SampledBy) -> Failure {
    let pmus = memory_events();
    let remedy = "--event page-faults: the data that is touched first; exact, of all accesses: fathom profile --simulated --data --on \
                  MACHINE -- PROGRAM";
    let event = by.name();
    match pmus.as_slice() {
        [] => Failure::new(
            format!(
                "samples of {event} have no addresses of data: this machine has no PMU that tells them (mem-loads of cpu or \
                 cpu_core, ibs_op, arm_spe_0)"
            ),
            remedy,
        ),
        some => Failure::new(
            format!("samples of {event} have no addresses of data; those of {} have", some.join(", ")),
            format!("--event {}; or {remedy}", some.join(", or --event ")),
        ),
    }
}

fn cannot_sample(options: &Options, by: SampledBy, error: &io::Error) -> Failure {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound if by.is_traced() => {
            "it takes an Arm processor with SPE and the kernel's driver of it (CONFIG_ARM_SPE_PMU; some kernels need kpti=off, and tell so), and in a \
             guest its hypervisor's leave; which data is touched first: --event page-faults"
        }
        io::ErrorKind::NotFound if by.tells_access() => {
            "it takes a processor of Intel with PEBS (mem-loads), of AMD with IBS (ibs_op) or of Arm with SPE (arm_spe), and in a guest its \
             hypervisor's leave; which data is touched first: --event page-faults"
        }
        io::ErrorKind::ResourceBusy if by.is_traced() => {
            "others use SPE on these CPUs: end them, or sample after them"
        }
        io::ErrorKind::Unsupported if by.is_traced() && error.raw_os_error().is_some() => {
            "this processor cannot choose samples so: leave out --least-latency; without it, loads and stores cannot be told apart"
        }
        io::ErrorKind::InvalidInput if by.is_traced() => "sample less often: a larger --period",
        io::ErrorKind::PermissionDenied => {
            "sysctl kernel.perf_event_paranoid=2 as root, or CAP_PERFMON; in a container allow perf_event_open"
        }
        io::ErrorKind::NotFound => {
            "give the virtual machine a PMU (QEMU: -cpu host,pmu=on), or measure on the bare machine"
        }
        io::ErrorKind::QuotaExceeded => {
            "let more memory be locked: ulimit -l, or sysctl kernel.perf_event_mlock_kb; end other profiles"
        }
        io::ErrorKind::Unsupported if error.raw_os_error().is_some() => {
            "this event of this PMU makes no interrupts: --event cpu-clock"
        }
        io::ErrorKind::Unsupported => "let the kernel find callers: --callers frame-pointers, or none",
        io::ErrorKind::InvalidInput => {
            "sample less often: --rate 100, or a larger --period (sysctl kernel.perf_event_max_sample_rate)"
        }
        _ => {
            "see perf_event_open(2) for this error; raise the limits on open files and locked memory (ulimit -n, -l)"
        }
    };
    let program = options.program.command.first().filter(|program| simulate::can_run(program));
    let remedy = match program {
        Some(_) => {
            format!("{remedy}; exact, without counters: fathom profile --simulated --on MACHINE -- PROGRAM")
        }
        None => remedy.to_owned(),
    };
    Failure::new(format!("{} cannot be sampled: {error}", by.name()), remedy)
}
