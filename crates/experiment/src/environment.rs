//! Changes of core clock, temperature, throttling and PSI between the facts at the start and at the end of a session.
//!
//! A warning here is about the environment, not about the findings, which `disturbance` judges: a core clock that
//! changes between rounds is calibrated away and still reported. Each remedy leaves out what the user has already done.

use std::collections::BTreeMap;

use fathom_analysis::findings::{Warning, WarningKind};
use fathom_analysis::interval::median;
use fathom_probe::pattern::PatternKind;
use fathom_units::facts::{self, Grant};

use crate::record::{Record, TrialRun};

/// Relative change of the core clock between rounds above which it is reported. Boards that heat up and servers with
/// active neighbours change by more; the rounds of a fixed clock agree to some tenths of a percent.
const CLOCK_CHANGE: f64 = 0.02;
/// Shares of the session in which some task waited, above which they are reported: for a CPU, memory, I/O. The
/// measuring thread makes others wait on its own CPU: kernel threads alone in 16 and 23 % of the time on an idle guest of
/// two CPUs. Waiting for memory is reclaim, which evicts cache and TLB entries of all tasks. Waiting for a disk disturbs
/// least.
const WAITED: [(&str, f64); 3] = [("cpu", 0.30), ("memory", 0.01), ("io", 0.20)];
/// Load average of the minute before the session above which other work is reported. A measurement that has just ended
/// leaves up to 1.
const MAX_LOAD_BEFORE: f64 = 1.5;
/// Shortest time without a load, ms, for which a share of time is reported: below it a single tick is several percent.
const MIN_MS: u64 = 500;

/// Returns the warnings.
pub(crate) fn judge(record: &Record) -> Vec<Warning> {
    [frequency(record), throttled(record)].into_iter().flatten().chain(pressure(record)).collect()
}

/// Returns what disturbed the session as a whole, one sentence each.
pub(crate) fn disturbances(record: &Record) -> Vec<String> {
    let warnings = judge(record).into_iter().map(|warning| warning.text);
    warnings.chain(load_before(record)).chain(other_measurements(record)).collect()
}

/// Reports the other CPUs on which a Fathom measured at the start or later in the session.
fn other_measurements(record: &Record) -> Option<String> {
    let now = |name: &str, when: &str| Some(format!("CPU {} {when}", record.text(name)?));
    let all: Vec<String> =
        [now(facts::MEASURED_CPUS, "at the start"), now(&facts::after(facts::MEASURED_CPUS), "during it")]
            .into_iter()
            .flatten()
            .collect();
    (!all.is_empty()).then(|| format!("another fathom measured on {}", all.join(", on ")))
}

/// Returns the CPUs that are one core with the measured one, as Linux lists them, if the core has several threads and they are in use.
pub(crate) fn threads_of_the_core(record: &Record) -> Option<&str> {
    let siblings = record.text(facts::CPU_SIBLINGS).filter(|list| list.contains([',', '-']))?;
    (record.text(facts::SMT) == Some("on")).then_some(siblings)
}

/// Reports the load average before the session. It shows what does not wait: a task on each other CPU.
fn load_before(record: &Record) -> Option<String> {
    let load: f64 = record.text(facts::LOADAVG)?.split(' ').next()?.parse().ok()?;
    (load > MAX_LOAD_BEFORE).then(|| format!("the load average was {load:.1} before the session"))
}

/// Returns whether other tasks waited for a CPU in so much of the time without a load that other work is proven.
pub(crate) fn others_waited(record: &Record) -> bool {
    WAITED.into_iter().any(|(resource, limit)| {
        resource == "cpu" && waited_share(record, resource).is_some_and(|share| share > limit)
    })
}

/// Returns whether the probe has real-time priority during trials.
pub(crate) fn has_priority(record: &Record) -> bool {
    record.text(facts::PRIVILEGE_FIFO).and_then(Grant::from_token) == Some(Grant::Granted)
}

/// Returns the remedy for a changing core clock: the first setting that has not been made yet.
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
            "the governor is 'performance' already; the remaining causes are temperature, power and firmware"
        }
        Some(_) => "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        None => {
            "this system has no cpufreq: the host (of a guest) or the firmware (of a board) controls the clock"
        }
    }
}

/// Warns if the core clock changed between rounds, by the cycle calibration. The kernel's two readings are reported
/// too, but prove nothing alone: the first may be of a core that was just woken.
fn frequency(record: &Record) -> Option<Warning> {
    let mut rounds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for run in record.of(PatternKind::Alu) {
        rounds.entry(run.trial.round).or_default().extend(run.ticks_per_op());
    }
    let each: Vec<f64> = rounds.values().filter_map(|ticks| median(ticks)).filter(|t| *t > 0.0).collect();
    let (low, high) = each.iter().fold((f64::INFINITY, 0.0f64), |(l, h), t| (l.min(*t), h.max(*t)));
    let change = high / low - 1.0;
    if change.is_nan() || change <= CLOCK_CHANGE {
        return None;
    }
    let read = |name: &str| record.int(name).map(|khz| khz / 1000);
    let kernel = match (read(facts::FREQ_CUR_KHZ), read(&facts::after(facts::FREQ_CUR_KHZ))) {
        (Some(before), Some(after)) => {
            format!("; the kernel reports {before} MHz before and {after} MHz after the session")
        }
        _ => String::new(),
    };
    let governor = record.text(facts::FREQ_GOVERNOR).map(|g| format!(" (governor {g})")).unwrap_or_default();
    let text = format!(
        "the core clock changed by {:.1} % between rounds{governor}{kernel}; cycles are calibrated per round, \
         nanoseconds are not corrected",
        100.0 * change
    );
    Some(Warning::new(WarningKind::Frequency, text, clock_remedy(record)))
}

