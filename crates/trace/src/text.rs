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

/// The same byte eight times.
const fn eight(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Reads the hexadecimal digits at the start of eight bytes, all at once. Returns their number and their value.
#[inline(always)]
fn hex_of_eight(bytes: [u8; 8]) -> (u32, u64) {
    let word = u64::from_le_bytes(bytes);
    let low = word & eight(0x7f);
    let lower_case = low | eight(0x20);
    // In the highest bit of each byte, whether it is at least the first digit and not beyond the last.
    let decimal = (low + eight(0x80 - b'0')) & !(low + eight(0x7f - b'9'));
    let letter = (lower_case + eight(0x80 - b'a')) & !(lower_case + eight(0x7f - b'f'));
    let others = !((decimal | letter) & !word) & eight(0x80);
    let digits = (others.trailing_zeros() / 8).min(8);
    if digits == 0 {
        return (0, 0);
    }
    let values = (word & eight(0x0f)) + 9 * ((word >> 6) & eight(1));
    // Zeros before the digits; then neighbours become one number: of 8, of 16 and of 32 bits.
    let values = values << (64 - 8 * digits);
    let bytes = ((values << 4) | (values >> 8)) & 0x00ff_00ff_00ff_00ff;
    let pairs = ((bytes << 8) | (bytes >> 16)) & 0x0000_ffff_0000_ffff;
    (digits, ((pairs << 16) | (pairs >> 32)) & 0xffff_ffff)
}

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
        let (digits, value) = hex_of_eight(self.eight_bytes());
        self.at += digits as usize;
        if digits < 8 {
            return (digits > 0).then_some(value);
        }
        let (more, rest) = hex_of_eight(self.eight_bytes());
        self.at += more as usize;
        let too_long = more == 8 && hex_of_eight(self.eight_bytes()).0 > 0;
        (!too_long).then_some(value << (4 * more) | rest)
    }

    /// Returns the next eight bytes without using them; zeros beyond the last line.
    #[inline(always)]
    fn eight_bytes(&self) -> [u8; 8] {
        match self.rest().first_chunk() {
            Some(eight) => *eight,
            None => self.last_bytes(),
        }
    }

    #[cold]
    #[inline(never)]
    fn last_bytes(&self) -> [u8; 8] {
        let (mut all, rest) = ([0; 8], self.rest());
        all[..rest.len()].copy_from_slice(rest);
        all
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_numbers_are_those_of_the_standard_library() {
        let after = ["", " ", "\n", ",8\n", "g", "/", ":", "@", "G", "`", "\u{e9}", "x12345678"];
        for digits in 0..=18 {
            for rest in after {
                for text in
                    ["0123456789abcdefAB", "fedcbaFEDCBA987654", "000000000000000001", "9a9A9f9F0a0F0f0A00"]
                {
                    let number = &text[..digits];
                    let line = format!("{number}{rest}");
                    let mut cursor = Cursor { bytes: line.as_bytes(), at: 0 };
                    let expected = (1..=16).contains(&digits).then(|| u64::from_str_radix(number, 16));
                    assert_eq!(
                        cursor.hex(),
                        expected.clone().map(|number| number.expect("digits")),
                        "{line:?}"
                    );
                    assert!(expected.is_none() || cursor.at == digits, "{line:?}");
                }
            }
        }
    }

    #[test]
    fn digits_are_no_other_bytes() {
        for byte in 0..=u8::MAX {
            let (digits, value) = hex_of_eight([byte, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!((digits == 1).then_some(value as u32), char::from(byte).to_digit(16), "{byte}");
        }
    }
}
