//! A region of a simulated program, as a line of a record.

use fathom_probe::wire::{Line, WireError};

use super::{cut, numbers};

/// A part of the program between two marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulatedRegion {
    /// Its name.
    pub name: String,
    /// Times that it was entered.
    pub entered: u64,
    /// Ends without a beginning, and beginnings without an end.
    pub unmatched: u64,
    /// Executed instructions.
    pub instructions: u64,
    /// Loads and stores.
    pub accesses: u64,
    /// Walks.
    pub walks: u64,
    /// Accesses that memory served.
    pub memory: u64,
    /// Time.
    pub units: u64,
    /// Times of its entries that were left, if any was: the shortest, the median, what 99 % do not exceed, the longest.
    pub entries: Option<[u64; 4]>,
    /// The least time, if the machine describes how many accesses overlap.
    pub least: Option<u64>,
    /// Accesses that reached each level.
    pub reached: Vec<u64>,
    /// Misses by level.
    pub misses: Vec<u64>,
}

impl SimulatedRegion {
    pub(super) fn record_line(&self, line: Line) -> Line {
        let counts = [
            self.entered,
            self.unmatched,
            self.instructions,
            self.accesses,
            self.walks,
            self.memory,
            self.units,
        ];
        let line = line.text("name", &cut(&self.name)).list("counts", &counts);
        let line = self.entries.map_or_else(|| line.clone(), |times| line.clone().list("entries", &times));
        let line = self.least.iter().fold(line, |line, &units| line.int("least", units));
        line.list("reached", &self.reached).list("misses", &self.misses)
    }

    pub(super) fn of_line(line: &Line) -> Result<SimulatedRegion, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let name = f.text("name")?.unwrap_or_default().to_owned();
        let [entered, unmatched, instructions, accesses, walks, memory, units] =
            numbers("counts", &f.list("counts")?)?;
        let entries = f.list("entries")?;
        let entries = if entries.is_empty() { None } else { Some(numbers("entries", &entries)?) };
        let least = f.int("least")?;
        let (reached, misses) = (f.list("reached")?, f.list("misses")?);
        f.finish()?;
        Ok(SimulatedRegion {
            name,
            entered,
            unmatched,
            instructions,
            accesses,
            walks,
            memory,
            units,
            entries,
            least,
            reached,
            misses,
        })
    }
}
