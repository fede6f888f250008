//! Translation tables: 4 KiB pages and 39 bits of address, so three levels, of which the first contains only tables.
//!
//! DDI 0487, "The AArch64 Virtual Memory System Architecture" ("Translation table descriptor formats"); with T0SZ =
//! 25 the walk begins at level 1.

use fathom_probe::machine::Attribute;

use super::registers;

/// Size of a page, and of a table, bytes.
pub const PAGE_BYTES: u64 = 4096;
/// Size of a block that a level-2 entry maps, bytes.
pub const BLOCK_BYTES: u64 = 2 << 20;
/// Entries in a table.
pub const ENTRIES: usize = 512;
/// Number of tables that the root takes.
pub const ROOT_TABLES: usize = 1;
/// Number of tables for the blocks of one GiB, in addition to the root.
pub const TABLES_PER_GIB: usize = 1;
/// Size of the address space, bytes: 39 bits.
pub const SPACE_BYTES: u64 = 1 << 39;
/// Virtual address of the first window: above all identity mappings.
pub const FIRST_WINDOW: u64 = 0x10_0000_0000;

/// A translation table.
#[derive(Clone, Debug)]
#[repr(C, align(4096))]
pub struct Table(pub [u64; ENTRIES]);

/// Access rights and attribute of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Index in `MAIR_EL1`.
    pub index: u64,
    /// Whether it may be written.
    pub writable: bool,
    /// Whether it may be executed.
    pub executable: bool,
}

/// Size that one entry maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntrySize {
    /// [`PAGE_BYTES`].
    Page,
    /// [`BLOCK_BYTES`].
    Block,
}

impl EntrySize {
    /// Returns the size, bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            EntrySize::Page => PAGE_BYTES,
            EntrySize::Block => BLOCK_BYTES,
        }
    }
}

impl Leaf {
    /// Returns data memory with an attribute: readable and writable, not executable.
    #[must_use]
    pub fn data(attribute: Attribute) -> Leaf {
        Leaf { index: registers::index_of(attribute), writable: true, executable: false }
    }

    /// Returns data memory with the requested byte, which is in `MAIR_EL1` and not in the descriptor.
    #[must_use]
    pub fn raw(_byte: u8) -> Leaf {
        Leaf { index: registers::INDEX_RAW, writable: true, executable: false }
    }

    /// Returns the descriptor that maps `pa`, for EL1 only. It is valid and has the access flag set, so that a first
    /// access does not fault. Normal memory is inner shareable, so that cores are coherent. For device and
    /// non-cacheable memory the field has no effect ("Stage 1 Shareability attributes"), and is written as outer
    /// shareable, as the architecture treats them.
    #[must_use]
    pub fn descriptor(self, pa: u64, entry_size: EntrySize) -> u64 {
        let kind = match entry_size {
            EntrySize::Page => 0b11,
            EntrySize::Block => 0b01,
        };
        let cacheable = !matches!(self.index, registers::INDEX_DEVICE | registers::INDEX_NORMAL_NC);
        let shareable = if cacheable { 0b11 } else { 0b10 };
        let read_only = u64::from(!self.writable) << 7;
        // UXN always; PXN unless it may be executed.
        let never = 1 << 54 | u64::from(!self.executable) << 53;
        pa | kind | self.index << 2 | read_only | shareable << 8 | 1 << 10 | never
    }
}

/// Result of a table walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableWalk {
    /// Physical address.
    pub pa: u64,
    /// Access rights and attribute.
    pub leaf: Leaf,
    /// Size of the entry.
    pub entry_size: EntrySize,
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
const ADDRESS_MASK: u64 = 0x0000_ffff_ffff_f000;

impl<'a> Tables<'a> {
    /// Creates an empty root in `pool`, which is at the physical address `at`. The pool's old content does not
    /// matter.
    ///
    /// # Errors
    /// Returns an error if the pool is empty.
    pub fn new(pool: &'a mut [Table], at: u64) -> Result<Tables<'a>, &'static str> {
        let mut tables = Tables { pool, used: 0, at };
        tables.allocate()?;
        Ok(tables)
    }

