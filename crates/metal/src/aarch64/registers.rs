//! System registers of AArch64: values that are written to them, and decoders. Names and bits are those of DDI 0487, part D
//! ("System registers"), unless noted otherwise.

use alloc::format;
use alloc::string::String;

use fathom_probe::machine::Attribute;

use crate::board::{CORTEX_A53, CORTEX_A72, part};
use crate::clock_trust::Evidence;

/// `SCR_EL3` for the levels below: non-secure (bit 0), both RES1 bits (4, 5), no SMC (7: no handler exists), HVC (8),
/// AArch64 below (10).
pub const SCR_EL3: u64 = 1 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 10;
/// `HCR_EL2`: EL1 is AArch64 (`RW`, bit 31); no second stage, no traps.
pub const HCR_EL2: u64 = 1 << 31;
/// `CNTHCTL_EL2`: counter and timer of EL1 are not trapped (`EL1PCTEN`, `EL1PCEN`).
pub const CNTHCTL_EL2: u64 = 3;
/// `CPTR_EL2`: its RES1 bits, no traps.
pub const CPTR_EL2: u64 = 0x33ff;
/// `SCTLR_EL1` with translation and caches off: its RES1 bits in Armv8.0 (11, 20, 22, 23, 28, 29).
pub const SCTLR_EL1_OFF: u64 = 0x30d0_0800;
/// `SCTLR_EL1` with translation (`M`), data caches (`C`), stack alignment checks (`SA`) and instruction caches (`I`)
/// on.
pub const SCTLR_EL1_ON: u64 = SCTLR_EL1_OFF | 1 | 1 << 2 | 1 << 3 | 1 << 12;
/// Saved program status of an exception return to EL1 on its own stack, with all interrupts masked.
pub const SPSR_EL1H: u64 = 0x3c5;
/// `ACTLR_EL3` and `ACTLR_EL2` of Cortex-A53 and A72: EL1 may write `CPUACTLR_EL1` (bit 0) and `CPUECTLR_EL1` (bit
/// 1), and the L2's registers (4 to 6). DDI 0500J, "Auxiliary Control Register, EL3"; the value that the Pis'
/// armstub8.S writes.
pub const ACTLR_EL1_WRITES: u64 = 1 | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 6;
/// `CPUECTLR_EL1.SMPEN`, the same bit in Cortex-A53 (DDI 0500J) and A72 (100095): without it the core is not coherent
/// with others. Both manuals require it before caches are on. Without it a Cortex-A53 may treat cacheable memory as
/// non-cacheable; on a Cortex-A72 the L1 and L2 of one core are coherent with or without it.
pub const SMPEN: u64 = 1 << 6;
/// Bits that the Pis' armstub8.S adds to `L2CTLR_EL1`: latencies of the L2's memory, which depend on the hardware
/// ("Set L2 read/write cache latency to 3"; 100095 and DDI 0500J, "L2 Control Register").
pub const L2_LATENCIES: u64 = 0x22;

/// `CPUACTLR_EL1` of Cortex-A53: number of outstanding L1 prefetches, 0 for none (DDI 0500J, "CPU Auxiliary Control
/// Register", `L1PCTL`, bits 15:13).
const A53_L1PCTL: u64 = 7 << 13;
/// `CPUACTLR_EL1` of Cortex-A72: disables prefetches of the load/store unit into L1 and L2 (100095, "CPU Auxiliary
/// Control Register"; Trusted Firmware-A's cortex_a72.h: DISABLE_L1_DCACHE_HW_PFTCH).
const A72_NO_LOAD_STORE_PREFETCH: u64 = 1 << 56;
/// `CPUECTLR_EL1` of Cortex-A72: disables the prefetch of the next descriptors of a table walk (100095, "CPU Extended
/// Control Register"; cortex_a72.h: DIS_TWD_ACC_PFTCH).
const A72_NO_WALK_PREFETCH: u64 = 1 << 38;
/// `CPUECTLR_EL1` of Cortex-A72: distance of the L2's instruction prefetches, 0 for none (cortex_a72.h:
/// L2_IPFTCH_DIST). The distance of data prefetches, bits 33:32, is unchanged: 0 is its smallest value, 16 requests,
/// and not none. (From memory of 100095, and not checked against its text.)
const A72_INSTRUCTION_PREFETCH_DISTANCE: u64 = 3 << 35;

/// Returns `CPUACTLR_EL1` and `CPUECTLR_EL1` with the core's prefetchers off, computed from their current values, and
/// the bits as text. `None` for a core whose bits are not known.
#[must_use]
pub fn prefetchers_off(midr: u64, (actlr, ectlr): (u64, u64)) -> Option<((u64, u64), &'static str)> {
    match part(midr) {
        CORTEX_A53 => Some(((actlr & !A53_L1PCTL, ectlr), "CPUACTLR_EL1[15:13]=0")),
        CORTEX_A72 => Some((
            (
                actlr | A72_NO_LOAD_STORE_PREFETCH,
                ectlr & !A72_INSTRUCTION_PREFETCH_DISTANCE | A72_NO_WALK_PREFETCH,
            ),
            "CPUACTLR_EL1[56]=1 CPUECTLR_EL1[38]=1 CPUECTLR_EL1[36:35]=0",
        )),
        _ => None,
    }
}

