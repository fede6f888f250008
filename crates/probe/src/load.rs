//! Co-running load of a trial: stressors with their workers, and what they did.
//!
//! The notation is one word per stressor: `vm*2:128M:4K:free` is two workers that each allocate 128 MiB, write every
//! 4 KiB of it, read it back and free it. Omitted parts are the stressor's defaults: `cpu*16` is complete.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

use fathom_units::{compact, parse};

use crate::tokens::token_names;
use crate::wire::{Line, WireError};

/// Maximum stressors in one load: each kind once, and some twice.
pub const MAX_STRESSORS: usize = 16;
/// Maximum workers of one stressor. Study S3 ran 16 on two CPUs.
pub const MAX_WORKERS: u64 = 256;
/// Maximum bytes of a worker: more than any supported machine has.
const MAX_BYTES: u64 = 1 << 40;
/// Longest sleep of a worker in mode `holdN`, seconds.
const MAX_HOLD_SECONDS: u64 = 3600;

/// The work of a stressor, repeated in passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stress {
    /// Square roots of random numbers (`stress -c`).
    Cpu,
    /// `sync` (`stress -i`).
    Io,
    /// Writes `bytes` to an unnamed file, and starts again (`stress -d`).
    Disk,
    /// Maps `bytes`, writes a byte every `stride`, reads them back, and unmaps: `stress --vm` as documented.
    Vm,
    /// As `Vm` with the system's allocator, as `stress --vm` is implemented: glibc maps blocks below its threshold once
    /// and then keeps them.
    Malloc,
    /// Loads every word of `bytes`, ascending: bandwidth.
    Read,
    /// Stores every word.
    Write,
    /// Copies half of `bytes` to the other half.
    Copy,
    /// Dependent loads along a random chain over `bytes`: a cache footprint with little bandwidth.
    Chase,
    /// Loads one line per page of `bytes`: page walks.
    Pages,
    /// Touches fresh pages of one mapping, which are released a block at a time: page faults without unmapping.
    Fault,
    /// Maps, touches and unmaps one page at a time, in two threads of one process: TLB shootdowns.
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
    /// Returns the default bytes and stride of a worker. Kinds that `stress` 1.0.7 has use its defaults (256 MiB and
    /// 4096 for `--vm`, 1 GiB for `--hdd`; the study uses 256 MiB). Others use a block well beyond the last-level cache
    /// of any board. 0 if the stressor has no such parameter.
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

    /// Returns whether it allocates memory in each pass, so that a [`BlockMode`] applies.
    #[must_use]
    pub fn allocates(self) -> bool {
        matches!(self, Stress::Vm | Stress::Malloc)
    }
}

/// Treatment of a block after the worker has read it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BlockMode {
    /// Frees it and allocates again in the next pass.
    #[default]
    Free,
    /// Keeps it: it is allocated once.
    Kept,
    /// Sleeps this many seconds before it reads the block back and frees it.
    Hold(u64),
}

