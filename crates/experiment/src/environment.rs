//! What the surroundings did while it was measured: from the facts of the start and of the end.
//!
//! A warning here is about the surroundings and not about the figures, which `disturbance` judges: a core clock
//! that moved between rounds is calibrated away, and is still worth knowing. Each remedy leaves out what the
//! user has done already.

use std::collections::BTreeMap;

use fathom_analysis::findings::Warning;
use fathom_analysis::interval::median;
use fathom_probe::pattern::PatternKind;
use fathom_units::facts::{self, Grant};

use crate::record::Record;

/// Change of the core clock between the rounds of a session from which on it is told. Boards that heat up and
/// servers whose neighbours wake move by more; a fixed clock's rounds agree to some tenths of a percent.
const MOVED: f64 = 0.02;
/// Shares of the session in which some task waited, from which on it is told: for a CPU, for memory, for input
/// and output. The measuring thread makes others wait on its own CPU; waiting for memory is reclaim, which takes
/// cache and TLB from everybody; a disk's waiting costs least.
const WAITED: [(&str, f64); 3] = [("cpu", 0.20), ("memory", 0.01), ("io", 0.20)];
/// Shortest session, ms, of which a share of time is told: below it a single tick is several percent.
const MIN_MS: u64 = 500;

/// The warnings.
pub(crate) fn judge(record: &Record) -> Vec<Warning> {
    [frequency(record), throttled(record)].into_iter().flatten().chain(pressure(record)).collect()
}

/// Has the probe real-time priority during trials?
pub(crate) fn has_priority(record: &Record) -> bool {
    record.text(facts::PRIVILEGE_FIFO).and_then(Grant::from_token) == Some(Grant::Granted)
}

/// What keeps the core clock still, of what has not been done yet.
pub(crate) fn clock_remedy(record: &Record) -> &'static str {
    let is = |name, word| record.text(name) == Some(word);
    match record.text(facts::FREQ_GOVERNOR) {
        Some("performance") if is(facts::FREQ_NO_TURBO, "0") => {
            "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"
        }
        Some("performance") if is(facts::FREQ_BOOST, "1") => {
            "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"
        }
        Some("performance") => {
            "the governor is 'performance' already: what is left is temperature, power or the firmware"
        }
        Some(_) => "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        None => {
            "nothing sets the clock from here (no cpufreq): in a guest its host does, on a board the firmware"
        }
    }
}

fn warning(token: &'static str, text: String, remedy: impl Into<String>) -> Warning {
    Warning { token, text, remedy: remedy.into() }
}

/// Did the core clock move between rounds? By the cycle calibration, which was there; the kernel's two readings are told
/// beside it, and alone prove nothing: the first may be of a core that was just woken.
fn frequency(record: &Record) -> Option<Warning> {
    let mut rounds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for run in record.of(PatternKind::Alu) {
        rounds.entry(run.trial.round).or_default().extend(run.ticks_per_op());
    }
    let each: Vec<f64> = rounds.values().filter_map(|ticks| median(ticks)).filter(|t| *t > 0.0).collect();
    let (low, high) = each.iter().fold((f64::INFINITY, 0.0f64), |(l, h), t| (l.min(*t), h.max(*t)));
    let change = high / low - 1.0;
    if change.is_nan() || change <= MOVED {
        return None;
    }
    let read = |name: &str| record.int(name).map(|khz| khz / 1000);
    let kernel = match (read(facts::FREQ_CUR_KHZ), read(&facts::after(facts::FREQ_CUR_KHZ))) {
        (Some(before), Some(after)) => {
            format!("; the kernel says {before} MHz before it and {after} MHz after it")
        }
        _ => String::new(),
    };
    let governor = record.text(facts::FREQ_GOVERNOR).map(|g| format!(" (governor {g})")).unwrap_or_default();
    let text = format!(
        "the core clock moved by {:.1} % between rounds{governor}{kernel}; each round's cycles are its own, \
         nanoseconds are those of a moving clock",
        100.0 * change
    );
    Some(warning("frequency", text, clock_remedy(record)))
}

