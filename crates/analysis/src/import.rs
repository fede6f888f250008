//! Reads wake-up latencies from the output of other tools: cyclictest (rt-tests) and Xenomai's `latency`.
//!
//! These files hold histograms and a few moments, but no single activations. Analyses that need the order of
//! activations (periodic causes, declustered extremes) are therefore not possible. Both tools skip the periods covered
//! by a long stall, so one stall is one sample.

mod command;
mod cyclictest;
pub mod study;
mod xenomai;

use std::fmt;

/// Content of a tool's file.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// `cyclictest` or `xenomai-latency`.
    pub tool: String,
    /// Version of the tool, if the file has it.
    pub version: Option<String>,
    /// Command line, if the file has it; the first of several.
    pub command: Option<String>,
    /// One series per thread or place, at least one.
    pub series: Vec<Series>,
}

/// Place where a wake-up is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// In a task of user space.
    User,
    /// In a task inside the kernel.
    Kernel,
    /// In the timer's interrupt handler.
    Irq,
}

impl Place {
    /// All places, the farthest from the timer first.
    pub const ALL: [Place; 3] = [Place::User, Place::Kernel, Place::Irq];

    /// Returns `user`, `kernel` or `irq`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Place::User => "user",
            Place::Kernel => "kernel",
            Place::Irq => "irq",
        }
    }
}

/// Latencies of one thread at one place. Tools that count whole microseconds truncate, so a value is on average half a
/// bucket above the lower end of its bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Thread, and its CPU if the file has it: `thread 0 cpu 1`.
    pub name: String,
    /// Place where it was timed.
    pub place: Place,
    /// Real-time priority, 1 to 99.
    pub priority: Option<u64>,
    /// Period, ns.
    pub interval_ns: Option<u64>,
    /// Histogram: lower end of a bucket in ns, and its count; ascending, without empty buckets. Empty if the tool was
    /// run without a histogram.
    pub counts: Vec<(u64, u64)>,
    /// Width of a bucket, ns. If the tool rounds other values, they are multiples of it.
    pub bucket_ns: u64,
    /// Activations, including those above the histogram; 0 if the file has no count.
    pub cycles: u64,
    /// Smallest latency, ns. Negative if the timer is programmed early (Xenomai's gravity).
    pub min_ns: Option<i64>,
    /// Mean latency, ns.
    pub mean_ns: Option<f64>,
    /// Largest latency, ns.
    pub max_ns: Option<i64>,
    /// Standard deviation, ns, if the tool gives it (of the histogram's buckets).
    pub stddev_ns: Option<f64>,
    /// Activations above the histogram, of unknown latency.
    pub overflow: u64,
    /// Periods missed while the thread was still late, if the tool counts them.
    pub missed: Option<u64>,
    /// Remarks on the numbers, one sentence each.
    pub notes: Vec<String>,
}

impl Series {
    /// Creates a series with only these values.
    fn new(name: String, place: Place, bucket_ns: u64) -> Series {
        Series {
            name,
            place,
            priority: None,
            interval_ns: None,
            counts: Vec::new(),
            bucket_ns,
            cycles: 0,
            min_ns: None,
            mean_ns: None,
            max_ns: None,
            stddev_ns: None,
            overflow: 0,
            missed: None,
            notes: Vec::new(),
        }
    }
}

/// Error in a tool's file, with its line and a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportError {
    /// Line, counted from 1.
    pub line: usize,
    /// Description of the error.
    pub what: String,
    /// Remedy.
    pub help: String,
}

impl ImportError {
    fn new(line: usize, what: impl Into<String>, help: impl Into<String>) -> ImportError {
        ImportError { line, what: what.into(), help: help.into() }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}\n   = remedy: {}", self.line, self.what, self.help)
    }
}

impl std::error::Error for ImportError {}

/// Reads a file of cyclictest (`--json`; `-h` or `-H`; the `T:` lines) or of Xenomai's `latency` (its output, and the
/// file of `-g`), and detects which of them it is. Values missing in the file are taken from a line with the command
/// (`$ latency -h -B 100`), if present.
///
/// # Errors
///
/// If the text is none of these, is truncated, or contradicts itself.
pub fn read(text: &str) -> Result<ToolResult, ImportError> {
    // Some editors begin a file with a byte order mark.
    let text = text.trim_start_matches('\u{feff}');
    if text.lines().any(|line| cyclictest::is_result_line(&plain(line))) {
        return cyclictest::text(text);
    }
    if let Some(json) = json_within(text) {
        return cyclictest::json(&json);
    }
    if xenomai::is_result(text) {
        return xenomai::read(text);
    }
    let first = text.lines().position(|line| !line.trim().is_empty()).map_or(1, |at| at + 1);
    let what = match text.lines().nth(first - 1) {
        None => "the file is empty".to_owned(),
        Some(line) => {
            format!("`{}` is not the beginning of a result of cyclictest or Xenomai's latency", shown(line))
        }
    };
    let help = "write one with cyclictest --json=FILE, cyclictest -q -h 400, latency -h, or latency -g FILE";
    Err(ImportError::new(first, what, help))
}

/// Returns the text if it is JSON after leading comments, with these replaced by empty lines: `--json=-` appends the
/// JSON to the normal output.
fn json_within(text: &str) -> Option<String> {
    let is_comment = |line: &&str| line.trim().is_empty() || line.starts_with('#');
    let comments = text.lines().take_while(is_comment).count();
    let rest: Vec<&str> = text.lines().skip(comments).collect();
    rest.first()?.trim_start().starts_with('{').then(|| "\n".repeat(comments) + &rest.join("\n"))
}

/// Removes terminal escapes, surrounding space and an echoed ctrl-C from a line.
fn plain(line: &str) -> String {
    let mut left = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            left.push(c);
            continue;
        }
        // A control sequence ends with its final byte (ECMA-48: a byte from @ to ~, not counting the opening [).
        if chars.next() == Some('[') {
            let _ = chars.find(|c| ('@'..='~').contains(c));
        }
    }
    left.trim().trim_start_matches("^C").trim_start().to_owned()
}

/// Shortens a line for use in a message.
fn shown(line: &str) -> String {
    const MAX_CHARACTERS: usize = 40;
    let line = plain(line);
    match line.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// Adds up counts; `None` on overflow of 64 bits.
fn sum(counts: impl IntoIterator<Item = u64>) -> Option<u64> {
    counts.into_iter().try_fold(0, u64::checked_add)
}

/// Returns the error for counts whose sum exceeds 64 bits.
fn too_many(line: usize) -> ImportError {
    ImportError::new(
        line,
        "the sum of the counts exceeds 64 bits",
        "no run is that long: copy the file again from the machine that wrote it",
    )
}
