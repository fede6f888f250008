//! Shared by crates that do not depend on each other: names of facts ([`facts`]), the greatest common divisor, and sizes in bytes as
//! text (parsing, exact and rounded output).
//!
//! All units are binary: K and KiB are 1024 bytes. `no_std`, so that the probe can use it everywhere.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod divisor;
pub mod facts;

use alloc::format;
use alloc::string::{String, ToString};

/// Binary units, largest first: the power of two, the letter, the full name.
const UNITS: [(u32, &str, &str); 4] =
    [(40, "T", "TiB"), (30, "G", "GiB"), (20, "M", "MiB"), (10, "K", "KiB")];

/// Returns the largest unit of which `bytes` is a whole number, and that number.
fn whole(bytes: u64) -> Option<(u64, &'static str, &'static str)> {
    let divides = |shift: u32| bytes != 0 && bytes.is_multiple_of(1 << shift);
    UNITS
        .into_iter()
        .find(|(shift, ..)| divides(*shift))
        .map(|(shift, letter, name)| (bytes >> shift, letter, name))
}

/// Formats an exact size in the notation that [`parse`] reads, in the largest unit without a fraction: `32K`, `100`.
#[must_use]
pub fn compact(bytes: u64) -> String {
    whole(bytes).map_or_else(|| bytes.to_string(), |(number, letter, _)| format!("{number}{letter}"))
}

/// Formats an exact size for a sentence, in the largest unit without a fraction: `32 KiB`, `100 B`.
#[must_use]
pub fn exact(bytes: u64) -> String {
    whole(bytes).map_or_else(|| format!("{bytes} B"), |(number, _, name)| format!("{number} {name}"))
}

/// Returns the largest unit up to GiB of which `bytes` is at least one: its size in bytes, and its name.
#[must_use]
pub fn unit_of(bytes: f64) -> (f64, &'static str) {
    let units = UNITS.into_iter().skip(1).map(|(shift, _, name)| ((1u64 << shift) as f64, name));
    units.into_iter().find(|(in_it, _)| bytes.abs() >= *in_it).unwrap_or((1.0, "B"))
}

/// Formats a size for a sentence with at most one decimal: `48 KiB`, `1.5 MiB`, `100 B`. `bytes` is not negative.
#[must_use]
pub fn size(bytes: f64) -> String {
    let (in_it, name) = unit_of(bytes);
    let value = bytes / in_it;
    // The nearest whole number; `f64::round` needs the standard library.
    let nearest = (value + 0.5) as u64 as f64;
    let digits = if value >= 100.0 || (value - nearest).abs() < 0.005 { 0 } else { 1 };
    format!("{value:.digits$} {name}")
}

/// Error of [`parse`]. A unit is quoted from the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotASize<'a> {
    /// The text does not begin with a digit, or has too many digits.
    Number,
    /// The number has a fraction: sizes are whole numbers of a unit.
    Fraction,
    /// A unit that is decimal in some contexts and binary in others, such as kB.
    Ambiguous {
        /// The unit.
        unit: &'a str,
    },
    /// Not a unit of size.
    Unit {
        /// The unit.
        unit: &'a str,
    },
    /// More bytes than 64 bits can count.
    TooLarge,
}

/// Parses a size in bytes: a whole number with K, M, G or T (upper or lower case), with KiB, MiB, GiB or TiB, with B,
/// or without a unit. Blanks are allowed before the unit and around the text.
///
/// # Errors
/// [`NotASize`] for any other text, and for more bytes than 64 bits can count.
pub fn parse(text: &str) -> Result<u64, NotASize<'_>> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim();
    if number.is_empty() {
        return Err(NotASize::Number);
    }
    let named =
        |letter: &str, name: &str| unit.eq_ignore_ascii_case(letter) || unit.eq_ignore_ascii_case(name);
    let shift = match UNITS.into_iter().find(|(_, letter, name)| named(letter, name)) {
        Some((shift, ..)) => shift,
        None if matches!(unit, "" | "B") => 0,
        None if unit.starts_with('.') => return Err(NotASize::Fraction),
        None if is_decimal(unit) => return Err(NotASize::Ambiguous { unit }),
        None => return Err(NotASize::Unit { unit }),
    };
    let number: u64 = number.parse().map_err(|_| NotASize::Number)?;
    number.checked_mul(1 << shift).ok_or(NotASize::TooLarge)
}

