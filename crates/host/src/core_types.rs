//! Types of CPUs: machines whose cores differ (big.LITTLE, DynamIQ, hybrid x86) have caches, TLBs and clocks of each type.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use fathom_probe::machine::Fact;
use fathom_units::facts;

use crate::facts::text;
use crate::process::{allowed_cpus, choose_cpu, list};
use crate::procfs::{Root, cpu_list};

/// The PMUs of hybrid x86, the fastest type first (arch/x86/events/intel/core.c).
const X86_TYPES: [&str; 3] = ["cpu_core", "cpu_atom", "cpu_lowpower"];

/// Largest difference of two capacities of one type, as the divisor of the larger one: with ACPI each CPU has a value of its
/// own (CPPC), and equal cores may differ by little. The types of real machines differ by a tenth and more.
const SAME_CAPACITY: u64 = 20;

/// CPUs of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreType {
    /// `big`, `mid` or `little`, by speed; of more than three types those between are `mid-1`, `mid-2` and so on. `type-1` and so
    /// on, by their first CPU, if the kernel does not tell which is faster.
    pub name: String,
    /// Its CPUs on which this process may run, ascending.
    pub cpus: Vec<u32>,
    /// The one to measure on: an isolated one, else the last.
    pub cpu: u32,
}

impl CoreType {
    /// Returns its CPUs' numbers.
    #[must_use]
    pub fn list(&self) -> String {
        list(&self.cpus)
    }
}

/// CPUs of the same kind and about the same capacity.
#[derive(Debug)]
struct Group {
    /// Capacity by the kernel's scale, or a rank; 0 if unknown.
    capacity: u64,
    /// Greatest clock, kHz; 0 if unknown.
    clock: u64,
    /// PMU, or implementer and part number.
    kind: String,
    cpus: Vec<u32>,
}

impl Group {
    fn is_as_capable_as(&self, other: &Group) -> bool {
        let (one, other) = (self.capacity, other.capacity);
        one.abs_diff(other) * SAME_CAPACITY <= one.max(other)
    }
}

/// Returns the types of the CPUs on which this process may run, the fastest first; nothing if they are of one type, or if the
/// kernel does not tell.
#[must_use]
pub fn core_types() -> Vec<CoreType> {
    let root = Root::system();
    types(&root, &allowed_cpus(&root))
}

/// Returns the facts about the type of a CPU; nothing if all are of one type.
pub(crate) fn facts(root: &Root, allowed: &[u32], cpu: u32) -> Vec<Fact> {
    let all = types(root, allowed);
    let Some(own) = all.iter().find(|one| one.cpus.contains(&cpu)) else { return Vec::new() };
    vec![text(facts::CPU_TYPE, &own.name), text(facts::CPU_TYPE_CPUS, own.list())]
}

fn types(root: &Root, allowed: &[u32]) -> Vec<CoreType> {
    let (parts, ranks) = (parts(root), ranks(root));
    let mut groups: Vec<Group> = Vec::new();
    for &cpu in allowed {
        let one = if ranks.is_empty() { of_arm(root, &parts, cpu) } else { of_x86(&ranks, cpu) };
        let Some(one) = one else { return Vec::new() };
        match groups.iter_mut().find(|group| group.kind == one.kind && group.is_as_capable_as(&one)) {
            Some(group) => group.cpus.push(cpu),
            None => groups.push(one),
        }
    }
    let count = groups.len();
    if count < 2 {
        return Vec::new();
    }
    groups.sort_by_key(|group| Reverse((group.capacity, group.clock)));
    let equal = |pair: &[Group]| pair[0].is_as_capable_as(&pair[1]) && pair[0].clock == pair[1].clock;
    let by_speed = !groups.windows(2).any(equal);
    if !by_speed {
        groups.sort_by_key(|group| group.cpus.first().copied());
    }
    let named = groups.into_iter().enumerate().filter_map(|(rank, Group { cpus, .. })| {
        let name = match rank {
            _ if !by_speed => format!("type-{}", rank + 1),
            0 => "big".to_owned(),
            _ if rank + 1 == count => "little".to_owned(),
            _ if count == 3 => "mid".to_owned(),
            _ => format!("mid-{rank}"),
        };
        let cpu = choose_cpu(root, &cpus, None).ok()?;
        Some(CoreType { name, cpus, cpu })
    });
    named.collect()
}

/// Returns the rank and the PMU of each CPU of hybrid x86; nothing elsewhere.
fn ranks(root: &Root) -> BTreeMap<u32, (u64, &'static str)> {
    let mut all = BTreeMap::new();
    for (number, pmu) in X86_TYPES.into_iter().rev().enumerate() {
        let cpus = root.text(&format!("/sys/bus/event_source/devices/{pmu}/cpus")).unwrap_or_default();
        all.extend(cpu_list(&cpus).into_iter().map(|cpu| (cpu, (number as u64 + 1, pmu))));
    }
    all
}

