//! Which processor the facts are of.

use super::{FactValue, Facts, cpuid};

/// How a processor identifies itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessorIdentity {
    /// The main identification register of an ARM processor (MIDR).
    Midr(u64),
    /// CPUID of an x86 processor.
    X86 {
        /// Vendor, of leaf 0.
        vendor: String,
        /// Family, of leaf 1; the extended family included.
        family: u16,
    },
}

/// Returns the identity of the processor; `None` if no fact has it, as on a described machine.
#[must_use]
pub fn processor(facts: &Facts) -> Option<ProcessorIdentity> {
    let midr = ["arm.midr_el1", "arm.midr"].into_iter().find_map(|name| match facts.get(name) {
        Some(FactValue::Int(midr)) => Some(ProcessorIdentity::Midr(*midr)),
        _ => None,
    });
    midr.or_else(|| by_cpuid(facts))
}

fn by_cpuid(facts: &Facts) -> Option<ProcessorIdentity> {
    // What is wrong with a leaf is complained of where its caches are decoded.
    let mut ignored = Vec::new();
    let zero = cpuid::leaf(facts, 0, 0, &mut ignored)?;
    let one = cpuid::leaf(facts, 1, 0, &mut ignored)?;
    let vendor = [zero.ebx, zero.edx, zero.ecx].map(u32::to_le_bytes).concat();
    // Family 15 is extended by bits 27:20 (Intel 253666, CPUID; AMD 24594, Fn0000_0001_EAX).
    let base = one.eax >> 8 & 0xf;
    let family = if base == 0xf { base + (one.eax >> 20 & 0xff) } else { base };
    Some(ProcessorIdentity::X86 {
        vendor: String::from_utf8(vendor).ok()?,
        family: u16::try_from(family).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(words: [u32; 4]) -> FactValue {
        FactValue::Bytes(words.map(u32::to_le_bytes).concat())
    }

    #[test]
    fn midr_and_cpuid_identify_processors() {
        let midr = Facts::from_iter([("arm.midr".to_owned(), FactValue::Int(0x410f_b767))]);
        assert_eq!(processor(&midr), Some(ProcessorIdentity::Midr(0x410f_b767)));
        let vendor = |ebx: &[u8; 4], edx: &[u8; 4], ecx: &[u8; 4]| {
            leaf([0x10, u32::from_le_bytes(*ebx), u32::from_le_bytes(*ecx), u32::from_le_bytes(*edx)])
        };
        // Eax of leaf 1 of an EPYC 9004 and of a Xeon of the fourth generation.
        let amd =
            [("cpuid.0.0", vendor(b"Auth", b"enti", b"cAMD")), ("cpuid.1.0", leaf([0x00a1_0f11, 0, 0, 0]))];
        let intel =
            [("cpuid.0.0", vendor(b"Genu", b"ineI", b"ntel")), ("cpuid.1.0", leaf([0x0008_06f8, 0, 0, 0]))];
        for (facts, expected, family) in [(amd, "AuthenticAMD", 0x19), (intel, "GenuineIntel", 6)] {
            let facts = facts.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
            assert_eq!(
                processor(&facts),
                Some(ProcessorIdentity::X86 { vendor: expected.to_owned(), family })
            );
        }
        assert_eq!(processor(&Facts::from_iter([])), None);
    }
}
