//! What is wrong with a description, where, and what to write instead.

use std::fmt;
use std::ops::Range;

/// A fault in the text of a description: file, place, the value found, and a remedy.
///
/// `Display` renders it as compilers do, with the line and a marker under the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptionError {
    /// The file's name as it was given.
    pub file: Box<str>,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The key or value at fault, as it stands in the file (the first line of it).
    pub value: Box<str>,
    /// What is wrong.
    pub message: Box<str>,
    /// What to write instead; empty when nothing can be suggested.
    pub help: Box<str>,
    /// The line of the file, for the rendering.
    pub source_line: Box<str>,
}

impl DescriptionError {
    /// The fault `message` at the byte range `span` of `text`.
    pub(super) fn at(file: &str, text: &str, span: Range<usize>, message: String, help: String) -> Self {
        let mut start = span.start.min(text.len());
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let line_start = text[..start].rfind('\n').map_or(0, |i| i + 1);
        let rest = &text[line_start..];
        let source_line = rest.lines().next().unwrap_or("").into();
        let value = text.get(start..span.end.max(start).min(text.len())).unwrap_or("");
        DescriptionError {
            file: file.into(),
            line: text[..line_start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            value: value.lines().next().unwrap_or("").into(),
            message: message.into(),
            help: help.into(),
            source_line,
        }
    }
}

/// Most characters of a line, a message or a suggestion that are shown: a hostile file has lines of megabytes.
const MOST_SHOWN: usize = 200;
/// Characters of a long line that are shown before the place at fault.
const BEFORE: usize = 60;

/// `text` as it may go to a terminal: nothing in it is obeyed there, every character keeps its column, and the
/// end is cut off where it is longer than anybody reads.
fn shown(text: &str) -> String {
    let plain = |c: char| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c };
    let mut out: String = text.chars().take(MOST_SHOWN).map(plain).collect();
    if text.chars().nth(MOST_SHOWN).is_some() {
        out.push('…');
    }
    out
}

impl fmt::Display for DescriptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        // Of a long line the part is shown in which the fault is.
        let column = self.column.saturating_sub(1);
        let skip = if column > MOST_SHOWN - BEFORE { column - BEFORE } else { 0 };
        let part: String = self.source_line.chars().skip(skip).take(MOST_SHOWN + 1).collect();
        // Tabs are kept before the marker, so that it stands under the value whatever a tab is.
        let before: String =
            part.chars().take(column - skip).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let marked = self.value.chars().count().clamp(1, MOST_SHOWN - (column - skip));
        writeln!(f, "{}", shown(&self.message))?;
        writeln!(f, "{margin}--> {}:{}:{}", self.file, self.line, self.column)?;
        writeln!(f, "{margin} |")?;
        writeln!(f, "{number} | {}", shown(&part))?;
        write!(f, "{margin} | {before}{}", "^".repeat(marked))?;
        if !self.help.is_empty() {
            write!(f, "\n{margin} = help: {}", shown(&self.help))?;
        }
        Ok(())
    }
}

impl std::error::Error for DescriptionError {}

/// A fault of a description wherever it came from: the place by table and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The table: `core`, `timer`, `level`, `tlb`, `walk`, `memory`; empty for the top.
    pub table: &'static str,
    /// Which of the tables of that name, from 0.
    pub index: usize,
    /// The key in it; empty for the table itself.
    pub key: &'static str,
    /// What is wrong.
    pub message: String,
    /// What would work.
    pub help: String,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}].{}: {}", self.table, self.index, self.key, self.message)?;
        if self.help.is_empty() { Ok(()) } else { write!(f, " ({})", self.help) }
    }
}

impl std::error::Error for Flaw {}

/// The word of `known` that `word` most likely was meant to be, if any is near.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Hostile text must not cost quadratic time in its own length; no key is near a long word.
    if word.len() > 64 {
        return None;
    }
    let word = word.to_lowercase();
    let best = known.into_iter().map(|k| (distance(&word, &k.to_lowercase()), k)).min_by_key(|(d, _)| *d)?;
    let limit = (best.1.chars().count().max(word.chars().count()) / 3).max(1);
    (best.0 <= limit).then_some(best.1)
}

/// Edits between two words: insertions, deletions, substitutions and swapped neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let substituted = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = substituted.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}
