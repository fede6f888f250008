//! Reads cyclictest's results: `--json`, and the text of `-h`, `-H` and the `T:` lines. Format as of rt-tests 2.40
//! (src/cyclictest/cyclictest.c, src/lib/rt-utils.c) and files made with it; older releases spell `Latencys`.
//!
//! Latencies are whole microseconds, truncated; nanoseconds with `-N`. Only the JSON file states the unit.

mod json;

use std::collections::BTreeMap;

use super::{ImportError, Place, Series, ToolResult, command, plain, shown, sum, too_many};
pub use json::json;

const TOOL: &str = "cyclictest";
/// Default period without `-i`, us (`DEFAULT_INTERVAL`).
const INTERVAL_US: u64 = 1000;
const TRUNCATED_HELP: &str =
    "the file is truncated: let cyclictest end normally (-D 60) or by ctrl-C, and copy all of its output";

/// Returns whether the line occurs only in cyclictest's text.
pub fn is_result_line(line: &str) -> bool {
    line == "# Histogram" || thread_line(line).is_some()
}

/// A thread's line, `T: 0 (  591) P:80 I:1000 C:   1000 Min:      5 Act:   12 Avg:   12 Max:     117`. Values are as
/// printed.
#[derive(Clone, Copy, Debug)]
struct Thread {
    priority: u64,
    interval_us: u64,
    cycles: u64,
    min: i64,
    mean: i64,
    max: i64,
    /// Whether the values are in nanoseconds.
    nanoseconds: bool,
}

/// Parses a thread's line; returns the thread's number and the values.
fn thread_line(line: &str) -> Option<(usize, Thread)> {
    let rest = line.strip_prefix("T:")?;
    let number = rest[..rest.find('(')?].trim().parse().ok()?;
    // Text from the end of a key to the first space after its digits, including leading spaces.
    let field = |key: &str| {
        let after = &line[line.find(key)? + key.len()..];
        let from = after.find(|c: char| c != ' ')?;
        let end = after[from..].find(' ').map_or(after.len(), |at| from + at);
        Some(&after[..end])
    };
    let signed = |key| field(key)?.trim().parse::<i64>().ok();
    let unsigned = |key| field(key)?.trim().parse::<u64>().ok();
    // The two fields are eight characters wide with -N and five without; eight digits of microseconds would be 10 s.
    let wide = |key| field(key).is_some_and(|field| field.len() >= 8);
    let thread = Thread {
        priority: unsigned(" P:")?,
        interval_us: unsigned(" I:")?,
        cycles: unsigned(" C:")?,
        min: signed(" Min:")?,
        mean: signed(" Avg:")?,
        max: signed(" Max:")?,
        nanoseconds: wide(" Act:") && wide(" Avg:"),
    };
    Some((number, thread))
}

/// Line number, and one number per thread.
type Row = Option<(usize, Vec<i64>)>;

/// Parsed content of cyclictest's text.
#[derive(Default)]
struct Lines {
    command: Option<String>,
    version: Option<String>,
    threads: BTreeMap<usize, Thread>,
    /// Line of `# Histogram`.
    histogram: Option<usize>,
    /// Line, value, counts by thread.
    rows: Vec<(usize, u64, Vec<u64>)>,
    totals: Row,
    minima: Row,
    means: Row,
    maxima: Row,
    overflows: Row,
}

/// Reads the text that cyclictest prints.
pub fn text(text: &str) -> Result<ToolResult, ImportError> {
    let mut lines = Lines::default();
    for (at, line) in text.lines().enumerate() {
        lines.take(at + 1, &plain(line))?;
    }
    let series = match lines.histogram {
        Some(line) => lines.histograms(line)?,
        None => lines.threads.iter().map(|(&number, thread)| lines.plain_series(number, thread)).collect(),
    };
    let Lines { command, version, .. } = lines;
    Ok(ToolResult { tool: TOOL.to_owned(), version, command, series })
}

