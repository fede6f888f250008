//! Registers of coprocessor 15: values that are written to them, and decoders. Names and bits are those of DDI 0406C, B4.1
//! (ARMv7-A), and DDI 0100I, B3 to B6 (ARMv6), unless noted otherwise.

use alloc::format;
use alloc::string::String;

use fathom_probe::machine::Attribute;

use crate::board::{ARM1176, CORTEX_A7, CORTEX_A15, CORTEX_A53, CORTEX_A72, part};
use crate::clock_trust::Evidence;

/// `SCTLR` with translation and caches off: its bits that read as one in ARMv7 (3 to 6, 16, 18, 22, 23). In ARMv6 the last
/// two select unaligned accesses as in ARMv7 (`U`) and its format of descriptors, without subpages (`XP`); 3 to 6, 16 and
/// 18 should be one (ARM1176JZF-S TRM, DDI 0301H, 3.2.7).
pub const SCTLR_OFF: u32 = 0x00c5_0078;
/// `SCTLR` with translation (`M`), data caches (`C`), branch prediction (`Z`) and instruction caches (`I`) on.
pub const SCTLR_ON: u32 = SCTLR_OFF | 1 | 1 << 2 | 1 << 11 | 1 << 12;
/// `DACR`: the only domain is checked against the descriptors' rights ("client").
pub const DACR: u32 = 1;
/// `HCPTR`: its bits that read as one; nothing is trapped.
pub const HCPTR: u32 = 0x33ff;
/// `CNTHCTL`: counter and timer of PL1 are not trapped.
pub const CNTHCTL: u32 = 3;
/// Program status: supervisor mode, with all interrupts and asynchronous aborts masked.
pub const CPSR_SVC: u32 = 0x1d3;
/// `ACTLR.SMP` of Cortex-A7 (DDI 0464F) and A15 (DDI 0438I), which both manuals require before caches are on.
pub const SMP: u32 = 1 << 6;

/// Bytes of attributes in the encoding of `MAIR_EL1` that a descriptor without TEX remap can have ("Short-descriptor format
/// memory region attributes, without TEX remap"): strongly-ordered, device, and for Normal memory any two of four policies.
/// There is no write-through memory that allocates on writes.
#[must_use]
pub fn region_bits(byte: u8) -> Option<u32> {
    // TEX, C, B: 1BB AA, with the outer policy in BB and the inner one in AA.
    match byte {
        0x00 => Some(0),
        0x04 => Some(1),
        _ => Some(0b1_0000 | policy(byte >> 4)? << 2 | policy(byte & 0xf)?),
    }
}

/// Returns the two bits of a policy: non-cacheable, write-back with allocation on writes, write-through and write-back
/// without it.
fn policy(half: u8) -> Option<u32> {
    match half {
        0x4 => Some(0b00),
        0xf => Some(0b01),
        0xa => Some(0b10),
        0xe => Some(0b11),
        _ => None,
    }
}

/// Returns the byte of an attribute, in the encoding of `MAIR_EL1`: what [`region_bits`] accepts.
#[must_use]
pub fn byte_of(attribute: Attribute) -> u8 {
    match attribute {
        Attribute::Device => 0x00,
        Attribute::NormalNc => 0x44,
        Attribute::WriteBack => 0xff,
        Attribute::WriteThrough => 0xaa,
    }
}

/// Returns the bits of `TTBR0` for the cacheability of table walks, inner and outer, not shareable: `RGN` in bits 4:3, and
/// `IRGN` in bits 0 and 6 (with the multiprocessing extensions). In ARMv6 bit 0 alone means cacheable, and ARM1176 must not
/// be given it: its walks do not read the L1 (DDI 0301H, 3.2.13).
#[must_use]
pub fn walk_bits(attribute: Attribute, v7: bool) -> Option<u32> {
    match (attribute, v7) {
        (Attribute::Device, _) => None,
        (Attribute::NormalNc, _) | (_, false) => Some(0),
        (Attribute::WriteBack, true) => Some(0b01 << 3 | 1 << 6),
        (Attribute::WriteThrough, true) => Some(0b10 << 3 | 1),
    }
}

/// Result of a translation operation in `PAR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Par {
    /// No translation, with the fault status.
    Fault(u8),
    /// A translation.
    Translated {
        /// Physical address of the translated byte.
        pa: u64,
        /// Attribute in force, in the encoding of `MAIR_EL1`; `None` for a reserved one.
        mair: Option<u8>,
    },
}

