//! `fathom simulate`: runs a program in QEMU's user mode, or a guest in its system mode, with every access answered by described
//! machines.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::Args;
use fathom_analysis::findings::Report;
use fathom_events::Table;
use fathom_experiment::count;
use fathom_experiment::record::{Record, Simulated};
use fathom_experiment::simulate::limit::Limit;
use fathom_experiment::simulate::quantity::Quantity;
use fathom_experiment::simulate::{KIND, NAME};
use fathom_report::ReportKind;
use fathom_simulation::protocol::{self, End, Request};
use fathom_trace::Format;

use super::{Context, Verb};
use crate::cli::{Output, RecordOptions};
use crate::failure::{Exit, Failure, print_message};
use crate::html_file::Target;
use crate::output::{all_told, one_form, shell};
use crate::program::recorded::ProgramOptions;
use crate::records;

mod calls;
mod conditions;
mod conversation;
mod costs;
mod counters_page;
mod counts;
mod events;
mod guest_data;
mod keep;
mod kernel;
mod launch;
mod machines;
mod program;
mod record;
mod replay;
mod results;
mod side_by_side;
mod source;
mod system;
mod vary;
mod why;

use conversation::Ran;
use costs::Cost;
use launch::Launch;
use machines::Machine;
use program::Program;
use replay::Replay;
use results::{Files, Results};
use system::{System, SystemOptions};
use vary::Vary;

/// Seed, if none is given.
const SEED: u64 = 1;

/// Options of a simulation.
#[derive(Debug, Args)]
struct Options {
    /// Described machines, by name or file, all of which answer the same accesses. Default: this host, as drafted from
    /// its newest survey that is kept.
    #[arg(long, value_name = "MACHINE", value_delimiter = ',')]
    on: Vec<String>,
    /// A value of the machines, with its values: l2.size=0,256K,1M simulates a machine for each. Levels and TLBs are named; a
    /// level of size 0 is left out. Given twice: all combinations.
    #[arg(long, value_name = "VALUE=LIST", value_parser = Vary::parse)]
    vary: Vec<Vary>,
    /// Show which of several machines have the least of a count: one of --fail-if without its number, as cycles or misses.L2.
    #[arg(long, value_name = "COUNT", value_parser = Quantity::parse)]
    best_of: Option<Quantity>,
    /// What each value of --vary costs, in a unit of yours: l2.size=0,3,10; on=5,7 for the machines of --on. Costs of a
    /// machine add up. --best-of then shows the least for each cost. May be repeated.
    #[arg(long, value_name = "VALUE=LIST", value_parser = Cost::parse, requires = "best_of")]
    cost: Vec<Cost>,
    /// A condition that must not hold, e.g. 'misses.L1D > 5%', 'walks > 1000' or, of a region, 'inner_loop:misses.L1D > 5%'; else
    /// the exit status is 4. cycles is the time if every access waits for the one before, cycles.least that if they overlap. May be
    /// repeated.
    #[arg(long, value_name = "CONDITION", value_parser = Limit::parse)]
    fail_if: Vec<Limit>,
    /// Seed of random replacement and latency spread.
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Simulate loads and stores only, not instruction fetches.
    #[arg(long)]
    no_fetches: bool,
    /// Tell why accesses miss (cold, capacity, conflict, shared), in which data, and which lines take one another's place.
    /// Takes several times as long.
    #[arg(long)]
    why: bool,
    /// Tell who called whom: functions with all that they call, and a flame graph.
    #[arg(long)]
    calls: bool,
    /// Show the source around the lines with the longest time, with their counts. The record then has its text. The program
    /// needs debugging information (-g).
    #[arg(long)]
    source: bool,
    /// Threads that simulate, if there are several machines. Does not change any count. Default: one for each CPU.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Simulate this trace instead of a program; - is stdin. Formats: fathom, din, lackey, champsim, memtrace, drmemtrace.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "sysroot", "cpu", "keep_trace", "calls"])]
    trace: Option<PathBuf>,
    /// Format of the trace, if it is not to be recognised.
    #[arg(long, value_name = "FORMAT", value_parser = Format::named)]
    trace_format: Option<Format>,
    /// Keep the program's accesses in this new file, for other machines and without the program: --trace FILE.
    #[arg(long, value_name = "FILE", conflicts_with = "calls")]
    keep_trace: Option<PathBuf>,
    /// Directory of the program's libraries (QEMU's -L). Default: the root, or Debian's cross libraries.
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,
    /// QEMU's CPU (QEMU's -cpu), for instance arm1176. Default: one that has all instructions that QEMU knows.
    #[arg(long, value_name = "CPU")]
    cpu: Option<String>,
    /// Whether the events of the described processor's counters are asked for: `fathom count --simulated`.
    #[arg(skip)]
    events: bool,
    #[command(flatten)]
    system: SystemOptions,
    #[command(flatten)]
    output: RecordOptions,
    #[command(flatten)]
    out: Output,
    /// The program and its arguments; with --system QEMU's command line.
    #[arg(
        required_unless_present = "trace",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    command: Vec<OsString>,
}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Options>(
        NAME,
        fathom_experiment::simulate::EXPERIMENT.about,
        "Examples:
  fathom simulate --on bcm2837 -- ./program       built for AArch64, ARM, RISC-V 64 or x86-64
  fathom simulate --on bcm2835,bcm2711 -- ./program argument
  fathom simulate --on bcm2835 --fail-if 'misses.L1D > 5%' -- ./program
  fathom simulate --on bcm2837 --vary l2.size=0,256K,512K,1M -- ./program
  fathom simulate --on bcm2837 --vary l2.size=0,256K,1M --best-of cycles --cost l2.size=0,3,10 -- ./program
  fathom simulate --on bcm2711 --why -- ./program why accesses miss, and in which data
  fathom simulate --on bcm2711 --calls --html page.html -- ./program    who called whom, as a flame graph
  fathom simulate --on bcm2711 --source -- ./program    the source with its counts
  fathom simulate -- ./program                    on this host, as its survey found it
  fathom simulate --on bcm2837 --keep-trace run.trace -- ./program
  fathom simulate --on bcm2711 --trace run.trace  the same run on another machine
  fathom simulate --on bcm2837 --system -- qemu-system-aarch64 -M virt -cpu cortex-a53 -kernel vmlinuz    a whole guest

The program has stdin, stdout and stderr; the report follows on stderr. With --json or --html -, stdout has that, and the \
         program's output goes to stderr. --record with several machines adds the name of each to the file's name. \
         Exit status: 0 simulated, 1 failed, or the program did not end with 0, 2 wrong command line, 3 low \
         confidence, 4 a condition of --fail-if holds",
        run,
    )
}