/// Returns what `CPUACTLR_EL1` and `CPUECTLR_EL1` show, `None` on a core that is not known to have them.
///
/// QEMU gives emulated cores their true `MIDR_EL1`, but does not implement the implementation-defined registers: both
/// read as zero after any write. On a Cortex-A53 the first is zero only if software has written zero: after reset it
/// contains the prefetcher's depth (DDI 0500J, "CPU Auxiliary Control Register": `L1PCTL` is 0b101). On a Cortex-A72 the
/// second contains two prefetch distances after reset (100095, "CPU Extended Control Register"). On both it contains
/// `SMPEN` once the core is coherent.
#[must_use]
pub fn evidence(midr: u64, registers: Option<(u64, u64)>) -> Evidence {
    match (part(midr), registers) {
        (CORTEX_A53 | CORTEX_A72, Some((0, 0))) => Evidence::Emulator(
            "CPUACTLR_EL1 and CPUECTLR_EL1 read as zero, unlike on a real core: an emulator".into(),
        ),
        (CORTEX_A53 | CORTEX_A72, Some((actlr, ectlr))) => Evidence::RealCore(format!(
            "CPUACTLR_EL1={actlr:#x} CPUECTLR_EL1={ectlr:#x}: values of a real core, which QEMU does not emulate"
        )),
        _ => Evidence::Emulator(format!(
            "MIDR_EL1={midr:#x} is not a core that this image knows, and there is no evidence of real hardware"
        )),
    }
}

/// Translation starts with 39 bits of address and 4 KiB pages: `TCR_EL1.T0SZ` is 64 - 39.
pub const T0SZ: u64 = 25;

/// Indices of the attribute bytes in `MAIR_EL1`: the four attributes, and one byte that a request may set.
pub const INDEX_DEVICE: u64 = 0;
/// See [`INDEX_DEVICE`].
pub const INDEX_NORMAL_NC: u64 = 1;
/// See [`INDEX_DEVICE`].
pub const INDEX_WRITE_BACK: u64 = 2;
/// See [`INDEX_DEVICE`].
pub const INDEX_WRITE_THROUGH: u64 = 3;
/// See [`INDEX_DEVICE`].
pub const INDEX_RAW: u64 = 4;

/// Returns the index of an attribute in `MAIR_EL1`.
#[must_use]
pub fn index_of(attribute: Attribute) -> u64 {
    match attribute {
        Attribute::Device => INDEX_DEVICE,
        Attribute::NormalNc => INDEX_NORMAL_NC,
        Attribute::WriteBack => INDEX_WRITE_BACK,
        Attribute::WriteThrough => INDEX_WRITE_THROUGH,
    }
}

/// Returns the byte of `MAIR_EL1` for an attribute: Device-nGnRnE; Normal, inner and outer non-cacheable; write-back
/// or write-through, non-transient, allocating on reads and writes.
#[must_use]
pub fn byte_of(attribute: Attribute) -> u8 {
    match attribute {
        Attribute::Device => 0x00,
        Attribute::NormalNc => 0x44,
        Attribute::WriteBack => 0xff,
        Attribute::WriteThrough => 0xbb,
    }
}

/// Returns `MAIR_EL1` with the four attributes and the requested byte.
#[must_use]
pub fn mair(raw: u8) -> u64 {
    let all = [Attribute::Device, Attribute::NormalNc, Attribute::WriteBack, Attribute::WriteThrough];
    let shifted = |attribute| u64::from(byte_of(attribute)) << (8 * index_of(attribute));
    all.into_iter().map(shifted).sum::<u64>() | u64::from(raw) << (8 * INDEX_RAW)
}

/// Returns the cacheability of table walks: `TCR_EL1.IRGN0` and `ORGN0`. Walks cannot use device memory.
#[must_use]
pub fn walk_cacheability(attribute: Attribute) -> Option<u64> {
    match attribute {
        Attribute::NormalNc => Some(0b00),
        Attribute::WriteBack => Some(0b01),
        Attribute::WriteThrough => Some(0b10),
        Attribute::Device => None,
    }
}

/// Returns `TCR_EL1`: 39 bits of lower addresses, 4 KiB pages, walks with the cacheability `walks` and inner
/// shareable, no upper addresses (`EPD1`), and the core's physical address size (`ID_AA64MMFR0_EL1.PARange`, at most
/// 48 bits with 4 KiB pages in Armv8.0).
#[must_use]
pub fn tcr(walks: u64, pa_range: u64) -> u64 {
    T0SZ | walks << 8 | walks << 10 | 3 << 12 | 1 << 23 | pa_range.min(5) << 32
}

