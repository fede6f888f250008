//! Examines how well a machine is set up for measurements, from the probe's facts alone. So remote machines and old
//! records can be examined too.
//!
//! Nothing is changed: each row contains the command that would change the setting.

use fathom_analysis::claims::FactValue;
use fathom_analysis::examination::{Row, State};
use fathom_probe::machine::ClockTrust;
use fathom_units::facts::{self, CeilingSource, Grant};

use crate::environment::{clock_remedy, has_priority, threads_of_the_core};
use crate::record::Record;

/// Raises the limits of the current shell and of processes that it starts (prlimit(1), util-linux): the two priorities
/// and locked memory.
const LIMITS: &str = "sudo prlimit --pid $$ --rtprio=1 --nice=40 --memlock=unlimited";

/// Examines the machine of these facts.
#[must_use]
pub fn examine(record: &Record) -> Vec<Row> {
    let mut rows = vec![trust(record), clock(record)];
    if record.is_modelled() {
        return rows;
    }
    rows.extend([priority(record), locked(record), huge_pages(record), counters(record)]);
    rows.extend(driver(record));
    rows.push(frequency(record));
    rows.extend([cpus(record), smt(record), memory(record)].into_iter().flatten());
    rows.extend([quota(record), numa(record), heat(record)].into_iter().flatten());
    rows.extend(load(record));
    rows
}

fn trust(record: &Record) -> Row {
    let evidence = record.text(facts::TRUST_EVIDENCE).unwrap_or_default();
    match record.trust {
        Some(ClockTrust::Real) => Row::good("machine", format!("bare metal: {evidence}")),
        Some(ClockTrust::Virtual) => Row::note(
            "machine",
            format!("a guest: {evidence}"),
            "results describe the guest, not the hardware; its host may take the CPU away",
        ),
        Some(ClockTrust::Modelled) => Row::good("machine", "described: no other work runs"),
        Some(ClockTrust::Emulated) | None => Row {
            state: State::Prevents,
            ..Row::costs(
                "machine",
                format!("an emulator: {evidence}"),
                "every time is refused: an emulator's times are not those of the emulated machine; a described machine can be \
                 surveyed (--on NAME)",
                "fathom machines",
            )
        },
    }
}

fn clock(record: &Record) -> Row {
    let name = record.text(facts::CLOCK_NAME).unwrap_or("none");
    let why = record.text(facts::CLOCK_CHOICE).map(|w| format!(": {w}")).unwrap_or_default();
    let hz = record.int(facts::CLOCK_HZ).unwrap_or(0) as f64;
    let found = format!("{name}, {:.1} MHz{why}", hz / 1e6);
    if name == facts::MONOTONIC_RAW {
        return Row::note("clock", found, "coarser than a cycle counter: small working sets need more loads");
    }
    Row::good("clock", found)
}

fn priority(record: &Record) -> Row {
    if has_priority(record) {
        let level = |name| record.text(&facts::value(name)).unwrap_or("unknown");
        let (fifo, nice) = (level(facts::PRIVILEGE_FIFO), level(facts::PRIVILEGE_NICE));
        return Row::good("priority", format!("real-time priority {fifo} during trials, nice {nice}"));
    }
    let reason = record.text(&facts::reason(facts::PRIVILEGE_FIFO)).unwrap_or("not requested");
    let cost = "other tasks may take the CPU during a trial, which loses samples";
    Row::costs("priority", format!("real-time priority: {reason}"), cost, LIMITS)
}

/// Locked memory that suffices for most of a survey's mappings: 256 MiB.
const MIN_LOCKED_BYTES: u64 = 256 << 20;

