//! Walks the guest's page tables as the hardware does.
//!
//! Stage 1 of EL1 with 4 KiB pages, TTBR0_EL1 only: DDI 0487, D8.2 and D8.3. Access flags and permissions are not
//! checked. A violation would be an error of the guest, which QEMU and boards detect.

use crate::translation::Page;

/// The registers that control translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regime {
    /// SCTLR_EL1.
    pub sctlr: u64,
    /// TTBR0_EL1.
    pub ttbr: u64,
    /// TCR_EL1.
    pub tcr: u64,
    /// MAIR_EL1.
    pub mair: u64,
}

/// Bits 47:12 of a descriptor: the address in it.
const ADDRESS: u64 = 0x0000_ffff_ffff_f000;

impl Regime {
    /// Returns whether translation is enabled (SCTLR_EL1.M).
    pub fn is_on(&self) -> bool {
        self.sctlr & 1 == 1
    }

    /// Returns whether walks bypass the caches (TCR_EL1.IRGN0 = 0, non-cacheable).
    pub fn walks_past_caches(&self) -> bool {
        self.tcr >> 8 & 3 == 0
    }

    /// Walks for an address. `read` returns the 8 bytes at a physical address, if there is memory. Without translation
    /// data are accessed as Device-nGnRnE (D8.2.10).
    pub fn walk(&self, va: u64, read: impl Fn(u64) -> Option<u64>) -> Option<Page> {
        if !self.is_on() {
            return Some(Page::untranslated(va, 0));
        }
        let bits = 64 - (self.tcr & 63);
        // 4 KiB pages only (TG0 = 0), and only addresses of TTBR0's half.
        if self.tcr >> 14 & 3 != 0 || !(25..=48).contains(&bits) || va >> bits != 0 {
            return None;
        }
        let mut level = 4 - (bits - 12).div_ceil(9);
        let mut table = self.ttbr & ADDRESS;
        let (mut descriptors, mut count) = ([0; 4], 0);
        loop {
            let shift = 12 + 9 * (3 - level);
            let at = table + (va >> shift & 0x1ff) * 8;
            let entry = read(at)?;
            count += 1;
            descriptors[4 - count] = at;
            match (entry & 3, level) {
                (0b11, 0..=2) => (table, level) = (entry & ADDRESS, level + 1),
                (0b01, 1 | 2) | (0b11, 3) => {
                    let inside = (1 << shift) - 1;
                    let mair = (self.mair >> (8 * (entry >> 2 & 7))) as u8;
                    let pa = entry & ADDRESS & !inside | va & inside;
                    return Some(Page::walked(pa, 1 << shift, mair, &descriptors[4 - count..]));
                }
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn regime() -> Regime {
        Regime { sctlr: 1, ttbr: 0x1000, tcr: 25 | 1 << 8, mair: 0xbb_ff_44_00 }
    }

    #[test]
    fn blocks_and_pages_lead_where_the_tables_say() {
        // 39 bits: the root is of level 1.
        let memory = HashMap::from([
            (0x1000u64 + 8, 0x2000u64 | 0b11),
            (0x2000 + 2 * 8, 0x1020_0000 | 1 << 2 | 0b01),
            (0x2000 + 3 * 8, 0x3000 | 0b11),
            (0x3000 + 5 * 8, 0x1000_7000 | 2 << 2 | 1 << 54 | 0b11),
        ]);
        let read = |at| Some(memory.get(&at).copied().unwrap_or(0));
        let va = 1 << 30 | 2 << 21 | 0x1234;
        let block = regime().walk(va, read).unwrap();
        assert_eq!((block.pa, block.bytes, block.mair), (0x1020_1234, 2 << 20, 0x44));
        assert_eq!(block.descriptors(), [0x2010, 0x1008]);
        let page = regime().walk(1 << 30 | 3 << 21 | 5 << 12 | 8, read).unwrap();
        assert_eq!((page.pa, page.bytes, page.mair), (0x1000_7008, 4096, 0xff));
        assert_eq!(page.descriptors(), [0x3028, 0x2018, 0x1008]);
        assert_eq!(regime().walk(0, read), None, "nothing is mapped there");
        assert_eq!(regime().walk(1 << 39, read), None, "TTBR1's");
        assert_eq!(regime().walk(va, |_| None), None, "tables outside of memory");
    }

    #[test]
    fn without_translation_an_address_is_its_own() {
        let off = Regime { sctlr: 0, ..regime() };
        let page = off.walk(0x8_0000, |_| None).unwrap();
        assert_eq!((page.pa, page.mair, page.descriptors().len()), (0x8_0000, 0, 0));
    }
}
