//! `fathom serve`: a probe on stdin and stdout.

use std::io::{BufRead, Read, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};

use clap::{Args, Subcommand};

use fathom_experiment::options::size;
use fathom_probe::serve::{Lines, serve};
use fathom_probe::wire::MAX_LINE;

use super::{Context, Verb};
use crate::cli::baud;
use crate::failure::{Exit, Failure};
use crate::memory_budget::MemoryBudget;
use crate::subjects;

/// Stdin by way of a thread that watches it, stdout.
///
/// The thread is the probe's lifeline: when the harness dies, however, its end of the pipe closes, the
/// thread sees the end of the input and ends the process, in the middle of a trial if need be.
struct Stdio {
    lines: Receiver<String>,
}

impl Stdio {
    fn new() -> Result<Stdio, Failure> {
        // Bounded, so that an endless input does not fill the memory; a thousand lines typed ahead are more
        // than anyone has to say, and until then the end of the input is seen at once.
        let (sender, lines) = sync_channel(1024);
        let watch = move || {
            let mut stdin = std::io::stdin().lock();
            let mut bytes = Vec::new();
            let mut leaving = false;
            loop {
                bytes.clear();
                match stdin.by_ref().take(MAX_LINE as u64 + 2).read_until(b'\n', &mut bytes) {
                    Ok(n) if n > 0 => {}
                    // After a `bye` the server leaves by itself, and its last line is still on its way.
                    _ if leaving => return,
                    _ => std::process::exit(0),
                }
                let line = String::from_utf8_lossy(&bytes).into_owned();
                leaving |= line.split_whitespace().next() == Some("bye");
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

/// Options of the serving.
#[derive(Debug, Args)]
struct Serve {
    /// What to serve.
    #[command(subcommand)]
    machine: Served,
}

/// What a probe can be served over.
#[derive(Debug, Subcommand)]
enum Served {
    /// This machine.
    Host {
        /// CPU to measure on.
        #[arg(long, value_name = "N")]
        cpu: Option<u32>,
        /// Base page instead of the kernel's own, in bytes: for testing.
        #[arg(long, value_name = "BYTES", value_parser = size)]
        base_page: Option<u64>,
        /// Most memory to take, below the ceilings that hold anyway.
        #[arg(long, value_name = "BYTES", value_parser = size)]
        max_bytes: Option<u64>,
        /// Leave the priority alone.
        #[arg(long)]
        no_priority: bool,
        /// End unless the parent is this process.
        #[arg(long, hide = true)]
        parent: Option<u32>,
    },
    /// A described machine.
    Model {
        /// Its name or its file.
        name: String,
        /// Seed of random replacement, latency spread and jitter.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// The bare-metal image under QEMU: `raspi3b` or `virt`.
    Qemu {
        /// QEMU's machine.
        machine: String,
        /// End unless the parent is this process.
        #[arg(long, hide = true)]
        parent: Option<u32>,
    },
    /// The bare-metal image, executed with a described machine answering for time (by `fathom-emulate`).
    Image {
        /// The machine's name or its file.
        machine: String,
        /// Seed of random replacement, latency spread and jitter.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// End unless the parent is this process.
        #[arg(long, hide = true)]
        parent: Option<u32>,
    },
    /// A board behind a serial port, as it is: raw, and held by nobody else meanwhile.
    Serial {
        /// The port.
        device: PathBuf,
        /// Its speed.
        #[arg(long, default_value_t = subjects::serial::BAUD, value_parser = baud())]
        baud: u32,
    },
    /// A fathom on another host, found or brought there by ssh.
    Ssh {
        /// The host, as ssh takes it.
        host: String,
    },
    /// A worker of the host probe's co-running load, which starts it.
    #[command(hide = true)]
    Worker {
        /// What the probe tells it.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        orders: Vec<String>,
    },
    /// The process that removes what the host probe leaves behind when it is killed; the probe starts it.
    #[command(hide = true)]
    Reaper {
        /// The CPUs that it runs on.
        cpus: String,
    },
}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Serve>(
        "serve",
        "Serves a probe on stdin and stdout; a human may type trials: `trial bytes=8192`",
        "",
        |options, _: &Context| run(&options.machine).map(|()| Exit::Done),
    )
}

/// Serves what was requested until the input ends.
fn run(served: &Served) -> Result<(), Failure> {
    let outcome = match served {
        Served::Model { name, seed } => {
            let description = subjects::description(name)?;
            // A word of 32 bits a line or entry and one of 64 a set: at most twelve bytes per line.
            let lines: u64 = description.levels.iter().map(|l| l.size / l.line).sum();
            let bytes = 12 * lines;
            if let Some(lack) = MemoryBudget::now().lacks(bytes) {
                let what = format!("no model of '{name}' can be made: {lack}");
                return Err(Failure::new(what, "describe smaller levels, or run it on a larger machine"));
            }
            let mut model = fathom_model::Model::new(&description, *seed);
            serve(&mut model, &mut Stdio::new()?)
        }
        Served::Host { .. } => return host(served),
        Served::Worker { orders } => return worker(orders),
        Served::Reaper { cpus } => return reaper(cpus),
        Served::Qemu { machine, parent } => return subjects::qemu::serve(machine, *parent),
        Served::Image { machine, seed, parent } => {
            return subjects::emulated::serve(machine, *seed, *parent);
        }
        Served::Serial { device, baud } => return subjects::serial::serve(device, *baud),
        Served::Ssh { host } => return subjects::ssh::serve(host),
    };
    // Whoever listened is gone; there is nobody to tell.
    outcome.or(Ok(()))
}

#[cfg(target_os = "linux")]
fn host(served: &Served) -> Result<(), Failure> {
    let Served::Host { cpu, base_page, max_bytes, no_priority, parent } = served else { return Ok(()) };
    // The lifeline first: it must not inherit the measuring thread's CPU or priority.
    let mut stdio = Stdio::new()?;
    let options = fathom_host::Options {
        cpu: *cpu,
        base_page: *base_page,
        max_bytes: *max_bytes,
        priority: !no_priority,
        die_with_parent: parent.is_some(),
        parent: *parent,
        build: Some(crate::build_id::id()),
        worker: Some(own("worker")),
        reaper: Some(own("reaper")),
    };
    let mut host = fathom_host::Host::open(options)
        .map_err(|r| Failure::new(r.reason.into_owned(), r.remedy.into_owned()))?;
    serve(&mut host, &mut stdio).or(Ok(()))
}

/// This program's own file, and the words by which it serves as another process of the probe.
#[cfg(target_os = "linux")]
fn own(word: &str) -> Vec<String> {
    ["/proc/self/exe", "serve", word].map(String::from).to_vec()
}

#[cfg(target_os = "linux")]
fn worker(orders: &[String]) -> Result<(), Failure> {
    let orders = fathom_host::WorkerOptions::read(orders).map_err(|what| Failure::usage(what, ""))?;
    Err(Failure::new(fathom_host::work(&orders), ""))
}

#[cfg(target_os = "linux")]
fn reaper(cpus: &str) -> Result<(), Failure> {
    fathom_host::keep(cpus).map_err(|left| Failure::new(left, "fathom doctor --restore"))
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
