//! What the processor and its firmware say about themselves, as they say it: facts, undecoded.

use fathom_probe::machine::{Fact, FactValue};

use crate::read::Root;

/// The four registers that a CPUID leaf answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cpuid {
    pub(crate) eax: u32,
    pub(crate) ebx: u32,
    pub(crate) ecx: u32,
    pub(crate) edx: u32,
}

/// A CPUID leaf, as the CPU that the thread is pinned to answers it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn cpuid(leaf: u32, subleaf: u32) -> Option<Cpuid> {
    let r = std::arch::x86_64::__cpuid_count(leaf, subleaf);
    Some(Cpuid { eax: r.eax, ebx: r.ebx, ecx: r.ecx, edx: r.edx })
}

/// There is no CPUID here.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn cpuid(_leaf: u32, _subleaf: u32) -> Option<Cpuid> {
    None
}

/// Most sub-leaves of one leaf that are taken. Processors describe fewer than ten caches and TLBs.
const SUBLEAVES: u32 = 32;

/// The CPUID leaves about caches, TLBs, clocks and hypervisors (Intel SDM 2A, CPUID; AMD APM 3, appendix
/// E), each 16 bytes: eax, ebx, ecx, edx, little endian. Named `cpuid.LEAF.SUBLEAF` in hexadecimal.
fn cpuid_facts(read: impl Fn(u32, u32) -> Option<Cpuid>) -> Vec<Fact> {
    let mut facts = Vec::new();
    let Some(zero) = read(0, 0) else { return facts };
    let highest = |start: u32| read(start, 0).map_or(0, |r| r.eax);
    let (extended, one) = (highest(0x8000_0000), read(1, 0));
    let hypervisor = one.is_some_and(|r| r.ecx >> 31 == 1);
    let mut put = |leaf: u32, subleaf: u32| {
        let found = read(leaf, subleaf)?;
        let value = [found.eax, found.ebx, found.ecx, found.edx].map(u32::to_le_bytes).concat();
        facts.push(Fact { name: format!("cpuid.{leaf:x}.{subleaf:x}"), value: FactValue::Bytes(value) });
        Some(found)
    };
    let put_all = |put: &mut dyn FnMut(u32, u32) -> Option<Cpuid>, leaf: u32| {
        // The list of caches ends with type 0 in eax[4:0], which is carried too: it is the end mark.
        (0..SUBLEAVES).find(|&n| put(leaf, n).is_none_or(|found| found.eax & 0x1f == 0));
    };
    let basic = |leaf: u32| leaf <= zero.eax;
    for leaf in [0, 1, 2, 7, 0x15, 0x16].into_iter().filter(|&leaf| basic(leaf)) {
        put(leaf, 0);
    }
    if basic(4) {
        put_all(&mut put, 4);
    }
    if basic(0x18) {
        // Its first sub-leaf says in eax which is the last one.
        let last = put(0x18, 0).map_or(0, |found| found.eax);
        (1..=last.min(SUBLEAVES)).for_each(|n| {
            put(0x18, n);
        });
    }
    if hypervisor {
        put(0x4000_0000, 0);
        put(0x4000_0001, 0);
    }
    let upper = [0x8000_0000, 0x8000_0001].into_iter().chain(0x8000_0002..=0x8000_0008).chain([0x8000_0019]);
    for leaf in upper.filter(|&leaf| leaf <= extended) {
        put(leaf, 0);
    }
    if extended >= 0x8000_001d {
        put_all(&mut put, 0x8000_001d);
    }
    facts
}

/// `MIDR_EL1` of the CPU that the thread is pinned to.
pub(crate) fn midr(root: &Root) -> Option<u64> {
    register("midr_el1").or_else(|| identification(root, "midr_el1"))
}

/// A register of `/sys/devices/system/cpu/cpuN/regs/identification`: `0x00000000410fd034`.
fn identification(root: &Root, name: &str) -> Option<u64> {
    let cpu = crate::process::allowed(root).last().copied()?;
    let text = root.text(&format!("/sys/devices/system/cpu/cpu{cpu}/regs/identification/{name}"))?;
    u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}

/// The identification registers that user space may read.
#[cfg(target_arch = "aarch64")]
fn register(name: &str) -> Option<u64> {
    use std::arch::asm;
    let value: u64;
    match name {
        // Linux leaves it to user space (SCTLR_EL1.UCT) or emulates the read where an erratum forbids.
        // SAFETY: reads an identification register.
        "ctr_el0" => unsafe { asm!("mrs {}, ctr_el0", out(reg) value, options(nomem, nostack)) },
        // Linux emulates the read where HWCAP_CPUID says so (Documentation/arch/arm64/
        // cpu-feature-registers.rst); elsewhere it would be an illegal instruction.
        // SAFETY: reads an identification register that HWCAP_CPUID promises.
        "midr_el1" if has_cpuid() => unsafe {
            asm!("mrs {}, midr_el1", out(reg) value, options(nomem, nostack));
        },
        _ => return None,
    }
    Some(value)
}

#[cfg(target_arch = "aarch64")]
fn has_cpuid() -> bool {
    // SAFETY: looks a number up in the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_HWCAP) & libc::HWCAP_CPUID != 0 }
}

#[cfg(not(target_arch = "aarch64"))]
fn register(_name: &str) -> Option<u64> {
    None
}

/// What firmware says of the generic timer's rate, Hz.
pub(crate) fn cntfrq() -> Option<u64> {
    #[cfg(target_arch = "aarch64")]
    return Some(crate::clock::cntfrq());
    #[cfg(not(target_arch = "aarch64"))]
    None
}

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

/// Every claim that this machine makes about its caches, for the CPU `cpu`. That of CPU 0 is told as well,
/// where it is another one: on most machines the two agree, and where they do not both matter.
pub(crate) fn facts(root: &Root, cpu: u32) -> Vec<Fact> {
    let mut facts = sysfs_facts(root, cpu);
    if cpu != 0 {
        facts.extend(sysfs_facts(root, 0));
    }
    facts.extend(cpuid_facts(cpuid));
    let int = |name: &str, value: Option<u64>| value.map(|v| crate::facts::int(name, v));
    facts.extend(int("arm.ctr_el0", register("ctr_el0")));
    facts.extend(int("arm.midr_el1", midr(root)));
    facts.extend(int("arm.cntfrq.hz", cntfrq()));
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
