//! Detects whether the clock is that of hardware, an emulator or a model, by the core's registers.

use alloc::format;
use alloc::string::String;

use fathom_probe::machine::ClockTrust;

use crate::board::{Board, CORTEX_A53, CORTEX_A72, part};

/// Returns the clock trust, and the evidence.
///
/// QEMU gives emulated cores their true `MIDR_EL1`, but does not implement the implementation-defined registers:
/// `CPUACTLR_EL1` and `CPUECTLR_EL1` read as zero after any write. On a Cortex-A53 the first is zero only if software
/// has written zero: after reset it contains the prefetcher's depth (DDI 0500J, "CPU Auxiliary Control Register":
/// `L1PCTL` is 0b101). On a Cortex-A72 the second contains two prefetch distances after reset (100095, "CPU Extended
/// Control Register"). On both it contains `SMPEN` once the core is coherent. `registers` are the two registers,
/// `None` on a core that is not known to have them. The registers do not reveal a described machine; only the image's
/// parameters do (`modelled`).
#[must_use]
pub fn judge(board: Board, midr: u64, registers: Option<(u64, u64)>, modelled: bool) -> (ClockTrust, String) {
    if modelled {
        let evidence = "by the image's parameters, a described machine provides the time";
        return (ClockTrust::Modelled, evidence.into());
    }
    match (board, part(midr), registers) {
        (Board::Virt, ..) => (
            ClockTrust::Emulated,
            "loaded at 0x40000000 or above, as on QEMU's virt: no supported board loads there".into(),
        ),
        (_, CORTEX_A53 | CORTEX_A72, Some((0, 0))) => (
            ClockTrust::Emulated,
            "CPUACTLR_EL1 and CPUECTLR_EL1 read as zero, unlike on a real core: an emulator".into(),
        ),
        (_, CORTEX_A53 | CORTEX_A72, Some((actlr, ectlr))) => (
            ClockTrust::Real,
            format!(
                "CPUACTLR_EL1={actlr:#x} CPUECTLR_EL1={ectlr:#x}: values of a real core, which QEMU does not emulate"
            ),
        ),
        _ => (
            ClockTrust::Emulated,
            format!(
                "MIDR_EL1={midr:#x} is not a core that this image knows, and there is no evidence of real hardware"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cores_with_plausible_registers_are_real() {
        let (a53, a72) = (0x410f_d034, 0x410f_d083);
        for (board, midr, registers, trust) in [
            (Board::Pi3, a53, Some((0x090c_a000, 0x40)), ClockTrust::Real),
            (Board::Pi4, a72, Some((0, 0x1b_0000_0040)), ClockTrust::Real),
            (Board::Pi3, a53, Some((0, 0)), ClockTrust::Emulated),
            (Board::Pi4, a72, Some((0, 0)), ClockTrust::Emulated),
            (Board::Virt, a53, Some((0x090c_a000, 0x40)), ClockTrust::Emulated),
            (Board::Pi3, 0x414f_d0c1, None, ClockTrust::Emulated),
        ] {
            let (found, why) = judge(board, midr, registers, false);
            assert_eq!(judge(board, midr, registers, true).0, ClockTrust::Modelled);
            assert_eq!(found, trust, "{board:?} {midr:#x}: {why}");
            assert!(!why.is_empty());
        }
    }
}
