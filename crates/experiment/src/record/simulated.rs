//! A simulated program: the harness's own lines `simulated`. The first has the totals; one follows for each level, TLB,
//! function, line of the source, instruction, region and call, for the text of the source if that is asked for, and for each object
//! and pair of lines if the reasons of misses are known.

use fathom_probe::wire::{Line, WireError};

use super::Record;
use super::instruction::Instruction;

pub(super) mod call;
pub(super) mod events;
pub(super) mod overlap;
pub(super) mod region;
pub(super) mod sharing;
pub(super) mod source;
pub(super) mod why;

use call::SimulatedCall;
use events::SimulatedEvents;
use overlap::SimulatedOverlap;
use region::SimulatedRegion;
use sharing::SimulatedSharing;
use source::{MAX_SOURCE, SimulatedSource};
use why::{Reasons, SimulatedObject, SimulatedPair};

/// Functions, lines of the source, regions, objects and pairs in a record, at most of each.
pub const MAX_HOT: usize = 100;
/// Calls in a record, at most.
pub const MAX_CALLS: usize = 4000;
/// Levels and TLBs, at most.
const MAX_UNITS: usize = 32;
/// Characters of a text, at most.
const MAX_TEXT_CHARS: usize = 200;

/// A program on a machine. Times are in units of 1 / 4096 cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simulated {
    /// Name of the program's file.
    pub program: String,
    /// Instruction set, as QEMU calls it.
    pub target: String,
    /// Format of the trace that the accesses are from, if it does not tell the program; else empty.
    pub trace: String,
    /// Why the machine stopped before the program did; empty if it did not.
    pub refused: String,
    /// How the program ended, if not with status 0: `exit status: 3`.
    pub ended: String,
    /// Whether it became another program, which is not simulated.
    pub replaced: bool,
    /// Threads of the program; CPUs of a guest.
    pub threads: u64,
    /// What is known of a guest, if a whole machine was emulated.
    pub guest: Option<SimulatedGuest>,
    /// Executed instructions.
    pub instructions: u64,
    /// Executed instructions whose accesses are not seen.
    pub unseen: u64,
    /// Loads, stores, fetches.
    pub accesses: [u64; 3],
    /// Walks.
    pub walks: u64,
    /// Accesses that memory served.
    pub memory: u64,
    /// Lines written to memory.
    pub memory_writes: u64,
    /// Time of all instructions themselves, of data from memory, of translations, of fetches.
    pub units: [u64; 4],
    /// What CPUs have done to one another's lines, if there are several.
    pub sharing: Option<SimulatedSharing>,
    /// The lower bound of the time, if the machine describes how many accesses overlap.
    pub overlap: Option<SimulatedOverlap>,
    /// Events of the described processor's counters, if they are asked for.
    pub events: Option<SimulatedEvents>,
    /// Core clock, Hz.
    pub clock_hz: u64,
    /// Levels, in the order of the description.
    pub levels: Vec<SimulatedLevel>,
    /// TLBs.
    pub tlbs: Vec<SimulatedTlb>,
    /// Functions, the longest time first.
    pub functions: Vec<Hot>,
    /// Lines of the source, the longest time first.
    pub lines: Vec<Hot>,
    /// Instructions, the longest time first.
    pub hot_instructions: Vec<Hot>,
    /// The source around the lines with the longest time, in the order of the source.
    pub source: Vec<SimulatedSource>,
    /// Regions, the longest time first.
    pub regions: Vec<SimulatedRegion>,
    /// The most calls within one another, and how many of them are told apart, if calls are known.
    pub nested: [u64; 2],
    /// Calls that are counted as their callers, because there are too many.
    pub merged: u64,
    /// Functions with all that they call, the longest time first.
    pub totals: Vec<SimulatedCall>,
    /// Calls, callers before callees.
    pub calls: Vec<SimulatedCall>,
    /// Why blocks of the heap are not told apart, or not all of them; empty otherwise.
    pub unfollowed: String,
    /// Bytes of data that are counted as one, if the reasons of misses are known; else 0.
    pub granule: u64,
    /// Objects, the longest time first.
    pub objects: Vec<SimulatedObject>,
    /// Pairs, the most misses first.
    pub pairs: Vec<SimulatedPair>,
    /// Pairs by pages, whose level is the number of a TLB.
    pub page_pairs: Vec<SimulatedPair>,
}

/// What is known of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimulatedGuest {
    /// Loads from devices and stores to them, which are not simulated.
    pub devices: [u64; 2],
    /// Accesses whose physical address is not known, which are not simulated.
    pub unplaced: u64,
}

