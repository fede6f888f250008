//! A simulated program: the harness's own lines `simulated`. The first has the totals; one follows for each level, TLB,
//! function, line of the source and region, for the text of the source if that is asked for, and for each object and pair of
//! lines if the reasons of misses are known.

use fathom_probe::wire::{Line, WireError};

use super::Record;

pub(super) mod region;
pub(super) mod source;
pub(super) mod why;

use region::SimulatedRegion;
use source::{MAX_SOURCE, SimulatedSource};
use why::{Reasons, SimulatedObject, SimulatedPair};

/// Functions, lines of the source, regions, objects and pairs in a record, at most of each.
pub const MAX_HOT: usize = 100;
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
    /// Threads of the program.
    pub threads: u64,
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
    /// The source around the lines with the longest time, in the order of the source.
    pub source: Vec<SimulatedSource>,
    /// Regions, the longest time first.
    pub regions: Vec<SimulatedRegion>,
    /// Bytes of data that are counted as one, if the reasons of misses are known; else 0.
    pub granule: u64,
    /// Objects, the longest time first.
    pub objects: Vec<SimulatedObject>,
    /// Pairs, the most misses first.
    pub pairs: Vec<SimulatedPair>,
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
}

/// A function or a line of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hot {
    /// Function.
    pub function: String,
    /// Program or library.
    pub file: String,
    /// Source file and line; empty for a function.
    pub source: String,
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
        let head = if self.granule > 0 { head.int("granule", self.granule) } else { head };
        let head = if self.replaced { head.int("replaced", 1) } else { head };
        let level = |level: &SimulatedLevel| {
            let line = begun("level").text("name", &cut(&level.name)).token("holds", &level.holds);
            let counts = [level.accesses, level.misses, level.writebacks, level.units];
            with_reasons(line.list("counts", &counts), level.reasons)
        };
        let tlb = |tlb: &SimulatedTlb| {
            begun("tlb").text("name", &cut(&tlb.name)).list("counts", &[tlb.accesses, tlb.misses])
        };
        let mut all = vec![head];
        all.extend(self.levels.iter().map(level));
        all.extend(self.tlbs.iter().map(tlb));
        all.extend(self.functions.iter().take(MAX_HOT).map(|hot| hot.record_line(begun("function"))));
        all.extend(self.lines.iter().take(MAX_HOT).map(|hot| hot.record_line(begun("line"))));
        all.extend(self.source.iter().take(MAX_SOURCE).map(|line| line.record_line(begun("source"))));
        all.extend(self.regions.iter().take(MAX_HOT).map(|region| region.record_line(begun("region"))));
        all.extend(self.objects.iter().take(MAX_HOT).map(|object| object.record_line(begun("object"))));
        all.extend(self.pairs.iter().take(MAX_HOT).map(|pair| pair.record_line(begun("pair"))));
        all
    }

    fn head(line: &Line) -> Result<Simulated, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let mut text = |key: &str| Ok::<_, WireError>(f.text(key)?.unwrap_or_default().to_owned());
        let (program, target, trace) = (text("program")?, text("target")?, text("trace")?);
        let (refused, ended) = (text("refused")?, text("ended")?);
        let read = Simulated {
            program,
            target,
            trace,
            refused,
            ended,
            replaced: f.int("replaced")?.is_some_and(|flag| flag != 0),
            threads: f.need_int("threads")?,
            instructions: f.need_int("instructions")?,
            unseen: f.need_int("unseen")?,
            accesses: numbers("accesses", &f.list("accesses")?)?,
            walks: f.need_int("walks")?,
            memory: f.need_int("memory")?,
            memory_writes: f.need_int("memory_writes")?,
            units: numbers("units", &f.list("units")?)?,
            clock_hz: f.need_int("clock_hz")?,
            granule: f.int("granule")?.unwrap_or(0),
            ..Simulated::default()
        };
        f.finish()?;
        Ok(read)
    }
}

impl Hot {
    fn record_line(&self, line: Line) -> Line {
        let texts = [("function", &self.function), ("file", &self.file), ("source", &self.source)];
        let line = with_texts(line, &texts)
            .list("counts", &[self.executed, self.accesses, self.walks, self.units])
            .list("misses", &self.misses);
        with_reasons(line, self.reasons)
    }

