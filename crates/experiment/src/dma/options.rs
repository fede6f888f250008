//! Options of `fathom dma`.

use fathom_probe::machine::dma::{
    self as transfer, Direction, DriverBug, Engine, Maintenance, POLLUTION_SET as POLLUTION_SETS, Strategy,
};

use crate::options::{LIST, Many, Opt, Values, number_and_unit, size, substitute, tokens, within};
use crate::record::Record;

/// `--strategy`: buffer strategies to measure.
pub static STRATEGY: Opt = Opt {
    name: "strategy",
    value: "STRATEGY",
    help: "Strategies, separated by commas",
    default: "all five",
    many: Many::List(LIST),
    values: Values::Word(|| tokens(Strategy::ALL, Strategy::token)),
    requires: None,
};

/// `--direction`: directions of transfers.
pub static DIRECTION: Opt = Opt {
    name: "direction",
    value: "DIRECTION",
    help: "Direction of transfers",
    default: "both",
    many: Many::List(LIST),
    values: Values::Word(|| tokens(Direction::ALL, Direction::token)),
    requires: None,
};

/// `--bytes`: sizes of transfers, bytes.
pub static BYTES: Opt = Opt {
    name: "bytes",
    value: "SIZES",
    help: "Sizes of transfers, separated by commas: bytes or K, M (binary), from 8 to 1M",
    default: "64 to 1M, and sizes near each crossover of two strategies",
    many: Many::List(LIST),
    values: Values::Number {
        read: size,
        check: |bytes| within(bytes, &transfer::BYTES, "from 8 bytes to 1M"),
    },
    requires: None,
};

/// `--link`: rate of the link for which CPU utilisation is reported.
pub static LINK: Opt = Opt {
    name: "link",
    value: "RATE",
    help: "Link rate for which CPU utilisation is reported, per second, decimal: bit, kbit, Mbit, Gbit, or B, kB, MB, GB, \
           as in 18.67Mbit",
    default: "the rate of the engine",
    many: Many::One,
    values: Values::Text(|text| link(text).map(|bits| format!("{bits}bit"))),
    requires: None,
};

/// `--pollution-set`: working set that is walked before and after each transfer, bytes.
pub static POLLUTION_SET: Opt = Opt {
    name: "pollution-set",
    value: "SIZE",
    help: "Working set that is walked before and after each transfer to measure cache pollution: a multiple of 64 bytes \
           from 4K on, or 0 for none",
    default: "32K",
    many: Many::One,
    values: Values::Number { read: size, check: pollution_set },
    requires: None,
};

/// `--engine`: DMA engine.
pub static ENGINE: Opt = Opt {
    name: "engine",
    value: "ENGINE",
    help: "DMA engine; none measures maintenance and copies only",
    default: "that of the machine",
    many: Many::One,
    values: Values::Word(|| tokens(Engine::ALL, Engine::token)),
    requires: None,
};

/// `--maintenance`: cache maintenance of buffers on a described machine.
pub static MAINTENANCE: Opt = Opt {
    name: "maintenance",
    value: "MAINTENANCE",
    help: "Override cache maintenance on a described machine: at map; at map and unmap; clean at map and invalidate at \
           unmap; or the whole cache at map and unmap",
    default: "",
    many: Many::One,
    values: Values::Word(|| tokens(Maintenance::ALL, Maintenance::token)),
    requires: None,
};

/// `--driver-bug`: bug of a described driver.
pub static DRIVER_BUG: Opt = Opt {
    name: "driver-bug",
    value: "BUG",
    help: "Bug of a described driver, to observe its effect on the data",
    default: "",
    many: Many::One,
    values: Values::Word(|| tokens(DriverBug::ALL, DriverBug::token)),
    requires: None,
};

/// `--substitute`: flushes in place of the kernel's maintenance.
pub static SUBSTITUTE: Opt = substitute::option(
    "Replace the kernel's maintenance where the driver is absent: flush cleans and invalidates each line from user space",
);

/// All options, in the order of help.
pub static ALL: &[&Opt] =
    &[&STRATEGY, &DIRECTION, &BYTES, &LINK, &POLLUTION_SET, &ENGINE, &MAINTENANCE, &DRIVER_BUG, &SUBSTITUTE];

/// Parses the rate of a link, `18.67Mbit`, `1Gbit` or `24MB`. Returns bits per second.
fn link(text: &str) -> Result<u64, String> {
    let (value, unit) = number_and_unit(text, "a rate such as 18.67Mbit, 24MB")?;
    let (letter, unit) = if let Some(letter) = unit.strip_suffix("bit") {
        (letter, 1.0)
    } else if let Some(letter) = unit.strip_suffix('B') {
        (letter, 8.0)
    } else {
        return Err(format!("unknown unit '{unit}': use bit or B, with k, M or G, as in 18.67Mbit, 24MB"));
    };
    let factor = match letter {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        other => return Err(format!("unknown prefix '{other}': use k, M or G (decimal)")),
    };
    let bits = (value * factor * unit).round() as u64;
    within(bits, &(1_000..=10_000_000_000_000), "from 1kbit to 10000Gbit").map(|()| bits)
}

/// Checks the size of a pollution set; 0 for none.
fn pollution_set(bytes: u64) -> Result<(), String> {
    if bytes == 0 || POLLUTION_SETS.contains(&bytes) && bytes.is_multiple_of(64) {
        Ok(())
    } else {
        Err("must be 0 or multiples of 64 from 4K to 1G".to_owned())
    }
}

/// Options of a record.
pub(super) struct Options {
    /// Strategies; empty for all.
    pub strategies: Vec<Strategy>,
    /// Directions; empty for both.
    pub directions: Vec<Direction>,
    /// Sizes of transfers, bytes; empty for the default.
    pub bytes: Vec<u64>,
    /// Rate of the link for which CPU utilisation is reported, bits per second; that of the engine if `None`.
    pub link_bits: Option<u64>,
    /// Size of the pollution set, bytes, 0 for none; default if `None`.
    pub pollution_set: Option<u64>,
    /// DMA engine; that of the machine if `None`.
    pub engine: Option<Engine>,
    /// Cache maintenance of the described kernel; that of the description if `None`.
    pub maintenance: Option<Maintenance>,
    /// Bug of the described driver, if any.
    pub driver_bug: Option<DriverBug>,
    /// Whether flushes replace the kernel's maintenance.
    pub flush: bool,
}

impl Options {
    pub(super) fn of(record: &Record) -> Options {
        let asked = record.asked();
        Options {
            strategies: asked.values(&STRATEGY, Strategy::from_token),
            directions: asked.values(&DIRECTION, Direction::from_token),
            bytes: asked.numbers(&BYTES),
            link_bits: asked.value(&LINK, |text| link(text).ok()),
            pollution_set: asked.number(&POLLUTION_SET),
            engine: asked.value(&ENGINE, Engine::from_token),
            maintenance: asked.value(&MAINTENANCE, Maintenance::from_token),
            driver_bug: asked.value(&DRIVER_BUG, DriverBug::from_token),
            flush: asked.has(&SUBSTITUTE),
        }
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
        assert_eq!(LINK.values.read("18.67Mbit"), Ok("18670000bit".to_owned()));
        for bad in ["", "18", "Mbit", "18mbit", "18MiB", "1bit", "99999Gbit", "nanMbit", "1TB"] {
            assert!(link(bad).is_err(), "{bad}");
        }
    }
}
