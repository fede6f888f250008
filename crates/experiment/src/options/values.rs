//! Kinds of values of options: how one is typed, which there may be, and how it stands in the record.

use std::ops::RangeInclusive;

/// Most values of an option that has no reason for fewer. A line of the record has room for them.
pub const LIST: usize = 256;

/// How many values an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Many {
    /// One.
    One,
    /// At most so many, separated by commas.
    List(usize),
    /// At most so many, each with the option's name before it, because a value may have commas.
    Repeated(usize),
}

impl Many {
    /// Most values.
    pub(super) fn most(self) -> usize {
        match self {
            Many::One => 1,
            Many::List(most) | Many::Repeated(most) => most,
        }
    }

    /// What stands between two values in the record.
    pub(super) fn separator(self) -> char {
        if matches!(self, Many::Repeated(_)) { ';' } else { ',' }
    }
}

/// A word that an option takes.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// The word, as it stands in the record.
    pub token: &'static str,
    /// Other words that may be typed for it.
    pub aliases: &'static [&'static str],
    /// What it means; may be empty.
    pub help: &'static str,
}

/// What the values of an option are.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// A switch: it is given or not, and has no value.
    Switch,
    /// Numbers.
    Number {
        /// The number that a text stands for, or how it is typed.
        read: fn(&str) -> Result<u64, String>,
        /// Is this a number of the option? If not, which are.
        check: fn(u64) -> Result<(), String>,
    },
    /// Words of a list.
    Word(fn() -> Vec<Word>),
    /// Other text: how it stands in the record, or how it is typed.
    Text(fn(&str) -> Result<String, String>),
}

impl Values {
    /// One value as it stands in the record.
    ///
    /// # Errors
    /// Which values there are.
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

/// What stands in the record for a switch that is on.
pub(super) const SWITCHED_ON: &str = "yes";

/// The words of an enumeration.
pub fn tokens<T: Copy>(all: &[T], token: fn(T) -> &'static str) -> Vec<Word> {
    all.iter().map(|value| Word { token: token(*value), aliases: &[], help: "" }).collect()
}

/// Bytes: a number with K, M, G, T or KiB, MiB, GiB, TiB (all binary), or plain.
///
/// # Errors
/// How a size is typed.
pub fn size(text: &str) -> Result<u64, String> {
    fathom_units::parse(text)
        .map_err(|_| format!("'{text}' is not a size: use bytes or K, M, G (binary), as in 8192, 8K, 64MiB"))
}

/// A plain number.
///
/// # Errors
/// How a number is typed.
pub fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is not an integer"))
}

/// A text split into its number and its unit; the number's error is `expected`.
pub(crate) fn number_and_unit<'a>(text: &'a str, expected: &str) -> Result<(f64, &'a str), String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number = digits.parse().map_err(|_| format!("expected {expected}"))?;
    Ok((number, &text[digits.len()..]))
}

/// Is `value` in `range`? If not, an error that says so with `shown`, the range for people.
pub(crate) fn within(value: u64, range: &RangeInclusive<u64>, shown: &str) -> Result<(), String> {
    if range.contains(&value) { Ok(()) } else { Err(format!("must be {shown}")) }
}

/// A working set: at least two cells of a chain, and no more than the wire takes.
pub(crate) fn working_set(bytes: u64) -> Result<(), String> {
    within(bytes, &(128..=1 << 40), "from 128 bytes to 1024G")
}