/// Result of `AT S1E1R` in `PAR_EL1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParEl1 {
    /// No translation, with the fault status code.
    Fault(u8),
    /// A translation.
    Translated {
        /// Physical address of the translated byte.
        pa: u64,
        /// Attribute byte in force, in the encoding of `MAIR_EL1`.
        mair: u8,
    },
}

/// Decodes `PAR_EL1` after a translation of `va`.
#[must_use]
pub fn par(value: u64, va: u64) -> ParEl1 {
    if value & 1 == 1 {
        return ParEl1::Fault((value >> 1 & 0x3f) as u8);
    }
    ParEl1::Translated { pa: value & 0x000f_ffff_ffff_f000 | va & 0xfff, mair: (value >> 56) as u8 }
}

/// Returns the core's name, variant and revision.
#[must_use]
pub fn core(midr: u64) -> String {
    let part = match part(midr) {
        CORTEX_A53 => "Cortex-A53".into(),
        CORTEX_A72 => "Cortex-A72".into(),
        other => format!("implementer {:#x}, part {:#x}", other >> 24, other >> 4 & 0xfff),
    };
    format!("{part} r{}p{}", midr >> 20 & 0xf, midr & 0xf)
}

/// Returns whether there is an architectural PMU. `ID_AA64DFR0_EL1.PMUVer`: 0 means none, 15 an
/// implementation-defined one.
#[must_use]
pub fn has_pmu(dfr0: u64) -> bool {
    !matches!(dfr0 >> 8 & 0xf, 0 | 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn register_values_follow_the_manual() {
        assert_eq!(SCR_EL3, 0x5b1);
        assert_eq!(SCTLR_EL1_ON & !SCTLR_EL1_OFF, 0x100d);
        assert_eq!(mair(0xa5), 0xa5_bb_ff_44_00);
        assert_eq!(tcr(1, 2), 0x2_0080_3519);
        assert_eq!(tcr(0, 9) >> 32, 5);
        assert_eq!(ACTLR_EL1_WRITES, 0x73);
        // Device memory cannot be walked.
        assert_eq!(Attribute::ALL.iter().filter_map(|a| walk_cacheability(*a)).count(), 3);
    }

    #[test]
    fn only_cores_with_plausible_registers_are_real() {
        let (a53, a72) = (0x410f_d034, 0x410f_d083);
        for (midr, registers, real) in [
            (a53, Some((0x090c_a000, 0x40)), true),
            (a72, Some((0, 0x1b_0000_0040)), true),
            (a53, Some((0, 0)), false),
            (a72, Some((0, 0)), false),
            (0x414f_d0c1, None, false),
        ] {
            let found = evidence(midr, registers);
            assert_eq!(matches!(found, Evidence::RealCore(_)), real, "{midr:#x}: {found:?}");
        }
    }

    #[test]
    fn prefetcher_bits_switch_prefetchers() {
        let ((actlr, ectlr), _) = prefetchers_off(0x410f_d034, (0x090c_a000, 0x40)).unwrap();
        assert_eq!((actlr, ectlr), (0x090c_0000, 0x40));
        // Out of reset, and as the Pis' armstub8.S leaves them; the distance of data prefetches is unchanged.
        for (was, now) in [((0, 0x1b_0000_0040), 0x43_0000_0040), ((0, 0x40), 0x40_0000_0040)] {
            let ((actlr, ectlr), words) = prefetchers_off(0x410f_d083, was).unwrap();
            assert_eq!((actlr, ectlr), (1 << 56, now), "{words}");
        }
        assert_eq!(prefetchers_off(0x414f_d0c1, (0, 0)), None);
    }

    #[test]
    fn attributes_have_their_mair_bytes() {
        let bytes = Attribute::ALL.iter().map(|a| byte_of(*a));
        assert_eq!(bytes.collect::<alloc::vec::Vec<u8>>(), [0xff, 0xbb, 0x44, 0x00]);
        for attribute in Attribute::ALL {
            assert_eq!((mair(0) >> (8 * index_of(*attribute))) as u8, byte_of(*attribute));
            assert_ne!(index_of(*attribute), INDEX_RAW);
        }
    }

    #[test]
    fn address_translations_are_decoded() {
        assert_eq!(
            par(0xff00_0000_4012_3b80, 0x1234_5678),
            ParEl1::Translated { pa: 0x4012_3678, mair: 0xff }
        );
        // F, and FST 0b000101: translation fault, level 1.
        assert_eq!(par(0x80b, 0), ParEl1::Fault(5));
    }

    #[test]
    fn cores_are_named() {
        assert_eq!(core(0x410f_d034), "Cortex-A53 r0p4");
        assert_eq!(core(0x410f_d083), "Cortex-A72 r0p3");
        assert_eq!(core(0x414f_d0c1), "implementer 0x41, part 0xd0c r4p1");
    }

    #[test]
    fn pmu_is_detected() {
        assert!(has_pmu(0x1030_5106) && !has_pmu(0x1030_5006) && !has_pmu(0x1030_5f06));
    }
}
