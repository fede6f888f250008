//! The results of Xenomai's `latency`: what it prints (`-h`, `-s`), and the file of `-g`. No Xenomai kernel was at
//! hand; the format is that of its sources, testsuite/latency/latency.c of 2.6 to 3.x.
//!
//! What follows from them: a bucket's number is the absolute latency over the bucket's width, cut off, so negative
//! latencies lie among the positive; the last bucket takes all that lies above; mean and deviation of HSS lines are
//! in bucket numbers; in the file of `-g` every count is one too large, for a logarithmic axis, and a line with 1
//! stands at either end; counters have 32 bits, which 2^32 activations run over (five days of 100 us).

mod build;

use super::{ImportError, Place, ToolResult, command, plain, shown};

const TOOL: &str = "xenomai-latency";
const PROGRAM: &str = "latency";
const CUT: &str = "the line was cut or broken: copy the output anew";

/// What ends a run: `RTS`, or the head of `-g`'s file. us.
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

/// A bucket of the histogram: its line, its number, and how many fell into it.
#[derive(Clone, Copy, Debug)]
struct Bar {
    line: usize,
    number: u64,
    hits: u64,
}

/// One run as its lines say it.
#[derive(Clone, Debug, Default)]
struct Run {
    command: Option<String>,
    /// Its first line.
    line: usize,
    place: Option<Place>,
    period_us: Option<u64>,
    priority: Option<u64>,
    /// Length in seconds, where the end says it.
    seconds: Option<u64>,
    /// RTD lines: one per second; the last one's best and worst, and the sum of their means.
    seconds_seen: u64,
    so_far: Option<Totals>,
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

/// Does a line occur in what `latency` prints alone?
fn is_result_line(line: &str) -> bool {
    ["RTT|", "RTH|", "RTD|", "RTS|", "HSD|", "HSS|", "HSH|", "== Test mode:", "== Sampling period:"]
        .iter()
        .any(|sign| line.starts_with(sign))
}

/// Two numbers and nothing else, as the file of `-g` has them.
fn pair(line: &str) -> Option<(f64, i64)> {
    let (x, count) = line.split_once(char::is_whitespace)?;
    let x: f64 = x.parse().ok()?;
    Some((x, count.trim().parse().ok()?)).filter(|_| x.is_finite())
}

/// Is the text a result of `latency`?
pub fn is_result(text: &str) -> bool {
    let head = |line: &str| line.starts_with("# ----lat min|");
    text.lines().map(plain).any(|line| is_result_line(&line) || head(&line)) || begins_with_points(text)
}

/// Is the first line that is no comment a point of `-g`'s file?
fn begins_with_points(text: &str) -> bool {
    let mut lines = text.lines().map(plain).filter(|line| {
        !line.is_empty() && !line.starts_with('#') && command::in_line(line, PROGRAM).is_none()
    });
    lines.next().is_some_and(|line| pair(&line).is_some())
}

/// Reads what `latency` printed, or the file of `-g`.
pub fn read(text: &str) -> Result<ToolResult, ImportError> {
    // In what was printed, other lines may stand between; a file of -g has nothing else. Only the last line of its
    // head has no end, and the first point hangs on it.
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
            let what = format!("`{}` is no line of latency -g, such as `2.5 1042`", shown(&line));
            return Err(ImportError::new(at, what, "take out what does not belong to the file"));
        }
    }
    runs.retain(Run::has_results);
    if runs.is_empty() {
        let what = "latency began, and there is no result behind it";
        let help = "let it run for at least two seconds, and copy all that it prints";
        return Err(ImportError::new(1, what, help));
    }
    let series = runs.iter().map(Run::series).collect::<Result<_, _>>()?;
    Ok(ToolResult { tool: TOOL.to_owned(), version, command: named, series })
}

/// The fields behind a line's mark.
fn fields(line: &str) -> Vec<&str> {
    line.split('|').skip(1).map(str::trim).collect()
}

