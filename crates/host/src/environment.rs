//! The environment block of a record: everything about the surroundings that a reader will ask for in a
//! year, as the kernel words it. Captured before the thread is pinned, because pinning changes some of it.
//!
//! Serial numbers, hardware addresses and host names are left out (`redact`).

use fathom_probe::machine::Fact;
use fathom_units::facts;

use crate::arch::{Architecture, Cpu};
use crate::ceiling;
use crate::clock_trust;
use crate::facts::{int, text};
use crate::process;
use crate::read::Root;
use crate::redact;

/// Longest text in one fact, bytes: enough for a command line (2 KiB in most kernels) with room to spare.
const MAX_FACT_BYTES: usize = 4096;

/// The surroundings at the start; `cpu` is the one that will be measured.
pub(crate) fn facts(root: &Root, cpu: u32, allowed: &[u32]) -> Vec<Fact> {
    let mut facts = kernel(root);
    facts.extend(board(root));
    facts.extend(processor(root, cpu));
    facts.extend(memory(root));
    facts.extend(files(root, &SETTINGS));
    facts.push(text(facts::AFFINITY, process::list(allowed)));
    facts.extend(groups(root));
    facts.push(text(facts::CONTAINER, container(root)));
    facts.extend(moving(root, cpu, facts::ENV));
    facts
}

/// What changes while a session runs, again, under `env.after`.
pub(crate) fn facts_after(root: &Root, cpu: u32) -> Vec<Fact> {
    moving(root, cpu, facts::ENV_AFTER)
}

