//! The command line: one definition for help, usage errors, completions and manual pages.

mod experiments;
mod parse;
mod records;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use experiments::{Cacheability, Conflict, Dma, Latency, RunOptions, Stride, Substitute, Survey, Wakeup};
use parse::size;
pub use records::{Compare, Describe, Doctor, Form, Import, Report, Share};

use crate::subjects;

/// What memory does to code: measured, with its uncertainty.
#[derive(Debug, Parser)]
#[command(name = "fathom", version, about, max_term_width = 80, disable_help_subcommand = true)]
#[command(after_help = "Begin with:  fathom survey")]
pub struct Cli {
    /// When to use colour: auto asks the terminal, NO_COLOR and CLICOLOR_FORCE.
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    pub color: Colour,
    /// No progress on stderr.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// What to do.
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// If stdout is a terminal that has not said otherwise.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// The whole memory hierarchy of a subject, in seconds: tiers, TLBs, prefetch, claims.
    #[command(after_help = "Examples:
  fathom survey                                   this machine, ten seconds
  fathom survey --budget 3s --record here.fathom  less time, and keep the record
  fathom survey --on bcm2711 --json               a described machine, for a script

Exit status: 0 done, 1 failed, 2 wrong command line or file, 3 done below the
quality bar (disturbed, cut short, less certain than promised), 5 all refused,
130 or 143 interrupted (the record and the report hold what there is)")]
    Survey(Survey),
    /// Access time load by load: histograms of single loads, their bias, tier and TLB of each size.
    #[command(after_help = "Examples:
  fathom latency                                   16K, 256K, 1M, 16M and 64M
  fathom latency --bytes 8K,48K,2M --budget 5s
  fathom latency --on bcm2835 --bytes 8K,64K,256K,1M --json
  fathom latency --bytes 64M --ladder order,page --budget 30s

Every sample times one load (or, where the clock is coarse, a few dependent
ones, which is said). What the timing itself adds is the row bias.sample; the
peaks are without it, the histograms with it. Exit status: as of the survey.")]
    Latency(Latency),
    /// Time an access and time a line touched, by working set, stride and operation: independent accesses.
    #[command(after_help = "Examples:
  fathom stride                                    inside and beyond each tier
  fathom stride --bytes 16K,1M,64M --strides 8,64 --op rmw --budget 20s
  fathom stride --on am5728 --bytes 256K --json
  fathom stride --first-touch --prefetch --budget 30s  page faults, and prefetch

Below the line's length several accesses share a line; from there on each brings
its own. A size between two levels tells whether the farther one is on; without
--bytes a coarse scan of dependent loads finds such sizes, and a sentence at each says
what answers there. What the core overlaps and fetches ahead is in the times of
sweeps. Exit status: as of the survey.")]
    Stride(Stride),
    /// How each level is built: ways, sets, line, replacement; and what lines that compete for a set cost.
    #[command(after_help = "Examples:
  fathom conflict                                  this machine
  fathom conflict --on s1-8way --json              a described one, for a script

Lines at a stride of 4 KiB fall into the same sets of most first levels; with one
more of them than ways, some miss. Exit status: as of the survey.")]
    Conflict(Conflict),
    /// The same memory through different attributes: what each operation takes when it is not cached.
    #[command(after_help = "Examples:
  fathom cacheability --on bcm2837                 a described machine, all attributes
  fathom cacheability --on bcm2837 --op rmw --bytes 2560 --rounds 20000
  fathom cacheability --substitute flush             this machine, without a driver

Beside what the page tables say of each mapping (translated as) stands what its
times say (behaves as): a core may treat an attribute as another one, and a
hypervisor may overrule it; then there is no ratio. Where a subject supplies no
other attribute than write-back it says so, and what would. Exit status: as of
the survey.")]
    Cacheability(Cacheability),
    /// What a driver pays to give data to a device and to get it back: five strategies, by size and direction.
    #[command(after_help = "Examples:
  fathom dma                                       this machine, through the driver
  fathom dma --on omap3-sdio --link 18.67Mbit      the study's board, described
  fathom dma --on omap3-sdio --maintenance whole-cache --bytes 1536
  fathom dma --on bcm2711 --mistake no-unmap       what that bug does to the data
  fathom dma --substitute flush                      without the driver

streaming-copy maps a cached buffer for each transfer, uncached-copy copies
through one that is never mapped again, zero-copy maps the packet itself,
persistent-copy synchronises a buffer that stays mapped, coherent uses the
device's memory in place. Data are compared at the far end; where they differ
there is no time. Exit status: as of the survey.")]
    Dma(Dma),
    /// How late a periodic real-time task is woken, what co-running load adds, and where that time goes.
    #[command(after_help = "Examples:
  fathom wakeup                                  a minute: the study's load against pure factors
  fathom wakeup --conditions none,vm --period 100us
  fathom wakeup --load 'vm*4:64M cpu*2' --budget 20s
  fathom wakeup --sweep --budget 10m --record sweep.fathom
  fathom wakeup --resume sweep.fathom --budget 20m

The task sleeps until an absolute time, again and again; each wake-up is kept,
and where the kernel's tracepoints may be read, the timer's interrupt, the
wake-up and the switch of the same activation too. Real-time priority needs a
privilege; without it the remedy is told. Exit status: as of the survey.")]
    Wakeup(Wakeup),
    /// Makes a record of what cyclictest or Xenomai's latency measured, and judges it as `wakeup` is judged.
    #[command(after_help = "Examples:
  fathom import hist.txt                           cyclictest -q -h 400 > hist.txt
  fathom import user.txt kernel.txt irq.txt -o xenomai.fathom
  fathom import run.json --json | jq .findings
  fathom compare before.fathom after.fathom        records of two imports

A histogram has no order: what comes back periodically, and which stage held an
activation up, it cannot say. Nor does it say whose clock it is of: the clock trust is
unknown. Exit status: as of the survey")]
    Import(Import),
    /// Judges records again: the same findings, from the files alone.
    #[command(after_help = "Examples:
  fathom report here.fathom
  fathom report here.fathom --html here.html        one page, with figures
  fathom report pi3.fathom pi4.fathom --html pis.html
  fathom report - --json < here.fathom
  fathom report here.fathom --against bcm2711       is it the machine described?

A page that --html wrote is read back like a record. Exit status: as of the
survey, and 4 where --against finds a claim of the description contradicted")]
    Report(Report),
    /// Drafts a machine description from a survey: to read, to correct, and to measure with --on.
    #[command(after_help = "Examples:
  fathom describe here.fathom                         to stdout
  fathom describe here.fathom -o board.toml --name 'my board'
  fathom survey --on ./board.toml                     what it says, measured
  fathom report here.fathom --against ./board.toml    and checked

Behind every value stands where it comes from: a finding with its interval, a
claim that nothing measured, or an assumption. Exit status: 0 drafted, 1 failed,
2 wrong command line, no record of a survey, or a file that is there already")]
    Describe(Describe),
    /// Two or more records side by side: what differs, by how much, and how surely.
    #[command(after_help = "Examples:
  fathom compare before.fathom after.fathom
  fathom compare quiet.fathom loaded.fathom --fail-if 5%   for a script: 4 if so
  fathom compare pi3.fathom pi4.fathom pi5.fathom --all
  fathom compare before.fathom after.fathom --json

Every record after the first is compared with the first. What was asked
differently is listed before any figure. Exit status: 0 compared, 2 wrong
command line or file, 4 a difference surely beyond --fail-if")]
    Compare(Compare),
    /// A record for others: a table's row, a block for an issue, JSON; without names, paths or numbers of yours.
    #[command(after_help = "Examples:
  fathom share here.fathom                        a table's row, a block for an issue
  fathom share here.fathom --as row --header >> MACHINES.md
  fathom share here.fathom --as details           paste it into an issue
  fathom share - --as json < here.fathom > here.json

Left out are host, user and subject names, paths, addresses, serial numbers, the
kernel's command line and every reason of a refusal. Still: read it before you
post it. Exit status: 0 printed, 1 failed, 2 wrong command line or file")]
    Share(Share),
    /// What a machine can and cannot give for measuring, what that costs, and the line that changes it.
    #[command(after_help = "Examples:
  fathom doctor                this machine
  fathom doctor --on pi        a subject of yours, through its own command
  fathom doctor --json         for a script
  fathom doctor --restore      what a killed fathom may have left

It changes nothing itself. Exit status: 0 nothing costs the measurement
anything, 1 failed, 2 wrong command line or file, 3 something does, 5 nothing
can be measured there")]
    Doctor(Doctor),
    /// Writes the bare-metal image, with what an SD card needs beside it and a page of instructions.
    #[command(after_help = "Examples:
  fathom image --board pi3 -o card             kernel8.img, config.txt, README.txt
  fathom survey --on serial:/dev/ttyUSB0       the board, once it has booted
  fathom survey --on qemu:virt                 the same image, without a board

The image was never run on hardware. Exit status: 0 written, 1 failed, 2 wrong
command line, or a file that somebody else wrote is in the way")]
    Image(Image),
    /// Lists the described machines, or shows the effective description of one.
    Machines {
        /// Name of a described machine, or a description's file.
        name: Option<String>,
    },
    /// Lists what can be measured from here.
    Subjects,
    /// Every name and token that findings may have; with --json the JSON Schema of --json.
    Schema {
        /// Print the JSON Schema.
        #[arg(long)]
        json: bool,
        /// The document whose JSON Schema is printed.
        #[arg(long, value_enum, default_value_t = Document::Findings, requires = "json")]
        of: Document,
    },
    /// What a finding's name or a warning says: meaning, unit, bounds, and which verbs give it.
    #[command(after_help = "Examples:
  fathom explain tier.1.latency
  fathom explain 'dma.{strategy}.{direction}.{size}.cpu'
  fathom explain short-budget")]
    Explain {
        /// A name of a finding, with its coordinates or as `fathom schema` lists it, or a warning's.
        name: String,
    },
    /// Prints the completions of a shell, or writes all manual pages into a directory.
    #[command(after_help = "Examples:
  fathom generate completions bash > ~/.local/share/bash-completion/completions/fathom
  fathom generate man ~/.local/share/man/man1 && man fathom-survey")]
    Generate {
        /// What to generate.
        #[command(subcommand)]
        what: Generated,
    },
    /// Serves a probe on stdin and stdout; a human may type trials: `trial bytes=8192`.
    Serve {
        /// What to serve.
        #[command(subcommand)]
        machine: Served,
    },
}

