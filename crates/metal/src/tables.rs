//! Translation tables: 4 KiB pages, 39 bits of address, so three levels of which the first is never a leaf here.
//!
//! DDI 0487, "The AArch64 Virtual Memory System Architecture" ("Translation table descriptor formats"); with T0SZ =
//! 25 the walk begins at level 1.

use crate::registers;

/// Bytes of a page, and of a table.
pub const PAGE: u64 = 4096;
/// Bytes that a level-2 entry maps as a block.
pub const BLOCK: u64 = 2 << 20;
/// Entries of a table.
pub const ENTRIES: usize = 512;
/// Bytes of address space: 39 bits.
pub const SPACE: u64 = 1 << 39;

/// A table.
#[derive(Clone, Debug)]
#[repr(C, align(4096))]
pub struct Table(pub [u64; ENTRIES]);

/// What may be done with memory, and how it is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Index in `MAIR_EL1`.
    pub index: u64,
    /// May be written to.
    pub writable: bool,
    /// May be executed.
    pub executable: bool,
}

/// Size of what one entry maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// [`PAGE`].
    Page,
    /// [`BLOCK`].
    Block,
}

impl Grain {
    /// Bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Grain::Page => PAGE,
            Grain::Block => BLOCK,
        }
    }
}

impl Leaf {
    /// Data under an attribute index: readable and writable, never executed.
    #[must_use]
    pub fn data(index: u64) -> Leaf {
        Leaf { index, writable: true, executable: false }
    }

    /// The descriptor that maps `pa`: valid, with its access flag set, so that no access faults for being the first;
    /// for EL1 alone. Normal memory is inner shareable, so that cores agree about it; for device and non-cacheable
    /// memory the field says nothing ("Stage 1 Shareability attributes"), and is written as outer shareable, as the
    /// architecture treats them.
    #[must_use]
    pub fn descriptor(self, pa: u64, grain: Grain) -> u64 {
        let kind = match grain {
            Grain::Page => 0b11,
            Grain::Block => 0b01,
        };
        let cacheable = !matches!(self.index, registers::INDEX_DEVICE | registers::INDEX_NORMAL_NC);
        let shareable = if cacheable { 0b11 } else { 0b10 };
        let read_only = u64::from(!self.writable) << 7;
        // UXN always; PXN unless it may be executed.
        let never = 1 << 54 | u64::from(!self.executable) << 53;
        pa | kind | self.index << 2 | read_only | shareable << 8 | 1 << 10 | never
    }
}

/// Where an address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked {
    /// Physical address.
    pub pa: u64,
    /// How.
    pub leaf: Leaf,
    /// By an entry of this size.
    pub grain: Grain,
}

/// Tables in a pool, the root first.
#[derive(Debug)]
pub struct Tables<'a> {
    pool: &'a mut [Table],
    used: usize,
    /// Physical address of the pool.
    at: u64,
}

/// Address bits of a descriptor, 47:12.
const ADDRESS: u64 = 0x0000_ffff_ffff_f000;

impl<'a> Tables<'a> {
    /// An empty root in `pool`, which lies at the physical address `at`. Nothing is assumed of what the pool
    /// holds.
    ///
    /// # Errors
    /// When the pool is empty.
    pub fn new(pool: &'a mut [Table], at: u64) -> Result<Tables<'a>, &'static str> {
        let mut tables = Tables { pool, used: 0, at };
        tables.take()?;
        Ok(tables)
    }

    /// Tables in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used
    }

    /// The number of a fresh, empty table.
    fn take(&mut self) -> Result<usize, &'static str> {
        let number = self.used;
        self.pool.get_mut(number).ok_or("the pool of translation tables is exhausted")?.0.fill(0);
        self.used += 1;
        Ok(number)
    }

    /// Maps `bytes` from `va` on to `pa` on, in entries of one size.
    ///
    /// # Errors
    /// When something is not aligned, lies outside, is mapped already, or the pool is exhausted.
    pub fn map(
        &mut self,
        va: u64,
        pa: u64,
        bytes: u64,
        leaf: Leaf,
        grain: Grain,
    ) -> Result<(), &'static str> {
        let size = grain.bytes();
        if [va, pa, bytes].iter().any(|value| !value.is_multiple_of(size)) {
            return Err("what is mapped is not aligned to its pages");
        }
        if va.checked_add(bytes).is_none_or(|end| end > SPACE) || pa & !ADDRESS != 0 {
            return Err("what is mapped lies outside of the address space");
        }
        for at in (0..bytes).step_by(size as usize) {
            self.map_one(va + at, leaf.descriptor(pa + at, grain), grain)?;
        }
        Ok(())
    }

    fn map_one(&mut self, va: u64, descriptor: u64, grain: Grain) -> Result<(), &'static str> {
        let mut table = self.below(0, level(va, 1))?;
        let mut index = level(va, 2);
        if grain == Grain::Page {
            table = self.below(table, index)?;
            index = level(va, 3);
        }
        let entry = &mut self.pool[table].0[index];
        if *entry != 0 {
            return Err("an address is mapped twice");
        }
        *entry = descriptor;
        Ok(())
    }

    /// The table behind an entry; a fresh one where there is none.
    fn below(&mut self, table: usize, index: usize) -> Result<usize, &'static str> {
        let entry = self.pool[table].0[index];
        match entry & 3 {
            0 => {
                let fresh = self.take()?;
                self.pool[table].0[index] = (self.at + fresh as u64 * PAGE) | 0b11;
                Ok(fresh)
            }
            0b11 => Ok(((entry & ADDRESS) - self.at) as usize / PAGE as usize),
            _ => Err("an address is mapped twice"),
        }
    }

    /// Where `va` leads, by walking as the hardware does.
    #[must_use]
    pub fn walk(&self, va: u64) -> Option<Walked> {
        if va >= SPACE {
            return None;
        }
        let mut table = 0;
        for depth in 1..=3 {
            let entry = self.pool[table].0[level(va, depth)];
            match (entry & 3, depth) {
                (0b11, 1 | 2) => table = ((entry & ADDRESS).checked_sub(self.at)? / PAGE) as usize,
                (0b01, 2) => return Some(walked(entry, va, Grain::Block)),
                (0b11, 3) => return Some(walked(entry, va, Grain::Page)),
                _ => return None,
            }
        }
        None
    }
}

