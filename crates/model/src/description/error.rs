//! Errors of descriptions: the problem, its place, and a remedy.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

/// An error in the text of a description: file, place, the value found, and a remedy.
///
/// `Display` renders it as compilers do, with the line and a marker under the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptionError {
    /// The file's name as given.
    pub file: Box<str>,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The key or value with the error, as in the file (its first line).
    pub value: Box<str>,
    /// The problem.
    pub message: Box<str>,
    /// A remedy; empty if there is none.
    pub help: Box<str>,
    /// The line of the file, for rendering.
    pub source_line: Box<str>,
}

impl DescriptionError {
    /// Creates an error at the byte range `span` of `text`.
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

/// Columns of a rendered line; of a longer line, the part with the error.
const WIDTH: usize = 140;
/// Maximum characters of a message or a suggestion: a hostile file has keys of megabytes.
const MAX_SHOWN: usize = 200;

/// Returns at most `max` characters of `text`, with control characters replaced. The rendering library handles those of
/// ASCII only, and U+0080 to U+009F are controls too.
fn shown(text: &str, max: usize) -> String {
    let plain = |c: char| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c };
    let mut out: String = text.chars().take(max).map(plain).collect();
    if text.chars().nth(max).is_some() {
        out.push('…');
    }
    out
}

impl fmt::Display for DescriptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = shown(&self.source_line, usize::MAX);
        let byte = |n: usize| line.char_indices().nth(n).map_or(line.len(), |(at, _)| at);
        let column = self.column.saturating_sub(1);
        let span = byte(column)..byte(column + self.value.chars().count());
        let snippet = Snippet::source(&line)
            .path(&*self.file)
            .line_start(self.line)
            .annotation(AnnotationKind::Primary.span(span));
        let (message, help) = (shown(&self.message, MAX_SHOWN), shown(&self.help, MAX_SHOWN));
        let mut report = Level::ERROR.no_name().primary_title(&message).element(snippet);
        if !help.is_empty() {
            report = report.element(Level::HELP.with_name("remedy").message(&help));
        }
        f.write_str(&Renderer::plain().term_width(WIDTH).render(&[report]))
    }
}

impl std::error::Error for DescriptionError {}

/// An error of a description from a file or from code: the place is a table and a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptionFlaw {
    /// The table: `core`, `timer`, `level`, `tlb`, `walk`, `memory`; empty for the top level.
    pub table: &'static str,
    /// Index among the tables of that name, from 0.
    pub index: usize,
    /// The key in it; empty for the table itself.
    pub key: &'static str,
    /// The problem.
    pub message: String,
    /// A remedy.
    pub help: String,
}

impl fmt::Display for DescriptionFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}].{}: {}", self.table, self.index, self.key, self.message)?;
        if self.help.is_empty() { Ok(()) } else { write!(f, " ({})", self.help) }
    }
}

impl std::error::Error for DescriptionFlaw {}

/// Returns the word of `known` that `word` most likely stands for, if any is similar.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Hostile text must not cost quadratic time in its length; no key is similar to a long word.
    if word.len() > 64 {
        return None;
    }
    let word = word.to_lowercase();
    // Insertions, deletions, substitutions and transpositions.
    let edits = |known: &str| strsim::osa_distance(&word, &known.to_lowercase());
    let best = known.into_iter().map(|k| (edits(k), k)).min_by_key(|(d, _)| *d)?;
    let limit = (best.1.chars().count().max(word.chars().count()) / 3).max(1);
    (best.0 <= limit).then_some(best.1)
}
