//! A line of the wire: parsing, checking, writing.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;

use crate::tokens::Token;

mod value;

pub use value::Value;

/// Maximum line length, in bytes without the newline. It holds 16 samples of four columns and fits a bare-metal
/// receive buffer.
pub const MAX_LINE: usize = 4096;
/// Maximum `key=value` pairs on a line.
pub const MAX_PAIRS: usize = 64;

/// An invalid line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireError {
    /// A sentence that names the key or byte and the remedy.
    pub what: String,
}

impl WireError {
    /// Creates an error with this sentence.
    pub fn new(what: impl Into<String>) -> WireError {
        WireError { what: what.into() }
    }
}

impl core::fmt::Display for WireError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.what)
    }
}

impl core::error::Error for WireError {}

/// A parsed line: a word and its pairs, in order.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Line {
    /// The first word, which names the kind of line.
    pub word: String,
    /// The pairs.
    pub pairs: Vec<(String, Value)>,
    /// Sequence number, if the line has one.
    pub seq: Option<u64>,
}

fn is_key(s: &str) -> bool {
    s.bytes().next().is_some_and(|b| b.is_ascii_lowercase())
        && s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'.')
}

fn is_token(s: &str) -> bool {
    s.bytes().next().is_some_and(|b| b.is_ascii_lowercase())
        && s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.-".contains(&b))
}

/// Returns `text` shortened for an error message.
fn shown(text: &str) -> String {
    let mut s: String = text.chars().take(40).collect();
    if s.len() < text.len() {
        s.push('…');
    }
    s.escape_default().to_string()
}

impl Line {
    /// Creates a line without pairs.
    pub fn new(word: &str) -> Line {
        Line { word: word.to_owned(), ..Line::default() }
    }

    /// Adds an integer.
    #[must_use]
    pub fn int(mut self, key: &str, value: impl Into<i128>) -> Line {
        self.pairs.push((key.to_owned(), Value::Int(value.into())));
        self
    }

    /// Adds a token.
    #[must_use]
    pub fn token(mut self, key: &str, value: &str) -> Line {
        self.pairs.push((key.to_owned(), Value::Token(value.to_owned())));
        self
    }

    /// Adds quoted text.
    #[must_use]
    pub fn text(mut self, key: &str, value: &str) -> Line {
        self.pairs.push((key.to_owned(), Value::Text(value.to_owned())));
        self
    }

    /// Adds bytes.
    #[must_use]
    pub fn hex(mut self, key: &str, value: &[u8]) -> Line {
        self.pairs.push((key.to_owned(), Value::Hex(value.to_vec())));
        self
    }

    /// Adds a list of integers; an empty list adds nothing.
    #[must_use]
    pub fn list(mut self, key: &str, value: &[u64]) -> Line {
        let value: Vec<i128> = value.iter().map(|&v| i128::from(v)).collect();
        match value.as_slice() {
            [] => {}
            [one] => self.pairs.push((key.to_owned(), Value::Int(*one))),
            _ => self.pairs.push((key.to_owned(), Value::List(value))),
        }
        self
    }

