//! Slices of time in which a program was counted.

use fathom_probe::wire::{Line, WireError};

use super::ProgramRuns;

/// Slices, at most: half an hour at five a second. More take more memory, and no figure shows them.
pub const MAX_SLICES: usize = 10_000;

/// A slice of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramSlice {
    /// Number of the set of events, from 0.
    pub set: usize,
    /// Begin, since counting began, us.
    pub begin_us: u64,
    /// Length, us.
    pub wall_us: u64,
    /// Counts, in the order of the set.
    pub counts: Vec<u64>,
    /// Whether the events had their hardware counters only a part of the time, because of other users: counts are only parts.
    pub shared: bool,
}

impl ProgramSlice {
    /// Returns its line.
    #[must_use]
    pub fn line(&self) -> Line {
        let line = Line::new("program").token("part", "slice").int("set", self.set as u64);
        let line = line.int("begin_us", self.begin_us).int("wall_us", self.wall_us);
        let line = line.list("counts", &self.counts);
        if self.shared { line.int("shared", 1) } else { line }
    }

    pub(super) fn of_line(line: &Line) -> Result<ProgramSlice, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let slice = ProgramSlice {
            set: usize::try_from(f.need_int("set")?).unwrap_or(usize::MAX),
            begin_us: f.need_int("begin_us")?,
            wall_us: f.need_int("wall_us")?,
            counts: f.list("counts")?,
            shared: f.int("shared")?.is_some_and(|flag| flag != 0),
        };
        f.finish()?;
        Ok(slice)
    }
}

impl ProgramRuns {
    pub(super) fn add_slice(&mut self, slice: ProgramSlice) -> Result<(), WireError> {
        let Some(set) = self.sets.get(slice.set) else {
            return Err(WireError::new("program: a slice with a set that is not listed before it"));
        };
        if slice.counts.len() != set.len() {
            return Err(WireError::new(format!(
                "program: {} counts of {} events",
                slice.counts.len(),
                set.len()
            )));
        }
        let since = self.slices.last().map_or(0, |last| last.begin_us.saturating_add(last.wall_us));
        if slice.begin_us < since || slice.wall_us == 0 || slice.begin_us.checked_add(slice.wall_us).is_none()
        {
            return Err(WireError::new("program: a slice that does not follow the one before it"));
        }
        self.slices.push(slice);
        Ok(())
    }
}
