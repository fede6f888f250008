//! What the facts reveal of the ground that a subject runs on: a hypervisor, a binary translator.
//!
//! The absence of evidence is no evidence of silicon: a hypervisor may hide. What a clock is worth is
//! therefore the lower of this and what the subject declares.

use super::cpuid::{self, Leaf};
use super::{FactValue, Facts, devicetree};

/// What the facts say, with the sentence that says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Environment {
    /// No fact speaks of anything between the probe and the hardware.
    NothingFound,
    /// A guest on real caches.
    Virtual(String),
    /// A binary translator: no time that is measured here means anything.
    Emulated(String),
}

impl Environment {
    /// The evidence, a plain sentence; `None` where nothing was found.
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

/// Signatures of leaf 4000_0000 (ebx, ecx, edx), and whose they are. Sources: Linux
/// `arch/x86/kernel/cpu/{vmware,mshyperv,acrn}.c`, `arch/x86/include/{asm/xen/hypervisor.h,
/// uapi/asm/kvm_para.h}`; QEMU `target/i386/tcg`; bhyve `x86.c`.
const SIGNATURES: [(&[u8; 12], &str); 7] = [
    (b"KVMKVMKVM\0\0\0", "KVM"),
    (b"Microsoft Hv", "Hyper-V"),
    (b"VMwareVMware", "VMware"),
    (b"XenVMMXenVMM", "Xen"),
    (b"bhyve bhyve ", "bhyve"),
    (b"ACRNACRNACRN", "ACRN"),
    (b"VBoxVBoxVBox", "VirtualBox"),
];

/// QEMU's translator answers with this signature (`target/i386/cpu.c`).
const TRANSLATOR: &[u8; 12] = b"TCGTCGTCGTCG";

/// Words in the DMI strings of virtual machines (systemd's `virt.c` knows the same ones).
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

/// Judges the facts. Of several findings the one that makes the clock worth least is reported.
#[must_use]
pub fn environment(facts: &Facts) -> Environment {
    let mut found = [by_cpuid(facts), by_midr(facts), by_firmware(facts)];
    // Stable: the first of equals is kept by taking the maximum from the end.
    found.reverse();
    found.into_iter().max_by_key(Environment::rank).unwrap_or(Environment::NothingFound)
}

fn by_cpuid(facts: &Facts) -> Environment {
    // Complaints about these facts are made where they are decoded as claims.
    let mut unheard = Vec::new();
    let mut read = |number: u32| cpuid::leaf(facts, number, 0, &mut unheard);
    let (one, hypervisor) = (read(1), read(0x4000_0000));
    // Bit 31 of ecx is reserved for hypervisors by both vendors.
    if one.is_none_or(|leaf| leaf.ecx >> 31 == 0) {
        return Environment::NothingFound;
    }
    // The registers stand in another order here than in leaf 0.
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

/// QEMU's `max` processor, which exists nowhere else: implementer 0, part number 'Q'.
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
             translator runs it cannot be told from that."
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
