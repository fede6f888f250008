//! What the processor and its firmware say about themselves, as they say it: facts, undecoded.

use fathom_probe::machine::{Fact, FactValue};

use crate::arch::{Architecture as _, Cpu};
use crate::read::Root;

/// Longest firmware table that is taken, bytes. Devicetrees of boards have 30 to 100 KiB, the largest PPTT
/// of a two-socket server some 20 KiB.
const BLOB: u64 = 256 << 10;

/// The attributes of a cache in sysfs (Documentation/ABI/testing/sysfs-devices-system-cpu).
const CACHE: [&str; 7] = [
    "level",
    "type",
    "size",
    "ways_of_associativity",
    "number_of_sets",
    "coherency_line_size",
    "shared_cpu_list",
];

/// Every claim that this machine makes about its caches, for the CPU `cpu`. That of CPU 0 is reported as well,
/// where it is another one: on most machines the two agree, and where they do not both matter.
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
        for attribute in CACHE {
            if let Some(value) = root.text(&format!("{directory}/{index}/{attribute}")) {
                facts.push(crate::facts::text(format!("sysfs.cpu{cpu}.cache.{index}.{attribute}"), value));
            }
        }
    }
    facts
}

/// The flattened devicetree, of which only what describes processors and caches is wanted; serial numbers
/// and addresses of network cards, which boot loaders write into it, are blanked.
fn tree_fact(root: &Root) -> Option<Fact> {
    let mut blob = root.bytes("/sys/firmware/fdt", BLOB)?;
    crate::redact::devicetree(&mut blob)?;
    Some(Fact { name: "devicetree.blob".into(), value: FactValue::Bytes(blob) })
}

fn table_fact(root: &Root) -> Option<Fact> {
    let blob = root.bytes("/sys/firmware/acpi/tables/PPTT", BLOB)?;
    Some(Fact { name: "acpi.pptt".into(), value: FactValue::Bytes(blob) })
}

#[cfg(test)]
mod tests;
