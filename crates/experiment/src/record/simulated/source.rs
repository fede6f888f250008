//! Text of a simulated program's source, with the counts of each line, as lines of a record.

use fathom_probe::wire::{Line, WireError};

use super::{cut, numbers, with_overlapped};

/// Lines of the source in a record, at most.
pub const MAX_SOURCE: usize = 400;

/// A line of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulatedSource {
    /// Name of the file.
    pub file: String,
    /// Number of the line.
    pub number: u64,
    /// The line, with spaces instead of tabs.
    pub text: String,
    /// Executed instructions; 0: the line has none.
    pub executed: u64,
    /// Loads and stores.
    pub accesses: u64,
    /// Walks.
    pub walks: u64,
    /// Time beyond hits.
    pub units: u64,
    /// What remains of it if accesses overlap, if that is described.
    pub overlapped: Option<u64>,
    /// Misses by level.
    pub misses: Vec<u64>,
}

impl SimulatedSource {
    pub(super) fn record_line(&self, line: Line) -> Line {
        let counts = [self.executed, self.accesses, self.walks, self.units];
        let line = line.text("file", &cut(&self.file)).int("number", self.number);
        let line = line.text("text", &cut(&self.text)).list("counts", &counts);
        with_overlapped(line, self.overlapped).list("misses", &self.misses)
    }

    pub(super) fn of_line(line: &Line) -> Result<SimulatedSource, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let file = f.text("file")?.unwrap_or_default().to_owned();
        let number = f.need_int("number")?;
        let text = f.text("text")?.unwrap_or_default().to_owned();
        let [executed, accesses, walks, units] = numbers("counts", &f.list("counts")?)?;
        let overlapped = f.int("overlapped")?;
        let misses = f.list("misses")?;
        f.finish()?;
        Ok(SimulatedSource { file, number, text, executed, accesses, walks, units, overlapped, misses })
    }
}
