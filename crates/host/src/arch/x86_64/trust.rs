//! Evidence of a hypervisor or a binary translator in CPUID.

use fathom_probe::machine::ClockTrust;

use super::cpuid::{Leaf, hypervisor};

/// Vendor names in CPUID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuidNames {
    /// Vendor in leaf 0.
    pub(super) vendor: String,
    /// Signature in leaf 4000_0000, if leaf 1 reports a hypervisor.
    pub(super) hypervisor: Option<String>,
}

impl CpuidNames {
    /// Returns the names of a processor whose leaves `read` returns.
    pub(super) fn read(read: impl Fn(u32, u32) -> Leaf) -> CpuidNames {
        let zero = read(0, 0);
        let signature = || {
            let leaf = read(0x4000_0000, 0);
            letters([leaf.ebx, leaf.ecx, leaf.edx])
        };
        CpuidNames {
            vendor: letters([zero.ebx, zero.edx, zero.ecx]),
            hypervisor: hypervisor(&read).then(signature),
        }
    }
}

/// Decodes twelve letters in three registers.
fn letters(registers: [u32; 3]) -> String {
    let bytes: Vec<u8> = registers.iter().flat_map(|r| r.to_le_bytes()).filter(|b| *b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Judges the clock by the names. Returns the verdict with its reason.
pub(super) fn judge(names: &CpuidNames) -> Option<(ClockTrust, String)> {
    if names.vendor == "VirtualApple" {
        return Some((ClockTrust::Emulated, "CPUID leaf 0 names VirtualApple, a binary translator".into()));
    }
    let signature = names.hypervisor.as_deref()?;
    if signature == "TCGTCGTCGTCG" {
        // target/i386/cpu.c of QEMU.
        return Some((
            ClockTrust::Emulated,
            "CPUID leaf 40000000 names TCG, QEMU's binary translator".into(),
        ));
    }
    let named = if signature.is_empty() { "none".into() } else { format!("{signature:?}") };
    Some((
        ClockTrust::Virtual,
        format!("CPUID.1:ECX[31] says a hypervisor is present; its signature: {named}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trust(vendor: &str, hypervisor: Option<&str>) -> Option<ClockTrust> {
        let names = CpuidNames { vendor: vendor.into(), hypervisor: hypervisor.map(str::to_owned) };
        let (trust, why) = judge(&names)?;
        assert!(!why.is_empty());
        Some(trust)
    }

    #[test]
    fn hypervisor_signatures_are_virtual() {
        assert_eq!(trust("GenuineIntel", None), None);
        for signature in ["KVMKVMKVM", "Microsoft Hv", "XenVMMXenVMM", "VMwareVMware", ""] {
            assert_eq!(trust("GenuineIntel", Some(signature)), Some(ClockTrust::Virtual), "{signature:?}");
        }
        let (_, why) = judge(&CpuidNames { hypervisor: Some("KVMKVMKVM".into()), ..CpuidNames::default() })
            .expect("a verdict");
        assert!(why.contains("ECX[31]") && why.contains("KVMKVMKVM"), "{why}");
    }

    #[test]
    fn translators_are_emulated() {
        assert_eq!(trust("GenuineIntel", Some("TCGTCGTCGTCG")), Some(ClockTrust::Emulated));
        assert_eq!(trust("VirtualApple", None), Some(ClockTrust::Emulated));
        assert_eq!(trust("VirtualApple", Some("")), Some(ClockTrust::Emulated));
    }

    #[test]
    fn names_are_read_from_registers() {
        let none = Leaf { eax: 0, ebx: 0, ecx: 0, edx: 0 };
        let (genu, inei, ntel) = (0x756e_6547, 0x4965_6e69, 0x6c65_746e);
        let read = |present: u32| {
            move |leaf, _| match leaf {
                0 => Leaf { eax: 4, ebx: genu, edx: inei, ecx: ntel },
                1 => Leaf { ecx: present << 31, ..none },
                0x4000_0000 => Leaf { eax: 0, ebx: 0x4b4d_564b, ecx: 0x564b_4d56, edx: 0x4d },
                _ => none,
            }
        };
        let silicon = CpuidNames { vendor: "GenuineIntel".into(), hypervisor: None };
        assert_eq!(CpuidNames::read(read(0)), silicon, "a signature without a hypervisor is another leaf's");
        assert_eq!(CpuidNames::read(read(1)), CpuidNames { hypervisor: Some("KVMKVMKVM".into()), ..silicon });
    }
}
