//! Reads the results of Xenomai's `latency`: its output (`-h`, `-s`), and the file of `-g`. The format is that of its
//! sources, testsuite/latency/latency.c of 2.6 to 3.x; it was not tested with a Xenomai kernel.
//!
//! Properties of the format:
//! - A bucket's number is the absolute latency divided by the bucket's width, truncated, so negative latencies are
//!   counted as positive ones.
//! - The last bucket also counts all larger values.
//! - Mean and deviation of HSS lines are in bucket numbers.
//! - In the file of `-g` every count is one too large, for a logarithmic axis, and there is a line with 1 at either
//!   end.
//! - Counters have 32 bits and overflow after 2^32 activations (five days at 100 us).

mod build;

use super::{ImportError, Place, ToolResult, command, plain, shown};

const TOOL: &str = "xenomai-latency";
const PROGRAM: &str = "latency";
const TRUNCATED_HELP: &str = "the line is truncated or damaged: copy the output again";

/// Totals at the end of a run, from `RTS` or the head of `-g`'s file, us.
#[derive(Clone, Copy, Debug)]
struct Totals {
    line: usize,
    min: f64,
    mean: f64,
    max: f64,
    overruns: u64,
}

/// A line of the file of `-g`: us, and hits + 1.
#[derive(Clone, Copy, Debug)]
struct Point {
    line: usize,
    x: f64,
    count: u64,
}

/// A bucket of the histogram: line, number, and count.
#[derive(Clone, Copy, Debug)]
struct Bar {
    line: usize,
    number: u64,
    hits: u64,
}

/// A run as parsed.
#[derive(Clone, Debug, Default)]
struct Run {
    command: Option<String>,
    /// Number of its first line.
    line: usize,
    place: Option<Place>,
    period_us: Option<u64>,
    priority: Option<u64>,
    /// Length in seconds, if the end states it.
    seconds: Option<u64>,
    /// Number of RTD lines, one per second.
    seconds_seen: u64,
    running: Option<Totals>,
    totals: Option<Totals>,
    /// The HSD lines of all activations.
    bars: Vec<Bar>,
    /// Line, samples, mean and deviation in buckets, of the HSS line of all activations.
    moments: Option<(usize, u64, f64, f64)>,
    points: Vec<Point>,
}

impl Run {
    fn has_results(&self) -> bool {
        self.seconds_seen > 0
            || self.totals.is_some()
            || !self.bars.is_empty()
            || self.moments.is_some()
            || !self.points.is_empty()
    }
}

/// Returns whether the line occurs only in the output of `latency`.
fn is_result_line(line: &str) -> bool {
    ["RTT|", "RTH|", "RTD|", "RTS|", "HSD|", "HSS|", "HSH|", "== Test mode:", "== Sampling period:"]
        .iter()
        .any(|sign| line.starts_with(sign))
}

/// Parses a line of exactly two numbers, as in the file of `-g`.
fn pair(line: &str) -> Option<(f64, i64)> {
    let (x, count) = line.split_once(char::is_whitespace)?;
    let x: f64 = x.parse().ok()?;
    Some((x, count.trim().parse().ok()?)).filter(|_| x.is_finite())
}

/// Returns whether the text is a result of `latency`.
pub fn is_result(text: &str) -> bool {
    let head = |line: &str| line.starts_with("# ----lat min|");
    text.lines().map(plain).any(|line| is_result_line(&line) || head(&line)) || begins_with_points(text)
}

/// Returns whether the first line that is not a comment is a point of `-g`'s file.
fn begins_with_points(text: &str) -> bool {
    let mut lines = text.lines().map(plain).filter(|line| {
        !line.is_empty() && !line.starts_with('#') && command::in_line(line, PROGRAM).is_none()
    });
    lines.next().is_some_and(|line| pair(&line).is_some())
}

