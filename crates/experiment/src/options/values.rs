//! Kinds of values of options: syntax, valid range, and notation in the record.

use std::ops::RangeInclusive;

/// Maximum number of values of an option without a smaller limit of its own. They fit in one line of the record.
pub const LIST: usize = 256;

/// Number of values of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Many {
    /// One.
    One,
    /// Up to this number, separated by commas.
    List(usize),
    /// Up to this number; the option is repeated for each value, because a value may contain commas.
    Repeated(usize),
}

impl Many {
    /// Returns the maximum number of values.
    pub(super) fn max(self) -> usize {
        match self {
            Many::One => 1,
            Many::List(max) | Many::Repeated(max) => max,
        }
    }

    /// Returns the separator of values in the record.
    pub(super) fn separator(self) -> char {
        if matches!(self, Many::Repeated(_)) { ';' } else { ',' }
    }
}

/// A word that an option takes.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// The word, as stored in the record.
    pub token: &'static str,
    /// Other spellings on the command line.
    pub aliases: &'static [&'static str],
    /// Meaning, shown in help; may be empty.
    pub help: &'static str,
}

/// Kind of the values of an option.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// A switch without a value.
    Switch,
    /// Numbers.
    Number {
        /// Parses a number. The error describes the syntax.
        read: fn(&str) -> Result<u64, String>,
        /// Checks the number. The error describes the valid range.
        check: fn(u64) -> Result<(), String>,
    },
    /// Words of a list.
    Word(fn() -> Vec<Word>),
    /// Other text: returns it as stored in the record. The error describes the syntax.
    Text(fn(&str) -> Result<String, String>),
}

impl Values {
    /// Parses one value. Returns it as stored in the record.
    ///
    /// # Errors
    /// The valid values.
    pub fn read(&self, text: &str) -> Result<String, String> {
        match self {
            Values::Switch if text == SWITCHED_ON => Ok(text.to_owned()),
            Values::Switch => Err(format!("'{text}' is not {SWITCHED_ON}")),
            Values::Number { read, check } => {
                let number = read(text)?;
                check(number).map(|()| number.to_string())
            }
            Values::Word(words) => {
                let words = words();
                let named = |w: &&Word| w.token == text || w.aliases.contains(&text);
                words.iter().find(named).map(|word| word.token.to_owned()).ok_or_else(|| {
                    let all: Vec<&str> = words.iter().map(|word| word.token).collect();
                    format!("'{text}' is not one of: {}", all.join(" "))
                })
            }
            Values::Text(read) => read(text),
        }
    }
}

/// Value in the record of a switch that is on.
pub(super) const SWITCHED_ON: &str = "yes";

/// Returns the tokens of an enumeration as words without help.
pub fn tokens<T: Copy>(all: &[T], token: fn(T) -> &'static str) -> Vec<Word> {
    all.iter().map(|value| Word { token: token(*value), aliases: &[], help: "" }).collect()
}

/// Parses bytes: a number with K, M, G, T or KiB, MiB, GiB, TiB (all binary), or plain.
///
/// # Errors
/// The syntax of sizes.
pub fn size(text: &str) -> Result<u64, String> {
    fathom_units::parse(text)
        .map_err(|_| format!("'{text}' is not a size: use bytes or K, M, G (binary), as in 8192, 8K, 64MiB"))
}

/// Parses a plain integer.
///
/// # Errors
/// The text is not an integer.
pub fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is not an integer"))
}

/// Splits a text into its number and its unit. `expected` describes the syntax in the error for a wrong number.
pub(crate) fn number_and_unit<'a>(text: &'a str, expected: &str) -> Result<(f64, &'a str), String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number = digits.parse().map_err(|_| format!("expected {expected}"))?;
    Ok((number, &text[digits.len()..]))
}

/// Checks that `value` is in `range`. The error quotes `shown`, the range as text.
pub(crate) fn within(value: u64, range: &RangeInclusive<u64>, shown: &str) -> Result<(), String> {
    if range.contains(&value) { Ok(()) } else { Err(format!("must be {shown}")) }
}

/// Checks a working set: at least two cells of a chain, at most the maximum of the wire format.
pub(crate) fn working_set(bytes: u64) -> Result<(), String> {
    within(bytes, &(128..=1 << 40), "from 128 bytes to 1024G")
}
