//! Quantities with units: sizes, times, frequencies, rates; parsed and written.

use std::fmt;

use fathom_units::NotASize;

/// A duration in a description: a number of core cycles plus a number of nanoseconds, because some costs scale with the
/// core's clock and some do not.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Time {
    /// Core cycles.
    pub cycles: f64,
    /// Additional nanoseconds.
    pub ns: f64,
}

impl Time {
    /// A duration of zero.
    pub const ZERO: Time = Time { cycles: 0.0, ns: 0.0 };

    /// Returns a duration in core cycles.
    #[must_use]
    pub fn cycles(cycles: f64) -> Time {
        Time { cycles, ns: 0.0 }
    }

    /// Returns a duration in nanoseconds.
    #[must_use]
    pub fn ns(ns: f64) -> Time {
        Time { cycles: 0.0, ns }
    }

    /// Returns the total in nanoseconds, for a core of `hz`.
    #[must_use]
    pub fn in_ns(self, hz: f64) -> f64 {
        self.ns + self.cycles * 1e9 / hz
    }

    /// Returns the total in cycles of a core of `hz`.
    #[must_use]
    pub fn in_cycles(self, hz: f64) -> f64 {
        self.cycles + self.ns * hz / 1e9
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.cycles != 0.0, self.ns != 0.0) {
            (true, true) => write!(f, "{} cycles + {} ns", self.cycles, self.ns),
            (false, true) => write!(f, "{} ns", self.ns),
            _ => write!(f, "{} cycles", self.cycles),
        }
    }
}

/// A quantity that cannot be parsed: the problem, and a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QuantityError {
    pub message: String,
    pub help: String,
}

fn quantity_error(message: impl Into<String>, help: impl Into<String>) -> QuantityError {
    QuantityError { message: message.into(), help: help.into() }
}

/// Splits `"1.5 GHz"` into its number and its unit.
fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    // The number has only digits and points here, so it is never inf or NaN, except with hundreds of digits.
    let number: f64 = number.parse().ok()?;
    number.is_finite().then_some((number, unit.trim()))
}

const SIZE_HELP: &str = "a size is an integer with K, M, G or T, all binary: \"32K\" is 32768 bytes";

/// Parses a size: `"64"`, `"32K"`, `"2MiB"`; binary multiples, whole bytes.
pub(super) fn size(text: &str) -> Result<u64, QuantityError> {
    let text = text.trim();
    let error = match fathom_units::parse(text) {
        // Lower case is accepted on the command line. In a file it is ambiguous: the SI's k is 1000.
        Ok(_) if text.ends_with(['k', 'm', 'g', 't']) => {
            NotASize::Ambiguous { unit: &text[text.len() - 1..] }
        }
        Ok(bytes) => return Ok(bytes),
        Err(error) => error,
    };
    Err(match error {
        NotASize::Ambiguous { unit } => {
            let number = text.strip_suffix(unit).unwrap_or_default().trim_end();
            let letter = unit[..1].to_uppercase();
            let help = format!("sizes here are binary: write \"{number}{letter}\" if that is meant");
            quantity_error(format!("`{unit}` may be decimal or binary"), help)
        }
        NotASize::Unit { unit } => quantity_error(format!("`{unit}` is not a unit of size"), SIZE_HELP),
        NotASize::Fraction => quantity_error("a size is a whole number", SIZE_HELP),
        NotASize::Number => quantity_error("not a size", SIZE_HELP),
        NotASize::TooLarge => quantity_error("more bytes than 64 bits can count", SIZE_HELP),
    })
}

const TIME_HELP: &str = "a time is \"3 cycles\", \"130 ns\" or a sum: \"21 cycles + 110 ns\"";

