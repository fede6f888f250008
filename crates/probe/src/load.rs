//! Co-running work as a trial names it: stressors, each with its workers, and what they did.
//!
//! The notation is one word a stressor: `vm*2:128M:4K:free` is two workers that each allocate 128 MiB, write every
//! 4 KiB of it, read it back and free it. What is left out is the stressor's own: `cpu*16` says all.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

use fathom_units::{compact, parse};

use crate::tokens::token_names;
use crate::wire::{Line, WireError};

/// Stressors in one load, at most: each kind once, and some twice.
pub const MAX_STRESSORS: usize = 16;
/// Workers of one stressor, at most. Study S3 ran 16 on two CPUs.
pub const MAX_WORKERS: u64 = 256;
/// Most bytes a worker may be asked for: more than any machine here has.
const MAX_BYTES: u64 = 1 << 40;
/// Longest sleep of a worker that holds its block, seconds.
const MAX_HANG: u64 = 3600;

/// What a stressor does, round after round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stress {
    /// Square roots of random numbers (`stress -c`).
    Cpu,
    /// `sync` (`stress -i`).
    Io,
    /// Writes `bytes` to a file that has no name, and begins again (`stress -d`).
    Disk,
    /// Maps `bytes`, writes a byte every `stride`, reads them back, and unmaps: `stress --vm` as its text says.
    Vm,
    /// The same with the system's allocator, as `stress --vm` really is: blocks below glibc's limit are mapped
    /// once and then kept.
    Malloc,
    /// Loads every word of `bytes`, ascending: bandwidth.
    Read,
    /// Stores every word.
    Write,
    /// Copies half of `bytes` to the other half.
    Copy,
    /// Dependent loads round a random chain over `bytes`: a footprint in caches, and little bandwidth.
    Chase,
    /// Loads one line a page of `bytes`: page walks.
    Pages,
    /// Touches fresh pages of one mapping, which are given back a block at a time: page faults without unmapping.
    Fault,
    /// Maps, touches and unmaps one page at a time, in two threads of one process: TLB shoot-downs.
    Unmap,
}

token_names!(Stress {
    Cpu = "cpu",
    Io = "io",
    Disk = "disk",
    Vm = "vm",
    Malloc = "malloc",
    Read = "read",
    Write = "write",
    Copy = "copy",
    Chase = "chase",
    Pages = "pages",
    Fault = "fault",
    Unmap = "unmap",
});

impl Stress {
    /// Bytes and stride of a worker where nothing else is said: those of `stress` 1.0.7 for what it has (256 MiB and
    /// 4096 for `--vm`, 1 GiB for `--hdd`; the study says 256 MiB), else a block well beyond any last-level cache of
    /// a board. 0 where the stressor has none.
    #[must_use]
    pub fn defaults(self) -> (u64, u64) {
        match self {
            Stress::Cpu | Stress::Io => (0, 0),
            Stress::Disk => (256 << 20, 0),
            Stress::Vm | Stress::Malloc => (256 << 20, 4096),
            Stress::Read | Stress::Write | Stress::Copy => (64 << 20, 64),
            Stress::Chase => (4 << 20, 64),
            Stress::Pages | Stress::Fault => (64 << 20, 4096),
            Stress::Unmap => (4096, 4096),
        }
    }

    /// Does it allocate again in each round, so that it may be asked to keep or to hold it?
    #[must_use]
    pub fn allocates(self) -> bool {
        matches!(self, Stress::Vm | Stress::Malloc)
    }
}

/// What becomes of a block when it has been read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BlockMode {
    /// It is freed, and the next round allocates again.
    #[default]
    Free,
    /// It was allocated once and stays.
    Kept,
    /// The worker sleeps so many seconds before it reads back and frees.
    Hold(u64),
}

impl BlockMode {
    /// Reads its word: `free`, `keep` or `holdN`.
    #[must_use]
    pub fn parse(word: &str) -> Option<BlockMode> {
        match word {
            "free" => Some(BlockMode::Free),
            "keep" => Some(BlockMode::Kept),
            _ => word
                .strip_prefix("hold")?
                .parse()
                .ok()
                .filter(|s| (1..=MAX_HANG).contains(s))
                .map(BlockMode::Hold),
        }
    }
}

impl fmt::Display for BlockMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockMode::Free => f.write_str("free"),
            BlockMode::Kept => f.write_str("keep"),
            BlockMode::Hold(seconds) => write!(f, "hold{seconds}"),
        }
    }
}

/// One stressor with its workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stressor {
    /// What it does.
    pub kind: Stress,
    /// Processes that do it.
    pub workers: u64,
    /// Bytes of each worker.
    pub bytes: u64,
    /// Bytes from one access to the next.
    pub stride: u64,
    /// What becomes of a block.
    pub mode: BlockMode,
}

impl Stressor {
    /// One worker of a kind, with all else as it is where nothing is said.
    #[must_use]
    pub fn of(kind: Stress) -> Stressor {
        let (bytes, stride) = kind.defaults();
        Stressor { kind, workers: 1, bytes, stride, mode: BlockMode::Free }
    }