    /// Returns the number of tables in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used
    }

    /// Allocates an empty table and returns its index.
    fn allocate(&mut self) -> Result<usize, &'static str> {
        let number = self.used;
        self.pool.get_mut(number).ok_or("the pool of translation tables is exhausted")?.0.fill(0);
        self.used += 1;
        Ok(number)
    }

    /// Maps `bytes` bytes from `va` to `pa`, in entries of one size.
    ///
    /// # Errors
    /// Returns an error if an argument is not aligned or out of range, an address is already mapped, or the pool is
    /// exhausted.
    pub fn map(
        &mut self,
        va: u64,
        pa: u64,
        bytes: u64,
        leaf: Leaf,
        entry_size: EntrySize,
    ) -> Result<(), &'static str> {
        let size = entry_size.bytes();
        if [va, pa, bytes].iter().any(|value| !value.is_multiple_of(size)) {
            return Err("the mapping is not aligned to its pages");
        }
        if va.checked_add(bytes).is_none_or(|end| end > SPACE_BYTES) || pa & !ADDRESS_MASK != 0 {
            return Err("the mapping is outside of the address space");
        }
        for at in (0..bytes).step_by(size as usize) {
            self.map_one(va + at, leaf.descriptor(pa + at, entry_size), entry_size)?;
        }
        Ok(())
    }

    fn map_one(&mut self, va: u64, descriptor: u64, entry_size: EntrySize) -> Result<(), &'static str> {
        let mut table = self.next_table(0, level(va, 1))?;
        let mut index = level(va, 2);
        if entry_size == EntrySize::Page {
            table = self.next_table(table, index)?;
            index = level(va, 3);
        }
        let entry = &mut self.pool[table].0[index];
        if *entry != 0 {
            return Err("an address is mapped twice");
        }
        *entry = descriptor;
        Ok(())
    }

    /// Returns the table of an entry; allocates it if there is none.
    fn next_table(&mut self, table: usize, index: usize) -> Result<usize, &'static str> {
        let entry = self.pool[table].0[index];
        match entry & 3 {
            0 => {
                let new = self.allocate()?;
                self.pool[table].0[index] = (self.at + new as u64 * PAGE_BYTES) | 0b11;
                Ok(new)
            }
            0b11 => Ok(((entry & ADDRESS_MASK) - self.at) as usize / PAGE_BYTES as usize),
            _ => Err("an address is mapped twice"),
        }
    }

    /// Returns the translation of `va`, by a walk like the hardware's.
    #[must_use]
    pub fn walk(&self, va: u64) -> Option<TableWalk> {
        if va >= SPACE_BYTES {
            return None;
        }
        let mut table = 0;
        for depth in 1..=3 {
            let entry = self.pool[table].0[level(va, depth)];
            match (entry & 3, depth) {
                (0b11, 1 | 2) => table = ((entry & ADDRESS_MASK).checked_sub(self.at)? / PAGE_BYTES) as usize,
                (0b01, 2) => return Some(leaf_of(entry, va, EntrySize::Block)),
                (0b11, 3) => return Some(leaf_of(entry, va, EntrySize::Page)),
                _ => return None,
            }
        }
        None
    }
}

/// Returns the index of the entry for `va` in a table of this level.
fn level(va: u64, level: u32) -> usize {
    (va >> (12 + 9 * (3 - level)) & 0x1ff) as usize
}