fn of_x86(ranks: &BTreeMap<u32, (u64, &'static str)>, cpu: u32) -> Option<Group> {
    let &(capacity, kind) = ranks.get(&cpu)?;
    Some(Group { capacity, clock: 0, kind: kind.to_owned(), cpus: vec![cpu] })
}

/// Returns what is known of a CPU of ARM: its capacity, which the kernel takes from the firmware, and its part number. Equal
/// cores with another clock or another second level have another capacity.
fn of_arm(root: &Root, parts: &BTreeMap<u32, String>, cpu: u32) -> Option<Group> {
    let number = |file: &str| root.number(&format!("/sys/devices/system/cpu/cpu{cpu}/{file}"));
    let (capacity, part) = (number("cpu_capacity"), parts.get(&cpu).cloned());
    (capacity.is_some() || part.is_some()).then(|| Group {
        capacity: capacity.unwrap_or(0),
        clock: number("cpufreq/cpuinfo_max_freq").unwrap_or(0),
        kind: part.unwrap_or_default(),
        cpus: vec![cpu],
    })
}

/// Returns implementer and part number of each CPU of ARM, by `/proc/cpuinfo`.
fn parts(root: &Root) -> BTreeMap<u32, String> {
    let mut all: BTreeMap<u32, String> = BTreeMap::new();
    let mut cpu = None;
    for line in root.text("/proc/cpuinfo").unwrap_or_default().lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        match (name.trim(), cpu) {
            ("processor", _) => cpu = value.trim().parse().ok(),
            ("CPU implementer" | "CPU part", Some(cpu)) => all.entry(cpu).or_default().push_str(value.trim()),
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    /// A machine with these capacities and parts.
    fn arm(cores: &[(u32, &str)]) -> Vec<(String, String)> {
        let mut cpuinfo = String::new();
        let mut files = Vec::new();
        for (cpu, (capacity, part)) in cores.iter().enumerate() {
            cpuinfo += &format!(
                "processor\t: {cpu}\nCPU implementer\t: 0x41\nCPU variant\t: 0x0\nCPU part\t: {part}\n\n"
            );
            files.push((format!("/sys/devices/system/cpu/cpu{cpu}/cpu_capacity"), format!("{capacity}\n")));
        }
        files.push(("/proc/cpuinfo".to_owned(), cpuinfo));
        files
    }

    fn found(files: &[(String, String)], allowed: &[u32]) -> Vec<(String, Vec<u32>, u32)> {
        let files: Vec<(&str, &str)> =
            files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let (_keep, root) = fixture::root(&files);
        types(&root, allowed).into_iter().map(|one| (one.name, one.cpus, one.cpu)).collect()
    }

    #[test]
    fn types_are_ordered_by_capacity() {
        // RK3399: four Cortex-A53, two Cortex-A72.
        let little = (485, "0xd03");
        let files = arm(&[little, little, little, little, (1024, "0xd08"), (1024, "0xd08")]);
        let both = [("big".to_owned(), vec![4, 5], 5), ("little".to_owned(), vec![0, 1, 2, 3], 3)];
        assert_eq!(found(&files, &[0, 1, 2, 3, 4, 5]), both);
        assert_eq!(found(&files, &[0, 1, 2]), [], "one type is left");
        // The same with an isolated CPU, and without the kernel's capacities: the part numbers tell them apart.
        let mut isolated = files.clone();
        isolated.push(("/sys/devices/system/cpu/isolated".to_owned(), "1-2\n".to_owned()));
        assert_eq!(found(&isolated, &[0, 1, 2, 3, 4, 5])[1].2, 2);
        // Without the kernel's capacities the clocks tell which is faster, and without both nothing does.
        let mut without: Vec<_> = files.into_iter().filter(|(name, _)| name == "/proc/cpuinfo").collect();
        let parts = [("type-1".to_owned(), vec![0, 1, 2, 3], 3), ("type-2".to_owned(), vec![4, 5], 5)];
        assert_eq!(found(&without, &[0, 1, 2, 3, 4, 5]), parts);
        for (cpu, khz) in
            [(0, 1_416_000), (1, 1_416_000), (2, 1_416_000), (3, 1_416_000), (4, 1_800_000), (5, 1_800_000)]
        {
            without.push((
                format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq"),
                format!("{khz}\n"),
            ));
        }
        assert_eq!(found(&without, &[0, 1, 2, 3, 4, 5]), both);
        // Equal cores whose capacities differ by little.
        assert_eq!(found(&arm(&[(1024, "0xd0c"), (1010, "0xd0c"), (1001, "0xd0c")]), &[0, 1, 2]), []);
        // Equal cores with another clock, and three types.
        let three = arm(&[(250, "0xd05"), (900, "0xd41"), (1024, "0xd41")]);
        let names: Vec<String> = found(&three, &[0, 1, 2]).into_iter().map(|one| one.0).collect();
        assert_eq!(names, ["big", "mid", "little"]);
    }

    #[test]
    fn hybrid_x86_has_types_by_its_pmus() {
        let pmu = |name: &str, cpus: &str| {
            (format!("/sys/bus/event_source/devices/{name}/cpus"), format!("{cpus}\n"))
        };
        let files = [pmu("cpu_core", "0-3"), pmu("cpu_atom", "4-7")];
        let both = [("big".to_owned(), vec![2, 3], 3), ("little".to_owned(), vec![4], 4)];
        assert_eq!(found(&files, &[2, 3, 4]), both);
        assert_eq!(found(&[], &[0, 1]), [], "an ordinary x86");
    }

    #[test]
    fn one_type_and_machines_that_do_not_tell_have_none() {
        assert_eq!(found(&arm(&[(1024, "0xd03"), (1024, "0xd03")]), &[0, 1]), []);
        assert_eq!(found(&arm(&[(1024, "0xd03")]), &[0, 7]), [], "nothing is known of CPU 7");
    }

    #[test]
    fn type_of_the_measured_cpu_is_a_fact() {
        let files = arm(&[(485, "0xd03"), (1024, "0xd08")]);
        let files: Vec<(&str, &str)> =
            files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let (_keep, root) = fixture::root(&files);
        let found = super::facts(&root, &[0, 1], 0);
        assert_eq!(found, [text(facts::CPU_TYPE, "little"), text(facts::CPU_TYPE_CPUS, "0")]);
        assert_eq!(super::facts(&root, &[0], 0), []);
    }
}
