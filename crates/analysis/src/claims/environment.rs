//! Detects hypervisors and binary translators from the facts.
//!
//! Absence of evidence does not prove real hardware: a hypervisor may hide itself. The trust in a clock is therefore
//! the lower of this result and the subject's own declaration.

use super::cpuid::{self, Leaf};
use super::{FactValue, Facts, devicetree};

/// Kind of environment, with the evidence as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Environment {
    /// No fact shows a layer between the probe and the hardware.
    NothingFound,
    /// A guest on real caches.
    Virtual(String),
    /// A binary translator: measured times are meaningless.
    Emulated(String),
}

impl Environment {
    /// Returns the evidence as a sentence; `None` if nothing was found.
    #[must_use]
    pub fn evidence(&self) -> Option<&str> {
        match self {
            Environment::NothingFound => None,
            Environment::Virtual(why) | Environment::Emulated(why) => Some(why),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Environment::NothingFound => 0,
            Environment::Virtual(_) => 1,
            Environment::Emulated(_) => 2,
        }
    }
}

/// Signatures of leaf 4000_0000 (ebx, ecx, edx) and names of the hypervisors. Sources: Linux
/// `arch/x86/kernel/cpu/{vmware,mshyperv,acrn}.c`, `arch/x86/include/{asm/xen/hypervisor.h, uapi/asm/kvm_para.h}`; QEMU
/// `target/i386/tcg`; bhyve `x86.c`.
const SIGNATURES: [(&[u8; 12], &str); 7] = [
    (b"KVMKVMKVM\0\0\0", "KVM"),
    (b"Microsoft Hv", "Hyper-V"),
    (b"VMwareVMware", "VMware"),
    (b"XenVMMXenVMM", "Xen"),
    (b"bhyve bhyve ", "bhyve"),
    (b"ACRNACRNACRN", "ACRN"),
    (b"VBoxVBoxVBox", "VirtualBox"),
];

/// Signature of QEMU's translator (`target/i386/cpu.c`).
const TRANSLATOR: &[u8; 12] = b"TCGTCGTCGTCG";

/// Substrings in the DMI strings of virtual machines (systemd's `virt.c` has the same list).
const DMI: [&str; 11] = [
    "QEMU",
    "KVM",
    "VMware",
    "VirtualBox",
    "innotek GmbH",
    "Xen",
    "Bochs",
    "Parallels",
    "BHYVE",
    "Virtual Machine",
    "Google Compute Engine",
];

/// Classifies the environment. Of several findings, the one with the lowest clock trust is returned.
#[must_use]
pub fn environment(facts: &Facts) -> Environment {
    let mut found = [by_cpuid(facts), by_midr(facts), by_firmware(facts)];
    // `max_by_key` returns the last of equals, so the order is reversed to keep the first.
    found.reverse();
    found.into_iter().max_by_key(Environment::rank).unwrap_or(Environment::NothingFound)
}

fn by_cpuid(facts: &Facts) -> Environment {
    // Errors in these facts are reported where they are decoded as claims.
    let mut ignored = Vec::new();
    let mut read = |number: u32| cpuid::leaf(facts, number, 0, &mut ignored);
    let (one, hypervisor) = (read(1), read(0x4000_0000));
    // Bit 31 of ecx is reserved for hypervisors by both vendors.
    if one.is_none_or(|leaf| leaf.ecx >> 31 == 0) {
        return Environment::NothingFound;
    }
    // The order of the registers differs from that of leaf 0.
    let name = cpuid::vendor({
        let leaf = hypervisor.unwrap_or_default();
        Leaf { ecx: leaf.edx, edx: leaf.ecx, ..leaf }
    });
    if &name == TRANSLATOR {
        return Environment::Emulated("CPUID leaf 40000000 names TCG, QEMU's binary translator.".to_owned());
    }
    let whose = SIGNATURES.iter().find(|(signature, _)| **signature == name);
    Environment::Virtual(match whose {
        Some((_, whose)) => format!("CPUID says that a hypervisor is present, and names {whose}."),
        None => "CPUID says that a hypervisor is present.".to_owned(),
    })
}

/// QEMU's `max` processor, which no hardware reports: implementer 0, part number 'Q'.
fn by_midr(facts: &Facts) -> Environment {
    match facts.get("arm.midr_el1") {
        Some(FactValue::Int(midr)) if midr >> 24 & 0xff == 0 && midr >> 4 & 0xfff == u64::from(b'Q') => {
            Environment::Emulated(format!(
                "MIDR_EL1 is {midr:#010x}: the processor \"max\" of QEMU's binary translator."
            ))
        }
        _ => Environment::NothingFound,
    }
}

fn by_firmware(facts: &Facts) -> Environment {
    if let Some(FactValue::Bytes(blob)) = facts.get("devicetree.blob")
        && devicetree::compatible(blob, "linux,dummy-virt")
    {
        return Environment::Virtual(
            "The devicetree is that of a virtual machine (linux,dummy-virt); whether a hypervisor or a \
             translator runs it cannot be determined from that."
                .to_owned(),
        );
    }
    match facts.get("virt.dmi") {
        // Bare-metal instances carry their provider's name too; Amazon's end in "metal".
        Some(FactValue::Text(dmi)) if dmi.contains("Amazon EC2") && !dmi.contains("metal") => {
            Environment::Virtual(format!("The DMI strings are those of a virtual machine: {dmi:?}."))
        }
        Some(FactValue::Text(dmi)) if DMI.iter().any(|word| dmi.contains(word)) => {
            Environment::Virtual(format!("The DMI strings are those of a virtual machine: {dmi:?}."))
        }
        _ => Environment::NothingFound,
    }
}
