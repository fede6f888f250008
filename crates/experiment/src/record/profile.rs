//! A sampled program: the harness's own lines `profile`. The first has the totals; one follows for each function, line of the
//! source and instruction, each call, and each object of data.

use fathom_probe::wire::{Fields, Line, WireError};

use super::Record;
use super::instruction::Instruction;
use super::simulated::{MAX_CALLS, MAX_HOT, cut};

mod accesses;

pub use accesses::{DataLevel, ProfileLatency, ProfileLevel, ProfileWalks};

/// A program that was run once, and where it executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Name of the program.
    pub program: String,
    /// Event that made samples, by its name in perf-list(1).
    pub event: String,
    /// Number of the process, if it was running already: its CPU time is not known.
    pub process: Option<u64>,
    /// Why it is not cycles, and the remedy; empty if it was asked for.
    pub instead: [String; 2],
    /// Samples for each second on a CPU that were asked for; 0 if `period` was.
    pub rate: u64,
    /// Events of a sample that were asked for; of the kernel's clock, ns.
    pub period: Option<u64>,
    /// Samples, records that were lost, and times that the kernel stopped sampling.
    pub counts: [u64; 3],
    /// Samples of equal weight that tell as much.
    pub effective: u64,
    /// Processes, and those of them without a sample.
    pub processes: [u64; 2],
    /// Whether processes were still running at the program's end.
    pub left: bool,
    /// Whether another tool has taken the samples: CPU time is not known, and `wall_ns` goes from the first to the last one.
    pub imported: bool,
    /// Whether some are in the kernel.
    pub with_kernel: bool,
    /// Files that are not what they were when they ran: their functions have no names.
    pub changed: Vec<String>,
    /// Events of all samples.
    pub weight: u64,
    /// Events that were counted, sampled or not; `None` if that is not known.
    pub counted: Option<u64>,
    /// What each PMU has sampled, where CPUs of several types have a PMU each.
    pub pmus: Vec<ProfilePmu>,
    /// Time from start to end, ns.
    pub wall_ns: u64,
    /// CPU time in user space and in the kernel, us.
    pub cpu_us: [u64; 2],
    /// How the program ended, if not with status 0.
    pub ended: String,
    /// Functions, those with the most events first.
    pub functions: Vec<ProfilePlace>,
    /// Lines of the source.
    pub lines: Vec<ProfilePlace>,
    /// Instructions.
    pub instructions: Vec<ProfilePlace>,
    /// Data that was accessed, if samples tell it.
    pub objects: Vec<ProfileObject>,
    /// Where the data of accesses were, if samples tell it: the nearest first.
    pub levels: Vec<ProfileLevel>,
    /// Accesses that walked page tables, if samples tell it.
    pub walks: Option<ProfileWalks>,
    /// Of a trace that the processor wrote: parts that were cut short, parts in which samples collided, and records that could not be
    /// read.
    pub gaps: [u64; 3],
    /// Samples whose callers are all known, if that can be told.
    pub whole: Option<u64>,
    /// Functions with all that they call, those with the most events first.
    pub totals: Vec<ProfilePlace>,
    /// Calls, callers before callees.
    pub calls: Vec<ProfileCall>,
}

/// A function that was called by a certain sequence of callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileCall {
    /// Number of the call that made it, from 1; 0 if none did.
    pub caller: u64,
    /// Function.
    pub function: String,
    /// Program or library.
    pub file: String,
    /// Samples in it, without those in what it calls.
    pub samples: u64,
    /// Events of these samples.
    pub weight: u64,
}

/// A function, a line of the source, or an instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfilePlace {
    /// Function.
    pub function: String,
    /// Program or library.
    pub file: String,
    /// Source file and line; empty for a function.
    pub source: String,
    /// Its place, of an instruction.
    pub instruction: Option<Instruction>,
    /// Samples.
    pub samples: u64,
    /// Events of these samples.
    pub weight: u64,
}

/// Data that was accessed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileObject {
    /// Variable or section, `stack`, `heap`, `mapped file`, other memory by its start; `?` if it is not known.
    pub object: String,
    /// Program, library or other file; empty for memory of no file.
    pub file: String,
    /// Samples.
    pub samples: u64,
    /// Events of these samples.
    pub weight: u64,
    /// Latencies of its accesses, if samples tell them.
    pub latency: Option<ProfileLatency>,
}

/// What a PMU has sampled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfilePmu {
    /// Its name in sysfs.
    pub name: String,
    /// Its CPUs, as the kernel lists them.
    pub cpus: String,
    /// Samples.
    pub samples: u64,
    /// Events, sampled or not, if they are counted.
    pub counted: Option<u64>,
    /// Why there are none: it does not have the event. Else empty.
    pub refused: String,
}

impl Profile {
    /// Returns whether the CPU time of what was sampled is known.
    #[must_use]
    pub fn has_cpu_time(&self) -> bool {
        !self.imported && self.process.is_none()
    }

