//! Series that another tool measured: the harness's own lines `imported`. Of each one that says all but the histogram,
//! then the histogram in numbered parts.

use fathom_analysis::import::{Place, Series, ToolResult};
use fathom_probe::wire::{Line, WireError};

use super::Record;

/// Most series of a record: so many words the schema has for them.
pub const MAX_SERIES: usize = 64;

/// Buckets on a line: two numbers of 20 digits and their commas each, which with the keys stay below
/// [`fathom_probe::wire::line::MAX_LINE`].
const BUCKETS: usize = 90;

/// Characters of a text that are kept: of the command, of the notes together, of everything else. All of them at 4
/// bytes each, and the numbers, are a line.
const COMMAND: usize = 300;
const NOTES: usize = 400;
const OTHER: usize = 50;

/// A series of another tool, as a record has it. Texts are empty where the tool's file does not say them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// `cyclictest` or `xenomai-latency`.
    pub tool: String,
    /// The tool's version.
    pub version: String,
    /// The command line.
    pub command: String,
    /// The file's name, without its directories.
    pub file: String,
    /// Which thread: `thread 0 cpu 1`.
    pub name: String,
    /// Where it was timed: a word of [`Place`].
    pub place: String,
    /// Real-time priority.
    pub priority: Option<u64>,
    /// Period, ns.
    pub interval_ns: Option<u64>,
    /// Width of a bucket, ns.
    pub bucket_ns: u64,
    /// Activations; 0 where the file does not say.
    pub cycles: u64,
    /// Activations above the histogram.
    pub overflow: u64,
    /// Periods that passed while the thread was late.
    pub missed: Option<u64>,
    /// Least latency, ns.
    pub min_ns: Option<i64>,
    /// Mean latency, ps: lines have whole numbers.
    pub mean_ps: Option<i64>,
    /// Largest latency, ns.
    pub max_ns: Option<i64>,
    /// Standard deviation, ps.
    pub stddev_ps: Option<u64>,
    /// What a reader of the numbers has to know.
    pub notes: Vec<String>,
    /// The histogram: lower end of a bucket in ns, and how many fell into it; ascending.
    pub counts: Vec<(u64, u64)>,
    /// Sum of its counts.
    seen: u64,
    /// Parts of the histogram that were taken, and that there are.
    parts: (u64, u64),
}

impl Imported {
    /// The series of a tool's result, from a file of this name.
    #[must_use]
    pub fn of(result: &ToolResult, file: &str) -> Vec<Imported> {
        result.series.iter().map(|series| Imported::one(result, series, file)).collect()
    }

    fn one(result: &ToolResult, series: &Series, file: &str) -> Imported {
        let parts = series.counts.len().div_ceil(BUCKETS) as u64;
        let optional = |text: &Option<String>, most| cut(text.as_deref().unwrap_or_default(), most);
        Imported {
            tool: cut(&result.tool, OTHER),
            version: optional(&result.version, OTHER),
            command: optional(&result.command, COMMAND),
            file: cut(file, OTHER),
            name: cut(&series.name, OTHER),
            place: series.place.word().to_owned(),
            priority: series.priority,
            interval_ns: series.interval_ns,
            bucket_ns: series.bucket_ns,
            cycles: series.cycles,
            overflow: series.overflow,
            missed: series.missed,
            min_ns: series.min_ns,
            mean_ps: series.mean_ns.map(|ns| (ns * 1000.0).round() as i64),
            max_ns: series.max_ns,
            stddev_ps: series.stddev_ns.map(|ns| (ns * 1000.0).round() as u64),
            notes: cut_lines(&series.notes),
            counts: series.counts.clone(),
            seen: series.counts.iter().fold(0, |sum, bar| sum.saturating_add(bar.1)),
            parts: (parts, parts),
        }
    }

    /// The lines that say it, as the record's series of this number, from 1.
    #[must_use]
    pub fn lines(&self, number: u64) -> Vec<Line> {
        let begun = || Line::new("imported").int("series", number);
        let mut head = begun().text("tool", &self.tool).token("place", &self.place);
        for (key, text) in [
            ("version", &self.version),
            ("command", &self.command),
            ("file", &self.file),
            ("name", &self.name),
            ("notes", &self.notes.join("\n")),
        ] {
            head = if text.is_empty() { head } else { head.text(key, text) };
        }
        head = head.int("bucket_ns", self.bucket_ns).int("cycles", self.cycles);
        head = head.int("overflow", self.overflow).int("parts", self.parts.1);
        for (key, value) in [
            ("priority", self.priority.map(i128::from)),
            ("interval_ns", self.interval_ns.map(i128::from)),
            ("missed", self.missed.map(i128::from)),
            ("min_ns", self.min_ns.map(i128::from)),
            ("mean_ps", self.mean_ps.map(i128::from)),
            ("max_ns", self.max_ns.map(i128::from)),
            ("stddev_ps", self.stddev_ps.map(i128::from)),
        ] {
            head = value.into_iter().fold(head, |head, value| head.int(key, value));
        }
        let part = |(i, buckets): (usize, &[(u64, u64)])| {
            let (values, counts): (Vec<u64>, Vec<u64>) = buckets.iter().copied().unzip();
            begun().int("part", i as u64 + 1).list("values", &values).list("counts", &counts)
        };
        [head].into_iter().chain(self.counts.chunks(BUCKETS).enumerate().map(part)).collect()
    }