impl BlockMode {
    /// Parses its token: `free`, `keep` or `holdN`.
    #[must_use]
    pub fn parse(word: &str) -> Option<BlockMode> {
        match word {
            "free" => Some(BlockMode::Free),
            "keep" => Some(BlockMode::Kept),
            _ => word
                .strip_prefix("hold")?
                .parse()
                .ok()
                .filter(|s| (1..=MAX_HOLD_SECONDS).contains(s))
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
    /// The work.
    pub kind: Stress,
    /// Number of processes.
    pub workers: u64,
    /// Bytes of each worker.
    pub bytes: u64,
    /// Bytes from one access to the next.
    pub stride: u64,
    /// Treatment of a block after it has been read back.
    pub mode: BlockMode,
}

impl Stressor {
    /// Returns one worker of a kind with its defaults.
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
            .ok_or_else(|| format!("'{name}' is not a stressor; expected one of: {}", Stress::choices()))?;
        let mut s = Stressor::of(kind);
        s.workers = workers.parse().ok().filter(|n| (1..=MAX_WORKERS).contains(n)).ok_or_else(|| {
            format!("'{word}': the number of workers must be from 1 to {MAX_WORKERS}, as in {name}*2")
        })?;
        if let Some(bytes) = parts.next() {
            let min_bytes = kind.defaults().0.min(4096);
            s.bytes = parse(bytes).ok().filter(|b| min_bytes > 0 && (min_bytes..=MAX_BYTES).contains(b)).ok_or_else(
                || {
                    format!(
                        "'{word}': '{bytes}' is not a memory size from 4K to 1T, as in vm:64M; cpu and io take none"
                    )
                },
            )?;
        }
        if let Some(stride) = parts.next() {
            let given = parse(stride).ok().filter(|&b| b > 0 && b <= s.bytes && kind.allocates());
            s.stride = given.ok_or_else(|| {
                format!("'{word}': '{stride}' is not a stride; vm and malloc take one, up to their bytes")
            })?;
        }
        if let Some(mode) = parts.next() {
            s.mode = BlockMode::parse(mode).filter(|_| kind.allocates()).ok_or_else(|| {
                format!(
                    "'{word}': '{mode}' is not a mode; vm and malloc take free, keep or holdN (N seconds)"
                )
            })?;
        }
        match parts.next() {
            Some(more) => Err(format!("'{word}': ':{more}' after the last part")),
            None => Ok(s),
        }
    }
}

impl fmt::Display for Stressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Stressor::of(self.kind);
        write!(f, "{}*{}", self.kind.token(), self.workers)?;
        let parts = [
            (compact(self.bytes), self.bytes != default.bytes),
            (compact(self.stride), self.stride != default.stride),
            (self.mode.to_string(), self.mode != default.mode),
        ];
        let written = parts.iter().rposition(|(_, differs)| *differs).map_or(0, |last| last + 1);
        parts[..written].iter().try_for_each(|(part, _)| write!(f, ":{part}"))
    }
}

/// Stressors that run during a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The stressors, in the order in which they were named.
    pub stressors: Vec<Stressor>,
}

impl Load {
    /// Parses the notation: words separated by blanks. `none` and an empty text are no load.
    ///
    /// # Errors
    /// A sentence that names the invalid word and what is expected.
    pub fn parse(text: &str) -> Result<Load, String> {
        let words: Vec<&str> = text.split_ascii_whitespace().filter(|word| *word != "none").collect();
        if words.len() > MAX_STRESSORS {
            return Err(format!("a load has at most {MAX_STRESSORS} stressors"));
        }
        let stressors = words.into_iter().map(Stressor::read).collect::<Result<_, _>>()?;
        Ok(Load { stressors })
    }

    /// Returns whether there are no stressors.
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

/// Work of all workers of one stressor during a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadStats {
    /// Index of the stressor in the load, from 0.
    pub stressor: u64,
    /// Duration, ns.
    pub ns: u64,
    /// Completed passes; an unfinished one does not count.
    pub passes: u64,
    /// Lines touched in memory.
    pub lines: u64,
    /// Page faults.
    pub faults: u64,
    /// Bytes read or written, in memory or on a disk.
    pub bytes: u64,
    /// Accesses that a cache that CPUs share, or memory, served, page walks included, and stores that the nearest cache
    /// passed on; only a described machine counts them.
    pub shared: Option<u64>,
}

impl LoadStats {
    /// Returns the line for a trial.
    #[must_use]
    pub fn line(&self, trial: u64) -> Line {
        let line = Line::new("load_stats")
            .int("trial", trial)
            .int("stressor", self.stressor)
            .int("ns", self.ns)
            .int("passes", self.passes)
            .int("lines", self.lines)
            .int("faults", self.faults)
            .int("bytes", self.bytes);
        match self.shared {
            Some(shared) => line.int("shared", shared),
            None => line,
        }
    }

    /// Parses the line into the trial's number and the statistics.
    ///
    /// # Errors
    /// When a required key is missing, or a key is unknown or not an integer.
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
            shared: f.int("shared")?,
        };
        f.finish()?;
        Ok((trial, load_stats))
    }
}

/// Pressure stall information (PSI) of the whole machine during a trial: microseconds in which some or all tasks
/// waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Some task waited for a CPU.
    pub cpu_us: u64,
    /// Some task waited for memory.
    pub memory_us: u64,
    /// All tasks waited for memory.
    pub memory_full_us: u64,
    /// Some task waited for input or output.
    pub io_us: u64,
    /// All tasks waited for input or output.
    pub io_full_us: u64,
}

impl Stalls {
    /// Returns the line for a trial.
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

    /// Parses the line into the trial's number and its stalls.
    ///
    /// # Errors
    /// When a key is missing, unknown or not an integer.
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