impl Options {
    /// Returns those of another verb, which simulates a program.
    fn of(on: &[String], program: &ProgramOptions) -> Options {
        let ProgramOptions { output, out, command } = program.clone();
        Options {
            on: on.to_vec(),
            vary: Vec::new(),
            best_of: None,
            cost: Vec::new(),
            fail_if: Vec::new(),
            seed: SEED,
            no_fetches: false,
            why: false,
            calls: false,
            source: false,
            threads: None,
            trace: None,
            trace_format: None,
            keep_trace: None,
            sysroot: None,
            cpu: None,
            events: false,
            system: SystemOptions::default(),
            output,
            out,
            command,
        }
    }

    /// Returns the kind of the report.
    fn kind(&self) -> &'static ReportKind {
        if self.events { &count::KIND } else { &KIND }
    }
}

/// Simulates a program's calls, with these machines, or else this host: what `fathom profile --simulated` does. `data`: with the data
/// that it accesses, and why accesses miss.
///
/// # Errors
/// As `fathom simulate`.
pub fn profile(
    on: &[String],
    data: bool,
    program: &ProgramOptions,
    context: &Context,
) -> Result<Exit, Failure> {
    run(&Options { calls: true, why: data, ..Options::of(on, program) }, context)
}

/// Counts the events of the described processor's counters: what `fathom count --simulated` does.
///
/// # Errors
/// As `fathom simulate`, and a description that does not tell the processor's events.
pub fn count(on: &str, program: &ProgramOptions, context: &Context) -> Result<Exit, Failure> {
    run(&Options { events: true, ..Options::of(&[on.to_owned()], program) }, context)
}

/// Returns whether a program can be simulated here.
pub fn can_run(program: &OsStr) -> bool {
    launch::plugin().is_ok() && Program::find(program, None).is_ok()
}