fn locked(record: &Record) -> Row {
    let cost = "pages may be moved or reclaimed between two samples";
    let limit = record.text(&facts::value(facts::PRIVILEGE_MEMLOCK)).unwrap_or("unknown");
    match record.text(facts::MEMORY_LOCKED) {
        Some("yes") if limit.parse::<u64>().is_ok_and(|bytes| bytes < MIN_LOCKED_BYTES) => {
            let cost = "mappings beyond that are not locked: the kernel may move them between two samples";
            Row::costs("locked-memory", format!("permitted up to {limit} bytes"), cost, LIMITS)
        }
        Some("yes") => Row::good("locked-memory", format!("permitted, limit {limit}")),
        _ => {
            let reason = record.text(&facts::reason(facts::MEMORY_LOCKED)).unwrap_or("not tried");
            Row::costs("locked-memory", format!("not locked: {reason}"), cost, LIMITS)
        }
    }
}

fn huge_pages(record: &Record) -> Row {
    let chosen = record.text(facts::THP_ENABLED).unwrap_or("absent");
    let chosen = chosen.split(['[', ']']).nth(1).unwrap_or(chosen);
    let cost = "the latency curve includes translation, which is subtracted from its tiers";
    match (record.int(facts::PAGE_HUGE), chosen) {
        (_, "never") => Row::costs(
            "huge-pages",
            "transparent huge pages are disabled",
            cost,
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        (Some(size), _) => Row::good("huge-pages", format!("{} KiB, transparent, {chosen}", size >> 10)),
        (None, _) => Row::note("huge-pages", "this kernel has no transparent huge pages", cost),
    }
}

fn counters(record: &Record) -> Row {
    let name = facts::PRIVILEGE_COUNTERS;
    let grant = record.text(name).and_then(Grant::from_token);
    let paranoid = record.text(facts::PERF_EVENT_PARANOID).unwrap_or("absent");
    if grant == Some(Grant::Granted) {
        let counted = record.text(&facts::value(name)).unwrap_or_default();
        let unused = unused_counters(record);
        return Row::good(
            "counters",
            format!("available: {counted} (perf_event_paranoid {paranoid}){unused}"),
        );
    }
    let cost = "core cycles are calibrated, not counted";
    let reason = record.text(&facts::reason(name)).unwrap_or("not tried");
    // The cycle counter is used as the clock, which excludes the counters; this setting allows both if the kernel has
    // it.
    if grant == Some(Grant::Excluded) && record.text(facts::PERF_USER_ACCESS) == Some("0") {
        return Row::costs("counters", reason, cost, "sudo sysctl kernel.perf_user_access=1");
    }
    if paranoid.trim().parse::<i64>().is_ok_and(|level| level > 2) {
        return Row::costs("counters", reason, cost, "sudo sysctl kernel.perf_event_paranoid=2");
    }
    // No command on this machine helps: the remedy is a sentence.
    let remedy = record.text(&facts::remedy(name)).unwrap_or_default();
    Row::note("counters", reason, &sentences(cost, remedy))
}

/// Returns which events the machine does not count, and why, as the end of a sentence: those that could not be opened, and
/// those that counted nothing, or the impossible, in a loop that must have them.
fn unused_counters(record: &Record) -> String {
    let (mut nothing, mut impossible, mut closed) = (Vec::new(), Vec::new(), Vec::new());
    for (counter, value) in record.facts.under("counter.") {
        match (counter.strip_suffix(".tried"), counter.strip_suffix(".impossible"), value) {
            (Some(counter), _, FactValue::Int(0)) => nothing.push(counter),
            (_, Some(counter), _) => impossible.push(counter),
            (None, None, FactValue::Text(_)) => closed.push(counter),
            _ => {}
        }
    }
    let told = |counters: Vec<&str>, what| match counters.is_empty() {
        true => String::new(),
        false => format!("; {what}: {}", counters.join(",")),
    };
    told(closed, "not opened")
        + &told(nothing, "not used, because they count nothing in a loop that has such events")
        + &told(impossible, "not used, because they count more than a loop can have")
}

/// Joins an effect and its remedy, which is a sentence and not a command.
fn sentences(cost: &str, remedy: &str) -> String {
    let mut rest = remedy.chars();
    match rest.next() {
        Some(first) => format!("{cost}. {}{}", first.to_uppercase(), rest.as_str()),
        None => cost.to_owned(),
    }
}

/// Features that need the driver.
const DRIVER_FEATURES_NOTE: &str =
    "required for memory attributes, DMA and kernel wake-ups, and unless root for coloured pages";

/// Fathom's own driver. Older records have no facts about it.
fn driver(record: &Record) -> Option<Row> {
    let state = record.text(facts::DRIVER_STATE)?;
    let Some(version) = record.int(facts::DRIVER_VERSION) else {
        let cost = DRIVER_FEATURES_NOTE;
        let remedy = record.text(facts::DRIVER_REMEDY).unwrap_or_default();
        // A sentence, because the command needs a checkout, or another user.
        return Some(Row::note("driver", format!("Fathom's driver {state}"), &sentences(cost, remedy)));
    };
    let fact = |name: &str| record.text(name).filter(|text| !text.is_empty()).unwrap_or("none");
    let found = format!(
        "Fathom's driver {state}, version {version}: {}; attributes {}; engines {}",
        fact(facts::DRIVER_FEATURES),
        fact(facts::DRIVER_ATTRIBUTES),
        fact(facts::DRIVER_ENGINES)
    );
    Some(Row::good("driver", found))
}

fn frequency(record: &Record) -> Row {
    let Some(governor) = record.text(facts::FREQ_GOVERNOR) else {
        let mhz = record.text(facts::CPUINFO_MHZ).map(|mhz| format!("; the kernel reports {mhz} MHz"));
        let found = format!("unknown (no cpufreq){}", mhz.unwrap_or_default());
        return Row::note("frequency", found, "the cycle calibration of each round detects changes");
    };
    let driver = record.text(facts::FREQ_DRIVER).unwrap_or("unknown driver");
    let range = |name: &str| record.int(name).map_or("?".to_owned(), |khz| (khz / 1000).to_string());
    let (low, high) = (range(facts::FREQ_MIN_KHZ), range(facts::FREQ_MAX_KHZ));
    let turbo = match (record.text(facts::FREQ_NO_TURBO), record.text(facts::FREQ_BOOST)) {
        (Some("0"), _) | (None, Some("1")) => ", turbo on",
        (Some(_), _) | (None, Some(_)) => ", turbo off",
        (None, None) => "",
    };
    let found = format!("governor {governor} ({driver}), {low} to {high} MHz{turbo}");
    let cost = "the core clock changes during measurements: this affects times in ns more than in cycles";
    match clock_remedy(record) {
        command if command.starts_with("echo ") => Row::costs("frequency", found, cost, command),
        _ => Row::good("frequency", found),
    }
}

fn cpus(record: &Record) -> Option<Row> {
    let pinned = record.int(facts::CPU_PINNED)?;
    let isolated = record.text(facts::CPUS_ISOLATED).unwrap_or_default().trim();
    let online = record.text(facts::CPUS_ONLINE).unwrap_or("?");
    if isolated.is_empty() {
        let cost = "interrupts and other tasks share the measured CPU";
        let found = format!("CPU {pinned} of {online}, none is isolated");
        // A boot parameter needs a configuration file, and takes the isolated CPU from all other work.
        let cost = format!("{cost}; on a dedicated machine, boot with isolcpus={pinned} nohz_full={pinned}");
        return Some(Row::note("cpu", found, &cost));
    }
    Some(Row::good("cpu", format!("CPU {pinned} of {online}, isolated: {isolated}")))
}

fn smt(record: &Record) -> Option<Row> {
    let siblings = threads_of_the_core(record)?;
    let cost = "the other thread of the core shares its first-level caches";
    let command = "echo off | sudo tee /sys/devices/system/cpu/smt/control";
    Some(Row::costs("smt", format!("on: CPUs {siblings} are one core"), cost, command))
}

fn memory(record: &Record) -> Option<Row> {
    let (bytes, limit) =
        (record.int(facts::MEMORY_CEILING_BYTES)?, record.text(facts::MEMORY_CEILING_LIMIT)?);
    let found = format!("up to {} MiB: {limit}", bytes >> 20);
    // Eight times a last level of 32 MiB; most machines have a smaller one.
    if bytes >= 256 << 20 {
        return Some(Row::good("memory", found));
    }
    let cost = "the latency curve may end before its last plateau";
    let source = record.text(facts::MEMORY_CEILING_SOURCE).and_then(CeilingSource::from_token);
    if source == Some(CeilingSource::ControlGroup) {
        return Some(Row::note("memory", found, &format!("{cost}; raise the group's limit")));
    }
    Some(Row::note("memory", found, cost))
}

/// Returns the tightest CPU quota of the probe's control groups.
fn quota(record: &Record) -> Option<Row> {
    let share = |value: &FactValue| match value {
        FactValue::Text(text) => {
            let (quota, period) = text.split_once(' ')?;
            Some((quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?, text.clone()))
        }
        _ => None,
    };
    let all = record.facts.under(facts::CGROUP).filter(|(name, _)| name.ends_with(facts::CGROUP_CPU_MAX));
    let (share, text) = all.filter_map(|(_, v)| share(v)).min_by(|a, b| a.0.total_cmp(&b.0))?;
    let found = format!("{:.0} % of one CPU ({text} us)", 100.0 * share);
    if share >= 2.0 {
        return Some(Row::good("cpu-quota", found));
    }
    let cost = "a process that exceeds the quota is stopped until the next period, which disturbs trials";
    Some(Row::note("cpu-quota", found, &format!("{cost}; measure outside that container")))
}

fn numa(record: &Record) -> Option<Row> {
    let nodes = record.text(facts::NUMA_NODES).filter(|nodes| nodes.contains([',', '-']))?;
    if matches!(record.text(facts::NUMA_BALANCING), None | Some("0")) {
        return Some(Row::good("numa", format!("nodes {nodes}, no automatic migration")));
    }
    let cost = "the kernel unmaps pages to sample their use, and migrates them";
    Some(Row::costs(
        "numa",
        format!("nodes {nodes}, balancing on"),
        cost,
        "sudo sysctl kernel.numa_balancing=0",
    ))
}

fn heat(record: &Record) -> Option<Row> {
    let zones = record.facts.under(facts::THERMAL_ZONE).filter_map(|(name, value)| match value {
        FactValue::Text(text) if name.ends_with(".millidegrees") => {
            let (milli, kind) = text.split_once(' ').unwrap_or((text, ""));
            Some((milli.parse::<i64>().ok()?, kind.to_owned()))
        }
        _ => None,
    });
    let (milli, kind) = zones.max_by_key(|zone| zone.0)?;
    Some(Row::note("temperature", format!("{:.1} C (warmest sensor: {kind})", milli as f64 / 1000.0), ""))
}

/// Share of the last ten seconds in which some task waited, in percent, above which it is reported as a cost.
const MAX_WAIT_PERCENT: [(&str, f64); 3] = [("cpu", 10.0), ("memory", 1.0), ("io", 10.0)];

fn load(record: &Record) -> Vec<Row> {
    let average = |resource: &str| {
        let text = record.text(&format!("{}.{resource}", facts::PRESSURE))?;
        text.split(' ').find_map(|word| word.strip_prefix("avg10="))?.parse::<f64>().ok()
    };
    let all: Vec<(&str, f64, f64)> =
        MAX_WAIT_PERCENT.iter().filter_map(|(name, max)| Some((*name, average(name)?, *max))).collect();
    let load = record.text(facts::LOADAVG).and_then(|l| l.split(' ').next()).unwrap_or("unknown");
    let waits: Vec<String> = all.iter().map(|(name, share, _)| format!("{name} {share} %")).collect();
    let waits = if waits.is_empty() { "no PSI".to_owned() } else { waits.join(", ") };
    let found = format!("load {load}; tasks waited in the last 10 s: {waits}");
    if all.iter().any(|(_, share, max)| share > max) {
        let cost = "other tasks take the CPU and share caches and memory with the measurement: stop those at \
                    the top of the list";
        return vec![Row::costs("load", found, cost, "top")];
    }
    vec![Row::good("load", found)]
}

#[cfg(test)]
mod tests;