/// The Raspberry Pi firmware's flags, as `vcgencmd get_throttled` documents them: now in bits 0 to 3, since the
/// start of the machine in bits 16 to 19.
const FLAGS: [(u32, &str, &str); 4] = [
    (0, "under-voltage", "a stronger power supply, a shorter cable"),
    (1, "a capped core clock", "a heat sink or a fan"),
    (2, "throttling", "a heat sink or a fan"),
    (3, "the soft temperature limit", "a heat sink or a fan"),
];

/// Did the machine slow itself down?
fn throttled(record: &Record) -> Option<Warning> {
    let mut seen = Vec::new();
    let mut remedies: Vec<&str> = Vec::new();
    for (name, what) in [("core_throttle_count", "core"), ("package_throttle_count", "package")] {
        let count = |prefix: &str| record.int(&format!("{prefix}.{name}"));
        if let (Some(before), Some(after)) = (count(facts::ENV), count(facts::ENV_AFTER))
            && after > before
        {
            seen.push(format!("the {what} was throttled for its temperature {} times", after - before));
            remedies.push("better cooling, or a rest before the next run");
        }
    }
    let flags = |name: &str| {
        let reported = record.text(name)?;
        u64::from_str_radix(reported.trim().trim_start_matches("0x"), 16).ok()
    };
    if let Some(after) = flags(&facts::after(facts::GET_THROTTLED)) {
        let before = flags(facts::GET_THROTTLED).unwrap_or(0);
        for (bit, what, remedy) in FLAGS {
            let (now, since) = (after >> bit & 1 == 1, (after & !before) >> (16 + bit) & 1 == 1);
            if now || since {
                seen.push(format!("the firmware tells of {what}"));
                remedies.push(remedy);
            }
        }
    }
    remedies.dedup();
    (!seen.is_empty()).then(|| warning("throttled", seen.join("; "), remedies.join("; ")))
}

/// Microseconds in which some task had waited since the machine started
/// (Linux Documentation/accounting/psi.rst).
fn waited_us(record: &Record, name: &str) -> Option<u64> {
    let some = record.text(name)?.split(';').find_map(|line| line.trim().strip_prefix("some "))?;
    some.split(' ').find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

/// Who waited while it was measured? Only of a session that says how long it took.
fn pressure(record: &Record) -> Vec<Warning> {
    let Some(ms) = record.end.as_ref().map(|e| e.elapsed_ms).filter(|ms| *ms >= MIN_MS) else {
        return Vec::new();
    };
    let share = |resource: &str| {
        let name = format!("{}.{resource}", facts::PRESSURE);
        let before = waited_us(record, &name)?;
        let after = waited_us(record, &facts::after(&name))?;
        Some(after.saturating_sub(before) as f64 / (ms as f64 * 1000.0))
    };
    let reported = |(resource, most): (&str, f64)| {
        let share = share(resource).filter(|share| *share > most)?.min(1.0);
        let what = match resource {
            "cpu" => "a CPU",
            "memory" => "memory (reclaim)",
            _ => "input and output",
        };
        let text = format!("some task waited for {what} in {:.0} % of the time", 100.0 * share);
        Some(warning("pressure", text, pressure_remedy(record, resource)))
    };
    WAITED.into_iter().filter_map(reported).collect()
}

fn pressure_remedy(record: &Record, resource: &str) -> &'static str {
    let isolated = record.text(facts::CPUS_ISOLATED).is_some_and(|list| !list.trim().is_empty());
    match resource {
        "cpu" if isolated => {
            "CPUs are isolated already; what runs on the others still shares caches and memory: stop it"
        }
        "cpu" => "stop other work: it shares caches and memory with the CPU that is measured",
        "memory" => "close what fills the memory, or raise the control group's limit",
        _ => "wait until the copying or indexing is over",
    }
}

#[cfg(test)]
mod tests;
