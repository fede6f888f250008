//! Evidence of a binary translator in registers, also those of the 32-bit state (MIDR and CNTFRQ).

use fathom_probe::machine::ClockTrust;

/// Rate of QEMU's generic timer: hw/arm and target/arm/cpu.c of QEMU up to 8, 62.5 MHz. A guest of a hypervisor has
/// the hardware's own rate instead.
const QEMU_CNTFRQ: u64 = 62_500_000;

/// Judges the clock by `MIDR_EL1`, if it could be read, and the counter's rate (Hz, `CNTFRQ_EL0`), on the machine
/// that devicetree and DMI name. Returns the verdict with its reason.
pub(in super::super) fn judge(
    midr: Option<u64>,
    cntfrq: u64,
    tree: &str,
    dmi: &str,
) -> Option<(ClockTrust, String)> {
    // DDI 0487, MIDR_EL1: implementer 0 is reserved for software use, as in QEMU's `max`.
    if let Some(midr) = midr.filter(|midr| midr >> 24 & 0xff == 0) {
        let why = format!("MIDR_EL1 {midr:#x} has implementer 0, reserved for software");
        return Some((ClockTrust::Emulated, why));
    }
    let qemu = tree.contains("linux,dummy-virt") || dmi.contains("QEMU");
    // The counter of a Pi runs at 19.2 MHz (54 MHz from the Pi 4 on), and of a Versatile Express at 24 MHz: this rate is
    // that of QEMU's models.
    let modelled = ["brcm,bcm28", "arm,vexpress"].iter().any(|name| tree.contains(name));
    ((qemu || modelled) && cntfrq == QEMU_CNTFRQ).then(|| {
        let why = "the counter has the rate of QEMU's own timer (62.5 MHz) on one of QEMU's machines";
        (ClockTrust::Emulated, why.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A72: u64 = 0x410f_d083;
    const PI3: &str = "raspberrypi,3-model-b brcm,bcm2837";

    fn trust(tree: &str, midr: u64, cntfrq: u64) -> Option<ClockTrust> {
        let (trust, why) = judge(Some(midr), cntfrq, tree, "")?;
        assert!(!why.is_empty());
        Some(trust)
    }

    #[test]
    fn boards_at_their_documented_rate_have_no_warning() {
        assert_eq!(trust("raspberrypi,4-model-b brcm,bcm2711", A72, 54_000_000), None);
        assert_eq!(trust(PI3, 0x410f_d034, 19_200_000), None);
        assert_eq!(trust("vendor,board", A72, 25_000_000), None);
        assert_eq!(trust("vendor,board", A72, 62_500_000), None, "a rate that silicon may have");
        assert_eq!(judge(None, 19_200_000, PI3, ""), None, "a register that could not be read");
    }

    #[test]
    fn counter_rate_reveals_a_translator() {
        // QEMU's raspi3b boots the board's own devicetree.
        assert_eq!(trust(PI3, 0x410f_d034, 62_500_000), Some(ClockTrust::Emulated));
        assert_eq!(
            trust("arm,vexpress,v2p-ca15,tc1 arm,vexpress", 0x412f_c0f1, 62_500_000),
            Some(ClockTrust::Emulated)
        );
        // QEMU's virt: under KVM the counter is that of the hardware, under TCG it is QEMU's.
        assert_eq!(trust("linux,dummy-virt", A72, 25_000_000), None);
        assert_eq!(trust("linux,dummy-virt", A72, 62_500_000), Some(ClockTrust::Emulated));
        let (trust, _) =
            judge(None, 62_500_000, "", "QEMU / KVM Virtual Machine").expect("started by firmware");
        assert_eq!(trust, ClockTrust::Emulated);
    }

    #[test]
    fn software_implementer_is_a_translator_on_any_board() {
        assert_eq!(trust("vendor,board", 0x000f_0510, 25_000_000), Some(ClockTrust::Emulated), "-cpu max");
    }
}
