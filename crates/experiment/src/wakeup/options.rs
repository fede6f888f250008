//! Options of `fathom wakeup`.

use fathom_probe::load::{BlockMode, Load};

use super::named::{LOADS, NAMED};
use crate::options::{LIST, Many, Opt, Values, Word, number, number_and_unit, size, within};
use crate::record::Record;

/// `--conditions`: loads and cache states to measure under.
pub static CONDITIONS: Opt = Opt {
    name: "conditions",
    value: "CONDITIONS",
    help: "Loads and cache states under which activations are measured, separated by commas. A described machine cannot \
           run loads yet and refuses them by name: it has unloaded, warm, flushed and evicted",
    default: "unloaded, stress-mix, stress-mix-vm, each pure factor, cold caches, and a \
              randomised design over the factors",
    many: Many::List(NAMED.len()),
    values: Values::Word(|| {
        NAMED.iter().map(|c| Word { token: c.token, aliases: &[], help: c.about }).collect()
    }),
    requires: None,
};

/// `--load`: user-defined loads.
pub static LOAD: Opt = Opt {
    name: "load",
    value: "LOAD",
    help: "Another load: stressors as KIND*WORKERS:BYTES:STRIDE:free|keep|holdN, separated by blanks, as in 'cpu*2 \
           vm*2:64M:4K:free'. Kinds: cpu io disk vm malloc read write copy chase pages fault unmap. May be given several \
           times",
    default: "",
    many: Many::Repeated(LOADS),
    values: Values::Text(load),
    requires: None,
};

/// `--like-stress`: whether memory workers allocate as `stress` does.
pub static LIKE_STRESS: Opt = Opt::switch(
    "like-stress",
    "Memory workers allocate as `stress` does with glibc: blocks below 32 MiB are mapped once and then kept",
);

/// `--sweep`: whether to sweep sizes, strides and modes of memory workers instead of measuring conditions.
pub static SWEEP: Opt = Opt::switch(
    "sweep",
    "Measure every combination of size, stride and mode of two memory workers: a pilot round, then repeats where they \
     are most informative, then sizes near each change. Takes minutes: --budget 10m",
);

/// `--bytes`: sizes of the sweep, bytes.
pub static BYTES: Opt = Opt {
    name: "bytes",
    value: "SIZES",
    help: "Sizes of the sweep, separated by commas",
    default: "1M to 256M, doubling",
    many: Many::List(LIST),
    values: Values::Number {
        read: size,
        check: |bytes| within(bytes, &(4096..=1 << 40), "from 4K to 1024G"),
    },
    requires: Some(SWEEP.name),
};

/// `--strides`: strides of the sweep, bytes.
pub static STRIDES: Opt = Opt {
    name: "strides",
    value: "STRIDES",
    help: "Strides of the sweep, bytes from write to write",
    default: "4096",
    many: Many::List(LIST),
    values: Values::Number { read: size, check: |bytes| within(bytes, &(1..=4096), "from 1 to 4K") },
    requires: Some(SWEEP.name),
};

/// `--modes`: treatment of a block after each pass of the sweep.
pub static MODES: Opt = Opt {
    name: "modes",
    value: "MODES",
    help: "Treatment of a block after each pass: free, keep, or holdN (free it N seconds later)",
    default: "free,keep,hold2",
    many: Many::List(16),
    values: Values::Text(mode),
    requires: Some(SWEEP.name),
};

/// `--period`: period of the task.
pub static PERIOD: Opt = Opt {
    name: "period",
    value: "TIME",
    help: "Period of the task, from 10us to 250ms",
    default: "1ms",
    many: Many::One,
    values: Values::Text(|text| period_us(text).map(|us| format!("{us}us"))),
    requires: None,
};

/// `--priority`: real-time priority of the task.
pub static PRIORITY: Opt = Opt {
    name: "priority",
    value: "N",
    help: "Real-time priority of the task (SCHED_FIFO); 0 for SCHED_OTHER",
    default: "80",
    many: Many::One,
    values: Values::Number { read: number, check: |priority| within(priority, &(0..=99), "from 0 to 99") },
    requires: None,
};