/// Index of the entry for `va` in a table of this level.
fn level(va: u64, level: u32) -> usize {
    (va >> (12 + 9 * (3 - level)) & 0x1ff) as usize
}

fn walked(entry: u64, va: u64, grain: Grain) -> Walked {
    let inside = grain.bytes() - 1;
    Walked {
        pa: entry & ADDRESS & !inside | va & inside,
        leaf: Leaf { index: entry >> 2 & 7, writable: entry >> 7 & 1 == 0, executable: entry >> 53 & 1 == 0 },
        grain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    const AT: u64 = 0x4020_0000;

    fn pool(tables: usize) -> Vec<Table> {
        // What the memory held before must not matter.
        vec![Table([0xdead_beef_dead_beef; ENTRIES]); tables]
    }

    #[test]
    fn descriptors_are_the_manuals() {
        // The study's block: PA 0x40_0000, non-cacheable (index 1), for EL1, access flag; never executed.
        let nc = Leaf::data(registers::INDEX_NORMAL_NC).descriptor(0x40_0000, Grain::Block);
        assert_eq!(nc, 0x0060_0000_0040_0605);
        let wb = Leaf::data(registers::INDEX_WRITE_BACK).descriptor(0x40_0000, Grain::Page);
        assert_eq!(wb, 0x0060_0000_0040_070b);
        let code = Leaf { index: registers::INDEX_WRITE_BACK, writable: false, executable: true };
        assert_eq!(code.descriptor(0x8_0000, Grain::Page), 0x0040_0000_0008_078b);
        let device = Leaf::data(registers::INDEX_DEVICE).descriptor(0x3f20_0000, Grain::Block);
        assert_eq!(device, 0x0060_0000_3f20_0601);
    }

    #[test]
    fn mapped_pages_are_found_by_the_walk() {
        let mut pool = pool(8);
        let mut tables = Tables::new(&mut pool, AT).unwrap();
        let nc = Leaf::data(registers::INDEX_NORMAL_NC);
        let code = Leaf { index: registers::INDEX_WRITE_BACK, writable: false, executable: true };
        tables.map(0x10_0000_0000, 0x1000_0000, 2 * BLOCK, nc, Grain::Block).unwrap();
        tables.map(0x8_0000, 0x8_0000, 3 * PAGE, code, Grain::Page).unwrap();
        let walked = tables.walk(0x10_0000_0000 + BLOCK + 0x1238).unwrap();
        assert_eq!(walked, Walked { pa: 0x1000_0000 + BLOCK + 0x1238, leaf: nc, grain: Grain::Block });
        let walked = tables.walk(0x8_2ff8).unwrap();
        assert_eq!(walked, Walked { pa: 0x8_2ff8, leaf: code, grain: Grain::Page });
        for nowhere in
            [0, 0x8_3000, 0x7_fff8, 0x10_0000_0000 - 8, 0x10_0000_0000 + 2 * BLOCK, SPACE, u64::MAX]
        {
            assert_eq!(tables.walk(nowhere), None, "{nowhere:#x}");
        }
        // The root, and a chain of tables for either.
        assert_eq!(tables.used(), 1 + 1 + 2);
    }

    #[test]
    fn unmappable_requests_are_refused() {
        let mut pool = pool(3);
        let mut tables = Tables::new(&mut pool, AT).unwrap();
        let leaf = Leaf::data(0);
        assert!(tables.map(0x1000, 0x800, PAGE, leaf, Grain::Page).unwrap_err().contains("aligned"));
        assert!(tables.map(SPACE - PAGE, 0, 2 * PAGE, leaf, Grain::Page).unwrap_err().contains("outside"));
        assert!(tables.map(0, 1 << 48, PAGE, leaf, Grain::Page).unwrap_err().contains("outside"));
        tables.map(0x1000, 0, PAGE, leaf, Grain::Page).unwrap();
        assert!(tables.map(0x1000, 0, PAGE, leaf, Grain::Page).unwrap_err().contains("twice"));
        assert!(tables.map(0, 0, BLOCK, leaf, Grain::Block).unwrap_err().contains("twice"));
        assert!(tables.map(BLOCK, 0, PAGE, leaf, Grain::Page).unwrap_err().contains("exhausted"));
        assert!(Tables::new(&mut [], AT).is_err());
    }
}