impl SimulatedGuest {
    fn list(self) -> [u64; 3] {
        let [loads, stores] = self.devices;
        [loads, stores, self.unplaced]
    }

    fn of_list(list: &[u64]) -> Result<Option<SimulatedGuest>, WireError> {
        let of = |[loads, stores, unplaced]: [u64; 3]| SimulatedGuest { devices: [loads, stores], unplaced };
        if list.is_empty() { Ok(None) } else { numbers("guest", list).map(|list| Some(of(list))) }
    }
}

/// A level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulatedLevel {
    /// Name.
    pub name: String,
    /// `data`, `instructions` or `unified`.
    pub holds: String,
    /// Accesses that reached it.
    pub accesses: u64,
    /// Those that it did not serve.
    pub misses: u64,
    /// Dirty lines that it evicted.
    pub writebacks: u64,
    /// Time that it served data accesses.
    pub units: u64,
    /// What CPUs have done to one another's lines there, if there are several and each has such a level.
    pub sharing: Option<SimulatedSharing>,
    /// Misses by reason, if they are known.
    pub reasons: Option<Reasons>,
}

/// A TLB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulatedTlb {
    /// Name.
    pub name: String,
    /// Translations that reached it.
    pub accesses: u64,
    /// Those that it did not have.
    pub misses: u64,
    /// Misses by reason, if they are known.
    pub reasons: Option<Reasons>,
}

/// A function, a line of the source, or an instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hot {
    /// Function.
    pub function: String,
    /// Program or library.
    pub file: String,
    /// Source file and line; empty for a function.
    pub source: String,
    /// Its place, of an instruction.
    pub instruction: Option<Instruction>,
    /// Executed instructions.
    pub executed: u64,
    /// Loads and stores.
    pub accesses: u64,
    /// Misses by level.
    pub misses: Vec<u64>,
    /// Walks.
    pub walks: u64,
    /// Time beyond hits.
    pub units: u64,
    /// What remains of it if accesses overlap, if that is described.
    pub overlapped: Option<u64>,
    /// Misses of the nearest level by reason, if they are known.
    pub reasons: Option<Reasons>,
}

impl Simulated {
    /// Returns its lines.
    #[must_use]
    pub fn record_lines(&self) -> Vec<Line> {
        let begun = |part: &str| Line::new("simulated").token("part", part);
        let head = begun("program").text("program", &cut(&self.program));
        let head = with_texts(
            head,
            &[
                ("target", &self.target),
                ("trace", &self.trace),
                ("refused", &self.refused),
                ("ended", &self.ended),
                ("unfollowed", &self.unfollowed),
            ],
        );
        let head = head
            .int("threads", self.threads)
            .int("instructions", self.instructions)
            .int("unseen", self.unseen)
            .list("accesses", &self.accesses)
            .int("walks", self.walks)
            .int("memory", self.memory)
            .int("memory_writes", self.memory_writes)
            .list("units", &self.units)
            .int("clock_hz", self.clock_hz);
        let head = self.overlap.iter().fold(head, |head, of| head.list("overlap", &of.list()));
        let head = SimulatedSharing::add(self.sharing, head);
        let head = if self.granule > 0 { head.int("granule", self.granule) } else { head };
        let head = match self.guest {
            Some(guest) => head.list("guest", &guest.list()),
            None => head,
        };
        let head = if self.replaced { head.int("replaced", 1) } else { head };
        let head = if self.nested == [0; 2] { head } else { head.list("nested", &self.nested) };
        let head = if self.merged > 0 { head.int("merged", self.merged) } else { head };
        let level = |level: &SimulatedLevel| {
            let line = begun("level").text("name", &cut(&level.name)).token("holds", &level.holds);
            let counts = [level.accesses, level.misses, level.writebacks, level.units];
            SimulatedSharing::add(level.sharing, with_reasons(line.list("counts", &counts), level.reasons))
        };
        let tlb = |tlb: &SimulatedTlb| {
            let line = begun("tlb").text("name", &cut(&tlb.name));
            with_reasons(line.list("counts", &[tlb.accesses, tlb.misses]), tlb.reasons)
        };
        let mut all = vec![head];
        all.extend(self.levels.iter().map(level));
        all.extend(self.tlbs.iter().map(tlb));
        all.extend(self.events.iter().flat_map(|events| events.record_lines(begun)));
        all.extend(self.functions.iter().take(MAX_HOT).map(|hot| hot.record_line(begun("function"))));
        all.extend(self.lines.iter().take(MAX_HOT).map(|hot| hot.record_line(begun("line"))));
        let instructions = self.hot_instructions.iter().take(MAX_HOT);
        all.extend(instructions.map(|hot| hot.record_line(begun("instruction"))));
        all.extend(self.source.iter().take(MAX_SOURCE).map(|line| line.record_line(begun("source"))));
        all.extend(self.regions.iter().take(MAX_HOT).map(|region| region.record_line(begun("region"))));
        all.extend(self.totals.iter().take(MAX_HOT).map(|total| total.record_line(begun("total"))));
        all.extend(self.calls.iter().take(MAX_CALLS).map(|call| call.record_line(begun("call"))));
        all.extend(self.objects.iter().take(MAX_HOT).map(|object| object.record_line(begun("object"))));
        for (part, pairs) in [("pair", &self.pairs), ("page-pair", &self.page_pairs)] {
            all.extend(pairs.iter().take(MAX_HOT).map(|pair| pair.record_line(begun(part))));
        }
        all
    }

