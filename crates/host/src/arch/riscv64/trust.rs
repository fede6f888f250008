//! Evidence of a binary translator in the registers that the kernel prints.

use fathom_probe::machine::ClockTrust;

/// Architecture id of QEMU (marchid.md of the RISC-V ISA manual's repository).
const QEMU_ARCHID: u64 = 42;

/// Versions of QEMU, major, minor and micro in a byte each, which QEMU gives as `marchid` from 7.1 on
/// (target/riscv/cpu.c, `RISCV_CPU_MARCHID`): without vendor, so that no commercial core has it.
const QEMU_VERSIONS: std::ops::Range<u64> = 0x07_00_00..0x40_00_00;

/// Judges the clock by `mvendorid` and `marchid` of `/proc/cpuinfo`.
pub(super) fn judge(cpuinfo: &str) -> Option<(ClockTrust, String)> {
    let register = |key: &str| {
        let line = cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then_some(value.trim())
        })?;
        u64::from_str_radix(line.strip_prefix("0x")?, 16).ok()
    };
    let (vendor, archid) = (register("mvendorid")?, register("marchid")?);
    let qemu = vendor == 0 && (archid == QEMU_ARCHID || QEMU_VERSIONS.contains(&archid));
    qemu.then(|| (ClockTrust::Emulated, format!("mvendorid is 0 and marchid {archid:#x}: QEMU's")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trust(vendor: &str, archid: &str) -> Option<ClockTrust> {
        let info = format!("processor\t: 0\nmvendorid\t: {vendor}\nmarchid\t\t: {archid}\nmimpid\t\t: 0x0\n");
        judge(&info).map(|(trust, _)| trust)
    }

    #[test]
    fn only_qemu_is_a_translator() {
        assert_eq!(trust("0x0", "0x2a"), Some(ClockTrust::Emulated));
        assert_eq!(trust("0x0", "0x70200"), Some(ClockTrust::Emulated), "QEMU 7.2.0");
        assert_eq!(trust("0x489", "0x8000000000000007"), None, "SiFive U74");
        assert_eq!(trust("0x5b7", "0x0"), None, "T-Head C906");
        assert_eq!(trust("0x0", "0x1"), None, "Rocket, of an open project");
        assert_eq!(judge("processor\t: 0\nisa\t: rv64imafdc\n"), None, "Linux before 6.2 prints none");
    }
}