    /// Returns its lines.
    #[must_use]
    pub fn record_lines(&self) -> Vec<Line> {
        let head = Line::new("profile").token("part", "program").text("name", &cut(&self.program));
        let texts = [("instead", &self.instead[0]), ("remedy", &self.instead[1]), ("ended", &self.ended)];
        let texts = texts.iter().filter(|(_, text)| !text.is_empty());
        let head =
            texts.fold(head.text("event", &self.event), |head, (key, text)| head.text(key, &cut(text)));
        let head = head.int("rate", self.rate).list("counts", &self.counts).int("weight", self.weight);
        let head = head.int("effective", self.effective).list("processes", &self.processes);
        let flags = [("left", self.left), ("imported", self.imported), ("kernel", self.with_kernel)];
        let head = flags.iter().filter(|(_, is_set)| *is_set).fold(head, |head, (key, _)| head.int(key, 1));
        let known = [
            ("process", self.process),
            ("period", self.period),
            ("whole", self.whole),
            ("counted", self.counted),
        ];
        let known = known.into_iter().filter_map(|(key, number)| Some((key, number?)));
        let head = known.fold(head, |head, (key, number)| head.int(key, number));
        let head = if self.gaps == [0; 3] { head } else { head.list("gaps", &self.gaps) };
        let mut all = vec![head.int("wall_ns", self.wall_ns).list("cpu_us", &self.cpu_us)];
        let changed = self.changed.iter().take(MAX_HOT);
        all.extend(
            changed.map(|file| Line::new("profile").token("part", "changed").text("file", &cut(file))),
        );
        all.extend(self.pmus.iter().take(MAX_HOT).map(ProfilePmu::record_line));
        for (part, places) in [
            ("function", &self.functions),
            ("line", &self.lines),
            ("instruction", &self.instructions),
            ("total", &self.totals),
        ] {
            all.extend(places.iter().take(MAX_HOT).map(|place| place.record_line(part)));
        }
        all.extend(self.levels.iter().take(MAX_HOT).map(ProfileLevel::record_line));
        all.extend(self.walks.iter().map(ProfileWalks::record_line));
        all.extend(self.objects.iter().take(MAX_HOT).map(ProfileObject::record_line));
        all.extend(self.calls.iter().take(MAX_CALLS).map(ProfileCall::record_line));
        all
    }

    fn head(line: &Line) -> Result<Profile, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let mut text = |key: &str| Ok::<_, WireError>(f.text(key)?.unwrap_or_default().to_owned());
        let (program, event, ended) = (text("name")?, text("event")?, text("ended")?);
        let instead = [text("instead")?, text("remedy")?];
        let read = Profile {
            program,
            event,
            instead,
            ended,
            rate: f.need_int("rate")?,
            counts: numbers("counts", &f.list("counts")?)?,
            effective: f.need_int("effective")?,
            processes: numbers("processes", &f.list("processes")?)?,
            left: flag(&mut f, "left")?,
            imported: flag(&mut f, "imported")?,
            with_kernel: flag(&mut f, "kernel")?,
            process: f.int("process")?,
            period: f.int("period")?,
            whole: f.int("whole")?,
            counted: f.int("counted")?,
            gaps: gaps(&f.list("gaps")?)?,
            weight: f.need_int("weight")?,
            wall_ns: f.need_int("wall_ns")?,
            cpu_us: numbers("cpu_us", &f.list("cpu_us")?)?,
            ..Profile::default()
        };
        f.finish()?;
        Ok(read)
    }
}

impl ProfilePlace {
    fn record_line(&self, part: &str) -> Line {
        let line = Line::new("profile").token("part", part).text("function", &cut(&self.function));
        let line = line.text("file", &cut(&self.file));
        let line = if self.source.is_empty() { line } else { line.text("source", &cut(&self.source)) };
        Instruction::add(self.instruction, line).list("counts", &[self.samples, self.weight])
    }

    fn of_line(line: &Line) -> Result<ProfilePlace, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let mut text = |key: &str| Ok::<_, WireError>(f.text(key)?.unwrap_or_default().to_owned());
        let (function, file, source) = (text("function")?, text("file")?, text("source")?);
        let instruction = Instruction::of_list(&f.list("at")?)?;
        let [samples, weight] = numbers("counts", &f.list("counts")?)?;
        f.finish()?;
        Ok(ProfilePlace { function, file, source, instruction, samples, weight })
    }
}

impl ProfileObject {
    fn record_line(&self) -> Line {
        let line = Line::new("profile").token("part", "object").text("object", &cut(&self.object));
        let line = if self.file.is_empty() { line } else { line.text("file", &cut(&self.file)) };
        ProfileLatency::add(self.latency, line.list("counts", &[self.samples, self.weight]))
    }

    fn of_line(line: &Line) -> Result<ProfileObject, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let mut text = |key: &str| Ok::<_, WireError>(f.text(key)?.unwrap_or_default().to_owned());
        let (object, file) = (text("object")?, text("file")?);
        let [samples, weight] = numbers("counts", &f.list("counts")?)?;
        let latency = ProfileLatency::of_list(&f.list("latency")?)?;
        f.finish()?;
        Ok(ProfileObject { object, file, samples, weight, latency })
    }
}

