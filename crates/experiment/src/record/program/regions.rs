//! Regions of a counted program: which are asked, and what a run has counted between its marks.

use fathom_probe::wire::{Line, WireError};

use super::super::simulated::cut;
use super::ProgramRuns;

/// Regions of a run, at most: those for which the marks have room, and empty pairs of marks.
pub const MAX_REGIONS: usize = 192;

/// The regions that are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskedRegions {
    /// Whether all regions that the program marks are.
    pub all: bool,
    /// Names of those that are asked by name.
    pub names: Vec<String>,
}

/// What the marks of a run have counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramMarks {
    /// Processes, and libraries with marks of their own, that took part.
    pub attached: u64,
    /// Threads that did.
    pub threads: u64,
    /// Threads that could not, because there was no part of the memory left, or no counters.
    pub uncounted: u64,
    /// Error of the first of these that could not open its counters: errno, and the number of the event in its set.
    pub error: [u64; 2],
    /// Whether counters were read by read(2), whether by instructions that the kernel lets programs execute, and whether by those that
    /// Fathom's driver grants.
    pub read_by: [bool; 3],
    /// Marks in the handler of a signal that came during a mark, which do not count.
    pub lost: u64,
    /// Entries of regions for which there was no room.
    pub overflow: u64,
    /// Pairs of marks with nothing in between that were timed before the program began, and their time, ns.
    pub pairs: [u64; 2],
    /// Whether the program has written into the shared memory itself, so that nothing of it counts.
    pub damaged: bool,
    /// What was between these pairs of marks, and the regions.
    pub regions: Vec<ProgramRegion>,
}

/// What all threads of a run have counted in a region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramRegion {
    /// Its name; empty: that of pairs of marks with nothing in between.
    pub name: String,
    /// Times that a thread has entered it from outside and left it.
    pub entered: u64,
    /// Ends without a beginning, and beginnings without an end.
    pub unmatched: u64,
    /// Entries in which counters did not have their hardware all the time.
    pub shared: u64,
    /// Threads that were ended while they wrote what they had counted, which is left out.
    pub torn: u64,
    /// Time in it, of all threads together, ns.
    pub ns: u64,
    /// Counts, in the order of the set.
    pub counts: Vec<u64>,
}

impl AskedRegions {
    pub(super) fn lines(&self) -> Vec<Line> {
        let asked = Line::new("program").token("part", "asked");
        let all = self.all.then(|| asked.clone());
        all.into_iter().chain(self.names.iter().map(|name| asked.clone().text("name", &cut(name)))).collect()
    }
}

impl ProgramMarks {
    /// Returns their lines, which follow that of the run.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        let [errno, event] = self.error;
        let [pairs, pairs_ns] = self.pairs;
        let [by_file, by_instructions, by_grant] = self.read_by;
        let flags = [by_file, by_instructions, by_grant, self.damaged].map(u64::from);
        let counts = [
            self.attached,
            self.threads,
            self.uncounted,
            errno,
            event,
            self.lost,
            self.overflow,
            pairs,
            pairs_ns,
        ];
        let line = Line::new("program").token("part", "marks");
        let mut all = vec![line.list("counts", &counts).list("flags", &flags)];
        all.extend(self.regions.iter().map(ProgramRegion::line));
        all
    }

    fn of_line(line: &Line) -> Result<ProgramMarks, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let [attached, threads, uncounted, errno, event, lost, overflow, pairs, pairs_ns] =
            numbers("counts", &f.list("counts")?)?;
        let [by_file, by_instructions, by_grant, damaged] =
            numbers("flags", &f.list("flags")?)?.map(|flag| flag != 0);
        f.finish()?;
        Ok(ProgramMarks {
            attached,
            threads,
            uncounted,
            error: [errno, event],
            read_by: [by_file, by_instructions, by_grant],
            lost,
            overflow,
            pairs: [pairs, pairs_ns],
            damaged,
            regions: Vec::new(),
        })
    }
}

impl ProgramRegion {
    fn line(&self) -> Line {
        let marks = [self.entered, self.unmatched, self.shared, self.torn, self.ns];
        let line = Line::new("program").token("part", "region").text("name", &cut(&self.name));
        line.list("marks", &marks).list("counts", &self.counts)
    }

    fn of_line(line: &Line) -> Result<ProgramRegion, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let name = f.text("name")?.unwrap_or_default().to_owned();
        let [entered, unmatched, shared, torn, ns] = numbers("marks", &f.list("marks")?)?;
        let counts = f.list("counts")?;
        f.finish()?;
        Ok(ProgramRegion { name, entered, unmatched, shared, torn, ns, counts })
    }
}

fn numbers<const N: usize>(key: &str, list: &[u64]) -> Result<[u64; N], WireError> {
    list.try_into()
        .map_err(|_| WireError::new(format!("program: {key} has {} numbers instead of {N}", list.len())))
}

impl ProgramRuns {
    pub(super) fn add_asked(&mut self, line: &Line) -> Result<(), WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let name = f.text("name")?.map(str::to_owned);
        f.finish()?;
        let asked = self.regions.get_or_insert_default();
        match name {
            None => asked.all = true,
            Some(_) if asked.names.len() >= MAX_REGIONS => {
                return Err(WireError::new(format!("program: more than {MAX_REGIONS} regions are asked")));
            }
            Some(name) => asked.names.push(name),
        }
        Ok(())
    }

    pub(super) fn add_marks(&mut self, line: &Line) -> Result<(), WireError> {
        let marks = ProgramMarks::of_line(line)?;
        match self.runs.last_mut() {
            Some(run) if run.in_regions && run.marks.is_none() => run.marks = Some(marks),
            _ => return Err(WireError::new("program: part=marks that does not follow its run")),
        }
        Ok(())
    }

    pub(super) fn add_region(&mut self, line: &Line) -> Result<(), WireError> {
        let region = ProgramRegion::of_line(line)?;
        let events = self.runs.last().and_then(|run| run.set).map_or(0, |set| self.sets[set].len());
        let Some(marks) = self.runs.last_mut().and_then(|run| run.marks.as_mut()) else {
            return Err(WireError::new("program: part=region before part=marks"));
        };
        if marks.regions.len() >= MAX_REGIONS {
            return Err(WireError::new(format!("program: more than {MAX_REGIONS} regions")));
        }
        if marks.regions.iter().any(|listed| listed.name == region.name) {
            return Err(WireError::new(format!("program: region {:?} is twice in a run", region.name)));
        }
        if region.counts.len() != events {
            let has = region.counts.len();
            return Err(WireError::new(format!("program: {has} counts of {events} events in a region")));
        }
        marks.regions.push(region);
        Ok(())
    }
}