impl Lines {
    fn take(&mut self, at: usize, line: &str) -> Result<(), ImportError> {
        if let Some((number, thread)) = thread_line(line) {
            self.threads.insert(number, thread);
        } else if line == "# Histogram" {
            if let Some(first) = self.histogram.replace(at) {
                let what = format!("a second histogram; the first begins in line {first}");
                return Err(ImportError::new(at, what, "use a separate file for each run"));
            }
        } else if let Some((name, numbers)) = summary(line) {
            let row = match name {
                "Total" => &mut self.totals,
                "Min Latencies" | "Min Latencys" => &mut self.minima,
                "Avg Latencies" | "Avg Latencys" => &mut self.means,
                "Max Latencies" | "Max Latencys" => &mut self.maxima,
                "Histogram Overflows" => &mut self.overflows,
                _ => return Ok(()),
            };
            let words: Option<Vec<i64>> = numbers.split_whitespace().map(|word| word.parse().ok()).collect();
            let Some(words) = words.filter(|words| !words.is_empty()) else {
                let what = format!("`{}` has no whole number for each thread", shown(line));
                return Err(ImportError::new(at, what, TRUNCATED_HELP));
            };
            *row = Some((at, words));
        } else if let Some(found) = command::in_line(line, TOOL) {
            self.command.get_or_insert(found);
        } else if let Some((_, version)) = line.split_once("cyclictest V ") {
            self.version.get_or_insert(version.trim().to_owned());
        } else if self.histogram.is_some()
            && self.totals.is_none()
            && !line.is_empty()
            && !line.starts_with('#')
        {
            let row = row(at, line)?;
            if let Some(before) = self.rows.last().filter(|before| before.1 >= row.1) {
                let what = format!("the histogram's value {} after {}", row.1, before.1);
                return Err(ImportError::new(
                    at,
                    what,
                    "cyclictest prints ascending values: copy the output again",
                ));
            }
            self.rows.push(row);
        }
        Ok(())
    }

    /// Returns the printed unit in ns.
    fn unit(&self) -> u64 {
        let nanoseconds = self.threads.values().any(|thread| thread.nanoseconds)
            || self.command.as_deref().is_some_and(|command| command::given(command, 'N', "nsecs"));
        if nanoseconds { 1 } else { 1000 }
    }

    /// Returns the series of a thread without a histogram.
    fn plain_series(&self, number: usize, thread: &Thread) -> Series {
        let unit = self.unit();
        let mut series = Series::new(format!("thread {number}"), Place::User, unit);
        series.cycles = thread.cycles;
        series.set(unit, thread.min, thread.mean as f64, thread.max);
        self.describe(number, &mut series);
        series
    }

    /// Sets priority and period, from the thread's line or else from the command.
    fn describe(&self, number: usize, series: &mut Series) {
        let Some(thread) = self.threads.get(&number) else {
            if let Some(command) = &self.command {
                describe(command, number, series);
            }
            return;
        };
        series.priority = Some(thread.priority).filter(|&priority| priority > 0);
        series.interval_ns = thread.interval_us.checked_mul(1000);
    }

    /// Returns one series per column. `line` is the line of `# Histogram`.
    fn histograms(&self, line: usize) -> Result<Vec<Series>, ImportError> {
        let last = self.rows.last().map_or(line, |row| row.0);
        let missing =
            |name: &str| ImportError::new(last, format!("no line `# {name}:` follows"), TRUNCATED_HELP);
        let minima = self.minima.as_ref().ok_or_else(|| missing("Min Latencies"))?;
        let means = self.means.as_ref().ok_or_else(|| missing("Avg Latencies"))?;
        let maxima = self.maxima.as_ref().ok_or_else(|| missing("Max Latencies"))?;
        let count = minima.1.len();
        // With several threads, `-H` appends a column of sums.
        let summaries = [Some(means), Some(maxima), self.totals.as_ref(), self.overflows.as_ref()];
        let summaries = summaries.into_iter().flatten().map(|row| (row.0, row.1.len()));
        for (at, columns) in self.rows.iter().map(|row| (row.0, row.2.len())).chain(summaries) {
            if columns != count && (columns != count + 1 || count == 1) {
                let what = format!("{columns} numbers where line {} has {count} threads", minima.0);
                return Err(ImportError::new(at, what, TRUNCATED_HELP));
            }
        }
        (0..count).map(|thread| self.column(thread, [minima, means, maxima])).collect()
    }

