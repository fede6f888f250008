//! cyclictest's `--json`. Two of its keys carry a colon (`cmdline:`, `rt_test_version:`); should they lose it one
//! day, that is read as well. It writes its command line unescaped, so a quote in that breaks the file.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{TOOL, describe};
use crate::foreign::{Foreign, ForeignError, Place, Series, command, sum, too_many};

#[derive(Deserialize)]
struct File {
    #[serde(rename = "cmdline:", alias = "cmdline")]
    command: Option<String>,
    #[serde(rename = "rt_test_version:", alias = "rt_test_version")]
    version: Option<String>,
    /// 1 with `-N`, else 0: microseconds.
    resolution_in_ns: u64,
    thread: BTreeMap<usize, Thread>,
}

#[derive(Deserialize)]
struct Thread {
    #[serde(default)]
    histogram: BTreeMap<u64, u64>,
    cycles: u64,
    min: i64,
    max: i64,
    avg: f64,
    cpu: Option<i64>,
}

/// Reads what `--json` writes.
pub fn json(text: &str) -> Result<Foreign, ForeignError> {
    let file: File = serde_json::from_str(text).map_err(|error| {
        // The place is separated from what is wrong.
        let what = error.to_string();
        let what = what.rsplit_once(" at line ").map_or(what.as_str(), |(what, _)| what).to_owned();
        let help = "it has to be as cyclictest --json=FILE wrote it; a quote in its command line is not escaped \
                    there: put \\ before it";
        ForeignError::new(error.line().max(1), what, help)
    })?;
    let line_of = |start: &str| {
        text.lines().position(|line| line.trim_start().starts_with(start)).map_or(1, |at| at + 1)
    };
    if let Some(command) = &file.command {
        let program = command.split_whitespace().next().unwrap_or_default();
        if !program.contains(TOOL) {
            let what = format!("this is the result of `{program}`");
            let help = "of rt-tests, only cyclictest's results are read";
            return Err(ForeignError::new(line_of("\"cmdline"), what, help));
        }
    }
    if file.thread.is_empty() {
        let what = "there is no thread in it";
        return Err(ForeignError::new(line_of("\"thread\""), what, "cyclictest ended at once: run it again"));
    }
    let unit = if file.resolution_in_ns == 1 { 1 } else { 1000 };
    let command = file.command.as_deref();
    let series = file.thread.iter().map(|(&number, thread)| {
        series(number, thread, unit, command, line_of(&format!("\"{number}\": {{")))
    });
    let series = series.collect::<Result<_, _>>()?;
    Ok(Foreign { tool: TOOL.to_owned(), version: file.version, command: file.command, series })
}

/// One thread's series; its object begins in `line`.
fn series(
    number: usize,
    thread: &Thread,
    unit: u64,
    command: Option<&str>,
    line: usize,
) -> Result<Series, ForeignError> {
    let name = match thread.cpu {
        // -1: not pinned.
        Some(cpu @ 0..) => format!("thread {number} cpu {cpu}"),
        _ => format!("thread {number}"),
    };
    let mut series = Series::new(name, Place::User, unit);
    let seen = sum(thread.histogram.values().copied()).ok_or_else(|| too_many(line))?;
    series.cycles = thread.cycles;
    let requested =
        |command| command::given(command, 'h', "histogram") || command::given(command, 'H', "histofall");
    if seen > 0 || command.is_some_and(requested) {
        // What lies above the histogram is not written, only counted among the cycles.
        series.overflow = thread.cycles.checked_sub(seen).ok_or_else(|| {
            let what = format!("thread {number} has {} cycles, and its histogram {seen}", thread.cycles);
            ForeignError::new(
                line,
                what,
                "the file contradicts itself: take it anew from where it was written",
            )
        })?;
    }
    for (&value, &count) in thread.histogram.iter().filter(|bar| *bar.1 > 0) {
        series.counts.push((value.checked_mul(unit).ok_or_else(|| too_many(line))?, count));
    }
    series.set(unit, thread.min, thread.avg, thread.max);
    if let Some(command) = command {
        describe(command, number, &mut series);
    }
    Ok(series)
}