/// A number of a result. latency has 32 bits for one; not-a-number, the infinities and what lies far beyond are none.
fn float(text: &str) -> Option<f64> {
    text.parse().ok().filter(|x: &f64| x.abs() <= 1e12)
}

impl Run {
    /// Takes a line in; `false` when it is none of a result.
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
            ImportError::new(at, format!("`{}` does not have the fields of its kind", shown(line)), CUT)
        })?;
        Ok(true)
    }

    /// Lines without bars: the head, comments, points.
    fn other(&mut self, at: usize, line: &str) -> Result<bool, ImportError> {
        if let Some(period) = line.strip_prefix("== Sampling period:") {
            self.period_us = period.trim().trim_end_matches("us").trim().parse().ok();
        } else if let Some(mode) = line.strip_prefix("== Test mode:") {
            let what = || format!("`{}` is no test mode of latency", mode.trim());
            let help = "known are: periodic user-mode task, in-kernel periodic task, in-kernel timer handler";
            self.place = Some(place(mode).ok_or_else(|| ImportError::new(at, what(), help))?);
        } else if line.starts_with("== All results in") && !line.ends_with("microseconds") {
            let help = "Xenomai's latency says microseconds: copy its output as it is";
            return Err(ImportError::new(at, format!("`{}`: an unknown unit", shown(line)), help));
        } else if let Some(comment) = line.strip_prefix('#') {
            self.comment(at, comment.trim());
        } else if let Some((x, count)) = pair(line) {
            let count = u64::try_from(count).map_err(|_| {
                let what = format!("{count} hits: a counter of 32 bits ran over");
                ImportError::new(at, what, "run latency for fewer than 2^31 periods")
            })?;
            self.points.push(Point { line: at, x, count });
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// The head of `-g`'s file: its first line is like RTT's, the third holds what RTS does.
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

    /// `(periodic user-mode task, 100 us period, priority 99)`, wherever it stands.
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

    /// `RTD|min|avg|max|overruns|mode switches|best|worst`, once a second.
    fn second(&mut self, at: usize, line: &str) -> Option<()> {
        let [_, mean, _, overruns, _, best, worst] = fields(line)[..] else { return None };
        let so_far = totals(at, best, mean, worst, overruns)?;
        let before = self.so_far.map_or(0.0, |before| before.mean);
        self.so_far = Some(Totals { mean: before + so_far.mean, ..so_far });
        self.seconds_seen += 1;
        Some(())
    }

    /// `RTS|min|avg|max|overruns|mode switches|length/length requested`.
    fn end(&mut self, at: usize, line: &str) -> Option<()> {
        let [min, mean, max, overruns, _, length] = fields(line)[..] else { return None };
        self.totals = Some(totals(at, min, mean, max, overruns)?);
        self.seconds = length.split('/').next().and_then(seconds).or(self.seconds);
        Some(())
    }

    /// `HSD|    avg|   2 -  3 |     1042`: the buckets of the activations (`avg`), and of the least and the largest
    /// of every second, which say nothing more.
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

    /// `HSS|    avg|   1199957|      1.445|      2.267`: samples, mean and deviation.
    fn moments(&mut self, at: usize, line: &str) -> Option<()> {
        let [kind, samples, mean, deviation] = fields(line)[..] else { return None };
        let samples: u64 = samples.parse().ok()?;
        // The mean of no sample is not a number.
        let (mean, deviation) =
            if samples > 0 { (float(mean)?, float(deviation).filter(|&d| d >= 0.0)?) } else { (0.0, 0.0) };
        if kind == "avg" {
            self.moments = Some((at, samples, mean, deviation));
        }
        Some(())
    }
}

/// The place that a test mode's name says.
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

/// Seconds of `HH:MM:SS`.
fn seconds(clock: &str) -> Option<u64> {
    let parts: Vec<u64> = clock.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = parts[..] else { return None };
    hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?.checked_add(seconds)
}
