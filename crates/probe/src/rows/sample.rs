//! Samples of a trial, and its end.

use alloc::vec::Vec;

use crate::machine::{Translation, Watch};
use crate::wire::{Fields, Line, WireError};

/// Samples per line: eight columns of up to 20 digits fit in a line.
pub const SAMPLES_PER_LINE: usize = 16;

/// One timed run of a trial: n operations, then 2n.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Sample {
    /// Ticks over n operations (over nothing, for the pattern `clock`).
    pub ticks: u64,
    /// Ticks over the 2n operations that followed.
    pub ticks2: u64,
    /// Cell number on which the first run ended.
    pub end: u64,
    /// Cell number on which the second run ended.
    pub end2: u64,
    /// Core cycles counted over n and over 2n operations, where a counter exists.
    pub cycles: Option<(u64, u64)>,
    /// Refills of the level that the trial counts, over n and over 2n operations, where they are counted.
    pub misses: Option<(u64, u64)>,
}

/// Samples of one trial, in the order in which they were taken.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Samples {
    /// Number of the trial.
    pub trial: u64,
    /// The samples.
    pub list: Vec<Sample>,
}

impl Samples {
    /// Returns the lines.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        self.list.chunks(SAMPLES_PER_LINE).map(|chunk| self.one_line(chunk)).collect()
    }

    fn one_line(&self, chunk: &[Sample]) -> Line {
        let column = |get: fn(&Sample) -> u64| -> Vec<u64> { chunk.iter().map(get).collect() };
        let mut line = Line::new("sample")
            .int("trial", self.trial)
            .list("ticks", &column(|s| s.ticks))
            .list("ticks2", &column(|s| s.ticks2))
            .list("end", &column(|s| s.end))
            .list("end2", &column(|s| s.end2));
        if chunk.iter().all(|s| s.cycles.is_some()) {
            line = line
                .list("cycles", &column(|s| s.cycles.map_or(0, |c| c.0)))
                .list("cycles2", &column(|s| s.cycles.map_or(0, |c| c.1)));
        }
        if chunk.iter().all(|s| s.misses.is_some()) {
            line = line
                .list("misses", &column(|s| s.misses.map_or(0, |c| c.0)))
                .list("misses2", &column(|s| s.misses.map_or(0, |c| c.1)));
        }
        line
    }

    /// Parses one line of samples.
    ///
    /// # Errors
    /// When columns differ in length, or a key is unknown.
    pub fn read(line: &Line) -> Result<Samples, WireError> {
        let mut f = line.fields();
        let trial = f.need_int("trial")?;
        let (ticks, ticks2) = (f.list("ticks")?, f.list("ticks2")?);
        let (end, end2) = (f.list("end")?, f.list("end2")?);
        let (cycles, cycles2) = (f.list("cycles")?, f.list("cycles2")?);
        let (misses, misses2) = (f.list("misses")?, f.list("misses2")?);
        f.finish()?;
        let n = ticks.len();
        let whole = |a: &[u64], b: &[u64]| (a.is_empty() && b.is_empty()) || (a.len() == n && b.len() == n);
        if [&ticks2, &end, &end2].iter().any(|c| c.len() != n)
            || !whole(&cycles, &cycles2)
            || !whole(&misses, &misses2)
        {
            return Err(WireError::new("sample: columns of different lengths"));
        }
        let list = (0..n)
            .map(|i| Sample {
                ticks: ticks[i],
                ticks2: ticks2[i],
                end: end[i],
                end2: end2[i],
                cycles: cycles.get(i).copied().zip(cycles2.get(i).copied()),
                misses: misses.get(i).copied().zip(misses2.get(i).copied()),
            })
            .collect();
        Ok(Samples { trial, list })
    }
}

/// The end of a trial: the memory it got and what happened while it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Done {
    /// Number of the trial.
    pub trial: u64,
    /// Page size in force, bytes.
    pub page_bytes: u64,
    /// Start of the mapping in the arena, bytes.
    pub base: u64,
    /// How the mapping was translated, if the machine reports it.
    pub translation: Option<Translation>,
    /// Counters of the measuring thread.
    pub watch: Watch,
    /// Wall time of the whole trial, including the machine's actions to reduce disturbances before and after it, ns.
    pub spent_ns: u64,
}

impl Done {
    /// Returns the line.
    #[must_use]
    pub fn line(&self) -> Line {
        let mut line = Line::new("done")
            .int("trial", self.trial)
            .int("page_bytes", self.page_bytes)
            .int("base", self.base);
        if let Some(t) = self.translation {
            line = line.int("va", t.va);
            for (key, value) in [("pa", t.pa), ("mair", t.mair.map(u64::from))] {
                line = value.into_iter().fold(line, |line, v| line.int(key, v));
            }
        }
        line.int("wall_ns", self.watch.wall_ns)
            .int("cpu_ns", self.watch.cpu_ns)
            .int("involuntary", self.watch.involuntary)
            .int("steal_ns", self.watch.steal_ns)
            .int("faults", self.watch.faults)
            .int("accesses", self.watch.accesses)
            .int("spent_ns", self.spent_ns)
    }

    /// Parses the line.
    ///
    /// # Errors
    /// When a key is missing, unknown or not an integer.
    pub fn read(line: &Line) -> Result<Done, WireError> {
        let mut f = line.fields();
        let mut done = Done {
            trial: f.need_int("trial")?,
            page_bytes: f.need_int("page_bytes")?,
            base: f.need_int("base")?,
            translation: translation(&mut f)?,
            watch: Watch {
                wall_ns: f.need_int("wall_ns")?,
                cpu_ns: f.need_int("cpu_ns")?,
                involuntary: f.need_int("involuntary")?,
                steal_ns: f.need_int("steal_ns")?,
                faults: f.need_int("faults")?,
                accesses: f.need_int("accesses")?,
            },
            spent_ns: 0,
        };
        // The first records did not have this key.
        done.spent_ns = f.int("spent_ns")?.unwrap_or(done.watch.wall_ns);
        f.finish()?;
        Ok(done)
    }
}

fn translation(f: &mut Fields<'_>) -> Result<Option<Translation>, WireError> {
    let (va, pa, mair) = (f.int("va")?, f.int("pa")?, f.int("mair")?);
    let byte = |v: u64| {
        u8::try_from(v).map_err(|_| WireError::new(alloc::format!("done: mair={v} must be from 0 to 255")))
    };
    let mair = mair.map(byte).transpose()?;
    match va {
        None if pa.is_some() || mair.is_some() => Err(WireError::new("done: pa= and mair= need va=")),
        None => Ok(None),
        Some(va) => Ok(Some(Translation { va, pa, mair })),
    }
}