impl ProfilePmu {
    fn record_line(&self) -> Line {
        let line = Line::new("profile").token("part", "pmu").text("name", &cut(&self.name));
        let line = line.text("cpus", &cut(&self.cpus)).int("samples", self.samples);
        let line = self.counted.into_iter().fold(line, |line, counted| line.int("counted", counted));
        if self.refused.is_empty() { line } else { line.text("refused", &cut(&self.refused)) }
    }

    fn of_line(line: &Line) -> Result<ProfilePmu, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let mut text = |key: &str| Ok::<_, WireError>(f.text(key)?.unwrap_or_default().to_owned());
        let (name, cpus, refused) = (text("name")?, text("cpus")?, text("refused")?);
        let (samples, counted) = (f.need_int("samples")?, f.int("counted")?);
        f.finish()?;
        Ok(ProfilePmu { name, cpus, samples, counted, refused })
    }
}

impl ProfileCall {
    fn record_line(&self) -> Line {
        let line = Line::new("profile").token("part", "call").int("caller", self.caller);
        let line = line.text("function", &cut(&self.function));
        let line = if self.file.is_empty() { line } else { line.text("file", &cut(&self.file)) };
        line.list("counts", &[self.samples, self.weight])
    }

    /// Reads a call that comes after `before` others.
    fn of_line(line: &Line, before: usize) -> Result<ProfileCall, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let caller = f.need_int("caller")?;
        let mut text = |key: &str| Ok::<_, WireError>(f.text(key)?.unwrap_or_default().to_owned());
        let (function, file) = (text("function")?, text("file")?);
        let [samples, weight] = numbers("counts", &f.list("counts")?)?;
        f.finish()?;
        if caller > before as u64 {
            return Err(WireError::new(format!(
                "profile: caller={caller} is not one of {before} calls before it"
            )));
        }
        Ok(ProfileCall { caller, function, file, samples, weight })
    }
}

fn flag(fields: &mut Fields, key: &str) -> Result<bool, WireError> {
    Ok(fields.int(key)?.is_some_and(|flag| flag != 0))
}

fn changed_file(line: &Line) -> Result<String, WireError> {
    let mut f = line.fields();
    f.token("part")?;
    let file = f.text("file")?.unwrap_or_default().to_owned();
    f.finish()?;
    Ok(file)
}

/// Reads what a trace does not have; an empty list is nothing.
fn gaps(list: &[u64]) -> Result<[u64; 3], WireError> {
    if list.is_empty() { Ok([0; 3]) } else { numbers("gaps", list) }
}

/// Returns exactly as many numbers as there have to be.
fn numbers<const N: usize>(key: &str, list: &[u64]) -> Result<[u64; N], WireError> {
    list.try_into()
        .map_err(|_| WireError::new(format!("profile: {key} has {} numbers instead of {N}", list.len())))
}

impl Record {
    /// Adds a line of a sampled program.
    pub(super) fn take_profile(&mut self, line: &Line) -> Result<(), WireError> {
        self.held += fathom_probe::wire::line::MAX_LINE as u64;
        let part = line.fields().token("part")?.unwrap_or_default().to_owned();
        if part == "program" {
            let head = Profile::head(line)?;
            if self.profile.is_some() {
                return Err(WireError::new("profile: a second program: the first one counts"));
            }
            self.profile = Some(head);
            return Ok(());
        }
        let Some(profile) = &mut self.profile else {
            return Err(WireError::new(format!("profile: part={part} before part=program")));
        };
        let (held, most) = match part.as_str() {
            "function" => (profile.functions.len(), MAX_HOT),
            "line" => (profile.lines.len(), MAX_HOT),
            "instruction" => (profile.instructions.len(), MAX_HOT),
            "total" => (profile.totals.len(), MAX_HOT),
            "object" => (profile.objects.len(), MAX_HOT),
            "call" => (profile.calls.len(), MAX_CALLS),
            "changed" => (profile.changed.len(), MAX_HOT),
            "pmu" => (profile.pmus.len(), MAX_HOT),
            "level" => (profile.levels.len(), MAX_HOT),
            "walk" => (usize::from(profile.walks.is_some()), 1),
            other => {
                return Err(WireError::new(format!(
                    "profile: part={other} is not one of: program changed pmu function line instruction total level walk object call"
                )));
            }
        };
        if held >= most {
            return Err(WireError::new(format!("profile: more than {most} lines part={part}")));
        }
        match part.as_str() {
            "function" => profile.functions.push(ProfilePlace::of_line(line)?),
            "line" => profile.lines.push(ProfilePlace::of_line(line)?),
            "instruction" => profile.instructions.push(ProfilePlace::of_line(line)?),
            "total" => profile.totals.push(ProfilePlace::of_line(line)?),
            "object" => profile.objects.push(ProfileObject::of_line(line)?),
            "call" => profile.calls.push(ProfileCall::of_line(line, held)?),
            "pmu" => profile.pmus.push(ProfilePmu::of_line(line)?),
            "level" => profile.levels.push(ProfileLevel::of_line(line)?),
            "walk" => profile.walks = Some(ProfileWalks::of_line(line)?),
            _ => profile.changed.push(changed_file(line)?),
        }
        Ok(())
    }
}
