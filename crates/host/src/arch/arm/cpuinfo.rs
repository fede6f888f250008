//! The identification of the processor. The register (MIDR) is privileged; the kernel prints its fields.

use crate::procfs::Root;

/// Returns MIDR (DDI 0406C, B4.1.105), put together from the fields of the first processor in `/proc/cpuinfo`. Bits
/// 19:16 are 15, as on all processors that the fields can describe ("defined by CPUID scheme").
pub(super) fn midr(root: &Root) -> Option<u64> {
    let info = root.text("/proc/cpuinfo")?;
    let field = |key: &str| {
        let value = info.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then_some(value.trim())
        })?;
        match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => value.parse().ok(),
        }
    };
    let (implementer, variant) = (field("CPU implementer")?, field("CPU variant")?);
    let (part, revision) = (field("CPU part")?, field("CPU revision")?);
    Some(implementer << 24 | variant << 20 | 0xf << 16 | part << 4 | revision)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn fields_of_a_raspberry_pi_1_are_its_register() {
        let info = "processor\t: 0\nmodel name\t: ARMv6-compatible processor rev 7 (v6l)\n\
                    CPU implementer\t: 0x41\nCPU architecture: 7\nCPU variant\t: 0x0\nCPU part\t: 0xb76\n\
                    CPU revision\t: 7\n\nHardware\t: BCM2835\n";
        let (_keep, root) = fixture::root(&[("/proc/cpuinfo", info)]);
        assert_eq!(midr(&root), Some(0x410f_b767), "ARM1176JZF-S r0p7 (DDI 0301H, 3.2.2)");
        let (_keep, root) = fixture::root(&[("/proc/cpuinfo", "CPU implementer\t: 0x41\n")]);
        assert_eq!(midr(&root), None);
    }
}