/// Returns whether the unit is kB, MB, GB or TB, in any case.
fn is_decimal(unit: &str) -> bool {
    let mut letters = unit.chars().map(|c| c.to_ascii_uppercase());
    letters.next().is_some_and(|c| "KMGT".contains(c))
        && letters.next() == Some('B')
        && letters.next().is_none()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_written_in_the_largest_unit_that_divides_them() {
        for (bytes, short, long) in [
            (0, "0", "0 B"),
            (100, "100", "100 B"),
            (1 << 10, "1K", "1 KiB"),
            (1536, "1536", "1536 B"),
            (48 << 10, "48K", "48 KiB"),
            (3 << 20, "3M", "3 MiB"),
            (5 << 30, "5G", "5 GiB"),
            (7 << 40, "7T", "7 TiB"),
            (1 << 60, "1048576T", "1048576 TiB"),
        ] {
            assert_eq!((compact(bytes).as_str(), exact(bytes).as_str()), (short, long));
        }
    }

    #[test]
    fn rounded_sizes_have_at_most_one_digit_after_the_point() {
        for (bytes, text) in [
            (0.0, "0 B"),
            (64.0, "64 B"),
            (1023.0, "1023 B"),
            (49152.0, "48 KiB"),
            (1.5 * 1048576.0, "1.5 MiB"),
            (1.999 * 1048576.0, "2 MiB"),
            (1.03 * 1024.0, "1.0 KiB"),
            (123.4 * 1024.0, "123 KiB"),
            (2.5 * 1073741824.0, "2.5 GiB"),
            (5.0 * 1099511627776.0, "5120 GiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn sizes_are_binary() {
        for (text, bytes) in [
            ("512", 512),
            ("512B", 512),
            ("512 B", 512),
            (" 8K ", 8192),
            ("8k", 8192),
            ("8KiB", 8192),
            ("8 kib", 8192),
            ("2g", 2 << 30),
            ("64MiB", 64 << 20),
            ("1T", 1 << 40),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text:?}");
        }
    }

    #[test]
    fn invalid_size_is_refused_with_reason() {
        use NotASize::{Ambiguous, Fraction, Number, TooLarge, Unit};
        for (text, why) in [
            ("", Number),
            ("K", Number),
            ("-1", Number),
            ("+1", Number),
            (".5M", Number),
            ("99999999999999999999999", Number),
            ("1.5M", Fraction),
            ("8KB", Ambiguous { unit: "KB" }),
            ("8kB", Ambiguous { unit: "kB" }),
            ("8 mb", Ambiguous { unit: "mb" }),
            ("8b", Unit { unit: "b" }),
            ("8KiBs", Unit { unit: "KiBs" }),
            ("8P", Unit { unit: "P" }),
            ("8K 8", Unit { unit: "K 8" }),
            ("18446744073709551616K", Number),
            ("18014398509481984K", TooLarge),
        ] {
            assert_eq!(parse(text), Err(why), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn exact_size_text_reads_back(number in any::<u64>(), shift in 0u32..50) {
            let bytes = number >> shift << (shift % 41);
            let (short, long) = (compact(bytes), exact(bytes));
            prop_assert_eq!(parse(&short), Ok(bytes));
            prop_assert_eq!(parse(&long), Ok(bytes));
        }

        #[test]
        fn parsing_never_panics(text in "\\PC*") {
            let _ = parse(&text);
        }
    }
}
