//! Values of options: sizes, times, shares, steps and words, each with an error that says how it is written.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use fathom_experiment::dma;
use fathom_experiment::latency::ladder::Ladder;
use fathom_experiment::wakeup::conditions::NAMED;
use fathom_probe::load::{BlockMode, Load};
use fathom_probe::machine::dma::{self as transfer, Direction, Engine, Maintenance, Mistake, Strategy};
use fathom_probe::machine::{Attribute, Operation};

/// `3s`, `500ms`, `2m` or plain seconds, in ms.
pub(super) fn budget(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "ms" => 1.0,
        "s" | "" => 1000.0,
        "m" | "min" => 60_000.0,
        unit => return Err(format!("unknown unit '{unit}': use ms, s or m, as in 500ms, 3s, 2m")),
    };
    let value: f64 = digits.parse().map_err(|_| "expected a time such as 500ms, 3s, 2m".to_owned())?;
    let ms = value * factor;
    if (100.0..=3_600_000.0).contains(&ms) {
        Ok(ms as u64)
    } else {
        Err("must be from 100ms to 60m".to_owned())
    }
}

/// Bytes: a number with K, M, G, T or KiB, MiB, GiB, TiB (all binary), or plain.
pub(super) fn size(text: &str) -> Result<u64, String> {
    fathom_units::parse(text)
        .map_err(|_| format!("'{text}' is no size: use bytes or K, M, G (binary), as in 8192, 8K, 64MiB"))
}

/// `5%` or `5`, as a share.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(v) if (0.0..=1e6).contains(&v) => Ok(v / 100.0),
        _ => Err(format!("'{text}' is no share: use percent, as in 5%")),
    }
}

/// A working set: at least two cells of a chain, and no more than the wire takes.
pub(super) fn working_set(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if (128..=1 << 40).contains(&bytes) {
        Ok(bytes)
    } else {
        Err("must be from 128 bytes to 1024G".to_owned())
    }
}

/// A step: one that the wire takes.
pub(super) fn access_stride(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if (8..=1 << 20).contains(&bytes) && bytes.is_power_of_two() {
        Ok(bytes)
    } else {
        Err("must be a power of two from 8 bytes to 1M".to_owned())
    }
}

/// `100us`, `1ms` or `1s`, in ns.
pub(super) fn period(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        unit => return Err(format!("unknown unit '{unit}': use us, ms or s, as in 100us, 1ms")),
    };
    let value: f64 = digits.parse().map_err(|_| "expected a time such as 100us, 1ms".to_owned())?;
    // Whole microseconds, as the record's command line says them again. A series has 150 activations at least, and must
    // end well within the minute after which a silent probe is given up.
    let us = (value * factor / 1e3).round();
    if (10.0..=250e3).contains(&us) {
        Ok(us as u64 * 1000)
    } else {
        Err("must be from 10us to 250ms".to_owned())
    }
}

/// What a memory worker allocates.
pub(super) fn block(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if (4096..=1 << 40).contains(&bytes) { Ok(bytes) } else { Err("must be from 4K to 1024G".to_owned()) }
}

/// Bytes from write to write.
pub(super) fn stride(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if (1..=4096).contains(&bytes) { Ok(bytes) } else { Err("must be from 1 to 4K".to_owned()) }
}

/// A load in the wire's notation.
pub(super) fn load(text: &str) -> Result<Load, String> {
    let load = Load::parse(text)?;
    if load.is_none() { Err("a load of no stressor is the condition none".to_owned()) } else { Ok(load) }
}

/// What becomes of a block.
pub(super) fn mode(text: &str) -> Result<BlockMode, String> {
    BlockMode::parse(text)
        .ok_or_else(|| format!("'{text}' is none of free, keep and hangN (N seconds, from 1)"))
}

/// A word of a condition.
pub(super) fn condition() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(NAMED.iter().map(|c| PossibleValue::new(c.token).help(c.about)))
}

/// A buffer of pairs of words.
pub(super) fn buffer(text: &str) -> Result<u64, String> {
    let bytes = working_set(text)?;
    if bytes.is_multiple_of(16) { Ok(bytes) } else { Err("must be a multiple of 16 bytes".to_owned()) }
}

/// One of all operations.
pub(super) fn any_operation() -> impl TypedValueParser<Value = Operation> {
    PossibleValuesParser::new(Operation::ALL.iter().map(|o| o.token()))
        .map(|word| Operation::from_token(&word).unwrap_or_default())
}

/// One of the attributes, or what it is called elsewhere.
pub(super) fn attribute() -> impl TypedValueParser<Value = Attribute> {
    let aliases = |a: Attribute| -> &[&str] {
        match a {
            Attribute::WriteBack => &["wb"],
            Attribute::WriteThrough => &["wt"],
            Attribute::NormalNc => &["nc", "wc", "writecombine"],
            Attribute::Device => &["uc", "noncached", "strongly-ordered"],
        }
    };
    let value = move |a: &Attribute| PossibleValue::new(a.token()).aliases(aliases(*a).iter().copied());
    PossibleValuesParser::new(Attribute::ALL.iter().map(value)).map(move |word| {
        let of = |a: &&Attribute| a.token() == word || aliases(**a).contains(&word.as_str());
        Attribute::ALL.iter().find(of).copied().unwrap_or_default()
    })
}

