//! Runs of a program that is counted: the harness's own lines `program`. First the command, the events and the sets in which
//! they are counted; then a line for each run.

use fathom_analysis::findings::tokens;
use fathom_probe::wire::{Line, WireError};

use super::Record;
use super::simulated::cut;

mod regions;
mod slice;

pub use regions::{AskedRegions, MAX_REGIONS, ProgramMarks, ProgramRegion};
pub use slice::{MAX_SLICES, ProgramSlice};

/// Sets of events, at most.
const MAX_SETS: usize = 32;
/// Access times of tiers, at most.
pub const MAX_TIERS: usize = 16;
/// Runs, at most: more take more memory and tell nothing.
pub const MAX_RUNS: usize = 10_000;

/// A program that was run several times, each time with a set of events counted, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramRuns {
    /// Name of the program.
    pub program: String,
    /// Number of the process, if it was running already.
    pub process: Option<u64>,
    /// Length of the slices that was asked for, ms.
    pub every_ms: Option<u64>,
    /// Whether the kernel's work for the program is counted too.
    pub with_kernel: bool,
    /// Events that can be counted, in `fathom_analysis::findings::tokens::EVENT`.
    pub events: Vec<TriedEvent>,
    /// Events that cannot.
    pub refused: Vec<RefusedEvent>,
    /// Names of the events that are counted in the same run.
    pub sets: Vec<Vec<String>>,
    /// Access times of the machine, if a survey of it is kept.
    pub times: Option<ProgramTimes>,
    /// The regions that are asked, if any are.
    pub regions: Option<AskedRegions>,
    /// The runs, in order.
    pub runs: Vec<ProgramRun>,
    /// Slices of the time of the only run, or of the process, in order.
    pub slices: Vec<ProgramSlice>,
}

/// Access times of the machine, each with its interval: value, low, high, in thousandths of a core cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramTimes {
    /// Name of the survey's file.
    pub survey: String,
    /// Latency of a load by the tier that serves it, from the nearest to memory.
    pub tiers: Vec<[u64; 3]>,
    /// Latency that a TLB miss adds, if it is known.
    pub translation: Option<[u64; 3]>,
}

/// An event that can be counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TriedEvent {
    /// Its name.
    pub name: String,
    /// Its count in a loop that must have such events; `None` if there is no such loop.
    pub tried: Option<u64>,
}

/// An event that cannot be counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedEvent {
    /// Its name.
    pub name: String,
    /// Reason.
    pub reason: String,
    /// Remedy.
    pub remedy: String,
}

/// A run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramRun {
    /// Number of the set of events, from 0; `None` if nothing was counted.
    pub set: Option<usize>,
    /// Time from start to end, ns.
    pub wall_ns: u64,
    /// CPU time in user space and in the kernel, us.
    pub cpu_us: [u64; 2],
    /// Page faults without and with reading a file.
    pub faults: [u64; 2],
    /// Voluntary and involuntary context switches.
    pub switches: [u64; 2],
    /// Whether the events are counted between marks, by these, instead of in the whole run.
    pub in_regions: bool,
    /// What the marks have counted, of a run whose marks count.
    pub marks: Option<ProgramMarks>,
    /// Counts, in the order of the set.
    pub counts: Vec<u64>,
    /// Whether the events had their hardware counters only a part of the time, because of other users: counts are only parts.
    pub shared: bool,
    /// CPU time in which the kernel let the events be counted, us; `None` without a set.
    pub counted_us: Option<u64>,
    /// Whether processes that it has started were still running at its end.
    pub left: bool,
    /// How the program ended, if not with status 0.
    pub ended: String,
}

impl ProgramRuns {
    /// Returns the lines before the runs.
    #[must_use]
    pub fn head_lines(&self) -> Vec<Line> {
        let begun = |part: &str| Line::new("program").token("part", part);
        let event = |event: &TriedEvent| {
            let line = begun("event").text("name", &event.name);
            event.tried.map_or_else(|| line.clone(), |tried| line.clone().int("tried", tried))
        };
        let refused = |refused: &RefusedEvent| {
            let line = begun("refused").text("name", &refused.name);
            line.text("reason", &cut(&refused.reason)).text("remedy", &cut(&refused.remedy))
        };
        let command = begun("command").text("name", &cut(&self.program));
        let command = self.process.map_or(command.clone(), |process| command.int("process", process));
        let command = self.every_ms.map_or(command.clone(), |every| command.int("every_ms", every));
        let mut all = vec![if self.with_kernel { command.int("kernel", 1) } else { command }];
        all.extend(self.events.iter().map(event));
        all.extend(self.refused.iter().map(refused));
        all.extend(self.sets.iter().map(|set| begun("set").text("events", &set.join(","))));
        all.extend(self.times.iter().map(ProgramTimes::line));
        all.extend(self.regions.iter().flat_map(AskedRegions::lines));
        all
    }

