//! A record as a file: each line ends in a seal, ` @NUMBER:CHECKSUM:DIGEST`.
//!
//! The number counts the file's lines from 1. The checksum is the CRC-32 of the line before its seal; the digest is the CRC-32
//! of all lines up to this one, each with its newline and without its seal, as eight hexadecimal digits. So a changed line,
//! missing lines and repeated lines are found, wherever they are in the file; against a forger they do not help. The
//! harness writes the seals, because lines of the probe may be lost on their way. A file that was cut off has no line `end`.

use std::fmt;

use super::Record;
use super::losses::damaged;

/// Begins a seal.
const MARK: &str = " @";

/// Largest length of a seal, bytes: the mark, a number of 20 digits, and twice a colon and eight digits.
pub const MAX_SEAL: usize = 2 + 20 + 2 * 9;

/// The end of a line of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seal {
    number: u64,
    checksum: u32,
    digest: u32,
}

impl Seal {
    /// Splits a line of a file into its content and its seal, which is written in one way only.
    fn split(line: &str) -> Option<(&str, Seal)> {
        let (content, text) = line.rsplit_once(MARK)?;
        let mut parts = text.split(':');
        let number = parts.next()?.parse().ok()?;
        let mut hex = || u32::from_str_radix(parts.next()?, 16).ok();
        let seal = Seal { number, checksum: hex()?, digest: hex()? };
        (seal.to_string() == text).then_some((content, seal))
    }
}

impl fmt::Display for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:08x}:{:08x}", self.number, self.checksum, self.digest)
    }
}

/// Position in a file: the number of lines, and their digest.
#[derive(Clone, Debug, Default)]
struct Position {
    number: u64,
    digest: crc32fast::Hasher,
}

impl Position {
    /// Returns the seal of the next line.
    fn next(&self, content: &str) -> (Seal, Position) {
        let mut digest = self.digest.clone();
        digest.update(content.as_bytes());
        digest.update(b"\n");
        let number = self.number + 1;
        let checksum = crc32fast::hash(content.as_bytes());
        (Seal { number, checksum, digest: digest.clone().finalize() }, Position { number, digest })
    }

    /// Returns the position after a line with this seal.
    fn after(seal: Seal) -> Position {
        Position { number: seal.number, digest: crc32fast::Hasher::new_with_initial(seal.digest) }
    }
}

/// Seals the lines of a file, from the first on.
#[derive(Clone, Debug, Default)]
pub struct Sealer(Position);

impl Sealer {
    /// Returns the next line of the file, without its newline.
    pub fn seal(&mut self, content: &str) -> String {
        let (seal, after) = self.0.next(content);
        self.0 = after;
        format!("{content}{MARK}{seal}")
    }
}

/// Returns the text of a file with these lines.
#[must_use]
pub fn sealed<'a>(lines: impl IntoIterator<Item = &'a str>) -> String {
    let mut sealer = Sealer::default();
    lines.into_iter().map(|line| sealer.seal(line) + "\n").collect()
}

/// Result of checking a line.
enum Checked<'a> {
    /// An intact line, and what is wrong with the lines before it.
    Line(&'a str, Option<String>),
    /// A line that does not count, and why.
    Bad(&'static str),
}

/// Checks the seals of a file's lines.
#[derive(Clone, Debug, Default)]
struct Checker {
    position: Position,
    /// Bad lines since the last intact one.
    bad: u64,
}

impl Checker {
    fn check<'a>(&mut self, line: &'a str) -> Checked<'a> {
        let intact =
            Seal::split(line).filter(|(content, seal)| crc32fast::hash(content.as_bytes()) == seal.checksum);
        let Some((content, seal)) = intact else {
            self.bad += 1;
            return Checked::Bad("its checksum is missing or wrong: it was changed or cut off");
        };
        if seal.number <= self.position.number {
            return Checked::Bad("it is repeated or out of order");
        }
        let missing = (seal.number - self.position.number - 1).saturating_sub(self.bad);
        let follows = self.bad == 0 && missing == 0;
        let trouble = if missing > 0 {
            Some(format!("{missing} lines are missing before it"))
        } else if follows && self.position.next(content).0.digest != seal.digest {
            Some("the digest of the lines up to it is wrong: one of them was changed".to_owned())
        } else {
            None
        };
        *self = Checker { position: Position::after(seal), bad: 0 };
        Checked::Line(content, trouble)
    }
}

/// Reads a record from the lines of its file.
#[derive(Clone, Debug, Default)]
pub struct FileReader {
    record: Record,
    checker: Checker,
}

impl FileReader {
    /// Adds the next line, without its newline. Problems with it are noted and do not end the reading.
    ///
    /// # Errors
    /// Only for the first line: it is not that of a record, or its version is not known.
    pub fn push(&mut self, line: &str) -> Result<(), String> {
        let begun = self.record.lines > 0;
        match self.checker.check(line) {
            Checked::Line(content, trouble) => {
                let pushed = self.record.push(content);
                trouble.into_iter().for_each(|trouble| self.record.problem(&trouble));
                pushed
            }
            // Another file is recognised by its first word, and not by its missing seal.
            Checked::Bad(why) if !begun => {
                self.record.push(line).and_then(|()| Err(format!("line 1: {why}")))
            }
            Checked::Bad(why) => {
                self.record.bad_line(why);
                Ok(())
            }
        }
    }

    /// Returns the record so far.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Ends the file.
    #[must_use]
    pub fn finish(mut self) -> Record {
        let complete = self.record.end.as_ref().is_some_and(|end| end.status == super::COMPLETE);
        if complete && self.record.trust.is_some() && !self.record.gone {
            self.record
                .problem("the probe's last line, 'gone', is missing, and the session is called complete");
        }
        self.record
    }
}

/// Reads the text of a file.
///
/// # Errors
/// As [`FileReader::push`]; and for an empty text.
pub fn read(text: &str) -> Result<Record, String> {
    let mut reader = FileReader::default();
    text.lines().try_for_each(|line| reader.push(line))?;
    match reader.record.lines {
        0 => Record::parse(""),
        _ => Ok(reader.finish()),
    }
}

/// Returns the intact lines of a file, without their seals, for a new file. A line `damaged` stands for what is wrong
/// between them. An incomplete last line, as a kill leaves it, is none of the record.
#[must_use]
pub fn resumable(text: &str) -> Vec<String> {
    let mut checker = Checker::default();
    let mut lines = Vec::new();
    for line in text.lines() {
        let bad = checker.bad;
        let Checked::Line(content, trouble) = checker.check(line) else { continue };
        let lost = (bad > 0).then(|| format!("{bad} damaged lines before it were left out"));
        let what = lost.into_iter().chain(trouble).collect::<Vec<_>>().join("; ");
        if !what.is_empty() {
            lines.push(damaged(&format!("{what}, when the record was resumed")).render());
        }
        lines.push(content.to_owned());
    }
    lines
}
