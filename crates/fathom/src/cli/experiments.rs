//! Options of the experiments.

use std::path::PathBuf;

use clap::Args;
use clap::builder::TypedValueParser;
use fathom_experiment::latency::ladder::Ladder;
use fathom_experiment::record;
use fathom_probe::load::{BlockMode, Load};
use fathom_probe::machine::dma::{Direction, Engine, Maintenance, Mistake, Strategy};
use fathom_probe::machine::{Attribute, Operation};

use super::Output;
use super::parse::{
    access_stride, any_operation, attribute, block, budget, buffer, condition, direction, engine, ladder,
    link, load, maintenance, mistake, mode, operation, period, strategy, stride, transfer, victim,
    working_set,
};

/// Options of the survey.
#[derive(Debug, Args)]
pub struct Survey {
    /// What each level replaces, too: two fifths of the budget then ask how levels are built, and not one.
    #[arg(long)]
    pub replacement: bool,
    #[command(flatten)]
    pub run: RunOptions,
    #[command(flatten)]
    pub out: Output,
}

/// Options of the latency histograms.
#[derive(Debug, Args)]
pub struct Latency {
    /// Working sets, separated by commas: bytes or K, M, G (binary), as in 8K,64KiB,1M.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = working_set)]
    pub bytes: Vec<u64>,
    /// The same loads in three orders, two page sizes, six placements, or with prefetchers off (bare metal) too; from
    /// the same budget.
    #[arg(long, value_delimiter = ',', value_parser = ladder())]
    pub ladder: Vec<Ladder>,
    #[command(flatten)]
    pub run: RunOptions,
    #[command(flatten)]
    pub out: Output,
}

/// Options of the strides.
#[derive(Debug, Args)]
pub struct Stride {
    /// Working sets, separated by commas: bytes or K, M, G (binary), as in 16K,1M. Default: inside and beyond each
    /// tier of a coarse scan.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = working_set)]
    pub bytes: Vec<u64>,
    /// Strides from access to access, powers of two from 8 to 1M. Default: 8,16,32,64,128,256,1K,4K.
    #[arg(long, value_name = "STRIDES", value_delimiter = ',', value_parser = access_stride)]
    pub strides: Vec<u64>,
    /// What is done to each cell. Default: all three.
    #[arg(long, value_delimiter = ',', value_parser = operation())]
    pub op: Vec<Operation>,
    /// The same over memory that nobody has touched, beside: what page faults add. From the same budget.
    #[arg(long)]
    pub first_touch: bool,
    /// Dependent loads over the largest size in orders from ascending to random: what prefetch gains, and how
    /// far it reaches. From the same budget.
    #[arg(long)]
    pub prefetch: bool,
    #[command(flatten)]
    pub run: RunOptions,
    #[command(flatten)]
    pub out: Output,
}

/// Options of the conflicts.
#[derive(Debug, Args)]
pub struct Conflict {
    /// Page colours, separated by commas, each a number from 1 to 1024: how pages of one colour, of several,
    /// and pages that share one frame conflict.
    #[arg(long, value_name = "K", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=record::MOST_COLOURS))]
    pub colours: Vec<u64>,
    #[command(flatten)]
    pub run: RunOptions,
    #[command(flatten)]
    pub out: Output,
}

/// Options of cacheability.
#[derive(Debug, Args)]
pub struct Cacheability {
    /// Working sets, separated by commas, multiples of 16 bytes from 128 on: bytes or K, M, G (binary). Default:
    /// 320,2560,16K,128K,1M; the study's text says 320, its code walked 2560.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = buffer)]
    pub bytes: Vec<u64>,
    /// What is done to each 8 bytes. Default: all six.
    #[arg(long, value_delimiter = ',', value_parser = any_operation())]
    pub op: Vec<Operation>,
    /// Attributes beside write-back, which all are compared with. Default: all that the subject supplies. Also called
    /// wb, wt, nc (writecombine, wc), uc (noncached, strongly-ordered).
    #[arg(long, value_delimiter = ',', value_parser = attribute())]
    pub attributes: Vec<Attribute>,
    /// Rounds over the working set that totals are of. Default: the study's 20000.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub rounds: Option<u64>,
    /// In place of memory that is not cached, where none is to be had: flush means cleaning and invalidating the line
    /// after each access.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub substitute: Option<Substitute>,
    /// Every byte of MAIR_EL1 beside (bare metal, models): what it translates to, and how it behaves. From the same
    /// budget.
    #[arg(long)]
    pub every_mair: bool,
    /// Page walks beside, whose descriptors are cached or not (bare metal, models). From the same budget.
    #[arg(long)]
    pub walks: bool,
    #[command(flatten)]
    pub run: RunOptions,
    #[command(flatten)]
    pub out: Output,
}