fn leaf_of(entry: u64, va: u64, entry_size: EntrySize) -> TableWalk {
    let inside = entry_size.bytes() - 1;
    TableWalk {
        pa: entry & ADDRESS_MASK & !inside | va & inside,
        leaf: Leaf { index: entry >> 2 & 7, writable: entry >> 7 & 1 == 0, executable: entry >> 53 & 1 == 0 },
        entry_size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    const AT: u64 = 0x4020_0000;

    fn pool(tables: usize) -> Vec<Table> {
        // The initial content must not matter.
        vec![Table([0xdead_beef_dead_beef; ENTRIES]); tables]
    }

    #[test]
    fn descriptors_follow_the_manual() {
        // The study's block: PA 0x40_0000, non-cacheable (index 1), for EL1, access flag, not executable.
        let nc = Leaf::data(Attribute::NormalNc).descriptor(0x40_0000, EntrySize::Block);
        assert_eq!(nc, 0x0060_0000_0040_0605);
        let wb = Leaf::data(Attribute::WriteBack).descriptor(0x40_0000, EntrySize::Page);
        assert_eq!(wb, 0x0060_0000_0040_070b);
        let code = Leaf { index: registers::INDEX_WRITE_BACK, writable: false, executable: true };
        assert_eq!(code.descriptor(0x8_0000, EntrySize::Page), 0x0040_0000_0008_078b);
        let device = Leaf::data(Attribute::Device).descriptor(0x3f20_0000, EntrySize::Block);
        assert_eq!(device, 0x0060_0000_3f20_0601);
    }

    #[test]
    fn mapped_pages_are_found_by_the_walk() {
        let mut pool = pool(8);
        let mut tables = Tables::new(&mut pool, AT).unwrap();
        let nc = Leaf::data(Attribute::NormalNc);
        let code = Leaf { index: registers::INDEX_WRITE_BACK, writable: false, executable: true };
        tables.map(0x10_0000_0000, 0x1000_0000, 2 * BLOCK_BYTES, nc, EntrySize::Block).unwrap();
        tables.map(0x8_0000, 0x8_0000, 3 * PAGE_BYTES, code, EntrySize::Page).unwrap();
        let leaf_of = tables.walk(0x10_0000_0000 + BLOCK_BYTES + 0x1238).unwrap();
        assert_eq!(
            leaf_of,
            TableWalk { pa: 0x1000_0000 + BLOCK_BYTES + 0x1238, leaf: nc, entry_size: EntrySize::Block }
        );
        let leaf_of = tables.walk(0x8_2ff8).unwrap();
        assert_eq!(leaf_of, TableWalk { pa: 0x8_2ff8, leaf: code, entry_size: EntrySize::Page });
        for nowhere in [
            0,
            0x8_3000,
            0x7_fff8,
            0x10_0000_0000 - 8,
            0x10_0000_0000 + 2 * BLOCK_BYTES,
            SPACE_BYTES,
            u64::MAX,
        ] {
            assert_eq!(tables.walk(nowhere), None, "{nowhere:#x}");
        }
        // The root, and two tables for each mapping chain.
        assert_eq!(tables.used(), 1 + 1 + 2);
    }

    #[test]
    fn unmappable_requests_are_refused() {
        let mut pool = pool(3);
        let mut tables = Tables::new(&mut pool, AT).unwrap();
        let leaf = Leaf::data(Attribute::Device);
        assert!(
            tables.map(0x1000, 0x800, PAGE_BYTES, leaf, EntrySize::Page).unwrap_err().contains("aligned")
        );
        assert!(
            tables
                .map(SPACE_BYTES - PAGE_BYTES, 0, 2 * PAGE_BYTES, leaf, EntrySize::Page)
                .unwrap_err()
                .contains("outside")
        );
        assert!(tables.map(0, 1 << 48, PAGE_BYTES, leaf, EntrySize::Page).unwrap_err().contains("outside"));
        tables.map(0x1000, 0, PAGE_BYTES, leaf, EntrySize::Page).unwrap();
        assert!(tables.map(0x1000, 0, PAGE_BYTES, leaf, EntrySize::Page).unwrap_err().contains("twice"));
        assert!(tables.map(0, 0, BLOCK_BYTES, leaf, EntrySize::Block).unwrap_err().contains("twice"));
        assert!(
            tables.map(BLOCK_BYTES, 0, PAGE_BYTES, leaf, EntrySize::Page).unwrap_err().contains("exhausted")
        );
        assert!(Tables::new(&mut [], AT).is_err());
    }
}