    /// Returns the events that are counted in the whole of a run.
    #[must_use]
    pub fn set_of(&self, run: &ProgramRun) -> &[String] {
        run.set.filter(|_| !run.in_regions).and_then(|set| self.sets.get(set)).map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, part: &str, line: &Line) -> Result<(), WireError> {
        let full = |what: &str, most: usize| Err(WireError::new(format!("program: more than {most} {what}")));
        match part {
            "event" if self.events.len() >= tokens::EVENT.values.len() => full("events", self.events.len()),
            "event" => {
                let event = TriedEvent::of_line(line)?;
                self.new_event(&event.name)?;
                self.events.push(event);
                Ok(())
            }
            "refused" if self.refused.len() >= tokens::EVENT.values.len() => {
                full("refused events", self.refused.len())
            }
            "refused" => {
                let event = RefusedEvent::of_line(line)?;
                self.new_event(&event.name)?;
                self.refused.push(event);
                Ok(())
            }
            "set" if self.sets.len() >= MAX_SETS => full("sets", MAX_SETS),
            "set" => set_of_line(line).map(|set| self.sets.push(set)),
            "times" if self.times.is_some() => Err(WireError::new("program: a second part=times")),
            "times" => ProgramTimes::of_line(line).map(|times| self.times = Some(times)),
            "asked" => self.add_asked(line),
            "marks" => self.add_marks(line),
            "region" => self.add_region(line),
            "run" if self.runs.len() >= MAX_RUNS => full("runs", MAX_RUNS),
            "run" => self.add_run(ProgramRun::of_line(line)?),
            "slice" if self.slices.len() >= MAX_SLICES => full("slices", MAX_SLICES),
            "slice" => self.add_slice(ProgramSlice::of_line(line)?),
            other => Err(WireError::new(format!(
                "program: part={other} is not one of: command event refused set times asked run marks region slice"
            ))),
        }
    }
}

impl ProgramRuns {
    fn add_run(&mut self, run: ProgramRun) -> Result<(), WireError> {
        if run.set.is_some_and(|set| set >= self.sets.len()) {
            return Err(WireError::new("program: a run with a set that is not listed before it"));
        }
        let (has, must) = (run.counts.len(), self.set_of(&run).len());
        if has != must {
            return Err(WireError::new(format!("program: {has} counts of {must} events")));
        }
        self.runs.push(run);
        Ok(())
    }

    /// Checks that an event is not listed yet.
    fn new_event(&self, name: &str) -> Result<(), WireError> {
        let counted = self.events.iter().map(|event| &event.name);
        let mut all = counted.chain(self.refused.iter().map(|event| &event.name));
        match all.any(|listed| listed == name) {
            true => Err(WireError::new(format!("program: {name} is listed twice"))),
            false => Ok(()),
        }
    }
}

impl TriedEvent {
    fn of_line(line: &Line) -> Result<TriedEvent, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let name = event_name(f.text("name")?.unwrap_or_default())?;
        let tried = f.int("tried")?;
        f.finish()?;
        Ok(TriedEvent { name, tried })
    }
}

impl RefusedEvent {
    fn of_line(line: &Line) -> Result<RefusedEvent, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let name = event_name(f.text("name")?.unwrap_or_default())?;
        let reason = f.text("reason")?.unwrap_or_default().to_owned();
        let remedy = f.text("remedy")?.unwrap_or_default().to_owned();
        f.finish()?;
        Ok(RefusedEvent { name, reason, remedy })
    }
}

impl ProgramTimes {
    fn line(&self) -> Line {
        let line = Line::new("program").token("part", "times").text("survey", &cut(&self.survey));
        let line = line.list("tiers", self.tiers.as_flattened());
        self.translation.map_or_else(|| line.clone(), |added| line.clone().list("translation", &added))
    }

