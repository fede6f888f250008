//! Series that another tool measured: the harness's own lines `imported`. The first line of a series has everything but
//! the histogram; numbered parts of the histogram follow.

use fathom_analysis::import::{Place, Series, ToolResult};
use fathom_probe::wire::{Line, WireError};

use super::Record;

/// Series per record, at most: the schema has this many tokens for them.
pub const MAX_SERIES: usize = 64;

/// Buckets per line. Each takes two numbers of 20 digits and their commas; together with the keys they stay below
/// [`fathom_probe::wire::line::MAX_LINE`].
const BUCKETS_PER_LINE: usize = 90;

/// Maximum characters of texts: of the command, of all notes together, and of any other text. At 4 bytes each, they and
/// the numbers fit in one line.
const MAX_COMMAND_CHARS: usize = 300;
const MAX_NOTES_CHARS: usize = 400;
const MAX_TEXT_CHARS: usize = 50;

/// A series of another tool, as stored in a record. Texts are empty if the tool's file lacks them.
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
    /// The thread: `thread 0 cpu 1`.
    pub name: String,
    /// Where it was timed: a token of [`Place`].
    pub place: String,
    /// Real-time priority.
    pub priority: Option<u64>,
    /// Period, ns.
    pub interval_ns: Option<u64>,
    /// Width of a bucket, ns.
    pub bucket_ns: u64,
    /// Activations; 0 if unknown.
    pub cycles: u64,
    /// Activations above the histogram.
    pub overflow: u64,
    /// Periods that passed while the thread was late.
    pub missed: Option<u64>,
    /// Smallest latency, ns.
    pub min_ns: Option<i64>,
    /// Mean latency, ps: the wire has only integers.
    pub mean_ps: Option<i64>,
    /// Largest latency, ns.
    pub max_ns: Option<i64>,
    /// Standard deviation, ps.
    pub stddev_ps: Option<u64>,
    /// Notes for readers of the numbers.
    pub notes: Vec<String>,
    /// The histogram: lower end of a bucket in ns and its count; ascending.
    pub counts: Vec<(u64, u64)>,
    /// Sum of its counts.
    seen: u64,
    /// Parts of the histogram: received, total.
    parts: (u64, u64),
}

impl Imported {
    /// Returns the series of a tool's result, from a file of this name.
    #[must_use]
    pub fn of(result: &ToolResult, file: &str) -> Vec<Imported> {
        result.series.iter().map(|series| Imported::one(result, series, file)).collect()
    }

    fn one(result: &ToolResult, series: &Series, file: &str) -> Imported {
        let parts = series.counts.len().div_ceil(BUCKETS_PER_LINE) as u64;
        let optional = |text: &Option<String>, max_chars| cut(text.as_deref().unwrap_or_default(), max_chars);
        Imported {
            tool: cut(&result.tool, MAX_TEXT_CHARS),
            version: optional(&result.version, MAX_TEXT_CHARS),
            command: optional(&result.command, MAX_COMMAND_CHARS),
            file: cut(file, MAX_TEXT_CHARS),
            name: cut(&series.name, MAX_TEXT_CHARS),
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

    /// Returns its lines, as series `number` of the record, from 1.
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
        [head].into_iter().chain(self.counts.chunks(BUCKETS_PER_LINE).enumerate().map(part)).collect()
    }

    /// Returns whether all parts were received and the counts add up. Half a histogram is another distribution.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let adds_up = self.counts.is_empty() || self.seen.checked_add(self.overflow) == Some(self.cycles);
        self.parts.0 == self.parts.1 && adds_up
    }

    /// Reads the first line of a series.
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

    /// Adds the next part of the histogram. Returns its number of buckets.
    fn take(&mut self, line: &Line, number: u64) -> Result<usize, WireError> {
        let mut f = line.fields();
        let (series, part) = (f.need_int("series")?, f.need_int("part")?);
        let (values, counts) = (f.list("values")?, f.list("counts")?);
        f.finish()?;
        let wrong =
            |what: &str| Err(WireError::new(format!("imported: part {part} of series {series}{what}")));
        if series != number || part != self.parts.0 + 1 || part > self.parts.1 {
            return wrong(" without the part before it");
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
    /// Adds a line of a series that another tool measured.
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

/// Cuts a text to the length that fits in a line, and replaces control characters.
fn cut(text: &str, max_chars: usize) -> String {
    text.trim().chars().take(max_chars).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The same for several texts together.
fn cut_lines(all: &[String]) -> Vec<String> {
    let mut left = MAX_NOTES_CHARS;
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