    /// Returns the series of one thread; all its columns are present.
    fn column(
        &self,
        thread: usize,
        [min, mean, max]: [&(usize, Vec<i64>); 3],
    ) -> Result<Series, ImportError> {
        let unit = self.unit();
        let mut series = Series::new(format!("thread {thread}"), Place::User, unit);
        for (at, value, counts) in &self.rows {
            let value = value.checked_mul(unit).ok_or_else(|| too_many(*at))?;
            if counts[thread] > 0 {
                series.counts.push((value, counts[thread]));
            }
        }
        let seen = sum(series.counts.iter().map(|bar| bar.1)).ok_or_else(|| too_many(min.0))?;
        if let Some((at, totals)) = &self.totals
            && u64::try_from(totals[thread]) != Ok(seen)
        {
            let what = format!(
                "the total of thread {thread} is {}, but its counts add up to {seen}",
                totals[thread]
            );
            return Err(ImportError::new(
                *at,
                what,
                "lines of the histogram are lost or repeated: copy it again",
            ));
        }
        if let Some((at, overflows)) = &self.overflows {
            series.overflow = u64::try_from(overflows[thread]).map_err(|_| {
                let what = format!("{} samples above the histogram", overflows[thread]);
                ImportError::new(*at, what, "cyclictest counts from 0: copy the file again")
            })?;
        }
        series.cycles = seen.checked_add(series.overflow).ok_or_else(|| too_many(min.0))?;
        series.set(unit, min.1[thread], mean.1[thread] as f64, max.1[thread]);
        self.describe(thread, &mut series);
        Ok(series)
    }
}

impl Series {
    /// Sets the summary values, given in `unit` ns. Without activations they are only initial values, so they are not
    /// set.
    fn set(&mut self, unit: u64, min: i64, mean: f64, max: i64) {
        if self.cycles > 0 {
            self.min_ns = min.checked_mul(unit as i64);
            self.mean_ns = Some(mean * unit as f64).filter(|mean| mean.is_finite());
            self.max_ns = max.checked_mul(unit as i64);
        }
    }
}

/// Sets priority and period of a thread from the command. They apply to the first thread. Each further thread has the
/// next lower priority, unless there are histograms or `-S`, and a longer period, unless there are histograms. How much
/// longer differs between releases.
fn describe(command: &str, number: usize, series: &mut Series) {
    let given = |short, long| command::given(command, short, long);
    let histogram = given('h', "histogram") || given('H', "histofall");
    if number == 0 || histogram || given('S', "smp") {
        let priority = command::number(command, 'p', "priority");
        series.priority = priority.filter(|priority| (1..=99).contains(priority));
    }
    if number == 0 || histogram {
        let interval = command::number(command, 'i', "interval").unwrap_or(INTERVAL_US);
        series.interval_ns = interval.checked_mul(1000);
    }
}

/// Splits `# NAME: NUMBERS` into its two parts.
fn summary(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("# ")?.split_once(':')
}

/// Parses a line of the histogram: `000012 000345<TAB>000001`.
fn row(at: usize, line: &str) -> Result<(usize, u64, Vec<u64>), ImportError> {
    let numbers: Option<Vec<u64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
    match numbers.as_deref() {
        Some([value, counts @ ..]) if !counts.is_empty() => Ok((at, *value, counts.to_vec())),
        _ => {
            let what = format!("`{}` is not a line of a histogram, such as `000012 000345`", shown(line));
            Err(ImportError::new(at, what, "copy the output again, or remove lines that do not belong to it"))
        }
    }
}