/// Decodes `PAR` after a translation of `va`: the attribute in bits 6:2, the address in 31:12, of which a supersection (bit
/// 1) gives the first eight only.
#[must_use]
pub fn par(value: u32, va: u64) -> Par {
    if value & 1 == 1 {
        return Par::Fault((value >> 1 & 0x3f) as u8);
    }
    const POLICIES: [u8; 4] = [0x4, 0xf, 0xa, 0xe];
    let outer = POLICIES[(value >> 2 & 3) as usize] << 4;
    let mair = match value >> 4 & 7 {
        0b001 => Some(0x00),
        0b011 => Some(0x04),
        0b000 => Some(outer | 0x4),
        0b101 => Some(outer | 0xf),
        0b110 => Some(outer | 0xa),
        0b111 => Some(outer | 0xe),
        _ => None,
    };
    let inside = if value & 2 == 0 { 0xfff } else { 0xff_ffff };
    Par::Translated { pa: u64::from(value) & !inside & 0xffff_f000 | va & inside, mair }
}

/// Returns the core's name, variant and revision.
#[must_use]
pub fn core(midr: u64) -> String {
    let part = match part(midr) {
        ARM1176 => "ARM1176JZF-S".into(),
        CORTEX_A7 => "Cortex-A7".into(),
        CORTEX_A15 => "Cortex-A15".into(),
        CORTEX_A53 => "Cortex-A53".into(),
        CORTEX_A72 => "Cortex-A72".into(),
        other => format!("implementer {:#x}, part {:#x}", other >> 24, other >> 4 & 0xfff),
    };
    format!("{part} r{}p{}", midr >> 20 & 0xf, midr & 0xf)
}

/// Returns whether the core has `ACTLR.SMP` at [`SMP`].
#[must_use]
pub fn has_smp(midr: u64) -> bool {
    matches!(part(midr), CORTEX_A7 | CORTEX_A15)
}

/// Returns what the registers show of an ARMv7 core, or of an ARMv8 one in its 32-bit state: `ACTLR`, of those that have
/// [`SMP`] there.
///
/// QEMU gives emulated cores their true `MIDR`, but their `ACTLR` reads as zero after any write. On a real core software
/// has set `SMP` before caches are on, and a Cortex-A7 has its prefetcher's depth there after reset (DDI 0464F,
/// "Auxiliary Control Register": `L1PCTL`).
#[must_use]
pub fn evidence_v7(midr: u64, actlr: u32) -> Evidence {
    match (has_smp(midr), actlr) {
        (true, 0) => Evidence::Emulator(
            "ACTLR reads as zero after SMP was set, unlike on a real core: an emulator".into(),
        ),
        (true, actlr) => Evidence::RealCore(format!(
            "ACTLR={actlr:#x}: the value of a real core, which QEMU does not emulate"
        )),
        (false, _) => unknown(midr),
    }
}

/// Returns what ARM1176 shows: whether its cycle counter counts, and whether its data cache reports a dirty line after one
/// was written (`Cache Dirty Status Register`, DDI 0301H, 3.2.22). QEMU implements neither.
#[must_use]
pub fn evidence_v6(midr: u64, counts: bool, is_dirty: bool) -> Evidence {
    if part(midr) != ARM1176 {
        return unknown(midr);
    }
    if counts && is_dirty {
        return Evidence::RealCore(
            "the cycle counter counts and the data cache reports a dirty line: QEMU emulates neither".into(),
        );
    }
    let missing =
        if counts { "the data cache never reports a dirty line" } else { "the cycle counter does not count" };
    Evidence::Emulator(format!("{missing}, unlike a real ARM1176: an emulator"))
}

fn unknown(midr: u64) -> Evidence {
    Evidence::Emulator(format!(
        "MIDR={midr:#x} is not a core that this image knows, and there is no evidence of real hardware"
    ))
}

/// Returns the smallest line of a data cache, bytes: `CTR.DminLine` in its format of ARMv7 (bits 31:29), otherwise the
/// length of the data cache's lines in that of ARMv6.
#[must_use]
pub fn data_line(ctr: u32) -> u64 {
    match ctr >> 29 {
        0b100 => 4 << (ctr >> 16 & 0xf),
        _ => 8 << (ctr >> 12 & 3),
    }
}