/// One of the operations of a sweep.
pub(super) fn operation() -> impl TypedValueParser<Value = Operation> {
    // What the parser before lets through has its operation; the first one stands in for none.
    PossibleValuesParser::new(Operation::STRIDES.iter().map(|o| o.token()))
        .map(|word| Operation::from_token(&word).unwrap_or_default())
}

/// One of the ladders of the latency experiment.
pub(super) fn ladder() -> impl TypedValueParser<Value = Ladder> {
    PossibleValuesParser::new(Ladder::ALL.map(Ladder::token))
        .map(|word| Ladder::from_token(&word).unwrap_or(Ladder::Order))
}

/// A parser of an enumeration's tokens.
macro_rules! tokens {
    ($($(#[$doc:meta])* $name:ident = $of:ident or $first:ident,)*) => {
        $($(#[$doc])*
        pub(super) fn $name() -> impl TypedValueParser<Value = $of> {
            // What the parser before lets through has its value; the first one stands in for none.
            PossibleValuesParser::new($of::ALL.iter().map(|v| v.token()))
                .map(|word| $of::from_token(&word).unwrap_or($of::$first))
        })*
    };
}

tokens! {
    /// One of the ways to a device.
    strategy = Strategy or StreamingCopy,
    /// One of two directions.
    direction = Direction or ToDevice,
    /// What moves data.
    engine = Engine or Nothing,
    /// How a kernel maintains buffers.
    maintenance = Maintenance or Map,
    /// What a driver does wrong.
    mistake = Mistake or Nothing,
}

/// Bytes of a transfer.
pub(super) fn transfer(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if transfer::BYTES.contains(&bytes) { Ok(bytes) } else { Err("must be from 8 bytes to 1M".to_owned()) }
}

/// A victim's working set, or none.
pub(super) fn victim(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    let is_one = transfer::VICTIM.contains(&bytes) && bytes.is_multiple_of(64);
    if bytes == 0 || is_one {
        Ok(bytes)
    } else {
        Err("must be 0 or multiples of 64 from 4K to 1G".to_owned())
    }
}

/// `18.67Mbit`, `1Gbit`, `24MB`, in bits a second.
pub(super) fn link(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (letter, unit) = match &text[digits.len()..] {
        unit if unit.ends_with("bit") => (&unit[..unit.len() - 3], 1.0),
        unit if unit.ends_with('B') => (&unit[..unit.len() - 1], 8.0),
        unit => {
            return Err(format!(
                "unknown unit '{unit}': use bit or B, with k, M or G, as in 18.67Mbit, 24MB"
            ));
        }
    };
    let factor = match letter {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        other => return Err(format!("unknown prefix '{other}': use k, M or G (decimal)")),
    };
    let value: f64 = digits.parse().map_err(|_| "expected a rate such as 18.67Mbit, 24MB".to_owned())?;
    let bits = (value * factor * unit).round();
    let (least, most) = (*dma::options::LINK.start(), *dma::options::LINK.end());
    if (least as f64..=most as f64).contains(&bits) {
        Ok(bits as u64)
    } else {
        Err("must be from 1kbit to 10000Gbit".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_decimal_bits_or_bytes() {
        assert_eq!(link("18.67Mbit"), Ok(18_670_000));
        assert_eq!(link("24MB"), Ok(192_000_000));
        assert_eq!(link("18670000bit"), Ok(18_670_000));
        for bad in ["", "18", "Mbit", "18mbit", "18MiB", "1bit", "99999Gbit", "nanMbit", "1TB"] {
            assert!(link(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_binary_and_errors_say_how() {
        assert_eq!(size("8K"), Ok(8192));
        assert_eq!(size("8KiB"), Ok(8192));
        assert_eq!(size("512"), Ok(512));
        assert_eq!(size("2g"), Ok(2 << 30));
        for bad in ["", "K", "8KB", "-1", "1.5M", "99999999999G"] {
            assert!(size(bad).unwrap_err().contains("8K"), "{bad}");
        }
    }

    #[test]
    fn budgets_have_units_and_bounds() {
        assert_eq!(budget("3s"), Ok(3000));
        assert_eq!(budget("0.5s"), Ok(500));
        assert_eq!(budget("2m"), Ok(120_000));
        assert_eq!(budget("10"), Ok(10_000));
        for bad in ["", "s", "3h", "1ms", "2000m", "-3s", "nan"] {
            assert!(budget(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn steps_are_powers_of_two() {
        assert_eq!(access_stride("8"), Ok(8));
        assert_eq!(access_stride("4K"), Ok(4096));
        for bad in ["4", "48", "2M", "0"] {
            assert!(access_stride(bad).unwrap_err().contains("power of two"), "{bad}");
        }
    }
}