/// The Raspberry Pi firmware's flags, as documented for `vcgencmd get_throttled`: current state in bits 0 to 3, since
/// boot in bits 16 to 19.
const FLAGS: [(u32, &str, &str); 4] = [
    (0, "under-voltage", "a stronger power supply, a shorter cable"),
    (1, "a capped core clock", "a heat sink or a fan"),
    (2, "throttling", "a heat sink or a fan"),
    (3, "the soft temperature limit", "a heat sink or a fan"),
];

/// Warns if the machine throttled itself.
fn throttled(record: &Record) -> Option<Warning> {
    let mut seen = Vec::new();
    let mut remedies: Vec<&str> = Vec::new();
    for (name, what) in [("core_throttle_count", "core"), ("package_throttle_count", "package")] {
        let count = |prefix: &str| record.int(&format!("{prefix}.{name}"));
        if let (Some(before), Some(after)) = (count(facts::ENV), count(facts::ENV_AFTER))
            && after > before
        {
            seen.push(format!(
                "the {what} was throttled {} times because of its temperature",
                after - before
            ));
            remedies.push("better cooling, or a pause before the next run");
        }
    }
    let flags = |name: &str| {
        let reported = record.text(name)?;
        u64::from_str_radix(reported.trim().trim_start_matches("0x"), 16).ok()
    };
    if let Some(after) = flags(&facts::after(facts::GET_THROTTLED)) {
        let before = flags(facts::GET_THROTTLED).unwrap_or(0);
        for (bit, what, remedy) in FLAGS {
            let (active, since_start) = (after >> bit & 1 == 1, (after & !before) >> (16 + bit) & 1 == 1);
            if active || since_start {
                seen.push(format!("the firmware reports {what}"));
                remedies.push(remedy);
            }
        }
    }
    remedies.dedup();
    (!seen.is_empty()).then(|| Warning::new(WarningKind::Throttled, seen.join("; "), remedies.join("; ")))
}

/// Returns the microseconds for which some task had waited since boot (Linux Documentation/accounting/psi.rst).
fn waited_us(record: &Record, name: &str) -> Option<u64> {
    let some = record.text(name)?.split(';').find_map(|line| line.trim().strip_prefix("some "))?;
    some.split(' ').find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

/// Returns the share of the session in which some task waited for a resource, without the time in which a requested load
/// ran. `None` if the session has not recorded its duration, or its load what waited for it.
fn waited_share(record: &Record, resource: &str) -> Option<f64> {
    let ms = record.end.as_ref().map(|end| end.elapsed_ms)?;
    let name = format!("{}.{resource}", facts::PRESSURE);
    let before = waited_us(record, &name)?;
    let mut waited = waited_us(record, &facts::after(&name))?.saturating_sub(before);
    let mut us = ms.saturating_mul(1000);
    let loaded = |run: &&TrialRun| !run.trial.beside.load.is_none() && run.done.is_some();
    for run in record.trials.iter().filter(loaded) {
        let stalls = run.wakeups.stalls?;
        waited = waited.saturating_sub(match resource {
            "cpu" => stalls.cpu_us,
            "memory" => stalls.memory_us,
            _ => stalls.io_us,
        });
        us = us.saturating_sub(run.wakeups.load_stats.iter().map(|load| load.ns).max()? / 1000);
    }
    (us >= MIN_MS * 1000).then(|| (waited as f64 / us as f64).min(1.0))
}

/// Warns if tasks waited during the session.
fn pressure(record: &Record) -> Vec<Warning> {
    let over_limit = |(resource, limit): (&str, f64)| {
        let share = waited_share(record, resource).filter(|share| *share > limit)?;
        let what = match resource {
            "cpu" => "a CPU",
            "memory" => "memory (reclaim)",
            _ => "I/O",
        };
        let text = format!("some task waited for {what} in {:.0} % of the time", 100.0 * share);
        Some(Warning::new(WarningKind::Pressure, text, pressure_remedy(record, resource)))
    };
    WAITED.into_iter().filter_map(over_limit).collect()
}

fn pressure_remedy(record: &Record, resource: &str) -> &'static str {
    let isolated = record.text(facts::CPUS_ISOLATED).is_some_and(|list| !list.trim().is_empty());
    match resource {
        "cpu" if isolated => {
            "CPUs are isolated already; stop work on the other CPUs, which shares caches and memory"
        }
        "cpu" => "stop other work: it shares caches and memory with the measured CPU",
        "memory" => "free memory, or raise the control group's limit",
        _ => "wait until other I/O (copying, indexing) has finished",
    }
}

#[cfg(test)]
mod tests;
