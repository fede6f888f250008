//! Facts from the processor and its firmware, undecoded.

use fathom_probe::machine::{Fact, FactValue};

use crate::arch::{Architecture as _, Cpu};
use crate::procfs::Root;

/// Longest firmware table that is read, bytes. Devicetrees of boards have 30 to 100 KiB, the largest PPTT of a
/// two-socket server some 20 KiB.
const MAX_TABLE_BYTES: u64 = 256 << 10;

/// The attributes of a cache in sysfs (Documentation/ABI/testing/sysfs-devices-system-cpu).
const CACHE_ATTRIBUTES: [&str; 7] = [
    "level",
    "type",
    "size",
    "ways_of_associativity",
    "number_of_sets",
    "coherency_line_size",
    "shared_cpu_list",
];

/// Returns all facts about caches that this machine reports, for the CPU `cpu` and, if it is another one, for CPU 0:
/// on most machines the two agree, and if they do not, both matter.
pub(crate) fn facts(root: &Root, cpu: u32) -> Vec<Fact> {
    let mut facts = sysfs_facts(root, cpu);
    if cpu != 0 {
        facts.extend(sysfs_facts(root, 0));
    }
    facts.extend(Cpu::facts(root));
    facts.extend(tree_fact(root));
    facts.extend(table_fact(root));
    facts
}

fn sysfs_facts(root: &Root, cpu: u32) -> Vec<Fact> {
    let directory = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
    let mut facts = Vec::new();
    for index in root.names(&directory).into_iter().filter(|n| n.starts_with("index")) {
        for attribute in CACHE_ATTRIBUTES {
            if let Some(value) = root.text(&format!("{directory}/{index}/{attribute}")) {
                facts.push(crate::facts::text(format!("sysfs.cpu{cpu}.cache.{index}.{attribute}"), value));
            }
        }
    }
    facts
}

/// Returns the flattened devicetree. Only its description of processors and caches is needed. Serial numbers and
/// network card addresses, which boot loaders write into it, are zeroed.
fn tree_fact(root: &Root) -> Option<Fact> {
    let mut blob = root.bytes("/sys/firmware/fdt", MAX_TABLE_BYTES)?;
    crate::redact::devicetree(&mut blob)?;
    Some(Fact { name: "devicetree.blob".into(), value: FactValue::Bytes(blob) })
}

fn table_fact(root: &Root) -> Option<Fact> {
    let blob = root.bytes("/sys/firmware/acpi/tables/PPTT", MAX_TABLE_BYTES)?;
    Some(Fact { name: "acpi.pptt".into(), value: FactValue::Bytes(blob) })
}

#[cfg(test)]
mod tests;
