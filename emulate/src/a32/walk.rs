//! Walks the guest's page tables as the hardware does.
//!
//! Short descriptors of one table for all addresses (`TTBCR` 0), without TEX remap: DDI 0406C, B3.5 and B3.8.2; ARMv6
//! with `SCTLR.XP` has the same (DDI 0100I, B4.7). Rights, domains and the execute-never bits are not checked, as in
//! `crate::a64::walk`.

use crate::translation::Page;

/// The registers that control translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regime {
    /// `SCTLR`.
    pub sctlr: u32,
    /// `TTBR0`.
    pub ttbr: u32,
    /// `TTBCR`.
    pub ttbcr: u32,
    /// Whether the core is an ARMv7, whose `TTBR0` has `IRGN` in bits 0 and 6.
    pub v7: bool,
}

impl Regime {
    /// Returns whether translation is enabled (`SCTLR.M`).
    pub fn is_on(&self) -> bool {
        self.sctlr & 1 == 1
    }

    /// Returns whether walks bypass the caches: `TTBR0.IRGN` of ARMv7 is 0, non-cacheable; `TTBR0.C` of ARMv6 is 0.
    pub fn walks_past_caches(&self) -> bool {
        self.ttbr & (1 | u32::from(self.v7) << 6) == 0
    }

    /// Walks for an address. `read` returns the 8 bytes at a physical address, if there is memory. Without translation
    /// data are accessed as Strongly-ordered (B3.2.1).
    pub fn walk(&self, va: u64, read: impl Fn(u64) -> Option<u64>) -> Option<Page> {
        if !self.is_on() {
            return Some(Page::untranslated(va, 0));
        }
        // SCTLR.TRE: the attributes would be those of PRRR and NMRR.
        if self.ttbcr != 0 || self.sctlr & 1 << 28 != 0 || va >> 32 != 0 {
            return None;
        }
        let word = |at: u64| Some((read(at & !7)? >> (8 * (at & 4))) as u32);
        let first = u64::from(self.ttbr & !0x3fff) + (va >> 20) * 4;
        let section = word(first)?;
        match section & 3 {
            // Bit 18: a supersection of 16 MiB.
            0b10 if section & 1 << 18 == 0 => page(section, va, 1 << 20, 12, &[first]),
            0b01 => {
                let second = u64::from(section & !0x3ff) + (va >> 12 & 0xff) * 4;
                let entry = word(second)?;
                // 01: a large page of 64 KiB. Bit 0 of a small page: execute never.
                if entry & 2 == 0 { None } else { page(entry, va, 4096, 6, &[second, first]) }
            }
            _ => None,
        }
    }
}

/// Returns the translation by a descriptor that maps `bytes` bytes and has TEX from bit `tex`.
fn page(entry: u32, va: u64, bytes: u64, tex: u32, by: &[u64]) -> Option<Page> {
    let mair = attribute(entry >> tex & 7, entry >> 2 & 3)?;
    Some(Page::walked(u64::from(entry) & !(bytes - 1) | va & (bytes - 1), bytes, mair, by))
}

/// Returns the attribute of TEX, C and B as a byte of `MAIR_EL1` (B3.8.2); `None` if it is reserved.
fn attribute(tex: u32, cb: u32) -> Option<u8> {
    // Non-cacheable, write-back with allocation on writes, write-through, write-back.
    const POLICIES: [u8; 4] = [0x4, 0xf, 0xa, 0xe];
    Some(match (tex, cb) {
        (0b000, 0b00) => 0x00,
        (0b000, 0b01) | (0b010, 0b00) => 0x04,
        (0b000, 0b10) => 0xaa,
        (0b000, 0b11) => 0xee,
        (0b001, 0b00) => 0x44,
        (0b001, 0b11) => 0xff,
        (0b100.., cb) => POLICIES[(tex & 3) as usize] << 4 | POLICIES[cb as usize],
        _ => return None,
    })
}

