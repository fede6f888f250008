//! `fathom simulate`: runs a program in QEMU's user mode, or a guest in its system mode, with every access answered by described
//! machines.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::Args;
use fathom_analysis::findings::Report;
use fathom_experiment::record::{Record, Simulated};
use fathom_experiment::simulate::limit::Limit;
use fathom_experiment::simulate::{KIND, NAME};
use fathom_report::html::Entry;
use fathom_report::page::Page;
use fathom_simulation::protocol::{self, End, Request};
use fathom_trace::Format;

use super::{Context, Verb};
use crate::cli::{Output, RecordOptions};
use crate::failure::{Exit, Failure, print_message};
use crate::html_file::Target;
use crate::output::{Out, all_told, one_form, shell};
use crate::program::recorded::ProgramOptions;
use crate::record_writer::{RecordWriter, Requested};
use crate::records;

mod calls;
mod conditions;
mod conversation;
mod counters_page;
mod counts;
mod guest_data;
mod keep;
mod kernel;
mod launch;
mod machines;
mod objects;
mod program;
mod record;
mod replay;
mod side_by_side;
mod source;
mod system;
mod vary;
mod why;

use conversation::Ran;
use launch::Launch;
use machines::Machine;
use program::Program;
use replay::Replay;
use system::{System, SystemOptions};
use vary::Vary;

/// Seed, if none is given.
const SEED: u64 = 1;
/// Records that are named, at most.
const MAX_NAMED: usize = 4;

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
    /// A condition that must not hold, e.g. 'misses.L1D > 5%', 'walks > 1000' or, of a region, 'inner_loop:misses.L1D > 5%'; else
    /// the exit status is 4. May be repeated.
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