/// Files whose text is a fact as it stands, with the fact's name.
const SETTINGS: [(&str, &str); 21] = [
    (facts::CPUS_ONLINE, "/sys/devices/system/cpu/online"),
    (facts::CPUS_ISOLATED, "/sys/devices/system/cpu/isolated"),
    ("env.cpus.nohz_full", "/sys/devices/system/cpu/nohz_full"),
    (facts::SMT, "/sys/devices/system/cpu/smt/control"),
    (facts::THP_ENABLED, crate::pages::THP),
    ("env.thp.defrag", "/sys/kernel/mm/transparent_hugepage/defrag"),
    ("env.thp.khugepaged", "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag"),
    ("env.ksm", "/sys/kernel/mm/ksm/run"),
    (facts::NUMA_NODES, "/sys/devices/system/node/online"),
    (facts::NUMA_BALANCING, "/proc/sys/kernel/numa_balancing"),
    ("env.overcommit", "/proc/sys/vm/overcommit_memory"),
    ("env.compact_unevictable", "/proc/sys/vm/compact_unevictable_allowed"),
    ("env.swappiness", "/proc/sys/vm/swappiness"),
    (facts::PERF_EVENT_PARANOID, "/proc/sys/kernel/perf_event_paranoid"),
    (facts::PERF_USER_ACCESS, "/proc/sys/kernel/perf_user_access"),
    (facts::CLOCKSOURCE, "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("env.hypervisor", "/sys/hypervisor/type"),
    ("env.lockdown", "/sys/kernel/security/lockdown"),
    ("env.realtime", "/sys/kernel/realtime"),
    // Documentation/admin-guide/pm/intel_pstate.rst and cpufreq.rst: 1 forbids, and 0 forbids.
    (facts::FREQ_NO_TURBO, "/sys/devices/system/cpu/intel_pstate/no_turbo"),
    (facts::FREQ_BOOST, "/sys/devices/system/cpu/cpufreq/boost"),
];

fn files(root: &Root, list: &[(&str, &str)]) -> Vec<Fact> {
    list.iter().filter_map(|(name, path)| Some(short(name, &root.text(path)?))).collect()
}

/// A text fact, cut at [`MAX_FACT_BYTES`].
fn short(name: impl AsRef<str>, value: &str) -> Fact {
    let mut end = value.len().min(MAX_FACT_BYTES);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    text(name, value[..end].trim())
}

fn kernel(root: &Root) -> Vec<Fact> {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy();
    let line = root.text("/proc/cmdline").map(|l| redact::command_line(&l, &host));
    let mut facts = vec![
        short(facts::KERNEL_RELEASE, &uname.release().to_string_lossy()),
        short("env.kernel.version", &uname.version().to_string_lossy()),
        short(facts::MACHINE, &uname.machine().to_string_lossy()),
    ];
    facts.extend(line.map(|line| short(facts::KERNEL_COMMAND_LINE, &line)));
    facts
}

fn board(root: &Root) -> Vec<Fact> {
    let mut facts = Vec::new();
    facts.extend(
        clock_trust::strings(root, "/proc/device-tree/model").map(|model| short(facts::BOARD_MODEL, &model)),
    );
    facts.extend(
        clock_trust::strings(root, "/proc/device-tree/compatible")
            .map(|soc| short("env.board.compatible", &soc)),
    );
    // Vendor, product, board and firmware's maker; the serial numbers and UUIDs beside them are not read.
    facts.extend(clock_trust::dmi(root).map(|dmi| short("virt.dmi", &dmi)));
    facts
}

/// Keys of `/proc/cpuinfo` about the model and the board on any architecture, around those of
/// [`Architecture::CPUINFO`]. "Serial" is one of the others.
const MODEL: (&str, &str) = ("model name", facts::CPU_MODEL);
const BOARD: (&str, &str) = ("Hardware", "env.cpu.hardware");

fn processor(root: &Root, cpu: u32) -> Vec<Fact> {
    let info = root.text("/proc/cpuinfo").unwrap_or_default();
    // One paragraph a CPU; some kernels put what all CPUs share into a last paragraph of its own.
    let own = info.split("\n\n").find(|p| field(p, "processor") == Some(cpu.to_string().as_str()));
    let own = own.unwrap_or(&info);
    let mut facts = Vec::new();
    for &(key, name) in [MODEL].iter().chain(Cpu::CPUINFO).chain([&BOARD]) {
        facts.extend(field(own, key).or_else(|| field(&info, key)).map(|value| short(name, value)));
    }
    let siblings = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    facts.extend(root.text(&siblings).map(|list| short(facts::CPU_SIBLINGS, &list)));
    facts.extend(vulnerabilities(root));
    facts
}

/// What the kernel says of each known flaw, and in one fact which of them it mitigates and which are open:
/// both cost time, each in its own way (flushed buffers, no speculation past a branch).
fn vulnerabilities(root: &Root) -> Vec<Fact> {
    let directory = "/sys/devices/system/cpu/vulnerabilities";
    let state = |name: String| Some((root.text(&format!("{directory}/{name}"))?, name));
    let all: Vec<(String, String)> = root.names(directory).into_iter().filter_map(state).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let named = |word: &str| {
        let names: Vec<&str> =
            all.iter().filter(|(state, _)| state.contains(word)).map(|(_, n)| n.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(",") }
    };
    let words = format!("mitigated {}; open {}", named("Mitigation"), named("Vulnerable"));
    let mut facts = vec![short(facts::MITIGATIONS, &words)];
    facts.extend(all.iter().map(|(state, name)| short(format!("env.vulnerability.{name}"), state)));
    facts
}

/// The value of `key : value` in a paragraph of `/proc/cpuinfo`.
fn field<'a>(paragraph: &'a str, key: &str) -> Option<&'a str> {
    paragraph.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then_some(value.trim())
    })
}

fn memory(root: &Root) -> Vec<Fact> {
    let mut facts = vec![int("env.memory.total.bytes", ceiling::total(root))];
    let info = root.text("/proc/meminfo").unwrap_or_default();
    for (key, name) in [("MemAvailable", "available"), ("SwapTotal", "swap"), ("SwapFree", "swap_free")] {
        let bytes = crate::read::kilobytes(&info, key);
        facts.extend(bytes.map(|b| int(format!("env.memory.{name}.bytes"), b)));
    }
    let pools = "/sys/kernel/mm/hugepages";
    for pool in root.names(pools) {
        for count in ["nr_hugepages", "free_hugepages"] {
            if let Some(n) = root.number(&format!("{pools}/{pool}/{count}")) {
                facts.push(int(format!("env.{pool}.{count}"), n));
            }
        }
    }
    facts
}