/// Returns what `PAR` holds after the translation of an address for reading (B4.1.112): the page's address and its
/// attribute in bits 6:1, or the status of a translation fault of the first level.
pub fn par(page: Option<Page>) -> u32 {
    const FAULT: u32 = 5 << 1 | 1;
    let Some(page) = page else { return FAULT };
    let policy = |half: u8| match half {
        0xf => 0b01,
        0xa => 0b10,
        0xe => 0b11,
        _ => 0b00,
    };
    // Inner: 001 strongly-ordered, 011 device, 1xx as the policies, 000 non-cacheable.
    let inner = match page.mair {
        0x00 => 0b001,
        0x04 => 0b011,
        byte if byte & 0xf == 0x4 => 0b000,
        byte => 0b100 | policy(byte & 0xf),
    };
    let outer = if page.mair >> 4 == 0 { 0 } else { policy(page.mair >> 4) };
    page.pa as u32 & 0xffff_f000 | inner << 4 | outer << 2
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use fathom_metal::arm::registers;
    use fathom_metal::arm::tables::{EntrySize, Leaf};
    use fathom_probe::machine::Attribute;

    use super::*;

    fn regime() -> Regime {
        Regime { sctlr: 1, ttbr: 0x4000 | 1 << 6, ttbcr: 0, v7: true }
    }

    /// Returns memory of these words.
    fn memory(words: &[(u64, u32)]) -> impl Fn(u64) -> Option<u64> {
        let mut memory = HashMap::new();
        for (at, word) in words {
            *memory.entry(at & !7).or_insert(0) |= u64::from(*word) << (8 * (at & 4));
        }
        move |at| Some(memory.get(&at).copied().unwrap_or(0))
    }

    #[test]
    fn sections_and_small_pages_lead_where_the_tables_say() {
        let read = memory(&[
            (0x4000 + 0xa01 * 4, 0x0410_4412),
            (0x4000 + 0xa02 * 4, 0x0000_8001),
            (0x8000 + 0x13 * 4, 0x0420_1157),
            (0x4000 + 0xa03 * 4, 0x0404_0002),
            (0x8000 + 0x14 * 4, 0x0420_0001),
        ]);
        let section = regime().walk(0xa01_2_345c, &read).unwrap();
        assert_eq!((section.pa, section.bytes, section.mair), (0x0412_345c, 1 << 20, 0x44));
        assert_eq!(section.descriptors(), [0x4000 + 0xa01 * 4]);
        let page = regime().walk(0xa02_1_3008, &read).unwrap();
        assert_eq!((page.pa, page.bytes, page.mair), (0x0420_1008, 4096, 0xff));
        assert_eq!(page.descriptors(), [0x804c, 0x4000 + 0xa02 * 4]);
        assert_eq!(regime().walk(0, &read), None, "nothing is mapped there");
        assert_eq!(regime().walk(0xa03_0_0000, &read), None, "a supersection");
        assert_eq!(regime().walk(0xa02_1_4000, &read), None, "a large page");
        assert_eq!(regime().walk(1 << 32, &read), None, "no address of 32 bits");
        assert_eq!(regime().walk(0xa010_0000, |_| None), None, "tables outside of memory");
        assert_eq!(Regime { ttbcr: 1 << 31, ..regime() }.walk(0xa010_0000, &read), None, "LPAE");
        assert_eq!(Regime { sctlr: 1 | 1 << 28, ..regime() }.walk(0xa010_0000, &read), None, "TEX remap");
        let off = Regime { sctlr: 0, ..regime() }.walk(0x8000, |_| None).unwrap();
        assert_eq!((off.pa, off.mair, off.descriptors().len()), (0x8000, 0, 0));
    }

    /// Every attribute that the image can write in a descriptor is read here and in `PAR` as the byte that it stands for.
    #[test]
    fn attributes_are_those_that_the_image_writes() {
        let mut known = 0;
        for byte in (0..=255u8).filter(|byte| registers::region_bits(*byte).is_some()) {
            for (size, from) in [(EntrySize::Block, 12), (EntrySize::Page, 6)] {
                let entry = Leaf::raw(byte).descriptor(0x0410_0000, size);
                let found = page(entry, 0x0410_0000, size.bytes(), from, &[]).unwrap();
                assert_eq!((found.mair, found.pa), (byte, 0x0410_0000), "{size:?}");
                let translated = registers::Par::Translated { pa: 0x0410_0000, mair: Some(byte) };
                assert_eq!(registers::par(par(Some(found)), 0), translated);
            }
            known += 1;
        }
        assert_eq!(known, 18);
        assert_eq!([attribute(0, 2), attribute(1, 3), attribute(2, 0)], [Some(0xaa), Some(0xff), Some(0x04)]);
        assert_eq!([attribute(1, 1), attribute(1, 2), attribute(3, 0)], [None; 3], "reserved");
        assert_eq!(registers::par(par(None), 0), registers::Par::Fault(5));
    }

    #[test]
    fn walks_of_the_image_read_caches_as_it_says() {
        for (attribute, v7, past) in [
            (Attribute::WriteBack, true, false),
            (Attribute::WriteThrough, true, false),
            (Attribute::NormalNc, true, true),
            (Attribute::WriteBack, false, true),
        ] {
            let ttbr = 0x4000 | registers::walk_bits(attribute, v7).unwrap();
            assert_eq!(Regime { ttbr, v7, ..regime() }.walks_past_caches(), past, "{attribute:?} {v7}");
        }
    }
}
