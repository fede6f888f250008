//! Results of other tools: files that cyclictest wrote, files constructed from Xenomai's sources, and hostile ones.
//! fixtures/README.md gives the source of each.

mod cyclictest;
mod hostile;
mod inverse;
mod study;
mod xenomai;

use fathom_analysis::import::{Series, ToolResult, read};

/// Reads a valid result.
fn good(text: &str) -> ToolResult {
    read(text).unwrap_or_else(|error| panic!("{error}"))
}

/// Reads a result with one series.
fn one(text: &str) -> Series {
    let result = good(text);
    assert_eq!(result.series.len(), 1, "{result:?}");
    result.series.into_iter().next().expect("one")
}

/// Returns the sum of the histogram.
fn seen(series: &Series) -> u64 {
    series.counts.iter().map(|bar| bar.1).sum()
}

/// Asserts that the error has this line and these words, including the remedy.
fn refused(text: &str, line: usize, expected: &[&str]) {
    let error = read(text).expect_err("refused");
    let printed = error.to_string();
    assert_eq!(error.line, line, "{printed}");
    assert!(
        printed.starts_with(&format!("line {line}: ")) && printed.contains("\n   = remedy: "),
        "{printed}"
    );
    for words in expected {
        assert!(printed.contains(words), "{words:?} is not in: {printed}");
    }
}

/// Returns the number of the first line, from 1, that begins with `start`.
fn line_of(text: &str, start: &str) -> usize {
    text.lines().position(|line| line.trim_start().starts_with(start)).expect(start) + 1
}