/// Limits of the control groups above this process, the nearest first. Their paths name containers and users, so
/// each is reported by its number only; memory and CPU are counted apart, because not every group limits both.
fn groups(root: &Root) -> Vec<Fact> {
    let mut facts = Vec::new();
    for (n, group) in ceiling::groups(root).iter().enumerate() {
        facts.push(int(format!("env.cgroup.{n}.{}.bytes", group.file), group.limit));
        facts.push(int(format!("env.cgroup.{n}.room.bytes"), group.room));
    }
    // Above its quota a group stands still until the next period.
    for (n, quota) in ceiling::quotas(root).iter().enumerate() {
        facts.push(short(format!("env.cgroup.{n}.cpu.max"), quota));
    }
    facts
}

/// What kind of container this is, as far as it shows.
fn container(root: &Root) -> String {
    if let Some(kind) = root.text("/run/systemd/container") {
        return kind;
    }
    for (path, kind) in [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")] {
        if root.path(path).exists() {
            return kind.into();
        }
    }
    let environment = root.text("/proc/1/environ").unwrap_or_default();
    let reported = environment.split('\0').find_map(|v| v.strip_prefix("container="));
    reported.map_or("none seen".into(), str::to_owned)
}

/// Frequency, temperature, throttling, load and pressure: what moves.
fn moving(root: &Root, cpu: u32, prefix: &str) -> Vec<Fact> {
    let mut facts = frequency(root, cpu, prefix);
    facts.extend(thermal(root, cpu, prefix));
    for resource in ["cpu", "memory", "io"] {
        if let Some(value) = root.text(&format!("/proc/pressure/{resource}")) {
            facts.push(short(format!("{prefix}.pressure.{resource}"), &value));
        }
    }
    // The fifth field is the number of the last process, which is nobody's business and differs each time.
    if let Some(load) = root.text("/proc/loadavg") {
        let words: Vec<&str> = load.split(' ').take(4).collect();
        facts.push(short(format!("{prefix}.loadavg"), &words.join(" ")));
    }
    facts
}

fn frequency(root: &Root, cpu: u32, prefix: &str) -> Vec<Fact> {
    let directory = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq");
    let mut facts = Vec::new();
    for (file, name) in [("scaling_governor", "governor"), ("scaling_driver", "driver")] {
        if let Some(value) = root.text(&format!("{directory}/{file}")) {
            facts.push(short(format!("{prefix}.freq.{name}"), &value));
        }
    }
    for (file, name) in
        [("scaling_cur_freq", "cur"), ("scaling_min_freq", "min"), ("scaling_max_freq", "max")]
    {
        if let Some(khz) = root.number(&format!("{directory}/{file}")) {
            facts.push(int(format!("{prefix}.freq.{name}.khz"), khz));
        }
    }
    // Where nothing scales, the kernel's own word, which in a guest is what the hypervisor wrote.
    let info = root.text("/proc/cpuinfo").unwrap_or_default();
    let own = info.split("\n\n").find(|p| field(p, "processor") == Some(cpu.to_string().as_str()));
    let mhz = own.and_then(|p| field(p, "cpu MHz"));
    facts.extend(mhz.map(|mhz| short(format!("{prefix}.cpuinfo.mhz"), mhz)));
    facts
}

fn thermal(root: &Root, cpu: u32, prefix: &str) -> Vec<Fact> {
    let zones = "/sys/class/thermal";
    let mut facts = Vec::new();
    for zone in root.names(zones).into_iter().filter(|n| n.starts_with("thermal_zone")) {
        let kind = root.text(&format!("{zones}/{zone}/type")).unwrap_or_default();
        if let Some(degrees) = root.text(&format!("{zones}/{zone}/temp")) {
            // Millidegrees Celsius, which may be below zero: text.
            facts.push(short(format!("{prefix}.{zone}.millidegrees"), &format!("{degrees} {kind}")));
        }
    }
    let throttle = format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle");
    let counts = ["core_throttle_count", "package_throttle_count"];
    for name in counts {
        facts.extend(root.number(&format!("{throttle}/{name}")).map(|n| int(format!("{prefix}.{name}"), n)));
    }
    // The Raspberry Pi's firmware: a word of flags, hexadecimal (under-voltage, capped, throttled).
    let pi = root.text("/sys/devices/platform/soc/soc:firmware/get_throttled");
    facts.extend(pi.map(|flags| short(format!("{prefix}.get_throttled"), &flags)));
    facts
}

#[cfg(test)]
mod tests;
