//! Results of other tools, read: the wake-up latencies that cyclictest (rt-tests) and Xenomai's `latency` print.
//!
//! Their files hold histograms and a few moments, and no single activation: what needs the order of activations
//! (causes with a period, declustered extremes) cannot be asked of them. Both tools skip the periods that a long
//! stall covers, so that one stall is one sample.

mod command;
mod cyclictest;
pub mod study;
mod xenomai;

use std::fmt;

/// What a tool's file says.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// `cyclictest` or `xenomai-latency`.
    pub tool: String,
    /// The tool's version, where the file says it.
    pub version: Option<String>,
    /// The command line, where the file says it; of several, the first.
    pub command: Option<String>,
    /// One per thread or place, at least one.
    pub series: Vec<Series>,
}

/// Where a wake-up was timed.
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
    /// Every place, from the farthest from the timer.
    pub const ALL: [Place; 3] = [Place::User, Place::Kernel, Place::Irq];

    /// `user`, `kernel` or `irq`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Place::User => "user",
            Place::Kernel => "kernel",
            Place::Irq => "irq",
        }
    }
}

/// The latencies of one thread at one place. Where a tool counts whole microseconds it cuts them off, so a value
/// lies in its bucket and on average half a bucket above its lower end.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Which thread, and on which CPU where the file says it: `thread 0 cpu 1`.
    pub name: String,
    /// Where it was timed.
    pub place: Place,
    /// Real-time priority, 1 to 99.
    pub priority: Option<u64>,
    /// Period, ns.
    pub interval_ns: Option<u64>,
    /// The histogram: lower end of a bucket in ns, and how many fell into it; ascending, without empty buckets.
    /// Nothing where the tool was not asked for one.
    pub counts: Vec<(u64, u64)>,
    /// Width of a bucket, and the step in which the other values are reported where the tool rounds them, ns.
    pub bucket_ns: u64,
    /// Activations, those above the histogram included; 0 where the file does not say.
    pub cycles: u64,
    /// Least latency, ns. Below 0 where a timer is programmed early (Xenomai's gravity).
    pub min_ns: Option<i64>,
    /// Mean latency, ns.
    pub mean_ns: Option<f64>,
    /// Largest latency, ns.
    pub max_ns: Option<i64>,
    /// Standard deviation, ns, where the tool says it (of the histogram's buckets).
    pub stddev_ns: Option<f64>,
    /// Activations above the histogram, whose values are not known.
    pub overflow: u64,
    /// Periods that passed while the thread was still late, where the tool counts them.
    pub missed: Option<u64>,
    /// What a reader of the numbers has to know, a sentence each.
    pub notes: Vec<String>,
}

impl Series {
    /// A series of which nothing but these is known.
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

/// Why a file is not taken, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportError {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
    /// The remedy.
    pub help: String,
}

impl ImportError {
    fn new(line: usize, what: impl Into<String>, help: impl Into<String>) -> ImportError {
        ImportError { line, what: what.into(), help: help.into() }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}\n   = help: {}", self.line, self.what, self.help)
    }
}

impl std::error::Error for ImportError {}

/// Reads a file of cyclictest (`--json`; `-h` or `-H`; the `T:` lines) or of Xenomai's `latency` (what it prints, and
/// what `-g` writes), and finds out which it is. What such a file leaves out is taken from a line in it with the
/// command (`$ latency -h -B 100`), where somebody put one.
///
/// # Errors
///
/// When the text is none of these, was cut, or contradicts itself.
pub fn read(text: &str) -> Result<ToolResult, ImportError> {
    // Some editors begin a file with the byte order mark.
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
            format!("`{}` begins no result of cyclictest or of Xenomai's latency", shown(line))
        }
    };
    let help = "write one with cyclictest --json=FILE, cyclictest -q -h 400, latency -h, or latency -g FILE";
    Err(ImportError::new(first, what, help))
}

/// The text, if it is JSON but for comments in front, which become empty lines: `--json=-` writes behind what is
/// printed anyway.
fn json_within(text: &str) -> Option<String> {
    let is_comment = |line: &&str| line.trim().is_empty() || line.starts_with('#');
    let comments = text.lines().take_while(is_comment).count();
    let rest: Vec<&str> = text.lines().skip(comments).collect();
    rest.first()?.trim_start().starts_with('{').then(|| "\n".repeat(comments) + &rest.join("\n"))
}

/// A line without the terminal's escapes, and without space and an echoed ctrl-C round it.
fn plain(line: &str) -> String {
    let mut left = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            left.push(c);
            continue;
        }
        // A control sequence ends with its first letter (ECMA-48: a byte from @ to ~, of which [ opens it).
        if chars.next() == Some('[') {
            let _ = chars.find(|c| ('@'..='~').contains(c));
        }
    }
    left.trim().trim_start_matches("^C").trim_start().to_owned()
}

/// So much of a line as fits into a message.
fn shown(line: &str) -> String {
    const MAX_CHARACTERS: usize = 40;
    let line = plain(line);
    match line.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// Adds up counts; `None` beyond 64 bits.
fn sum(counts: impl IntoIterator<Item = u64>) -> Option<u64> {
    counts.into_iter().try_fold(0, u64::checked_add)
}

/// The error for counts that add up to more than can be counted.
fn too_many(line: usize) -> ImportError {
    ImportError::new(
        line,
        "the counts add up to more than 64 bits hold",
        "no run is that long: take the file anew from the machine that wrote it",
    )
}