/// Options of the wake-up experiment.
#[derive(Debug, Args)]
pub struct Wakeup {
    /// What runs beside the task, separated by commas. Default: none, the study's load with and without its memory
    /// workers, each pure factor, cold caches, and a randomised design over the factors. A described machine runs none of
    /// the loads yet, and refuses them by name: it has none, warm, flushed and evicted.
    #[arg(long, value_name = "WORDS", value_delimiter = ',', value_parser = condition())]
    pub conditions: Vec<String>,
    /// A load of your own: stressors as KIND*WORKERS:BYTES:STRIDE:free|keep|hangN, separated by blanks, as in
    /// 'cpu*2 vm*2:64M:4K:free'. Kinds: cpu io disk vm malloc read write copy chase pages fault unmap. May be said
    /// several times.
    #[arg(long, value_name = "LOAD", value_parser = load)]
    pub load: Vec<Load>,
    /// Memory workers allocate as `stress` does with glibc: blocks below 32 MiB are mapped once and then kept.
    #[arg(long)]
    pub like_stress: bool,
    /// Sizes by strides by modes of two memory workers: a look at all, then repeats of what tells most, then sizes
    /// between those round a break. Needs minutes: --budget 10m.
    #[arg(long)]
    pub sweep: bool,
    /// Sizes of the sweep, separated by commas. Default: 1M to 256M, doubling.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = block, requires = "sweep")]
    pub bytes: Vec<u64>,
    /// Strides of the sweep, bytes from write to write. Default: 4096. The study had 1,16,32,64,128,256,512,1K,2K,4K.
    #[arg(long, value_name = "STRIDES", value_delimiter = ',', value_parser = stride, requires = "sweep")]
    pub strides: Vec<u64>,
    /// What becomes of a block when it was read back: free, keep, or hangN (N seconds later). Default: free,keep,hang2.
    #[arg(long, value_name = "MODES", value_delimiter = ',', value_parser = mode, requires = "sweep")]
    pub modes: Vec<BlockMode>,
    /// Period of the task, from 10us to 250ms. Default: 1ms; the study's was 100us.
    #[arg(long, value_name = "TIME", value_parser = period)]
    pub period: Option<u64>,
    /// Real-time priority of the task (SCHED_FIFO); 0 for an ordinary one. Default: 80.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=99))]
    pub priority: Option<u64>,
    /// Leave the kernel's tracepoints alone: the task's own place only.
    #[arg(long)]
    pub no_trace: bool,
    /// Go on where this record of a sweep or a run was cut off, with what it was asked; it is kept as it was.
    #[arg(long, value_name = "RECORD", conflicts_with_all = ["conditions", "load", "like_stress", "sweep", "period", "priority", "no_trace"])]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    pub run: RunOptions,
    #[command(flatten)]
    pub out: Output,
}

/// Options of the DMA buffers.
#[derive(Debug, Args)]
pub struct Dma {
    /// Strategies, separated by commas. Default: all five.
    #[arg(long, value_delimiter = ',', value_parser = strategy())]
    pub strategy: Vec<Strategy>,
    /// Which way data go. Default: both.
    #[arg(long, value_delimiter = ',', value_parser = direction())]
    pub direction: Vec<Direction>,
    /// Bytes of a transfer, separated by commas: bytes or K, M (binary), from 8 to 1M. Default: 64 to 1M, and sizes
    /// between those where two strategies change places.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = transfer)]
    pub bytes: Vec<u64>,
    /// Rate of the link at which a CPU's load is told: bits a second with bit, kbit, Mbit, Gbit, or bytes with B, kB, MB,
    /// GB (all decimal), as in 18.67Mbit. Default: what the engine itself reaches.
    #[arg(long, value_name = "RATE", value_parser = link)]
    pub link: Option<u64>,
    /// Working set that is walked before and after each transfer, to see what it lost: a multiple of 64 bytes from 4K
    /// on, or 0 for none. Default: 32K.
    #[arg(long, value_name = "SIZE", value_parser = victim)]
    pub victim: Option<u64>,
    /// What moves the data: none is maintenance and copies alone. Default: what the machine has.
    #[arg(long, value_parser = engine())]
    pub engine: Option<Engine>,
    /// How buffers are maintained, on a described machine in the place of its own way: all when they are mapped, once
    /// more when they are unmapped, cleaned whatever the direction, or the whole cache both times.
    #[arg(long, value_parser = maintenance())]
    pub maintenance: Option<Maintenance>,
    /// What a described driver does wrong, to see what it does to the data.
    #[arg(long, value_parser = mistake())]
    pub mistake: Option<Mistake>,
    /// In place of the kernel's maintenance, where the driver is not there: flush means cleaning and invalidating each
    /// line from user space.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub substitute: Option<Substitute>,
    #[command(flatten)]
    pub run: RunOptions,
    #[command(flatten)]
    pub out: Output,
}

/// What stands in for memory that is not cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Substitute {
    /// A flush of the line after each access.
    Flush,
}

/// What every experiment takes.
#[derive(Debug, Default, Args)]
pub struct RunOptions {
    /// What to measure: a subject of `fathom subjects`, a machine of `fathom machines`, or the file of a
    /// description. Default: this host.
    #[arg(long, value_name = "SUBJECT")]
    pub on: Option<String>,
    /// Time to spend, e.g. 3s, 500ms, 2m. On a described machine it stands for simulated accesses. Default: 10s; of
    /// conflicts on hardware 5s, of wake-ups 60s.
    #[arg(long, value_parser = budget, value_name = "TIME")]
    pub budget: Option<u64>,
    /// Seed of orders and placements. Default: 1 on a described machine, else from the clock.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Keep the record in this file too (it is always kept in the user's data directory).
    #[arg(long, value_name = "FILE", value_parser = RecordFile)]
    pub record: Option<PathBuf>,
    /// CPU to measure on. Default: an isolated one, else the last allowed.
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// How long the probe may say nothing before it is given up. A trial takes less than a second on
    /// hardware; the largest ones of a model compute for some ten seconds in an unoptimised build.
    #[arg(long, hide = true, default_value = "60s", value_parser = budget, value_name = "TIME")]
    pub patience: u64,
}

/// Parses the file of a record; any name that the system takes will do, but stdout has the report.
#[derive(Clone, Debug)]
pub(super) struct RecordFile;

impl TypedValueParser for RecordFile {
    type Value = PathBuf;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<PathBuf, clap::Error> {
        let file = clap::builder::PathBufValueParser::new().parse_ref(command, arg, value)?;
        if file.as_os_str() == "-" {
            let what = "--record -: stdout has the report; name a file (./- for one of that name)\n";
            return Err(command.clone().error(clap::error::ErrorKind::ValueValidation, what));
        }
        Ok(file)
    }
}