/// Simulates, keeps the records, prints, and checks the conditions.
fn run(options: &Options, context: &Context) -> Result<Exit, Failure> {
    one_form(options.out.json, options.out.html.as_deref())?;
    options.system.check(options.source, options.trace.is_some())?;
    let on_stdout =
        options.out.json || options.out.html.as_deref().is_some_and(|file| file.as_os_str() == "-");
    // stdout is the program's, if there is one.
    let out =
        if on_stdout || options.trace.is_some() { context.out.clone() } else { context.out.on_stderr() };
    let out = out.with_studies(options.out.study);
    let (machines, costs) = all_machines(options)?;
    let tables = options.events.then(|| events::tables_of(&machines)).transpose()?;
    let files = Files::of(options, &machines);
    let page = Target::open(options.out.html.as_deref(), files.requested())?;
    files.check()?;
    let (subject, name) = subject(options)?;
    let command = typed(options);
    let common = record::Common {
        experiment: options.kind().name,
        program: &name,
        command: &command,
        seed: options.seed,
        interrupted: false,
        elapsed_ms: 0,
    };
    if let Subject::Program(program) = &subject {
        conditions::check_regions(options, program)?;
    }
    conditions::check_limits(options, &common, &machines)?;
    let ran = answered(options, &subject, &machines, on_stdout, context.quiet)?;
    // How the program of a trace ended is told by the report.
    let failed = !matches!(subject, Subject::Trace) && !ran.status().success();
    let common = record::Common {
        program: &ran.program,
        interrupted: ran.answer.end == End::Interrupted,
        elapsed_ms: ran.elapsed_ms,
        ..common
    };
    let all = counted(options, &subject, &ran, tables.as_deref(), &machines)?;
    let judged = machines
        .iter()
        .zip(&all)
        .map(|(machine, counted)| judge(&common, machine, counted))
        .collect::<Result<_, _>>()?;
    let mut results = Results { options, out: &out, machines: &machines, judged, page, costs };
    let (kept, lost) = results.keep(&files);
    let exit = results.tell(&kept);
    let exit = exit.map(|exit| exit.max(if failed { Exit::Failed } else { Exit::Done }));
    if failed {
        print_message(&format!("the program did not end with status 0: {}", ran.status()));
    }
    let exit = exit.and_then(|exit| Ok(exit.max(results.limits()?)));
    let page = results.page.take().map_or(Ok(()), |page| results.write(page));
    let exit = all_told(exit, [page, lost.map_or(Ok(()), Err)]);
    ran.signal.map_or(exit, |signal| Ok(Exit::Signal(signal)))
}

/// Returns the machines, and what each costs, if that is given.
fn all_machines(options: &Options) -> Result<(Vec<Machine>, Vec<Option<f64>>), Failure> {
    let described = machines::named(&options.on)?;
    let costs = costs::of(described.len(), &options.vary, &options.cost)?;
    let machines = vary::all(described, &options.vary)?;
    if options.best_of.is_some() && machines.len() < 2 {
        let remedy = "name several: --on bcm2835,bcm2837, or --vary l2.size=0,256K,1M";
        return Err(Failure::usage("--best-of with one machine", remedy));
    }
    Ok((machines, costs))
}

/// Has the machines answer all accesses.
fn answered(
    options: &Options,
    subject: &Subject,
    machines: &[Machine],
    on_stdout: bool,
    quiet: bool,
) -> Result<Ran, Failure> {
    match subject {
        Subject::Program(program) => launch(options, program, machines, on_stdout, quiet),
        Subject::System(system) => {
            let run = |request| system.run(Request { program: system.name(), ..request }, on_stdout, quiet);
            keep::keeping(options.keep_trace.as_deref(), request(options, machines), run)
        }
        Subject::Trace => replay(options, machines, quiet),
    }
}

/// Returns the name of a machine, the report of what was counted there, and its record.
fn judge<'a>(
    common: &record::Common,
    machine: &'a Machine,
    counted: &Simulated,
) -> Result<(&'a str, Report, Vec<String>), Failure> {
    let lines = record::lines(common, &machine.description, &machine.name, counted)?;
    let record = Record::parse(&lines.join("\n")).map_err(|e| Failure::new(e, ""))?;
    Ok((machine.name.as_str(), records::judged(&record)?, lines))
}

