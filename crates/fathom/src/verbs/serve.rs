//! `fathom serve`: a probe on stdin and stdout.

use std::io::{BufRead, Read, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use clap::{Args, Subcommand};

use fathom_experiment::options::size;
use fathom_probe::serve::Lines;
use fathom_probe::wire::MAX_LINE;

use super::{Context, Verb};
use crate::cli::{baud, wait};
use crate::failure::{Exit, Failure};
use crate::subjects;

/// Reader of stdin, through a thread that watches it, and writer of stdout.
///
/// The thread ends the process when the harness dies: the harness's end of the pipe closes, the thread sees the end of
/// the input and exits, if necessary in the middle of a trial.
struct Stdio {
    lines: Receiver<String>,
}

impl Stdio {
    fn new() -> Result<Stdio, Failure> {
        // Bounded, so that an endless input does not fill the memory. Up to a thousand pending lines, the end of the
        // input is detected at once.
        let (sender, lines) = sync_channel(1024);
        let watch = move || {
            let mut stdin = std::io::stdin().lock();
            let mut bytes = Vec::new();
            let mut stopping = false;
            loop {
                bytes.clear();
                match stdin.by_ref().take(MAX_LINE as u64 + 2).read_until(b'\n', &mut bytes) {
                    Ok(n) if n > 0 => {}
                    // After `bye` the server exits on its own, because its last line may not be written yet.
                    _ if stopping => return,
                    _ => std::process::exit(0),
                }
                let line = String::from_utf8_lossy(&bytes).into_owned();
                stopping |= line.split_whitespace().next() == Some("bye");
                if sender.send(line).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().spawn(watch).map_err(|e| {
            let remedy = "raise the limit on processes or memory (ulimit -a shows them)";
            Failure::new(format!("cannot watch stdin: {e}"), remedy)
        })?;
        Ok(Stdio { lines })
    }
}

impl Lines for Stdio {
    type Error = std::io::Error;

    fn read(&mut self, line: &mut String) -> std::io::Result<bool> {
        Ok(self.lines.recv().map(|l| line.push_str(&l)).is_ok())
    }

    fn write(&mut self, line: &str) -> std::io::Result<()> {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{line}")?;
        stdout.flush()
    }
}

/// Environment variable with a directory for the locks of CPUs, instead of sysfs: one that containers share.
#[cfg(target_os = "linux")]
const LOCK_DIRECTORY: &str = "FATHOM_LOCKS";

/// Options of `serve`.
#[derive(Debug, Args)]
struct Serve {
    /// Machine to serve.
    #[command(subcommand)]
    machine: Served,
}

/// Machine over which a probe can be served.
#[derive(Debug, Subcommand)]
enum Served {
    /// This machine.
    Host {
        /// CPU to measure on.
        #[arg(long, value_name = "N")]
        cpu: Option<u32>,
        /// Time to wait for another measurement on that CPU.
        #[arg(long, default_value = "30s", value_parser = wait, value_name = "TIME")]
        wait: u64,
        /// Base page to use instead of the kernel's, in bytes: for testing.
        #[arg(long, value_name = "BYTES", value_parser = size)]
        base_page: Option<u64>,
        /// Largest amount of memory to use, below the limits that apply anyway.
        #[arg(long, value_name = "BYTES", value_parser = size)]
        max_bytes: Option<u64>,
        /// Do not change the priority.
        #[arg(long)]
        no_priority: bool,
        /// End unless the parent is this process.
        #[arg(long, hide = true)]
        parent: Option<u32>,
    },
    /// A described machine.
    Model {
        /// Name or file.
        name: String,
        /// Seed of random replacement, latency spread and jitter.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// A bare-metal image under QEMU: `raspi3b`, `virt`, `raspi0` or `vexpress-a15`.
    Qemu {
        /// QEMU's machine.
        machine: String,
        /// End unless the parent is this process.
        #[arg(long, hide = true)]
        parent: Option<u32>,
    },
    /// A bare-metal image, executed with the timing of a described machine (by `fathom-emulate`).
    Image {
        /// Name or file of the machine.
        machine: String,
        /// Seed of random replacement, latency spread and jitter.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// End unless the parent is this process.
        #[arg(long, hide = true)]
        parent: Option<u32>,
    },
    /// A board at a serial port: raw, with exclusive access.
    Serial {
        /// Port.
        device: PathBuf,
        /// Baud rate.
        #[arg(long, default_value_t = subjects::serial::BAUD, value_parser = baud())]
        baud: u32,
    },
    /// A fathom on another host, by ssh; it is copied there if necessary.
    Ssh {
        /// Host, as for ssh.
        host: String,
    },
    /// A worker of the host probe's co-running load, started by the probe.
    #[command(hide = true)]
    Worker {
        /// Options of the worker.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// The process that removes leftovers of a killed host probe; started by the probe.
    #[command(hide = true)]
    Reaper {
        /// CPUs on which it runs.
        cpus: String,
    },
}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Serve>(
        "serve",
        "Serves a probe on stdin and stdout; trials can be typed by hand: `trial bytes=8192`",
        "",
        |options, _: &Context| run(&options.machine).map(|()| Exit::Done),
    )
}

/// Serves the selected machine until the input ends.
fn run(served: &Served) -> Result<(), Failure> {
    let outcome = match served {
        Served::Model { name, seed } => {
            let description = subjects::description(name)?;
            let mut model = subjects::model_of(name, &description, *seed)?;
            fathom_model::serve(&mut model, &mut Stdio::new()?)
        }
        Served::Host { .. } => return host(served),
        Served::Worker { options } => return worker(options),
        Served::Reaper { cpus } => return reaper(cpus),
        Served::Qemu { machine, parent } => return subjects::qemu::serve(machine, *parent),
        Served::Image { machine, seed, parent } => {
            return subjects::emulated::serve(machine, *seed, *parent);
        }
        Served::Serial { device, baud } => return subjects::serial::serve(device, *baud),
        Served::Ssh { host } => return subjects::ssh::serve(host),
    };
    // Write errors are ignored: the reader is gone.
    outcome.or(Ok(()))
}

#[cfg(target_os = "linux")]
fn host(served: &Served) -> Result<(), Failure> {
    let Served::Host { cpu, wait, base_page, max_bytes, no_priority, parent } = served else {
        return Ok(());
    };
    // The thread is started first, so that it does not inherit the measuring thread's CPU or priority.
    let mut stdio = Stdio::new()?;
    let options = fathom_host::Options {
        cpu: *cpu,
        lock: Some(fathom_host::LockOptions {
            directory: std::env::var_os(LOCK_DIRECTORY).filter(|d| !d.is_empty()).map(PathBuf::from),
            wait: Duration::from_millis(*wait),
        }),
        base_page: *base_page,
        max_bytes: *max_bytes,
        priority: !no_priority,
        die_with_parent: parent.is_some(),
        parent: *parent,
        build: Some(crate::build_id::id()),
        worker: Some(own_command("worker")),
        reaper: Some(own_command("reaper")),
    };
    let mut host = fathom_host::Host::open(options)
        .map_err(|r| Failure::new(r.reason.into_owned(), r.remedy.into_owned()))?;
    fathom_host::serve(&mut host, &mut stdio).or(Ok(()))
}

/// Returns the command with which this program serves as another process of the probe.
#[cfg(target_os = "linux")]
fn own_command(word: &str) -> Vec<String> {
    ["/proc/self/exe", "serve", word].map(String::from).to_vec()
}

#[cfg(target_os = "linux")]
fn worker(options: &[String]) -> Result<(), Failure> {
    let options = fathom_host::WorkerOptions::read(options).map_err(|what| Failure::usage(what, ""))?;
    Err(Failure::new(fathom_host::run_worker(&options), ""))
}

#[cfg(target_os = "linux")]
fn reaper(cpus: &str) -> Result<(), Failure> {
    fathom_host::run_reaper(cpus).map_err(|left| Failure::new(left, "fathom doctor --restore"))
}

#[cfg(not(target_os = "linux"))]
fn host(_: &Served) -> Result<(), Failure> {
    Err(Failure::new("this system has no host probe yet", "use --on with a described machine"))
}

#[cfg(not(target_os = "linux"))]
fn worker(_: &[String]) -> Result<(), Failure> {
    Err(Failure::new("this system has no host probe yet", ""))
}

#[cfg(not(target_os = "linux"))]
fn reaper(_: &str) -> Result<(), Failure> {
    Err(Failure::new("this system has no host probe yet", ""))
}