    fn of_line(line: &Line) -> Result<Hot, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let mut text = |key: &str| Ok::<_, WireError>(f.text(key)?.unwrap_or_default().to_owned());
        let (function, file, source) = (text("function")?, text("file")?, text("source")?);
        let [executed, accesses, walks, units] = numbers("counts", &f.list("counts")?)?;
        let misses = f.list("misses")?;
        let reasons = reasons(&f.list("reasons")?)?;
        f.finish()?;
        Ok(Hot { function, file, source, executed, accesses, misses, walks, units, reasons })
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
        f.finish()?;
        Ok(SimulatedLevel { name, holds, accesses, misses, writebacks, units, reasons })
    }
}

impl SimulatedTlb {
    fn of_line(line: &Line) -> Result<SimulatedTlb, WireError> {
        let mut f = line.fields();
        f.token("part")?;
        let name = f.text("name")?.unwrap_or_default().to_owned();
        let [accesses, misses] = numbers("counts", &f.list("counts")?)?;
        f.finish()?;
        Ok(SimulatedTlb { name, accesses, misses })
    }
}

/// Adds reasons that are known.
fn with_reasons(line: Line, reasons: Option<Reasons>) -> Line {
    reasons.map_or_else(|| line.clone(), |reasons| line.clone().list("reasons", &reasons))
}

