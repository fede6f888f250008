//! Environment facts of a record: the surroundings of a measurement as the kernel reports them, which a later reader
//! needs. Captured before the thread is pinned, because pinning changes some of it.
//!
//! Serial numbers, hardware addresses and host names are removed (`redact`).

use fathom_probe::machine::Fact;
use fathom_units::facts;

use crate::arch::{Architecture, Cpu};
use crate::clock_trust;
use crate::facts::{int, text};
use crate::memory_limit;
use crate::process;
use crate::procfs::Root;
use crate::redact;

/// Longest text in one fact, bytes: a command line (2 KiB in most kernels) and a margin.
const MAX_FACT_BYTES: usize = 4096;

/// Returns the facts at the start; `cpu` is the CPU to measure on.
pub(crate) fn facts(root: &Root, cpu: u32, allowed: &[u32]) -> Vec<Fact> {
    let mut facts = kernel(root);
    facts.extend(board(root));
    facts.extend(processor(root, cpu));
    facts.extend(memory(root));
    facts.extend(files(root, &SETTINGS));
    facts.push(text(facts::AFFINITY, process::list(allowed)));
    facts.extend(groups(root));
    facts.push(text(facts::CONTAINER, container(root)));
    facts.extend(changing_facts(root, cpu, facts::ENV));
    facts
}

/// Returns again the facts that change during a session, under `env.after`.
pub(crate) fn facts_after(root: &Root, cpu: u32) -> Vec<Fact> {
    changing_facts(root, cpu, facts::ENV_AFTER)
}

/// Files whose text is a fact, with the fact's name.
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
    // Documentation/admin-guide/pm/intel_pstate.rst and cpufreq.rst: turbo is off if `no_turbo` is 1, or `boost` is
    // 0.
    (facts::FREQ_NO_TURBO, "/sys/devices/system/cpu/intel_pstate/no_turbo"),
    (facts::FREQ_BOOST, "/sys/devices/system/cpu/cpufreq/boost"),
];

fn files(root: &Root, list: &[(&str, &str)]) -> Vec<Fact> {
    list.iter().filter_map(|(name, path)| Some(short(name, &root.text(path)?))).collect()
}

/// Returns a text fact, cut at [`MAX_FACT_BYTES`].
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
    // Vendor, product, board and firmware vendor; serial numbers and UUIDs in the same directory are not read.
    facts.extend(clock_trust::dmi(root).map(|dmi| short("virt.dmi", &dmi)));
    facts
}

/// Keys of `/proc/cpuinfo` about the model and the board on any architecture, before and after those of
/// [`Architecture::CPUINFO`]. The key "Serial" is not read.
const MODEL_KEY: (&str, &str) = ("model name", facts::CPU_MODEL);
const BOARD_KEY: (&str, &str) = ("Hardware", "env.cpu.hardware");

fn processor(root: &Root, cpu: u32) -> Vec<Fact> {
    let info = root.text("/proc/cpuinfo").unwrap_or_default();
    // One paragraph per CPU; some kernels put what all CPUs share into a separate last paragraph.
    let paragraph = info.split("\n\n").find(|p| field(p, "processor") == Some(cpu.to_string().as_str()));
    let paragraph = paragraph.unwrap_or(&info);
    let mut facts = Vec::new();
    for &(key, name) in [MODEL_KEY].iter().chain(Cpu::CPUINFO).chain([&BOARD_KEY]) {
        facts.extend(field(paragraph, key).or_else(|| field(&info, key)).map(|value| short(name, value)));
    }
    let siblings = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    facts.extend(root.text(&siblings).map(|list| short(facts::CPU_SIBLINGS, &list)));
    facts.extend(vulnerabilities(root));
    facts
}

/// Returns the kernel's report of each known vulnerability, and one fact that lists those mitigated and those open.
/// Each mitigation costs time (flushed buffers, no speculation past a branch).
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

/// Returns the value of `key : value` in a paragraph of `/proc/cpuinfo`.
fn field<'a>(paragraph: &'a str, key: &str) -> Option<&'a str> {
    paragraph.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then_some(value.trim())
    })
}

fn memory(root: &Root) -> Vec<Fact> {
    let mut facts = vec![int("env.memory.total.bytes", memory_limit::total(root))];
    let info = root.text("/proc/meminfo").unwrap_or_default();
    for (key, name) in [("MemAvailable", "available"), ("SwapTotal", "swap"), ("SwapFree", "swap_free")] {
        let bytes = crate::procfs::kilobytes(&info, key);
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

/// Returns the limits of the control groups above this process, the nearest first. Their paths name containers and
/// users, so each has only a number. Memory and CPU limits are numbered separately, because not every group limits
/// both.
fn groups(root: &Root) -> Vec<Fact> {
    let mut facts = Vec::new();
    for (n, group) in memory_limit::groups(root).iter().enumerate() {
        facts.push(int(format!("env.cgroup.{n}.{}.bytes", group.file), group.limit));
        facts.push(int(format!("env.cgroup.{n}.room.bytes"), group.room));
    }
    // A group that has used its quota is stopped until the next period.
    for (n, quota) in memory_limit::quotas(root).iter().enumerate() {
        facts.push(short(format!("env.cgroup.{n}.cpu.max"), quota));
    }
    facts
}

/// Returns the kind of container, as far as it is visible.
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

/// Returns frequency, temperature, throttling, load and pressure, which change during a session.
fn changing_facts(root: &Root, cpu: u32, prefix: &str) -> Vec<Fact> {
    let mut facts = frequency(root, cpu, prefix);
    facts.extend(thermal(root, cpu, prefix));
    for resource in ["cpu", "memory", "io"] {
        if let Some(value) = root.text(&format!("/proc/pressure/{resource}")) {
            facts.push(short(format!("{prefix}.pressure.{resource}"), &value));
        }
    }
    // The fifth field is the last process id, which is not relevant and differs each time.
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
    // Without frequency scaling, the kernel's own figure, which in a guest comes from the hypervisor.
    let info = root.text("/proc/cpuinfo").unwrap_or_default();
    let paragraph = info.split("\n\n").find(|p| field(p, "processor") == Some(cpu.to_string().as_str()));
    let mhz = paragraph.and_then(|p| field(p, "cpu MHz"));
    facts.extend(mhz.map(|mhz| short(format!("{prefix}.cpuinfo.mhz"), mhz)));
    facts
}

fn thermal(root: &Root, cpu: u32, prefix: &str) -> Vec<Fact> {
    let zones = "/sys/class/thermal";
    let mut facts = Vec::new();
    for zone in root.names(zones).into_iter().filter(|n| n.starts_with("thermal_zone")) {
        let kind = root.text(&format!("{zones}/{zone}/type")).unwrap_or_default();
        if let Some(degrees) = root.text(&format!("{zones}/{zone}/temp")) {
            // Millidegrees Celsius, which may be negative: text.
            facts.push(short(format!("{prefix}.{zone}.millidegrees"), &format!("{degrees} {kind}")));
        }
    }
    let throttle = format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle");
    let counts = ["core_throttle_count", "package_throttle_count"];
    for name in counts {
        facts.extend(root.number(&format!("{throttle}/{name}")).map(|n| int(format!("{prefix}.{name}"), n)));
    }
    // The Raspberry Pi's firmware: hexadecimal flags (under-voltage, capped, throttled).
    let pi = root.text("/sys/devices/platform/soc/soc:firmware/get_throttled");
    facts.extend(pi.map(|flags| short(format!("{prefix}.get_throttled"), &flags)));
    facts
}

#[cfg(test)]
mod tests;
