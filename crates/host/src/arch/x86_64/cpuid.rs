//! CPUID leaves of a record, undecoded.

use fathom_probe::machine::{Fact, FactValue};

/// The four registers that a CPUID leaf returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) eax: u32,
    pub(super) ebx: u32,
    pub(super) ecx: u32,
    pub(super) edx: u32,
}

/// Returns whether leaf 1 reports a hypervisor. (Bit 31 of ECX, which processors leave clear for software.)
pub(super) fn hypervisor(read: impl Fn(u32, u32) -> Leaf) -> bool {
    read(1, 0).ecx >> 31 == 1
}

/// Maximum sub-leaves that are read per leaf. Processors describe fewer than ten caches and TLBs.
const MAX_SUBLEAVES: u32 = 32;

/// Returns the CPUID leaves about caches, TLBs, clocks and hypervisors (Intel SDM 2A, CPUID; AMD APM 3, appendix E),
/// each 16 bytes: eax, ebx, ecx, edx, little endian. Named `cpuid.LEAF.SUBLEAF` in hexadecimal.
pub(super) fn facts(read: impl Fn(u32, u32) -> Leaf) -> Vec<Fact> {
    let mut facts = Vec::new();
    let (zero, extended) = (read(0, 0), read(0x8000_0000, 0).eax);
    let mut put = |leaf: u32, subleaf: u32| {
        let found = read(leaf, subleaf);
        let value = [found.eax, found.ebx, found.ecx, found.edx].map(u32::to_le_bytes).concat();
        facts.push(Fact { name: format!("cpuid.{leaf:x}.{subleaf:x}"), value: FactValue::Bytes(value) });
        found
    };
    let put_all = |put: &mut dyn FnMut(u32, u32) -> Leaf, leaf: u32| {
        // The list of caches ends with type 0 in eax[4:0], which is included as the end mark.
        (0..MAX_SUBLEAVES).find(|&n| put(leaf, n).eax & 0x1f == 0);
    };
    let basic = |leaf: u32| leaf <= zero.eax;
    for leaf in [0, 1, 2, 7, 0x15, 0x16].into_iter().filter(|&leaf| basic(leaf)) {
        put(leaf, 0);
    }
    if basic(4) {
        put_all(&mut put, 4);
    }
    if basic(0x18) {
        // Eax of its first sub-leaf is the number of the last one.
        let last = put(0x18, 0).eax;
        (1..=last.min(MAX_SUBLEAVES)).for_each(|n| {
            put(0x18, n);
        });
    }
    if hypervisor(&read) {
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

#[cfg(test)]
mod tests;