/// Parses a time: `"3 cycles"`, `"130 ns"`, `"21 cycles + 110 ns"`.
pub(super) fn time(text: &str) -> Result<Time, QuantityError> {
    let mut sum = Time::ZERO;
    for term in text.split('+') {
        let (number, unit) = number_and_unit(term)
            .ok_or_else(|| quantity_error(format!("`{}` is not a time", term.trim()), TIME_HELP))?;
        match unit {
            "cycles" | "cycle" => sum.cycles += number,
            "ns" => sum.ns += number,
            "us" => {
                return Err(quantity_error(
                    "times are in cycles or ns",
                    format!("write \"{} ns\"", number * 1e3),
                ));
            }
            "ms" => {
                return Err(quantity_error(
                    "times are in cycles or ns",
                    format!("write \"{} ns\"", number * 1e6),
                ));
            }
            "" => return Err(quantity_error("a time without its unit", TIME_HELP)),
            _ => return Err(quantity_error(format!("`{unit}` is not a unit of time"), TIME_HELP)),
        }
    }
    Ok(sum)
}

const DURATION_HELP: &str = "a duration is \"250 us\", \"1.5 ms\" or \"10 s\"";
const DURATION_UNITS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// Parses a duration: `"1 ms"`, `"2.5 s"`. Returns whole ns.
pub(super) fn duration(text: &str) -> Result<u64, QuantityError> {
    let (number, unit) =
        number_and_unit(text).ok_or_else(|| quantity_error("not a duration", DURATION_HELP))?;
    let Some((_, scale)) = DURATION_UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(quantity_error(format!("`{unit}` is not a unit of a duration"), DURATION_HELP));
    };
    // The conversion saturates; the checks refuse what is too long.
    Ok((number * *scale as f64).round() as u64)
}

/// Returns a duration in its largest unit that gives a whole number.
pub(super) fn show_duration(ns: u64) -> String {
    let whole = DURATION_UNITS.iter().find(|(_, scale)| ns.is_multiple_of(*scale) && ns > 0);
    let (unit, scale) = whole.unwrap_or(&DURATION_UNITS[3]);
    format!("{} {unit}", ns / scale)
}

const RATE_HELP: &str = "a rate is decimal: \"24 MB/s\", \"1.25 GB/s\", \"500 kB/s\"";
const RATE_UNITS: [(&str, f64); 4] = [("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3), ("B/s", 1.0)];

/// Parses a rate in bytes per second.
pub(super) fn rate(text: &str) -> Result<f64, QuantityError> {
    let (number, unit) = number_and_unit(text).ok_or_else(|| quantity_error("not a rate", RATE_HELP))?;
    match RATE_UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, scale)) => Ok(number * scale),
        None => Err(quantity_error(format!("`{unit}` is not a unit of bytes per second"), RATE_HELP)),
    }
}

/// Returns a rate in its largest unit that parses to the same number.
pub(super) fn show_rate(rate: f64) -> String {
    show_in(rate, &RATE_UNITS)
}

const HZ_HELP: &str = "a frequency is \"600 MHz\", \"1.5 GHz\", \"32.768 kHz\" or \"100 Hz\"";
const HZ_UNITS: [(&str, f64); 4] = [("GHz", 1e9), ("MHz", 1e6), ("kHz", 1e3), ("Hz", 1.0)];

/// Parses a frequency in Hz.
pub(super) fn hz(text: &str) -> Result<f64, QuantityError> {
    let (number, unit) = number_and_unit(text).ok_or_else(|| quantity_error("not a frequency", HZ_HELP))?;
    if unit.is_empty() {
        return Err(quantity_error("a frequency without its unit", HZ_HELP));
    }
    match HZ_UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, scale)) => Ok(number * scale),
        None => match HZ_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) {
            Some((name, _)) => {
                Err(quantity_error(format!("`{unit}` is not a unit"), format!("write \"{number} {name}\"")))
            }
            None => Err(quantity_error(format!("`{unit}` is not a unit of frequency"), HZ_HELP)),
        },
    }
}

/// Returns a frequency in its largest unit that parses to the same number.
pub(super) fn show_hz(hz: f64) -> String {
    show_in(hz, &HZ_UNITS)
}

/// Returns a quantity in the first of its units, largest first, that parses to the same number.
fn show_in(quantity: f64, units: &[(&str, f64); 4]) -> String {
    for (unit, scale) in units {
        let number = quantity / scale;
        if number >= 1.0 && number * scale == quantity && format!("{number}").len() < 12 {
            return format!("{number} {unit}");
        }
    }
    format!("{quantity} {}", units[3].0)
}