/// Returns reasons, if there are any.
fn reasons(list: &[u64]) -> Result<Option<Reasons>, WireError> {
    if list.is_empty() { Ok(None) } else { numbers("reasons", list).map(Some) }
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
        let more = |has: usize, most: usize| match has < most {
            true => Ok(()),
            false => Err(WireError::new(format!("simulated: more than {most} lines part={part}"))),
        };
        match part.as_str() {
            "level" => {
                more(simulated.levels.len(), MAX_UNITS)?;
                simulated.levels.push(SimulatedLevel::of_line(line)?);
            }
            "tlb" => {
                more(simulated.tlbs.len(), MAX_UNITS)?;
                simulated.tlbs.push(SimulatedTlb::of_line(line)?);
            }
            "function" => {
                more(simulated.functions.len(), MAX_HOT)?;
                simulated.functions.push(Hot::of_line(line)?);
            }
            "line" => {
                more(simulated.lines.len(), MAX_HOT)?;
                simulated.lines.push(Hot::of_line(line)?);
            }
            "source" => {
                more(simulated.source.len(), MAX_SOURCE)?;
                simulated.source.push(SimulatedSource::of_line(line)?);
            }
            "region" => {
                more(simulated.regions.len(), MAX_HOT)?;
                simulated.regions.push(SimulatedRegion::of_line(line)?);
            }
            "object" => {
                more(simulated.objects.len(), MAX_HOT)?;
                simulated.objects.push(SimulatedObject::of_line(line)?);
            }
            "pair" => {
                more(simulated.pairs.len(), MAX_HOT)?;
                let levels = simulated.levels.len();
                simulated.pairs.push(SimulatedPair::of_line(line, levels)?);
            }
            other => {
                let what = format!(
                    "simulated: part={other} is not one of: program level tlb function line source region object pair"
                );
                return Err(WireError::new(what));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::why::SimulatedEnd;
    use super::*;

    fn sample() -> Simulated {
        let hot = Hot {
            function: "core::ptr::drop<A, B>".into(),
            file: "libc.so.6".into(),
            source: "a b.c:12".into(),
            executed: 1,
            accesses: 2,
            misses: vec![3, 4, 5],
            walks: 6,
            units: u64::MAX,
            reasons: Some([1, 2, 3, 4, 5, 6]),
        };
        let end = SimulatedEnd {
            object: "a::b<C>".into(),
            offset: 64,
            function: "f".into(),
            source: "a b.c:12".into(),
            cpu: 1,
        };
        Simulated {
            program: "a program".into(),
            target: "arm".into(),
            trace: "din".into(),
            refused: String::new(),
            ended: "exit status: 3".into(),
            replaced: true,
            threads: 1,
            instructions: 10,
            unseen: 0,
            accesses: [1, 2, 3],
            walks: 4,
            memory: 5,
            memory_writes: 6,
            units: [7, 8, 9, 10],
            clock_hz: 700_000_000,
            levels: vec![SimulatedLevel {
                name: "L1D".into(),
                holds: "data".into(),
                accesses: 3,
                reasons: Some([0, 1, 0, 0, 0, u64::MAX]),
                ..Default::default()
            }],
            granule: 64,
            source: vec![SimulatedSource {
                file: "a b.c".into(),
                number: 12,
                text: "    sum += a[i]; /* \u{fc}% */".into(),
                executed: 1,
                accesses: 2,
                walks: 3,
                units: u64::MAX,
                misses: vec![4],
            }],
            regions: vec![SimulatedRegion {
                name: "inner loop".into(),
                entered: 1,
                unmatched: 2,
                instructions: 3,
                accesses: 4,
                walks: 5,
                memory: 6,
                units: u64::MAX,
                reached: vec![8],
                misses: vec![9],
            }],
            objects: vec![SimulatedObject {
                name: "heap".into(),
                misses: vec![7],
                walks: 8,
                units: 9,
                reasons: [9, 8, 7, 6, 5, 4],
                ..Default::default()
            }],
            pairs: vec![SimulatedPair {
                level: 0,
                reason: 2,
                set: 3,
                count: 4,
                by: SimulatedEnd { function: String::new(), ..end.clone() },
                end,
            }],
            tlbs: vec![SimulatedTlb { name: "TLB 1".into(), accesses: 3, misses: 1 }],
            functions: vec![hot.clone(), Hot { source: String::new(), ..Hot::default() }],
            lines: vec![hot],
        }
    }

    fn record(lines: &[Line]) -> Record {
        let lines: Vec<String> = lines.iter().map(Line::render).collect();
        Record::parse(&format!("{}\n{}", Record::first_line(), lines.join("\n"))).expect("a record")
    }

    #[test]
    fn lines_read_back() {
        let record = record(&sample().record_lines());
        assert!(record.problems.is_empty(), "{:?}", record.problems);
        assert_eq!(record.simulated, Some(sample()));
    }

    #[test]
    fn longest_texts_fit_in_lines() {
        let mut long = sample();
        let text = "\u{1f980} %".repeat(400);
        long.lines[0] =
            Hot { function: text.clone(), file: text.clone(), source: text.clone(), ..long.lines[0].clone() };
        (long.program, long.target, long.refused) = (text.clone(), text.clone(), text.clone());
        long.trace = text.clone();
        long.lines[0].misses = vec![u64::MAX; MAX_UNITS];
        long.lines[0].reasons = Some([u64::MAX; 6]);
        (long.source[0].file, long.source[0].text) = (text.clone(), text.clone());
        long.source[0].misses = vec![u64::MAX; MAX_UNITS];
        long.regions[0].name = text.clone();
        long.regions[0].misses = vec![u64::MAX; MAX_UNITS];
        long.regions[0].reached = vec![u64::MAX; MAX_UNITS];
        let object = SimulatedObject { name: text.clone(), file: text.clone(), ..long.objects[0].clone() };
        long.objects[0] = SimulatedObject { misses: vec![u64::MAX; MAX_UNITS], ..object };
        let (offset, cpu, all) = (u64::MAX, u64::MAX, text);
        let end = SimulatedEnd { object: all.clone(), offset, function: all.clone(), source: all, cpu };
        long.pairs[0] = SimulatedPair { end: end.clone(), by: end, ..long.pairs[0].clone() };
        let record = record(&long.record_lines());
        assert!(record.problems.is_empty(), "{:?}", record.problems);
    }

    #[test]
    fn wrong_lines_are_problems_with_their_number() {
        let mut lines = sample().record_lines();
        lines[1] = Line::new("simulated").token("part", "level").text("name", "x").list("counts", &[1]);
        lines.push(Line::new("simulated").token("part", "rumour"));
        let problems = record(&lines).problems;
        assert!(problems[0].contains("line 3") && problems[0].contains("counts has 1 numbers instead of 4"));
        assert!(problems[1].contains("a pair of level 0"), "the level was not read: {problems:?}");
        assert!(problems[2].contains("part=rumour is not one of"), "{problems:?}");
        let pair = SimulatedPair { level: 1, ..sample().pairs[0].clone() };
        let mut lines = sample().record_lines();
        lines.push(pair.record_line(Line::new("simulated").token("part", "pair")));
        assert!(record(&lines).problems[0].contains("a pair of level 1"), "{:?}", record(&lines).problems);
        assert!(record(&lines[1..2]).problems[0].contains("before part=program"));
    }
}