    fn read(word: &str) -> Result<Stressor, String> {
        let mut parts = word.split(':');
        let head = parts.next().unwrap_or_default();
        let (name, workers) = head.split_once('*').unwrap_or((head, "1"));
        let kind = Stress::from_token(name)
            .ok_or_else(|| format!("'{name}' is no stressor; there are: {}", Stress::choices()))?;
        let mut s = Stressor::of(kind);
        s.workers = workers.parse().ok().filter(|n| (1..=MAX_WORKERS).contains(n)).ok_or_else(|| {
            format!("'{word}': there may be from 1 to {MAX_WORKERS} workers, as in {name}*2")
        })?;
        if let Some(bytes) = parts.next() {
            let least = kind.defaults().0.min(4096);
            s.bytes = parse(bytes).ok().filter(|b| least > 0 && (least..=MAX_BYTES).contains(b)).ok_or_else(
                || {
                    format!(
                        "'{word}': {bytes} is no size of its memory; {name}:64M would be, where it has any"
                    )
                },
            )?;
        }
        if let Some(stride) = parts.next() {
            let given = parse(stride).ok().filter(|&b| b > 0 && b <= s.bytes && kind.allocates());
            s.stride = given.ok_or_else(|| {
                format!("'{word}': {stride} is no stride; vm and malloc have one, up to their bytes")
            })?;
        }
        if let Some(keep) = parts.next() {
            s.mode = BlockMode::parse(keep).filter(|_| kind.allocates()).ok_or_else(|| {
                format!("'{word}': {keep} must be free, keep or holdN (seconds), of vm or malloc")
            })?;
        }
        match parts.next() {
            Some(more) => Err(format!("'{word}': nothing comes behind the last part, and here is ':{more}'")),
            None => Ok(s),
        }
    }
}

impl fmt::Display for Stressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Stressor::of(self.kind);
        write!(f, "{}*{}", self.kind.token(), self.workers)?;
        let parts = [
            (compact(self.bytes), self.bytes != usual.bytes),
            (compact(self.stride), self.stride != usual.stride),
            (self.mode.to_string(), self.mode != usual.mode),
        ];
        let said = parts.iter().rposition(|(_, differs)| *differs).map_or(0, |last| last + 1);
        parts[..said].iter().try_for_each(|(part, _)| write!(f, ":{part}"))
    }
}

/// What runs beside a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The stressors, in the order in which they were named.
    pub stressors: Vec<Stressor>,
}

impl Load {
    /// Reads the notation: words separated by blanks; `none` and nothing are no load.
    ///
    /// # Errors
    /// A sentence that names the word that is wrong, and what would be right.
    pub fn parse(text: &str) -> Result<Load, String> {
        let words: Vec<&str> = text.split_ascii_whitespace().filter(|word| *word != "none").collect();
        if words.len() > MAX_STRESSORS {
            return Err(format!("a load has at most {MAX_STRESSORS} stressors"));
        }
        let stressors = words.into_iter().map(Stressor::read).collect::<Result<_, _>>()?;
        Ok(Load { stressors })
    }

    /// Is there none?
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.stressors.is_empty()
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("none");
        }
        for (i, stressor) in self.stressors.iter().enumerate() {
            let blank = if i > 0 { " " } else { "" };
            write!(f, "{blank}{stressor}")?;
        }
        Ok(())
    }
}

/// What the workers of one stressor did while a trial ran, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadStats {
    /// Which stressor of the load, from 0.
    pub stressor: u64,
    /// How long they did it, ns.
    pub ns: u64,
    /// Whole rounds, and the part of the last one as none.
    pub passes: u64,
    /// Lines touched in memory.
    pub lines: u64,
    /// Page faults.
    pub faults: u64,
    /// Bytes read or written, in memory or on a disk.
    pub bytes: u64,
}

impl LoadStats {
    /// The line that says it of a trial.
    #[must_use]
    pub fn line(&self, trial: u64) -> Line {
        Line::new("load_stats")
            .int("trial", trial)
            .int("stressor", self.stressor)
            .int("ns", self.ns)
            .int("passes", self.passes)
            .int("lines", self.lines)
            .int("faults", self.faults)
            .int("bytes", self.bytes)
    }

    /// Reads the line: the trial, and what was done.
    ///
    /// # Errors
    /// When a key is missing, unknown or no integer.
    pub fn read(line: &Line) -> Result<(u64, LoadStats), WireError> {
        let mut f = line.fields();
        let trial = f.need_int("trial")?;
        let load_stats = LoadStats {
            stressor: f.need_int("stressor")?,
            ns: f.need_int("ns")?,
            passes: f.need_int("passes")?,
            lines: f.need_int("lines")?,
            faults: f.need_int("faults")?,
            bytes: f.need_int("bytes")?,
        };
        f.finish()?;
        Ok((trial, load_stats))
    }
}

/// How long tasks of the whole machine waited while a trial ran (PSI): microseconds in which some waited, or all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Some task waited for a CPU.
    pub cpu_us: u64,
    /// Some task waited for memory.
    pub memory_us: u64,
    /// All did.
    pub memory_full_us: u64,
    /// Some task waited for input or output.
    pub io_us: u64,
    /// All did.
    pub io_full_us: u64,
}

impl Stalls {
    /// The line that says it of a trial.
    #[must_use]
    pub fn line(&self, trial: u64) -> Line {
        Line::new("stalls")
            .int("trial", trial)
            .int("cpu_us", self.cpu_us)
            .int("memory_us", self.memory_us)
            .int("memory_full_us", self.memory_full_us)
            .int("io_us", self.io_us)
            .int("io_full_us", self.io_full_us)
    }

    /// Reads the line: the trial, and its stalls.
    ///
    /// # Errors
    /// When a key is missing, unknown or no integer.
    pub fn read(line: &Line) -> Result<(u64, Stalls), WireError> {
        let mut f = line.fields();
        let trial = f.need_int("trial")?;
        let stalls = Stalls {
            cpu_us: f.need_int("cpu_us")?,
            memory_us: f.need_int("memory_us")?,
            memory_full_us: f.need_int("memory_full_us")?,
            io_us: f.need_int("io_us")?,
            io_full_us: f.need_int("io_full_us")?,
        };
        f.finish()?;
        Ok((trial, stalls))
    }
}

#[cfg(test)]
mod tests;