/// Options of the image.
#[derive(Debug, Args)]
pub struct Image {
    /// The board.
    #[arg(long, value_enum)]
    pub board: Board,
    /// The directory to write to; it is made if it is not there.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Speed of its serial port.
    #[arg(long, default_value_t = subjects::serial::BAUD, value_parser = baud())]
    pub baud: u32,
    /// Write over files that somebody else wrote.
    #[arg(long)]
    pub force: bool,
}

/// A board that the image knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Board {
    /// Raspberry Pi 3.
    Pi3,
    /// Raspberry Pi 4.
    Pi4,
    /// QEMU's machine virt.
    Virt,
}

/// How findings leave.
#[derive(Debug, Args)]
pub struct Output {
    /// Print the findings as JSON (its schema: `fathom schema --json`).
    #[arg(long)]
    pub json: bool,
    /// Write one page of HTML, with figures, that works offline; `-` is stdout, in the place of the text.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// A document with a published schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Document {
    /// What `--json` of an experiment and of `fathom report` prints.
    Findings,
    /// What `fathom compare --json` prints.
    Comparison,
}

/// What comes out of the command line's own definition.
#[derive(Debug, Subcommand)]
pub enum Generated {
    /// Completions, to stdout.
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Manual pages, one a verb, into a directory, which is made if it is not there.
    Man {
        /// The directory.
        directory: PathBuf,
    },
}

/// What a probe can be served over.
#[derive(Debug, Subcommand)]
pub enum Served {
    /// This machine.
    Host {
        /// CPU to measure on.
        #[arg(long, value_name = "N")]
        cpu: Option<u32>,
        /// Base page in the place of the kernel's own, in bytes: for testing.
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

/// A baud rate.
fn baud() -> clap::builder::RangedI64ValueParser<u32> {
    let all = subjects::serial::BAUDS;
    clap::value_parser!(u32).range(i64::from(*all.start())..=i64::from(*all.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }
}
