//! Calls of a simulated program, as lines of a record.

use fathom_probe::wire::{Line, WireError};

use super::{numbers, with_texts};

/// A function that was called by a certain sequence of callers, or a function with all that it calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulatedCall {
    /// Number of the call that made it, from 1; 0 if none did.
    pub caller: u64,
    /// Function.
    pub function: String,
    /// Program or library.
    pub file: String,
    /// Executed instructions.
    pub executed: u64,
    /// Loads and stores.
    pub accesses: u64,
    /// Walks.
    pub walks: u64,
    /// Time: of the instructions themselves, of data accesses, of translations, of fetches beyond hits.
    pub units: u64,
    /// Its part of the least time of the program, if the machine describes how many accesses overlap: what it has on the side
    /// (instructions, fetches or data accesses) that takes the longest in the whole run.
    pub least: Option<u64>,
    /// Misses by level.
    pub misses: Vec<u64>,
}

impl SimulatedCall {
    pub(super) fn record_line(&self, line: Line) -> Line {
        let line = if self.caller > 0 { line.int("caller", self.caller) } else { line };
        let line = with_texts(line, &[("function", &self.function), ("file", &self.file)])
            .list("counts", &[self.executed, self.accesses, self.walks, self.units]);
        let line = self.least.iter().fold(line, |line, &units| line.int("least", units));
        line.list("misses", &self.misses)
    }

    /// Reads a call that comes after `before` others.
    pub(super) fn of_line(line: &Line, before: usize) -> Result<SimulatedCall, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let caller = f.int("caller")?.unwrap_or(0);
        let mut text = |key: &str| Ok::<_, WireError>(f.text(key)?.unwrap_or_default().to_owned());
        let (function, file) = (text("function")?, text("file")?);
        let [executed, accesses, walks, units] = numbers("counts", &f.list("counts")?)?;
        let least = f.int("least")?;
        let misses = f.list("misses")?;
        f.finish()?;
        if caller > before as u64 {
            return Err(WireError::new(format!(
                "simulated: caller={caller} is not one of {before} calls before it"
            )));
        }
        Ok(SimulatedCall { caller, function, file, executed, accesses, walks, units, least, misses })
    }
}