/// Returns whether there is an architectural PMU: `ID_DFR0`, bits 27:24, 1 (PMUv1) to 14.
#[must_use]
pub fn has_pmu(dfr0: u32) -> bool {
    !matches!(dfr0 >> 24 & 0xf, 0 | 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_have_the_bits_of_the_manual() {
        // TEX, C, B of "Short-descriptor format memory region attributes, without TEX remap".
        for (byte, bits) in [
            (0x00, Some(0)),
            (0x04, Some(0b0_0001)),
            (0x44, Some(0b1_0000)),
            (0xff, Some(0b1_0101)),
            (0xaa, Some(0b1_1010)),
            (0xee, Some(0b1_1111)),
            (0x4f, Some(0b1_0001)),
            (0xbb, None),
            (0x0c, None),
            (0x77, None),
        ] {
            assert_eq!(region_bits(byte), bits, "{byte:#x}");
        }
        assert_eq!((0..=255).filter(|byte| region_bits(*byte).is_some()).count(), 2 + 16);
        for attribute in Attribute::ALL {
            assert!(region_bits(byte_of(*attribute)).is_some());
        }
    }

    #[test]
    fn address_translations_are_decoded() {
        // Write-back with allocation on writes, inner 101 and outer 01; NS is set.
        let of = |value, va| par(value, va);
        assert_eq!(of(0x4012_3254, 0xa001_2345), Par::Translated { pa: 0x4012_3345, mair: Some(0xff) });
        assert_eq!(of(0x0800_0010, 0), Par::Translated { pa: 0x0800_0000, mair: Some(0x00) });
        assert_eq!(of(0x0800_0030, 0), Par::Translated { pa: 0x0800_0000, mair: Some(0x04) });
        assert_eq!(of(0x0800_0000, 8), Par::Translated { pa: 0x0800_0008, mair: Some(0x44) });
        assert_eq!(of(0x0800_0068, 0), Par::Translated { pa: 0x0800_0000, mair: Some(0xaa) });
        assert_eq!(of(0x0800_0020, 0), Par::Translated { pa: 0x0800_0000, mair: None });
        assert_eq!(of(0x1200_0002, 0x12_3456), Par::Translated { pa: 0x1212_3456, mair: Some(0x44) });
        // F, and the status: translation fault, section.
        assert_eq!(of(0x0b, 0), Par::Fault(5));
    }

    #[test]
    fn walks_of_arm1176_are_never_cacheable() {
        for attribute in [Attribute::WriteBack, Attribute::WriteThrough, Attribute::NormalNc] {
            assert_eq!(walk_bits(attribute, false), Some(0));
        }
        assert_eq!(walk_bits(Attribute::WriteBack, true), Some(0x48));
        assert_eq!(walk_bits(Attribute::WriteThrough, true), Some(0x11));
        assert_eq!(walk_bits(Attribute::NormalNc, true), Some(0));
        assert_eq!(walk_bits(Attribute::Device, true), None);
    }

    #[test]
    fn only_cores_with_plausible_registers_are_real() {
        for (evidence, real) in [
            (evidence_v7(0x410f_c075, 0x6040), true),
            (evidence_v7(0x410f_c075, 0), false),
            (evidence_v7(0x412f_c0f1, 0), false),
            (evidence_v7(0x413f_c090, 0x41), false),
            (evidence_v6(0x410f_b767, true, true), true),
            (evidence_v6(0x410f_b767, true, false), false),
            (evidence_v6(0x410f_b767, false, true), false),
            (evidence_v6(0x410f_b36d, true, true), false),
        ] {
            assert_eq!(matches!(evidence, Evidence::RealCore(_)), real, "{evidence:?}");
        }
    }

    #[test]
    fn cores_lines_and_counters_are_decoded() {
        assert_eq!(core(0x410f_b767), "ARM1176JZF-S r0p7");
        assert_eq!(core(0x412f_c0f1), "Cortex-A15 r2p1");
        assert_eq!(core(0x413f_c090), "implementer 0x41, part 0xc09 r3p0");
        // ARM1176 of the Pi 1 (16 KiB, 4 ways, 32 bytes), Cortex-A15.
        assert_eq!((data_line(0x1d15_2152), data_line(0x8444_c004)), (32, 64));
        assert!(has_pmu(0x0201_0555) && !has_pmu(0x0000_0033) && !has_pmu(0x0f01_0555));
    }
}
