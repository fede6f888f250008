//! Traces in lines of text.

use fathom_simulation::Entered;

use crate::batch::{BATCH, Batch, Source, Told};
use crate::error::{At, Error};
use crate::input::Input;
use crate::places::Places;

/// Bytes of a line, at most.
const MAX_LINE: usize = 64 << 10;
/// Bytes of a wrong line that are shown.
const SHOWN: usize = 60;

/// A format in lines.
pub(crate) trait Lines: Send {
    /// What a line has to be, for errors.
    const EXPECTED: &'static str;
    /// What can be done about another one.
    const REMEDY: &'static str;

    /// Reads a line. What is left of it is ignored. Returns `false`, and has read nothing, if the batch has to be passed on
    /// before, because the line belongs to another thread.
    ///
    /// # Errors
    /// Why it is not [`Lines::EXPECTED`]; an empty text if there is nothing more to say.
    fn line(
        &mut self,
        line: &mut Cursor,
        places: &mut Places,
        batch: &mut Batch,
    ) -> Result<bool, &'static str>;

    /// Returns whether all executed instructions are in the trace, if it has any.
    fn has_all_instructions(&self) -> bool {
        true
    }
}

/// A text.
pub(crate) struct Text<F> {
    format: F,
    places: Places,
    /// Lines that have been read.
    lines: u64,
    /// Bytes of whole lines that are there.
    whole: usize,
}

impl<F: Lines> Text<F> {
    pub fn new(format: F, entered: Option<Entered>) -> Text<F> {
        Text { format, places: Places::new(entered), lines: 0, whole: 0 }
    }

    /// Reads on until whole lines are there. Returns `false` at the end.
    fn lines_are_there(&mut self, input: &mut Input) -> Result<bool, Error> {
        let mut searched = 0;
        loop {
            input.end_line();
            let new = &input.bytes()[searched..];
            if let Some(last) = new.iter().rposition(|&byte| byte == b'\n') {
                self.whole = searched + last + 1;
                return Ok(true);
            }
            searched += new.len();
            if searched > MAX_LINE {
                let what = format!("the line has more than {MAX_LINE} bytes; expected {}", F::EXPECTED);
                return Err(Error::new(At::Line(self.lines + 1), what, F::REMEDY));
            }
            if input.ended() {
                return Ok(false);
            }
            input.more()?;
        }
    }
}

impl<F: Lines> Source for Text<F> {
    fn read(&mut self, input: &mut Input, batch: &mut Batch) -> Result<bool, Error> {
        while batch.accesses.len() < BATCH {
            if self.whole == 0 && !self.lines_are_there(input)? {
                break;
            }
            let bytes = &input.bytes()[..self.whole];
            let mut cursor = Cursor { bytes, at: 0 };
            while batch.accesses.len() < BATCH && cursor.at < bytes.len() {
                let start = cursor.at;
                match self.format.line(&mut cursor, &mut self.places, batch) {
                    Ok(true) => {
                        cursor.end_of_line();
                        self.lines += 1;
                    }
                    Ok(false) => {
                        self.whole -= start;
                        input.used(start);
                        return Ok(true);
                    }
                    Err(why) => return Err(wrong::<F>(self.lines + 1, &bytes[start..], why)),
                }
            }
            let used = cursor.at;
            self.whole -= used;
            input.used(used);
        }
        Ok(!batch.accesses.is_empty())
    }

    fn told(&mut self) -> Told {
        let all = self.format.has_all_instructions() && self.places.has_instructions();
        self.places.told(all)
    }
}

#[cold]
fn wrong<F: Lines>(line: u64, bytes: &[u8], why: &str) -> Error {
    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let shown = bytes[..end.min(SHOWN)].escape_ascii();
    let dots = if end > SHOWN { "..." } else { "" };
    let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
    Error::new(At::Line(line), format!("'{shown}{dots}'{why}; expected {}", F::EXPECTED), F::REMEDY)
}

/// A place in whole lines.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    /// Ends with a line feed.
    pub bytes: &'a [u8],
    pub at: usize,
}

/// Values of hexadecimal digits; others have 0xff.
const DIGITS: [u8; 256] = {
    let mut all = [0xff; 256];
    let mut byte = 0;
    while byte < 256 {
        all[byte] = match byte as u8 {
            digit @ b'0'..=b'9' => digit - b'0',
            digit @ b'a'..=b'f' => digit - b'a' + 10,
            digit @ b'A'..=b'F' => digit - b'A' + 10,
            _ => 0xff,
        };
        byte += 1;
    }
    all
};

impl<'a> Cursor<'a> {
    /// Returns the next byte without using it; a line feed at the end.
    #[inline(always)]
    pub fn next(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(b'\n')
    }

    /// Uses the next byte if it is this one.
    #[inline(always)]
    pub fn eat(&mut self, byte: u8) -> bool {
        let is = self.next() == byte;
        self.at += usize::from(is);
        is
    }

    /// Uses a word if it comes next.
    pub fn eat_word(&mut self, word: &[u8]) -> bool {
        let is = self.rest().starts_with(word);
        self.at += if is { word.len() } else { 0 };
        is
    }

    /// Uses spaces. Returns whether there were any.
    #[inline(always)]
    pub fn spaces(&mut self) -> bool {
        let start = self.at;
        while matches!(self.next(), b' ' | b'\t') {
            self.at += 1;
        }
        self.at > start
    }

    /// Returns the rest of all lines.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Returns whether the line ends here, but for a carriage return.
    #[inline(always)]
    pub fn is_at_end(&self) -> bool {
        matches!(self.next(), b'\n' | b'\r')
    }

    /// Reads a hexadecimal number of at most 16 digits.
    #[inline(always)]
    pub fn hex(&mut self) -> Option<u64> {
        let start = self.at;
        let mut value = 0;
        loop {
            let digit = DIGITS[usize::from(self.next())];
            if digit > 15 {
                break;
            }
            value = value << 4 | u64::from(digit);
            self.at += 1;
        }
        (1..=16).contains(&(self.at - start)).then_some(value)
    }

    /// Reads a decimal number of at most 9 digits.
    #[inline(always)]
    pub fn decimal(&mut self) -> Option<u32> {
        let start = self.at;
        let mut value = 0u32;
        while self.next().is_ascii_digit() && self.at - start < 10 {
            value = value.wrapping_mul(10).wrapping_add(u32::from(self.next() - b'0'));
            self.at += 1;
        }
        (1..=9).contains(&(self.at - start)).then_some(value)
    }

    /// Reads a size of an access, in bytes.
    #[inline(always)]
    pub fn size(&mut self) -> Option<u16> {
        self.decimal().and_then(|size| u16::try_from(size).ok()).filter(|&size| size > 0)
    }

    /// Goes to the next line.
    #[inline(always)]
    pub fn end_of_line(&mut self) {
        while self.next() != b'\n' {
            self.at += 1;
        }
        self.at += 1;
    }
}

/// Returns whether one of the first whole lines, after those that are skipped, is of a format. A start without a whole
/// line has one line.
pub(crate) fn has_line(start: &[u8], skipped: fn(&[u8]) -> bool, of: fn(&mut Cursor) -> bool) -> bool {
    let whole = start.iter().rposition(|&byte| byte == b'\n').map_or(start.len(), |last| last + 1);
    let mut lines = start[..whole].split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.find(|line| !skipped(line)).is_some_and(|line| of(&mut Cursor { bytes: line, at: 0 }))
}