/// Reads the output of `latency`, or the file of `-g`.
pub fn read(text: &str) -> Result<ToolResult, ImportError> {
    // Printed output may contain other lines; a file of -g may not. Only the last line of its head lacks a newline, so
    // the first point is on the same line.
    let strict = !text.lines().any(|line| is_result_line(&plain(line)));
    let mut runs = vec![Run::default()];
    let (mut version, mut named) = (None, None);
    for (at, line) in text.lines().enumerate() {
        let (at, line) = (at + 1, plain(line));
        let begins = line.starts_with("== Sampling period:");
        let typed = command::in_line(&line, PROGRAM);
        let command = typed.is_some();
        if (begins || command) && runs.last().is_some_and(Run::has_results) {
            runs.push(Run::default());
        }
        let Some(run) = runs.last_mut() else { continue };
        if !run.has_results() {
            run.line = at;
        }
        if let Some(found) = line.strip_prefix("# ").and_then(|line| line.strip_prefix("Xenomai version: ")) {
            version.get_or_insert_with(|| found.to_owned());
        }
        if command {
            named = named.or_else(|| typed.clone());
            run.command = typed;
        } else if !run.take(at, &line)? && strict && !run.points.is_empty() && !line.is_empty() {
            let what = format!("`{}` is not a line of latency -g, such as `2.5 1042`", shown(&line));
            return Err(ImportError::new(at, what, "remove lines that do not belong to the file"));
        }
    }
    runs.retain(Run::has_results);
    if runs.is_empty() {
        let what = "latency was started, but no result follows";
        let help = "let it run for at least two seconds, and copy all of its output";
        return Err(ImportError::new(1, what, help));
    }
    let series = runs.iter().map(Run::series).collect::<Result<_, _>>()?;
    Ok(ToolResult { tool: TOOL.to_owned(), version, command: named, series })
}

/// Returns the fields after a line's mark.
fn fields(line: &str) -> Vec<&str> {
    line.split('|').skip(1).map(str::trim).collect()
}

/// Parses a number of a result. latency has 32 bits for it; not-a-number, infinities and much larger values are
/// rejected.
fn float(text: &str) -> Option<f64> {
    text.parse().ok().filter(|x: &f64| x.abs() <= 1e12)
}

impl Run {
    /// Parses a line; returns `false` if it does not belong to a result.
    fn take(&mut self, at: usize, line: &str) -> Result<bool, ImportError> {
        let understood = match line.split_once('|').map_or("", |(mark, _)| mark) {
            "RTT" => {
                self.describe(line);
                Some(())
            }
            "RTD" => self.second(at, line),
            "RTS" => self.end(at, line),
            "HSD" => self.bar(at, line),
            "HSS" => self.moments(at, line),
            _ => return self.other(at, line),
        };
        understood.ok_or_else(|| {
            ImportError::new(
                at,
                format!("`{}` does not have the fields of its type", shown(line)),
                TRUNCATED_HELP,
            )
        })?;
        Ok(true)
    }