    fn head(line: &Line) -> Result<Simulated, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let mut text = |key: &str| Ok::<_, WireError>(f.text(key)?.unwrap_or_default().to_owned());
        let (program, target, trace) = (text("program")?, text("target")?, text("trace")?);
        let (refused, ended, unfollowed) = (text("refused")?, text("ended")?, text("unfollowed")?);
        let read = Simulated {
            program,
            target,
            trace,
            refused,
            ended,
            unfollowed,
            replaced: f.int("replaced")?.is_some_and(|flag| flag != 0),
            threads: f.need_int("threads")?,
            instructions: f.need_int("instructions")?,
            unseen: f.need_int("unseen")?,
            accesses: numbers("accesses", &f.list("accesses")?)?,
            walks: f.need_int("walks")?,
            memory: f.need_int("memory")?,
            memory_writes: f.need_int("memory_writes")?,
            units: numbers("units", &f.list("units")?)?,
            sharing: SimulatedSharing::of_list(&f.list("sharing")?)?,
            overlap: SimulatedOverlap::of_list(&f.list("overlap")?)?,
            clock_hz: f.need_int("clock_hz")?,
            granule: f.int("granule")?.unwrap_or(0),
            guest: SimulatedGuest::of_list(&f.list("guest")?)?,
            nested: nested(&f.list("nested")?)?,
            merged: f.int("merged")?.unwrap_or(0),
            ..Simulated::default()
        };
        f.finish()?;
        Ok(read)
    }
}

impl Hot {
    fn record_line(&self, line: Line) -> Line {
        let texts = [("function", &self.function), ("file", &self.file), ("source", &self.source)];
        let line = Instruction::add(self.instruction, with_texts(line, &texts))
            .list("counts", &[self.executed, self.accesses, self.walks, self.units])
            .list("misses", &self.misses);
        with_reasons(with_overlapped(line, self.overlapped), self.reasons)
    }

    fn of_line(line: &Line) -> Result<Hot, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let mut text = |key: &str| Ok::<_, WireError>(f.text(key)?.unwrap_or_default().to_owned());
        let (function, file, source) = (text("function")?, text("file")?, text("source")?);
        let instruction = Instruction::of_list(&f.list("at")?)?;
        let [executed, accesses, walks, units] = numbers("counts", &f.list("counts")?)?;
        let misses = f.list("misses")?;
        let overlapped = f.int("overlapped")?;
        let reasons = reasons(&f.list("reasons")?)?;
        f.finish()?;
        Ok(Hot {
            function,
            file,
            source,
            instruction,
            executed,
            accesses,
            misses,
            walks,
            units,
            overlapped,
            reasons,
        })
    }
}

impl SimulatedLevel {
    fn of_line(line: &Line) -> Result<SimulatedLevel, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let name = f.text("name")?.unwrap_or_default().to_owned();
        let holds = f.token("holds")?.unwrap_or_default().to_owned();
        let [accesses, misses, writebacks, units] = numbers("counts", &f.list("counts")?)?;
        let reasons = reasons(&f.list("reasons")?)?;
        let sharing = SimulatedSharing::of_list(&f.list("sharing")?)?;
        f.finish()?;
        Ok(SimulatedLevel { name, holds, accesses, misses, writebacks, units, sharing, reasons })
    }
}

impl SimulatedTlb {
    fn of_line(line: &Line) -> Result<SimulatedTlb, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let name = f.text("name")?.unwrap_or_default().to_owned();
        let [accesses, misses] = numbers("counts", &f.list("counts")?)?;
        let reasons = reasons(&f.list("reasons")?)?;
        f.finish()?;
        Ok(SimulatedTlb { name, accesses, misses, reasons })
    }
}

