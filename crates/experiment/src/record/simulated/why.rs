//! Why a simulated program missed: data and pairs of lines, as lines of a record.

use fathom_probe::wire::{Line, WireError};

use super::sharing::SimulatedSharing;
use super::{cut, numbers, with_overlapped, with_texts};

/// Reasons of misses.
pub const REASONS: usize = 6;
/// Characters of a text of a pair, at most: six of them fit in a line in any encoding.
const MAX_PAIR_TEXT_CHARS: usize = 50;

/// Misses by reason, in the order of `fathom_analysis::metrics::simulate::REASON_NAMES`.
pub type Reasons = [u64; REASONS];

/// An object of the program's data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulatedObject {
    /// Its name.
    pub name: String,
    /// The program or library that has it; empty for memory without a file.
    pub file: String,
    /// Misses by level.
    pub misses: Vec<u64>,
    /// Walks.
    pub walks: u64,
    /// Time beyond hits.
    pub units: u64,
    /// What remains of it if accesses overlap, if that is described.
    pub overlapped: Option<u64>,
    /// Misses of the nearest level by reason.
    pub reasons: Reasons,
    /// What accesses to it have done to lines of other CPUs, if anything.
    pub sharing: Option<SimulatedSharing>,
    /// Of an allocation site: its blocks, their bytes, the most bytes in use at the same time, and accesses.
    pub heap: Option<[u64; 4]>,
}

/// One side of a pair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulatedEnd {
    /// The object; empty for page tables.
    pub object: String,
    /// Bytes from its start.
    pub offset: u64,
    /// The function that accessed it.
    pub function: String,
    /// The line of the source.
    pub source: String,
    /// The CPU.
    pub cpu: u64,
}

/// Two objects of which one takes the lines of the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulatedPair {
    /// Number of the level or TLB, from 0.
    pub level: u64,
    /// Number of the reason.
    pub reason: u64,
    /// A set in which it happens.
    pub set: u64,
    /// Misses.
    pub count: u64,
    /// What missed.
    pub end: SimulatedEnd,
    /// What had taken the line.
    pub by: SimulatedEnd,
}

impl SimulatedObject {
    pub(super) fn record_line(&self, line: Line) -> Line {
        let line = with_texts(line, &[("object", &self.name), ("file", &self.file)])
            .list("counts", &[self.walks, self.units]);
        let line = with_overlapped(line, self.overlapped)
            .list("misses", &self.misses)
            .list("reasons", &self.reasons);
        let line = SimulatedSharing::add(self.sharing, line);
        match &self.heap {
            Some(heap) => line.list("heap", heap),
            None => line,
        }
    }

    pub(super) fn of_line(line: &Line) -> Result<SimulatedObject, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let mut text = |key: &str| Ok::<_, WireError>(f.text(key)?.unwrap_or_default().to_owned());
        let (name, file) = (text("object")?, text("file")?);
        let [walks, units] = numbers("counts", &f.list("counts")?)?;
        let overlapped = f.int("overlapped")?;
        let misses = f.list("misses")?;
        let reasons = numbers("reasons", &f.list("reasons")?)?;
        let sharing = SimulatedSharing::of_list(&f.list("sharing")?)?;
        let heap = f.list("heap")?;
        let heap = if heap.is_empty() { None } else { Some(numbers("heap", &heap)?) };
        f.finish()?;
        Ok(SimulatedObject { name, file, misses, walks, units, overlapped, reasons, sharing, heap })
    }
}

impl SimulatedPair {
    pub(super) fn record_line(&self, line: Line) -> Line {
        let line = line.list("counts", &[self.level, self.reason, self.set, self.count]);
        let line = self.end.add(line, ["object", "function", "source"], "end");
        self.by.add(line, ["by_object", "by_function", "by_source"], "by")
    }

    pub(super) fn of_line(line: &Line, levels: usize) -> Result<SimulatedPair, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let [level, reason, set, count] = numbers("counts", &f.list("counts")?)?;
        let mut text = |key: &str| Ok::<_, WireError>(f.text(key)?.unwrap_or_default().to_owned());
        let (object, function, source) = (text("object")?, text("function")?, text("source")?);
        let by = (text("by_object")?, text("by_function")?, text("by_source")?);
        let [offset, cpu] = numbers("end", &f.list("end")?)?;
        let [by_offset, by_cpu] = numbers("by", &f.list("by")?)?;
        f.finish()?;
        if level >= levels as u64 || reason >= REASONS as u64 {
            let what = format!("simulated: a pair of level {level} and reason {reason}, which do not exist");
            return Err(WireError::new(what));
        }
        let end = SimulatedEnd { object, offset, function, source, cpu };
        let by = SimulatedEnd { object: by.0, offset: by_offset, function: by.1, source: by.2, cpu: by_cpu };
        Ok(SimulatedPair { level, reason, set, count, end, by })
    }
}

impl SimulatedEnd {
    fn add(&self, line: Line, keys: [&str; 3], numbers: &str) -> Line {
        let texts = [&self.object, &self.function, &self.source]
            .map(|text| cut(text).chars().take(MAX_PAIR_TEXT_CHARS).collect::<String>());
        let texts: Vec<(&str, &String)> = keys.into_iter().zip(&texts).collect();
        with_texts(line, &texts).list(numbers, &[self.offset, self.cpu])
    }
}