    /// Parses lines without `|`: the head, comments, points.
    fn other(&mut self, at: usize, line: &str) -> Result<bool, ImportError> {
        if let Some(period) = line.strip_prefix("== Sampling period:") {
            self.period_us = period.trim().trim_end_matches("us").trim().parse().ok();
        } else if let Some(mode) = line.strip_prefix("== Test mode:") {
            let what = || format!("`{}` is not a test mode of latency", mode.trim());
            let help = "known are: periodic user-mode task, in-kernel periodic task, in-kernel timer handler";
            self.place = Some(place(mode).ok_or_else(|| ImportError::new(at, what(), help))?);
        } else if line.starts_with("== All results in") && !line.ends_with("microseconds") {
            let help = "Xenomai's latency prints microseconds: copy its output unchanged";
            return Err(ImportError::new(at, format!("`{}`: an unknown unit", shown(line)), help));
        } else if let Some(comment) = line.strip_prefix('#') {
            self.comment(at, comment.trim());
        } else if let Some((x, count)) = pair(line) {
            let count = u64::try_from(count).map_err(|_| {
                let what = format!("{count} hits: a counter of 32 bits overflowed");
                ImportError::new(at, what, "run latency for fewer than 2^31 periods")
            })?;
            self.points.push(Point { line: at, x, count });
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Parses the head of `-g`'s file: its first line is like RTT's, the third has the values of RTS.
    fn comment(&mut self, at: usize, comment: &str) {
        self.describe(comment);
        if let Some(clock) = comment.split_whitespace().next().and_then(seconds) {
            self.seconds.get_or_insert(clock);
        }
        let fields: Vec<&str> = comment.split('|').map(str::trim).collect();
        if let [min, mean, max, overruns, _, ""] = fields.as_slice()
            && let Some(totals) = totals(at, min, mean, max, overruns)
        {
            self.totals = Some(totals);
        }
    }

    /// Parses `(periodic user-mode task, 100 us period, priority 99)` anywhere in a line.
    fn describe(&mut self, line: &str) {
        let Some((_, inside)) = line.split_once('(') else { return };
        for part in inside.split(')').next().unwrap_or_default().split(',').map(str::trim) {
            if let Some(period) = part.strip_suffix(" us period") {
                self.period_us = period.parse().ok().or(self.period_us);
            } else if let Some(priority) = part.strip_prefix("priority ") {
                self.priority = priority.parse().ok().or(self.priority);
            } else {
                self.place = self.place.or_else(|| place(part));
            }
        }
    }

    /// Parses `RTD|min|avg|max|overruns|mode switches|best|worst`, printed once per second.
    fn second(&mut self, at: usize, line: &str) -> Option<()> {
        let [_, mean, _, overruns, _, best, worst] = fields(line)[..] else { return None };
        let running = totals(at, best, mean, worst, overruns)?;
        let before = self.running.map_or(0.0, |before| before.mean);
        self.running = Some(Totals { mean: before + running.mean, ..running });
        self.seconds_seen += 1;
        Some(())
    }

    /// Parses `RTS|min|avg|max|overruns|mode switches|length/length requested`.
    fn end(&mut self, at: usize, line: &str) -> Option<()> {
        let [min, mean, max, overruns, _, length] = fields(line)[..] else { return None };
        self.totals = Some(totals(at, min, mean, max, overruns)?);
        self.seconds = length.split('/').next().and_then(seconds).or(self.seconds);
        Some(())
    }

    /// Parses `HSD|    avg|   2 -  3 |     1042`: the buckets of the activations (`avg`). Those of the minima and
    /// maxima of each second are ignored.
    fn bar(&mut self, at: usize, line: &str) -> Option<()> {
        let [kind, range, hits] = fields(line)[..] else { return None };
        let number = range.split('-').next()?.trim().parse().ok()?;
        let hits = hits.parse().ok()?;
        match kind {
            "avg" => self.bars.push(Bar { line: at, number, hits }),
            "min" | "max" => {}
            _ => return None,
        }
        Some(())
    }

    /// Parses `HSS|    avg|   1199957|      1.445|      2.267`: samples, mean and deviation.
    fn moments(&mut self, at: usize, line: &str) -> Option<()> {
        let [kind, samples, mean, deviation] = fields(line)[..] else { return None };
        let samples: u64 = samples.parse().ok()?;
        // The mean of no samples is not a number.
        let (mean, deviation) =
            if samples > 0 { (float(mean)?, float(deviation).filter(|&d| d >= 0.0)?) } else { (0.0, 0.0) };
        if kind == "avg" {
            self.moments = Some((at, samples, mean, deviation));
        }
        Some(())
    }
}

/// Returns the place of a test mode.
fn place(mode: &str) -> Option<Place> {
    match mode.trim() {
        "periodic user-mode task" => Some(Place::User),
        "in-kernel periodic task" => Some(Place::Kernel),
        "in-kernel timer handler" => Some(Place::Irq),
        _ => None,
    }
}

fn totals(line: usize, min: &str, mean: &str, max: &str, overruns: &str) -> Option<Totals> {
    let (min, mean, max) = (float(min)?, float(mean)?, float(max)?);
    Some(Totals { line, min, mean, max, overruns: overruns.parse().ok()? })
}

/// Returns the seconds of `HH:MM:SS`.
fn seconds(clock: &str) -> Option<u64> {
    let parts: Vec<u64> = clock.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = parts[..] else { return None };
    hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?.checked_add(seconds)
}