/// Returns what each machine counted, with the names of a guest's kernel, if there is one, and the events of its processor, if they are
/// requested.
fn counted(
    options: &Options,
    subject: &Subject,
    ran: &Ran,
    tables: Option<&[&Table]>,
    machines: &[Machine],
) -> Result<Vec<Simulated>, Failure> {
    let of_trace = match subject {
        Subject::System(_) => None,
        _ => options.system.kernel_of(&ran.answer)?,
    };
    let kernel = if let Subject::System(system) = subject { Some(&system.kernel) } else { of_trace.as_ref() };
    let mut all = counts::simulated(ran, options.source, kernel);
    if let Some(tables) = tables {
        events::add(&mut all, tables, machines, &ran.answer);
    }
    Ok(all)
}

/// What is simulated.
enum Subject {
    Program(Box<Program>),
    System(Box<System>),
    Trace,
}

/// Returns what is simulated, and its name.
fn subject(options: &Options) -> Result<(Subject, String), Failure> {
    let Some(trace) = &options.trace else {
        if options.trace_format.is_some() {
            return Err(Failure::usage("--trace-format without --trace", "name the trace: --trace FILE"));
        }
        if options.system.system {
            let system = System::find(&options.system, &options.command, options.seed, options.calls)?;
            let name = system.name();
            return Ok((Subject::System(Box::new(system)), name));
        }
        let program = Program::find(&options.command[0], options.sysroot.as_deref())?;
        let name = program.name();
        return Ok((Subject::Program(Box::new(program)), name));
    };
    Ok((Subject::Trace, Replay::name(trace)))
}

fn launch(
    options: &Options,
    program: &Program,
    machines: &[Machine],
    divert: bool,
    quiet: bool,
) -> Result<Ran, Failure> {
    let command = options.command.as_slice();
    keep::keeping(options.keep_trace.as_deref(), request(options, machines), |request| {
        let request = Request { program: program.name(), ..request };
        Launch { program, command, cpu: options.cpu.as_deref(), request, divert, quiet }.run()
    })
}

fn replay(options: &Options, machines: &[Machine], quiet: bool) -> Result<Ran, Failure> {
    let file = options.trace.as_deref().unwrap_or(Path::new("-"));
    Replay { file, format: options.trace_format, request: &request(options, machines), quiet }.run()
}

/// Returns what is asked about a source of accesses.
fn request(options: &Options, machines: &[Machine]) -> Request {
    let described = machines
        .iter()
        .map(|machine| protocol::Machine { name: machine.name.clone(), text: machine.description.to_toml() });
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    Request {
        machines: described.collect(),
        seed: options.seed,
        threads: options.threads.map_or(cpus, usize::from),
        fetches: !options.no_fetches,
        why: options.why,
        calls: options.calls,
        trace: None,
        program: String::new(),
        guest: None,
    }
}

/// Returns the command line that repeats the simulation.
fn typed(options: &Options) -> String {
    let mut text =
        format!("fathom {}{}", options.kind().name, if options.events { " --simulated" } else { "" });
    if !options.on.is_empty() {
        text += &format!(" --on {}", options.on.iter().map(|name| shell(name)).collect::<Vec<_>>().join(","));
    }
    options.vary.iter().for_each(|vary| text += &format!(" --vary {}", shell(&vary.typed())));
    if !options.events {
        text += &format!(" --seed {}", options.seed);
    }
    let switches = [
        (options.no_fetches, " --no-fetches"),
        (options.why, " --why"),
        (options.calls, " --calls"),
        (options.source, " --source"),
    ];
    switches.iter().filter(|(given, _)| *given).for_each(|(_, option)| text += option);
    text += &options.system.typed();
    if let Some(root) = &options.sysroot {
        text += &format!(" --sysroot {}", shell(&root.display().to_string()));
    }
    if let Some(cpu) = &options.cpu {
        text += &format!(" --cpu {}", shell(cpu));
    }
    if let Some(file) = &options.trace {
        text += &format!(" --trace {}", shell(&file.display().to_string()));
        if let Some(format) = options.trace_format {
            text += &format!(" --trace-format {}", format.name());
        }
        return text;
    }
    text += " --";
    options.command.iter().for_each(|word| text += &format!(" {}", shell(&word.to_string_lossy())));
    text
}
