//! Types of CPUs: machines whose cores differ (big.LITTLE, DynamIQ, hybrid x86) have caches, TLBs and clocks of each type.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::process::{allowed_cpus, choose_cpu, list};
use crate::procfs::{Root, cpu_list};

/// The PMUs of hybrid x86, the fastest type first (arch/x86/events/intel/core.c).
const X86_TYPES: [&str; 3] = ["cpu_core", "cpu_atom", "cpu_lowpower"];

/// CPUs of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreType {
    /// `big`, `mid` or `little`, by speed; of more than three types those between are `mid-1`, `mid-2` and so on.
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

/// What identifies a type, in the order of the types: the faster one first.
type Key = (Reverse<u64>, String);

/// Returns the types of the CPUs on which this process may run, the fastest first; nothing if they are of one type, or if the
/// kernel does not tell.
#[must_use]
pub fn core_types() -> Vec<CoreType> {
    let root = Root::system();
    types(&root, &allowed_cpus(&root))
}

/// Returns the type of a CPU with the others', as a fact's text; `None` if all are of one type.
pub(crate) fn told(root: &Root, allowed: &[u32], cpu: u32) -> Option<String> {
    let all = types(root, allowed);
    let own = all.iter().find(|one| one.cpus.contains(&cpu))?;
    let each: Vec<String> = all.iter().map(|one| format!("{}: {}", one.name, one.list())).collect();
    Some(format!("{} ({})", own.name, each.join("; ")))
}

fn types(root: &Root, allowed: &[u32]) -> Vec<CoreType> {
    let mut groups: BTreeMap<Key, Vec<u32>> = BTreeMap::new();
    let parts = parts(root);
    let by_pmu = by_pmu(root);
    for &cpu in allowed {
        let key = if by_pmu.is_empty() { of_arm(root, &parts, cpu) } else { by_pmu.get(&cpu).cloned() };
        let Some(key) = key else { return Vec::new() };
        groups.entry(key).or_default().push(cpu);
    }
    let count = groups.len();
    if count < 2 {
        return Vec::new();
    }
    let named = groups.into_values().enumerate().filter_map(|(rank, cpus)| {
        let name = match rank {
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

/// Returns each CPU's type on hybrid x86; nothing elsewhere.
fn by_pmu(root: &Root) -> BTreeMap<u32, Key> {
    let mut all = BTreeMap::new();
    for (rank, pmu) in X86_TYPES.iter().enumerate() {
        let cpus = root.text(&format!("/sys/bus/event_source/devices/{pmu}/cpus")).unwrap_or_default();
        let key = (Reverse((X86_TYPES.len() - rank) as u64), (*pmu).to_owned());
        all.extend(cpu_list(&cpus).into_iter().map(|cpu| (cpu, key.clone())));
    }
    all
}

/// Returns the type of a CPU of ARM: its capacity, which the kernel takes from the devicetree, and its part number. Equal
/// cores with another clock or another second level have another capacity.
fn of_arm(root: &Root, parts: &BTreeMap<u32, String>, cpu: u32) -> Option<Key> {
    let capacity = root.number(&format!("/sys/devices/system/cpu/cpu{cpu}/cpu_capacity"));
    let part = parts.get(&cpu).cloned();
    (capacity.is_some() || part.is_some()).then(|| (Reverse(capacity.unwrap_or(0)), part.unwrap_or_default()))
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
        let without: Vec<_> = files.into_iter().filter(|(name, _)| name == "/proc/cpuinfo").collect();
        assert_eq!(found(&without, &[0, 1, 2, 3, 4, 5]).len(), 2);
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
    fn type_of_the_measured_cpu_is_told_with_the_others() {
        let files = arm(&[(485, "0xd03"), (1024, "0xd08")]);
        let files: Vec<(&str, &str)> =
            files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let (_keep, root) = fixture::root(&files);
        assert_eq!(told(&root, &[0, 1], 0).as_deref(), Some("little (big: 1; little: 0)"));
        assert_eq!(told(&root, &[0], 0), None);
    }
}