    fn of_line(line: &Line) -> Result<ProgramTimes, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let survey = f.text("survey")?.unwrap_or_default().to_owned();
        let intervals = |list: Vec<u64>| {
            let (intervals, rest) = list.as_chunks::<3>();
            let ordered = intervals.iter().all(|[value, low, high]| low <= value && value <= high);
            match rest.is_empty() && ordered && intervals.len() <= MAX_TIERS {
                true => Ok(intervals.to_vec()),
                false => Err(WireError::new("program: times are no intervals: value, low, high of each")),
            }
        };
        let tiers = intervals(f.list("tiers")?)?;
        let translation = match intervals(f.list("translation")?)?[..] {
            [] => None,
            [one] => Some(one),
            [..] => return Err(WireError::new("program: more than one time of translation")),
        };
        f.finish()?;
        Ok(ProgramTimes { survey, tiers, translation })
    }
}

impl ProgramRun {
    /// Returns its line, and those of its marks.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        let marks = self.marks.iter().flat_map(ProgramMarks::lines);
        std::iter::once(self.line()).chain(marks).collect()
    }

    fn line(&self) -> Line {
        let line = Line::new("program").token("part", "run");
        let line = self.set.map_or_else(|| line.clone(), |set| line.clone().int("set", set as u64));
        let line = line.int("wall_ns", self.wall_ns).list("cpu_us", &self.cpu_us);
        let line = line.list("faults", &self.faults).list("switches", &self.switches);
        let line = line.list("counts", &self.counts);
        let line = self.counted_us.map_or_else(|| line.clone(), |us| line.clone().int("counted_us", us));
        let line = if self.shared { line.int("shared", 1) } else { line };
        let line = if self.left { line.int("left", 1) } else { line };
        let line = if self.in_regions { line.int("in_regions", 1) } else { line };
        if self.ended.is_empty() { line } else { line.text("ended", &cut(&self.ended)) }
    }

    fn of_line(line: &Line) -> Result<ProgramRun, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let mut pair = |key: &str| {
            let list = f.list(key)?;
            <[u64; 2]>::try_from(list.as_slice()).map_err(|_| {
                WireError::new(format!("program: {key} has {} numbers instead of 2", list.len()))
            })
        };
        let (cpu_us, faults, switches) = (pair("cpu_us")?, pair("faults")?, pair("switches")?);
        let set = f.int("set")?;
        let run = ProgramRun {
            set: set.map(|set| usize::try_from(set).unwrap_or(usize::MAX)),
            wall_ns: f.need_int("wall_ns")?,
            cpu_us,
            faults,
            switches,
            in_regions: f.int("in_regions")?.is_some_and(|flag| flag != 0),
            marks: None,
            counts: f.list("counts")?,
            shared: f.int("shared")?.is_some_and(|flag| flag != 0),
            counted_us: f.int("counted_us")?,
            left: f.int("left")?.is_some_and(|flag| flag != 0),
            ended: f.text("ended")?.unwrap_or_default().to_owned(),
        };
        f.finish()?;
        Ok(run)
    }
}

/// Checks the name of an event.
fn event_name(name: &str) -> Result<String, WireError> {
    if tokens::EVENT.contains(name) {
        return Ok(name.to_owned());
    }
    Err(WireError::new(format!("program: event {name:?} is not one of: {}", tokens::EVENT.values.join(" "))))
}

fn set_of_line(line: &Line) -> Result<Vec<String>, WireError> {
    let mut f = line.fields();
    f.token("part")?;
    let events = f.text("events")?.unwrap_or_default().to_owned();
    f.finish()?;
    let set: Vec<String> = events.split(',').map(event_name).collect::<Result<_, _>>()?;
    match (1..set.len()).find(|&n| set[..n].contains(&set[n])) {
        Some(twice) => Err(WireError::new(format!("program: {} is twice in a set", set[twice]))),
        None => Ok(set),
    }
}

impl Record {
    /// Adds a line of a counted program.
    pub(super) fn take_program(&mut self, line: &Line) -> Result<(), WireError> {
        self.held += fathom_probe::wire::line::MAX_LINE as u64;
        let part = line.fields().token("part")?.unwrap_or_default().to_owned();
        match (&mut self.program, part.as_str()) {
            (None, "command") => {
                let mut f = line.fields();
                f.token("part")?;
                let program = f.text("name")?.unwrap_or_default().to_owned();
                let with_kernel = f.int("kernel")?.is_some_and(|flag| flag != 0);
                let (process, every_ms) = (f.int("process")?, f.int("every_ms")?);
                f.finish()?;
                let begun = ProgramRuns { program, process, every_ms, with_kernel, ..ProgramRuns::default() };
                self.program = Some(begun);
                Ok(())
            }
            (Some(_), "command") => Err(WireError::new("program: a second command: the first one counts")),
            (Some(program), _) => program.add(&part, line),
            (None, _) => Err(WireError::new(format!("program: part={part} before part=command"))),
        }
    }
}