/// Simulates a program's calls, with these machines, or else this host: what `fathom profile --simulated` does.
///
/// # Errors
/// As `fathom simulate`.
pub fn profile(on: &[String], program: &ProgramOptions, context: &Context) -> Result<Exit, Failure> {
    let ProgramOptions { output, out, command } = program.clone();
    let options = Options {
        on: on.to_vec(),
        vary: Vec::new(),
        fail_if: Vec::new(),
        seed: SEED,
        no_fetches: false,
        why: false,
        calls: true,
        source: false,
        threads: None,
        trace: None,
        trace_format: None,
        keep_trace: None,
        sysroot: None,
        cpu: None,
        system: SystemOptions::default(),
        output,
        out,
        command,
    };
    run(&options, context)
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
    let machines = vary::all(machines::named(&options.on)?, &options.vary)?;
    let files = Files::of(options, &machines);
    let page = Target::open(options.out.html.as_deref(), files.requested())?;
    files.check()?;
    let (subject, name) = subject(options)?;
    let command = typed(options);
    let common = record::Common {
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
    let ran = match &subject {
        Subject::Program(program) => launch(options, program, &machines, on_stdout, context.quiet)?,
        Subject::System(system) => {
            let run =
                |request| system.run(Request { program: name.clone(), ..request }, on_stdout, context.quiet);
            keep::keeping(options.keep_trace.as_deref(), request(options, &machines), run)?
        }
        Subject::Trace => replay(options, &machines, context.quiet)?,
    };
    // How the program of a trace ended is told by the report.
    let failed = !matches!(subject, Subject::Trace) && !ran.status().success();
    let common = record::Common {
        program: &ran.program,
        interrupted: ran.answer.end == End::Interrupted,
        elapsed_ms: ran.elapsed_ms,
        ..common
    };
    let mut judged = Vec::new();
    for (machine, counted) in machines.iter().zip(counted(options, &subject, &ran)?) {
        let lines = record::lines(&common, &machine.description, &machine.name, &counted)?;
        let record = Record::parse(&lines.join("\n")).map_err(|e| Failure::new(e, ""))?;
        judged.push((machine.name.as_str(), records::judged(&record)?, lines));
    }
    let mut results = Results { options, out: &out, machines: &machines, judged, page };
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

/// Returns what each machine counted, with the names of a guest's kernel, if there is one.
fn counted(options: &Options, subject: &Subject, ran: &Ran) -> Result<Vec<Simulated>, Failure> {
    if let Subject::System(system) = subject {
        return Ok(counts::simulated(ran, options.source, Some(&system.kernel)));
    }
    let kernel = options.system.kernel_of(&ran.answer)?;
    Ok(counts::simulated(ran, options.source, kernel.as_ref()))
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
    let mut text = format!("fathom {NAME}");
    if !options.on.is_empty() {
        text += &format!(" --on {}", options.on.iter().map(|name| shell(name)).collect::<Vec<_>>().join(","));
    }
    options.vary.iter().for_each(|vary| text += &format!(" --vary {}", shell(&vary.typed())));
    text += &format!(" --seed {}", options.seed);
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

/// Returns the command that reports the records of several machines, or their directory if there are many.
fn next(kept: &[String]) -> String {
    match kept {
        [] => String::new(),
        few if few.len() <= MAX_NAMED => {
            let files: Vec<String> = few.iter().map(|file| shell(file)).collect();
            format!("\nNext: fathom report {}\n", files.join(" "))
        }
        [first, ..] => format!(
            "\nNext: fathom report {}, or another of the {} records beside it\n",
            shell(first),
            kept.len()
        ),
    }
}

/// The requested files of the records.
struct Files<'a> {
    options: &'a RecordOptions,
    /// One for each machine, if any is requested.
    files: Vec<PathBuf>,
}

impl<'a> Files<'a> {
    fn of(options: &'a Options, machines: &[Machine]) -> Files<'a> {
        let several = machines.len() > 1;
        let file = |path: &PathBuf| machines.iter().map(|m| record::file(path, &m.name, several)).collect();
        Files {
            options: &options.output,
            files: options.output.record.as_ref().map(file).unwrap_or_default(),
        }
    }

    fn requested(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }

    /// Returns the file of a machine.
    fn of_machine(&self, nth: usize) -> Requested<'_> {
        match self.files.get(nth) {
            Some(file) if self.options.force => Requested::Replaced(file),
            Some(file) => Requested::New(file),
            None => Requested::Copy,
        }
    }

    fn check(&self) -> Result<(), Failure> {
        for (nth, file) in self.files.iter().enumerate() {
            if self.files[..nth].contains(file) {
                let what = format!("--record {}: two machines would have the same file", file.display());
                return Err(Failure::usage(what, "simulate them one after the other"));
            }
            self.of_machine(nth).check()?;
        }
        Ok(())
    }
}

/// What is told of all machines.
struct Results<'a> {
    options: &'a Options,
    out: &'a Out,
    machines: &'a [Machine],
    /// Name, report and record of each machine.
    judged: Vec<(&'a str, Report, Vec<String>)>,
    page: Option<Target>,
}

impl Results<'_> {
    fn entries(&self) -> Vec<Entry<'_>> {
        self.judged.iter().map(|(name, report, _)| Entry { name, report, kind: &KIND }).collect()
    }

    /// Returns what is shown of several machines.
    fn side_by_side(&self) -> Page {
        let reports: Vec<&Report> = self.judged.iter().map(|(_, report, _)| report).collect();
        side_by_side::page(self.machines, &reports, *self.out.style())
    }

    /// Writes the page.
    fn write(&self, page: Target) -> Result<(), Failure> {
        let several = self.judged.len() > 1;
        let together = if several { self.side_by_side().blocks() } else { Vec::new() };
        page.write_together(&self.entries(), &[], &together, self.out)
    }

    /// Writes the records. Returns their files, and the failure of a requested one.
    fn keep(&mut self, files: &Files) -> (Vec<String>, Option<Failure>) {
        let (mut kept, mut lost) = (Vec::new(), None);
        for (nth, (_, report, lines)) in self.judged.iter().enumerate() {
            match RecordWriter::open(files.of_machine(nth), NAME, &report.subject, &lines[..1], &|| false) {
                Ok(mut writer) => {
                    lines[1..].iter().for_each(|line| writer.line(line));
                    kept.extend(writer.path().map(|path| path.display().to_string()));
                    let page = self.page.as_mut().map_or(Ok(()), |page| page.exclude_files(writer.files()));
                    lost = writer.close().or(page.err()).or(lost);
                }
                Err(failure) => lost = Some(failure),
            }
        }
        (kept, lost)
    }

    /// Prints the report of one machine, or several side by side. Returns the worst exit status.
    fn tell(&self, kept: &[String]) -> Result<Exit, Failure> {
        let form = &self.options.out;
        if let [(_, report, _)] = self.judged.as_slice() {
            let next = kept.first().map(|file| format!("fathom report {}", shell(file)));
            return self.out.report(report, &KIND, form, next.as_deref());
        }
        let reports: Vec<&Report> = self.judged.iter().map(|(_, report, _)| report).collect();
        if form.json {
            let all: Vec<String> = reports.iter().map(|report| fathom_report::json(report, &KIND)).collect();
            let all: Vec<&str> = all.iter().map(|text| text.trim_end()).collect();
            self.out.text(&format!("[\n{}\n]\n", all.join(",\n")))?;
        } else if form.html.as_deref().is_none_or(|file| file.as_os_str() != "-") {
            self.out.text(&self.side_by_side().finish())?;
            self.out.text(&next(kept))?;
        }
        Ok(reports.iter().map(|report| crate::output::status(report)).max().unwrap_or(Exit::Done))
    }

    /// Tells which conditions hold.
    fn limits(&self) -> Result<Exit, Failure> {
        let mut exit = Exit::Done;
        for (name, report, _) in &self.judged {
            for limit in &self.options.fail_if {
                let wrong = |why| Failure::usage(format!("--fail-if {why} ({name})"), "");
                let (value, beyond) = limit.check(report).map_err(wrong)?;
                if beyond {
                    let shown = fathom_report::number::shown(value, None, None).value;
                    let unit = if limit.text.trim_end().ends_with('%') { " %" } else { "" };
                    print_message(&format!(
                        "--fail-if '{}' holds on {name}: it is {shown}{unit}",
                        limit.text
                    ));
                    exit = Exit::Differs;
                }
            }
        }
        Ok(exit)
    }
}