    /// Did all of it come, and does it add up? Half a histogram is another distribution.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let adds_up = self.counts.is_empty() || self.seen.checked_add(self.overflow) == Some(self.cycles);
        self.parts.0 == self.parts.1 && adds_up
    }

    /// Reads the line that begins a series.
    fn head(line: &Line, number: u64) -> Result<Imported, WireError> {
        let mut f = line.fields();
        if f.need_int("series")? != number {
            return Err(WireError::new(format!("imported: series {number} is the next one")));
        }
        let place = f.token("place")?.unwrap_or_default().to_owned();
        if !Place::ALL.iter().any(|known| known.word() == place) {
            return Err(WireError::new(format!("imported: place={place} is not one of: user kernel irq")));
        }
        let mut text = |key: &str| Ok::<_, WireError>(f.text(key)?.unwrap_or_default().to_owned());
        let (tool, version, command) = (text("tool")?, text("version")?, text("command")?);
        let (file, name, notes) = (text("file")?, text("name")?, text("notes")?);
        let series = Imported {
            tool,
            version,
            command,
            file,
            name,
            place,
            priority: f.int("priority")?,
            interval_ns: f.int("interval_ns")?,
            bucket_ns: f.need_int("bucket_ns")?,
            cycles: f.need_int("cycles")?,
            overflow: f.need_int("overflow")?,
            missed: f.int("missed")?,
            min_ns: f.signed("min_ns")?,
            mean_ps: f.signed("mean_ps")?,
            max_ns: f.signed("max_ns")?,
            stddev_ps: f.int("stddev_ps")?,
            notes: notes.split('\n').filter(|note| !note.is_empty()).map(str::to_owned).collect(),
            counts: Vec::new(),
            seen: 0,
            parts: (0, f.need_int("parts")?),
        };
        f.finish()?;
        match series.bucket_ns {
            0 => Err(WireError::new("imported: bucket_ns=0 must be at least 1")),
            _ => Ok(series),
        }
    }

    /// Takes the next part of the histogram. Answers how many buckets it had.
    fn take(&mut self, line: &Line, number: u64) -> Result<usize, WireError> {
        let mut f = line.fields();
        let (series, part) = (f.need_int("series")?, f.need_int("part")?);
        let (values, counts) = (f.list("values")?, f.list("counts")?);
        f.finish()?;
        let wrong =
            |what: &str| Err(WireError::new(format!("imported: part {part} of series {series}{what}")));
        if series != number || part != self.parts.0 + 1 || part > self.parts.1 {
            return wrong(" without what is before it");
        }
        if values.len() != counts.len() || counts.contains(&0) {
            return wrong(" needs as many counts from 1 as values");
        }
        let last = self.counts.last().map(|bar| bar.0);
        if !last.iter().chain(&values).is_sorted_by(|a, b| a < b) {
            return wrong(" has values that do not ascend");
        }
        let Some(seen) = counts.iter().try_fold(self.seen, |sum, count| sum.checked_add(*count)) else {
            return wrong(" counts more than 64 bits hold");
        };
        (self.seen, self.parts.0) = (seen, part);
        let buckets = values.len();
        self.counts.extend(values.into_iter().zip(counts));
        Ok(buckets)
    }
}

impl Record {
    /// A line of a series that another tool measured.
    pub(super) fn take_imported(&mut self, line: &Line) -> Result<(), WireError> {
        let is_part = line.pairs.iter().any(|(key, _)| key == "part");
        let number = self.imported.len() as u64;
        let held = match self.imported.last_mut().filter(|_| is_part) {
            Some(series) => series.take(line, number)? * size_of::<(u64, u64)>(),
            None if is_part => return Err(WireError::new("imported: a part without its series")),
            None => {
                let series = Imported::head(line, number + 1)?;
                if self.imported.len() == MAX_SERIES {
                    self.exceeds(&format!("more than {MAX_SERIES} imported series"));
                    return Err(WireError::new("too many imported series"));
                }
                self.imported.push(series);
                size_of::<Imported>() + fathom_probe::wire::line::MAX_LINE
            }
        };
        self.held += held as u64;
        Ok(())
    }
}

/// So much of a text as a line has room for, and nothing that a terminal would obey.
fn cut(text: &str, most: usize) -> String {
    text.trim().chars().take(most).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The same of several texts together.
fn cut_lines(all: &[String]) -> Vec<String> {
    let mut left = NOTES;
    let mut kept = Vec::new();
    for text in all {
        let text = cut(text, left);
        left = left.saturating_sub(text.chars().count() + 1);
        kept.extend(Some(text).filter(|text| !text.is_empty()));
    }
    kept
}

#[cfg(test)]
mod tests;