    /// Returns the line's text without sequence number and checksum.
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = self.word.clone();
        for (key, value) in &self.pairs {
            let _ = write!(out, " {key}=");
            value.render(&mut out);
        }
        out
    }

    /// Returns the line's text with sequence number and checksum, as a probe sends it.
    #[must_use]
    pub fn seal(&self, seq: u64) -> String {
        let mut out = self.render();
        let _ = write!(out, " seq={seq}");
        let crc = crc32fast::hash(out.as_bytes());
        let _ = write!(out, " crc=0x{crc:08x}");
        out
    }

    /// Parses a line. If it has a checksum, the checksum must match.
    ///
    /// # Errors
    /// A sentence that names the pair and what is expected.
    pub fn parse(text: &str) -> Result<Line, WireError> {
        let text = text.trim_end_matches(['\r', '\n', ' ']);
        if text.len() > MAX_LINE {
            return Err(WireError::new(format!("line of {} bytes; the limit is {MAX_LINE}", text.len())));
        }
        let (text, sealed) = check_crc(text)?;
        let mut rest = text.trim_start();
        let end = rest.find(' ').unwrap_or(rest.len());
        let word = &rest[..end];
        if !is_key(word) {
            return Err(WireError::new(format!("'{}' is not a valid first word of a line", shown(word))));
        }
        let mut line = Line::new(word);
        rest = rest[end..].trim_start();
        while !rest.is_empty() {
            let (key, value, after) = pair(rest)?;
            if key == "crc" {
                return Err(WireError::new(
                    "crc is the checksum: 0x and up to 8 digits, at the end of the line",
                ));
            }
            // The sequence number belongs to the seal and does not count as a pair.
            if line.pairs.len() == MAX_PAIRS && key != "seq" {
                return Err(WireError::new(format!("more than {MAX_PAIRS} pairs on one line")));
            }
            if line.pairs.iter().any(|(k, _)| k == key) {
                return Err(WireError::new(format!("key '{key}' occurs twice")));
            }
            line.pairs.push((key.to_owned(), value));
            rest = after.trim_start();
        }
        line.take_seq(sealed)?;
        Ok(line)
    }

    fn take_seq(&mut self, sealed: bool) -> Result<(), WireError> {
        if let Some(at) = self.pairs.iter().position(|(k, _)| k == "seq") {
            match self.pairs.remove(at).1 {
                Value::Int(v) if (0..=i128::from(u64::MAX)).contains(&v) => self.seq = Some(v as u64),
                _ => return Err(WireError::new("seq is not a number")),
            }
        } else if sealed {
            return Err(WireError::new("a checksum without seq"));
        }
        Ok(())
    }

    /// Returns the pairs for reading, each once; see [`Fields`].
    #[must_use]
    pub fn fields(&self) -> Fields<'_> {
        Fields { word: &self.word, left: self.pairs.iter().map(|(k, v)| (k.as_str(), v)).collect() }
    }
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Splits off and checks ` crc=0x...`; returns the rest and whether there was a checksum.
fn check_crc(text: &str) -> Result<(&str, bool), WireError> {
    let Some(at) = text.rfind(" crc=0x") else { return Ok((text, false)) };
    let digits = &text[at + 7..];
    // Quoted text may contain the same letters; a checksum is at the end of the line.
    if digits.contains(['"', ' ']) {
        return Ok((text, false));
    }
    // `from_str_radix` would also accept a sign.
    let stated = u32::from_str_radix(digits, 16)
        .ok()
        .filter(|_| !digits.starts_with('+'))
        .ok_or_else(|| WireError::new(format!("crc '{}' is not a number", shown(digits))))?;
    let found = crc32fast::hash(&text.as_bytes()[..at]);
    if stated == found {
        Ok((&text[..at], true))
    } else {
        Err(WireError::new(format!("checksum 0x{found:08x} differs from the stated 0x{stated:08x}: damaged")))
    }
}

/// Parses one `key=value` at the start of `text`; returns what follows it.
fn pair(text: &str) -> Result<(&str, Value, &str), WireError> {
    let word_end = text.find([' ', '=']).unwrap_or(text.len());
    let key = &text[..word_end];
    if !text[word_end..].starts_with('=') || !is_key(key) {
        return Err(WireError::new(format!("'{}' is not key=value", shown(key))));
    }
    let rest = &text[word_end + 1..];
    if let Some(quoted) = rest.strip_prefix('"') {
        let (value, after) = unquote(key, quoted)?;
        return Ok((key, Value::Text(value), after));
    }
    let end = rest.find(' ').unwrap_or(rest.len());
    Ok((key, bare(key, &rest[..end])?, &rest[end..]))
}

fn unquote<'a>(key: &str, text: &'a str) -> Result<(String, &'a str), WireError> {
    let bad = |why: &str| WireError::new(format!("text of '{key}' {why}"));
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                let after = &text[at + 1..];
                if !after.is_empty() && !after.starts_with(' ') {
                    return Err(bad("continues after its closing quote"));
                }
                return Ok((out, after));
            }
            '\\' => match chars.next() {
                Some((_, 'n')) => out.push('\n'),
                Some((_, c @ ('"' | '\\'))) => out.push(c),
                Some((_, 'u')) => out.push(escape(&mut chars).ok_or_else(|| bad("has a bad \\u{...}"))?),
                _ => return Err(bad("has an unknown escape")),
            },
            c => out.push(c),
        }
    }
    Err(bad("has no closing quote"))
}

fn escape(chars: &mut core::str::CharIndices<'_>) -> Option<char> {
    if chars.next()?.1 != '{' {
        return None;
    }
    let mut code = 0u32;
    for _ in 0..7 {
        match chars.next()?.1 {
            '}' => return char::from_u32(code),
            c => code = code.checked_mul(16)?.checked_add(c.to_digit(16)?)?,
        }
    }
    None
}

fn bare(key: &str, text: &str) -> Result<Value, WireError> {
    let bad = || {
        WireError::new(format!(
            "'{key}={}': expected an integer, a list of integers, a lower-case token, \"text\" or 0x-bytes",
            shown(text)
        ))
    };
    if let Some(digits) = text.strip_prefix("0x") {
        return bytes(digits).map(Value::Hex).ok_or_else(bad);
    }
    if is_token(text) {
        return Ok(Value::Token(text.to_owned()));
    }
    if text.contains(',') {
        let items: Result<Vec<i128>, _> = text.split(',').map(|t| integer(t).ok_or_else(bad)).collect();
        return Ok(Value::List(items?));
    }
    integer(text).map(Value::Int).ok_or_else(bad)
}

fn integer(text: &str) -> Option<i128> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    // 20 digits hold every u64.
    if digits.is_empty() || digits.len() > 20 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let nibble = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    digits.chunks(2).map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?)).collect()
}

