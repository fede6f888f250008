//! Results of other tools, read: files that cyclictest wrote, files as Xenomai's sources say they are, and hostile
//! ones. Where a fixture is from stands in fixtures/README.md.

mod cyclictest;
mod hostile;
mod inverse;
mod study;
mod xenomai;

use fathom_analysis::import::{Series, ToolResult, read};

/// Reads what has to be read.
fn good(text: &str) -> ToolResult {
    read(text).unwrap_or_else(|error| panic!("{error}"))
}

/// Reads a text of one series.
fn one(text: &str) -> Series {
    let result = good(text);
    assert_eq!(result.series.len(), 1, "{result:?}");
    result.series.into_iter().next().expect("one")
}

/// Sum of the histogram.
fn seen(series: &Series) -> u64 {
    series.counts.iter().map(|bar| bar.1).sum()
}

/// The error has this line, and says these words, the remedy among them.
fn refused(text: &str, line: usize, says: &[&str]) {
    let error = read(text).expect_err("refused");
    let printed = error.to_string();
    assert_eq!(error.line, line, "{printed}");
    assert!(printed.starts_with(&format!("line {line}: ")) && printed.contains("\n   = help: "), "{printed}");
    for words in says {
        assert!(printed.contains(words), "{words:?} is not in: {printed}");
    }
}

/// The line of a text, from 1, that begins so.
fn line_of(text: &str, start: &str) -> usize {
    text.lines().position(|line| line.trim_start().starts_with(start)).expect(start) + 1
}