/// `--no-trace`: whether to measure without tracepoints.
pub static NO_TRACE: Opt = Opt::switch(
    "no-trace",
    "Do not use the kernel's tracepoints: only the wake-up latency of the task is measured, not its stages",
);

/// All options, in the order of help.
pub static ALL: &[&Opt] =
    &[&CONDITIONS, &LOAD, &LIKE_STRESS, &SWEEP, &BYTES, &STRIDES, &MODES, &PERIOD, &PRIORITY, &NO_TRACE];

/// Returns a load in the notation of the wire format.
fn load(text: &str) -> Result<String, String> {
    let load = Load::parse(text)?;
    if load.is_none() {
        Err("an empty load: use --conditions unloaded".to_owned())
    } else {
        Ok(load.to_string())
    }
}

/// Parses the treatment of a block.
fn mode(text: &str) -> Result<String, String> {
    let mode = BlockMode::parse(text);
    mode.map(|mode| mode.to_string())
        .ok_or_else(|| format!("'{text}' is not free, keep or holdN (N seconds, from 1)"))
}

/// Parses a period, `100us`, `1ms` or `0.25s`, in whole microseconds. The maximum is such that a series of at least 150
/// activations ends well within the minute after which a silent probe is given up.
fn period_us(text: &str) -> Result<u64, String> {
    let (value, unit) = number_and_unit(text, "a time such as 100us, 1ms")?;
    let factor = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        unit => return Err(format!("unknown unit '{unit}': use us, ms or s, as in 100us, 1ms")),
    };
    let us = (value * factor).round() as u64;
    within(us, &(10..=250_000), "from 10us to 250ms").map(|()| us)
}

/// Options of a record.
#[derive(Default)]
pub(super) struct Options {
    /// Tokens of [`NAMED`]; empty for the default.
    pub conditions: Vec<String>,
    /// User-defined loads.
    pub loads: Vec<Load>,
    /// Whether memory workers allocate as `stress` does, in the study's load and in the sweep.
    pub like_stress: bool,
    /// Whether to sweep sizes, strides and modes instead of measuring conditions.
    pub sweep: bool,
    /// Sizes of the sweep, bytes; empty for the default.
    pub bytes: Vec<u64>,
    /// Strides of the sweep, bytes; empty for the default.
    pub strides: Vec<u64>,
    /// Treatments of a block in the sweep; empty for those of the study.
    pub modes: Vec<BlockMode>,
    /// Period, ns; default if `None`.
    pub period_ns: Option<u64>,
    /// Real-time priority, 0 for SCHED_OTHER; default if `None`.
    pub priority: Option<u64>,
    /// Whether to measure without tracepoints.
    pub untraced: bool,
}

impl Options {
    pub(super) fn of(record: &Record) -> Options {
        let asked = record.asked();
        Options {
            conditions: asked.values(&CONDITIONS, |word| Some(word.to_owned())),
            loads: asked.values(&LOAD, |text| Load::parse(text).ok()),
            like_stress: asked.has(&LIKE_STRESS),
            sweep: asked.has(&SWEEP),
            bytes: asked.numbers(&BYTES),
            strides: asked.numbers(&STRIDES),
            modes: asked.values(&MODES, BlockMode::parse),
            period_ns: asked.value(&PERIOD, |text| period_us(text).ok()).map(|us| us * 1000),
            priority: asked.number(&PRIORITY),
            untraced: asked.has(&NO_TRACE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_whole_microseconds() {
        for (text, canonical) in
            [("100us", "100us"), ("1ms", "1000us"), ("0.25s", "250000us"), ("10.4us", "10us")]
        {
            assert_eq!(PERIOD.values.read(text), Ok(canonical.to_owned()));
        }
        for bad in ["", "100", "5us", "1s", "-1ms", "nanus", "1m"] {
            assert!(PERIOD.values.read(bad).is_err(), "{bad}");
        }
    }
}