/// The pairs of a line, taken one by one. [`Fields::finish`] reports pairs that were not taken.
#[derive(Debug)]
pub struct Fields<'a> {
    word: &'a str,
    left: Vec<(&'a str, &'a Value)>,
}

impl<'a> Fields<'a> {
    fn take(&mut self, key: &str) -> Option<&'a Value> {
        let at = self.left.iter().position(|(k, _)| *k == key)?;
        Some(self.left.remove(at).1)
    }

    fn wrong(&self, key: &str, expected: &str) -> WireError {
        WireError::new(format!("{}: '{key}' must be {expected}", self.word))
    }

    /// Takes an unsigned integer, if the key is present.
    ///
    /// # Errors
    /// When the value is of another kind or does not fit.
    pub fn int(&mut self, key: &str) -> Result<Option<u64>, WireError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Int(v)) => {
                u64::try_from(*v).map(Some).map_err(|_| self.wrong(key, "an integer from 0 to 2^64-1"))
            }
            Some(_) => Err(self.wrong(key, "an integer")),
        }
    }

    /// Takes a signed integer, if the key is present.
    ///
    /// # Errors
    /// When the value is of another kind or does not fit.
    pub fn signed(&mut self, key: &str) -> Result<Option<i64>, WireError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Int(v)) => {
                i64::try_from(*v).map(Some).map_err(|_| self.wrong(key, "an integer from -2^63 to 2^63-1"))
            }
            Some(_) => Err(self.wrong(key, "an integer")),
        }
    }

    /// Takes an unsigned integer that must be present.
    ///
    /// # Errors
    /// When it is missing, of another kind or does not fit.
    pub fn need_int(&mut self, key: &str) -> Result<u64, WireError> {
        self.int(key)?.ok_or_else(|| WireError::new(format!("{}: '{key}' is missing", self.word)))
    }

    /// Takes a token, if the key is present.
    ///
    /// # Errors
    /// When the value is of another kind.
    pub fn token(&mut self, key: &str) -> Result<Option<&'a str>, WireError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Token(t)) => Ok(Some(t)),
            Some(_) => Err(self.wrong(key, "a lower-case token")),
        }
    }

    /// Takes a token of an enum, if the key is present.
    ///
    /// # Errors
    /// When the value is of another kind, or not a token of the enum.
    pub fn one_of<T: Token>(&mut self, key: &str) -> Result<Option<T>, WireError> {
        let Some(word) = self.token(key)? else { return Ok(None) };
        match T::of_word(word) {
            Some(value) => Ok(Some(value)),
            None => Err(WireError::new(format!("{}: {key}={word} is not one of: {}", self.word, T::words()))),
        }
    }

    /// Returns whether the key is present and not taken.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.left.iter().any(|(k, _)| *k == key)
    }

    /// Takes a pair, if it is present with this value.
    pub(crate) fn take_if(&mut self, key: &str, value: &Value) {
        self.left.retain(|(k, v)| (*k, *v) != (key, value));
    }

    /// Returns the pairs that were not taken, in order.
    pub(crate) fn left(&self) -> impl Iterator<Item = (&'a str, &'a Value)> + '_ {
        self.left.iter().copied()
    }

    /// Takes quoted text or a token, if the key is present.
    ///
    /// # Errors
    /// When the value is of another kind.
    pub fn text(&mut self, key: &str) -> Result<Option<&'a str>, WireError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Text(t) | Value::Token(t)) => Ok(Some(t)),
            Some(_) => Err(self.wrong(key, "quoted text")),
        }
    }

    /// Takes bytes, if the key is present.
    ///
    /// # Errors
    /// When the value is of another kind.
    pub fn hex(&mut self, key: &str) -> Result<Option<&'a [u8]>, WireError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Hex(b)) => Ok(Some(b)),
            Some(_) => Err(self.wrong(key, "0x and an even number of hex digits")),
        }
    }

    /// Takes a list of unsigned integers; empty if the key is absent.
    ///
    /// # Errors
    /// When the value is of another kind or an item does not fit.
    pub fn list(&mut self, key: &str) -> Result<Vec<u64>, WireError> {
        let items: &[i128] = match self.take(key) {
            None => &[],
            Some(Value::Int(v)) => core::slice::from_ref(v),
            Some(Value::List(items)) => items,
            Some(_) => return Err(self.wrong(key, "a list of integers")),
        };
        items
            .iter()
            .map(|&v| u64::try_from(v).map_err(|_| self.wrong(key, "a list of integers from 0 to 2^64-1")))
            .collect()
    }

    /// Ends the reading and returns the pairs that were not taken, in order.
    #[must_use]
    pub fn rest(self) -> Vec<(&'a str, &'a Value)> {
        self.left
    }

    /// Ends the reading: keys that were not taken are an error that names them.
    ///
    /// # Errors
    /// When a key was not taken.
    pub fn finish(self) -> Result<(), WireError> {
        if self.left.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self.left.iter().map(|(k, _)| *k).collect();
        Err(WireError::new(format!("{}: unknown key {}", self.word, names.join(", "))))
    }
}

#[cfg(test)]
mod tests;