/// Adds what remains of a time if accesses overlap, if that is known.
fn with_overlapped(line: Line, overlapped: Option<u64>) -> Line {
    overlapped.iter().fold(line, |line, &units| line.int("overlapped", units))
}

/// Adds reasons that are known.
fn with_reasons(line: Line, reasons: Option<Reasons>) -> Line {
    reasons.map_or_else(|| line.clone(), |reasons| line.clone().list("reasons", &reasons))
}

/// Returns reasons, if there are any.
fn reasons(list: &[u64]) -> Result<Option<Reasons>, WireError> {
    if list.is_empty() { Ok(None) } else { numbers("reasons", list).map(Some) }
}

/// Returns how deep calls are, if that is known.
fn nested(list: &[u64]) -> Result<[u64; 2], WireError> {
    if list.is_empty() { Ok([0; 2]) } else { numbers("nested", list) }
}

/// Returns exactly as many numbers as there have to be.
fn numbers<const N: usize>(key: &str, list: &[u64]) -> Result<[u64; N], WireError> {
    list.try_into()
        .map_err(|_| WireError::new(format!("simulated: {key} has {} numbers instead of {N}", list.len())))
}

/// Adds texts that are not empty.
fn with_texts(line: Line, texts: &[(&str, &String)]) -> Line {
    let some = texts.iter().filter(|(_, text)| !text.is_empty());
    some.fold(line, |line, (key, text)| line.text(key, &cut(text)))
}

/// Cuts a text to a length of which several fit in a line, and replaces control characters.
pub(super) fn cut(text: &str) -> String {
    text.chars().take(MAX_TEXT_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

impl Record {
    /// Adds a line of a simulated program.
    pub(super) fn take_simulated(&mut self, line: &Line) -> Result<(), WireError> {
        self.held += fathom_probe::wire::line::MAX_LINE as u64;
        let part = line.fields().token("part")?.unwrap_or_default().to_owned();
        if part == "program" {
            let head = Simulated::head(line)?;
            if self.simulated.is_some() {
                return Err(WireError::new("simulated: a second program: the first one counts"));
            }
            self.simulated = Some(head);
            return Ok(());
        }
        let Some(simulated) = &mut self.simulated else {
            return Err(WireError::new(format!("simulated: part={part} before part=program")));
        };
        let of = simulated;
        match part.as_str() {
            "level" => push(&mut of.levels, MAX_UNITS, &part, SimulatedLevel::of_line(line)),
            "tlb" => push(&mut of.tlbs, MAX_UNITS, &part, SimulatedTlb::of_line(line)),
            "events" if of.events.is_some() => Err(WireError::new("simulated: a second part=events")),
            "events" => SimulatedEvents::of_line(line).map(|events| of.events = Some(events)),
            "event" => match &mut of.events {
                Some(events) => events.take(&part, line),
                None => Err(WireError::new("simulated: part=event before part=events")),
            },
            "function" => push(&mut of.functions, MAX_HOT, &part, Hot::of_line(line)),
            "line" => push(&mut of.lines, MAX_HOT, &part, Hot::of_line(line)),
            "instruction" => push(&mut of.hot_instructions, MAX_HOT, &part, Hot::of_line(line)),
            "source" => push(&mut of.source, MAX_SOURCE, &part, SimulatedSource::of_line(line)),
            "region" => push(&mut of.regions, MAX_HOT, &part, SimulatedRegion::of_line(line)),
            "total" => push(&mut of.totals, MAX_HOT, &part, SimulatedCall::of_line(line, 0)),
            "call" => {
                let call = SimulatedCall::of_line(line, of.calls.len());
                push(&mut of.calls, MAX_CALLS, &part, call)
            }
            "object" => push(&mut of.objects, MAX_HOT, &part, SimulatedObject::of_line(line)),
            "pair" => {
                let pair = SimulatedPair::of_line(line, of.levels.len());
                push(&mut of.pairs, MAX_HOT, &part, pair)
            }
            "page-pair" => {
                let pair = SimulatedPair::of_line(line, of.tlbs.len());
                push(&mut of.page_pairs, MAX_HOT, &part, pair)
            }
            other => Err(WireError::new(format!(
                "simulated: part={other} is not one of: program level tlb events event function line instruction source region total call object pair page-pair"
            ))),
        }
    }
}

/// Adds what a line has, if there are not too many.
fn push<T>(to: &mut Vec<T>, most: usize, part: &str, read: Result<T, WireError>) -> Result<(), WireError> {
    if to.len() >= most {
        return Err(WireError::new(format!("simulated: more than {most} lines part={part}")));
    }
    to.push(read?);
    Ok(())
}

#[cfg(test)]
mod tests;
