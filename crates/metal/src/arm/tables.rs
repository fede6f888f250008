//! Translation tables in the short-descriptor format: sections of 1 MiB, small pages of 4 KiB and 32 bits of address.
//!
//! DDI 0406C, B3.5 ("Short-descriptor translation table format"). ARMv6 has the same format if subpages are disabled (DDI
//! 0100I, B4.7; `SCTLR.XP`).

use fathom_probe::machine::Attribute;

use super::registers;

/// Size of a small page, bytes.
pub const PAGE_BYTES: u64 = 4096;
/// Size of a section, bytes.
pub const BLOCK_BYTES: u64 = 1 << 20;
/// Entries in a table of pages; the root consists of [`ROOT_TABLES`] of them.
pub const ENTRIES: usize = 256;
/// Size of such a table, bytes.
pub const TABLE_BYTES: u64 = 4 * ENTRIES as u64;
/// Number of tables that the root takes: an entry for each section of the address space.
pub const ROOT_TABLES: usize = 16;
/// Number of tables for the sections of one GiB, in addition to the root.
pub const TABLES_PER_GIB: usize = 0;
/// Size of the address space, bytes.
pub const SPACE_BYTES: u64 = 1 << 32;
/// Virtual address of the first window: above the image and its devices, except for those of the Pi 4, which are above the
/// last window.
pub const FIRST_WINDOW: u64 = 0xa000_0000;

/// A translation table, or a sixteenth of the root.
#[derive(Clone, Debug)]
#[repr(C, align(1024))]
pub struct Table(pub [u32; ENTRIES]);

/// Access rights and attribute of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// TEX, C and B, as in [`registers::region_bits`].
    pub region: u32,
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
        Leaf::raw(registers::byte_of(attribute))
    }

    /// Returns data memory with the attribute of a byte; non-cacheable if descriptors cannot express it.
    #[must_use]
    pub fn raw(byte: u8) -> Leaf {
        let region = registers::region_bits(byte).or(registers::region_bits(0x44));
        Leaf { region: region.unwrap_or(0), writable: true, executable: false }
    }

    /// Returns the descriptor that maps `pa`, for PL1 only, in domain 0. Not shareable: one core runs, and ARM1176 does not
    /// cache shareable memory (DDI 0301H, 6.6.1).
    #[must_use]
    pub fn descriptor(self, pa: u32, entry_size: EntrySize) -> u32 {
        let (tex, cb) = (self.region >> 2, self.region & 3);
        let (read_only, never) = (u32::from(!self.writable), u32::from(!self.executable));
        match entry_size {
            EntrySize::Page => pa | read_only << 9 | tex << 6 | 0b01 << 4 | cb << 2 | 0b10 | never,
            EntrySize::Block => pa | read_only << 15 | tex << 12 | 0b01 << 10 | never << 4 | cb << 2 | 0b10,
        }
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

impl<'a> Tables<'a> {
    /// Creates an empty root in `pool`, which is at the physical address `at`. The pool's old content does not matter.
    ///
    /// # Errors
    /// Returns an error if the pool is too small for the root.
    pub fn new(pool: &'a mut [Table], at: u64) -> Result<Tables<'a>, &'static str> {
        let mut tables = Tables { pool, used: 0, at };
        for _ in 0..ROOT_TABLES {
            tables.allocate()?;
        }
        Ok(tables)
    }

    /// Returns tables that were built before in `pool`, all of which may be in use.
    #[must_use]
    pub fn built(pool: &'a mut [Table], at: u64) -> Tables<'a> {
        Tables { used: pool.len(), pool, at }
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
        if [va, pa].iter().any(|from| from.checked_add(bytes).is_none_or(|end| end > SPACE_BYTES)) {
            return Err("the mapping is outside of the address space");
        }
        for at in (0..bytes).step_by(size as usize) {
            let entry = self.entry(va + at, entry_size)?;
            if *entry != 0 {
                return Err("an address is mapped twice");
            }
            *entry = leaf.descriptor((pa + at) as u32, entry_size);
        }
        Ok(())
    }

    /// Gives mapped entries another attribute and other rights.
    ///
    /// # Errors
    /// Returns an error if an address is not mapped in entries of this size.
    pub fn change(
        &mut self,
        va: u64,
        bytes: u64,
        leaf: Leaf,
        entry_size: EntrySize,
    ) -> Result<(), &'static str> {
        for at in (0..bytes).step_by(entry_size.bytes() as usize) {
            let walked = self.walk(va + at).filter(|walked| walked.entry_size == entry_size);
            let pa = walked.ok_or("an address is not mapped")?.pa;
            *self.entry(va + at, entry_size)? = leaf.descriptor(pa as u32, entry_size);
        }
        Ok(())
    }

    /// Returns the entry for an address; allocates its table if there is none.
    fn entry(&mut self, va: u64, entry_size: EntrySize) -> Result<&mut u32, &'static str> {
        let section = (va >> 20) as usize;
        let (mut table, mut index) = (section / ENTRIES, section % ENTRIES);
        if entry_size == EntrySize::Page {
            table = self.next_table(table, index)?;
            index = (va >> 12) as usize % ENTRIES;
        }
        Ok(&mut self.pool[table].0[index])
    }

    /// Returns the table of pages of an entry of the root; allocates it if there is none.
    fn next_table(&mut self, table: usize, index: usize) -> Result<usize, &'static str> {
        let entry = self.pool[table].0[index];
        match entry & 3 {
            0 => {
                let new = self.allocate()?;
                self.pool[table].0[index] = (self.at + new as u64 * TABLE_BYTES) as u32 | 0b01;
                Ok(new)
            }
            0b01 => self.table_of(entry).ok_or("a table is outside of the pool"),
            _ => Err("an address is mapped twice"),
        }
    }

    /// Returns the index of the table that an entry of the root points to.
    fn table_of(&self, entry: u32) -> Option<usize> {
        let offset = u64::from(entry & !0x3ff).checked_sub(self.at)?;
        usize::try_from(offset / TABLE_BYTES).ok().filter(|&table| table < self.used)
    }

    /// Returns the translation of `va`, by a walk like the hardware's.
    #[must_use]
    pub fn walk(&self, va: u64) -> Option<TableWalk> {
        if va >= SPACE_BYTES {
            return None;
        }
        let section = (va >> 20) as usize;
        let entry = self.pool[section / ENTRIES].0[section % ENTRIES];
        match entry & 3 {
            0b10 => Some(walked(entry, va, EntrySize::Block)),
            0b01 => {
                let entry = self.pool[self.table_of(entry)?].0[(va >> 12) as usize % ENTRIES];
                (entry & 2 != 0).then(|| walked(entry, va, EntrySize::Page))
            }
            _ => None,
        }
    }
}

fn walked(entry: u32, va: u64, entry_size: EntrySize) -> TableWalk {
    let inside = entry_size.bytes() - 1;
    let (tex, read_only, never) = match entry_size {
        EntrySize::Page => (entry >> 6 & 7, entry >> 9 & 1, entry & 1),
        EntrySize::Block => (entry >> 12 & 7, entry >> 15 & 1, entry >> 4 & 1),
    };
    TableWalk {
        pa: u64::from(entry) & !inside | va & inside,
        leaf: Leaf { region: tex << 2 | entry >> 2 & 3, writable: read_only == 0, executable: never == 0 },
        entry_size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    const AT: u64 = 0x8020_0000;

    fn pool(tables: usize) -> Vec<Table> {
        // The initial content must not matter.
        vec![Table([0xdead_beef; ENTRIES]); tables]
    }

    #[test]
    fn descriptors_follow_the_manual() {
        // A section: TEX 100, AP 01, XN, type 10; a page: TEX 101, AP 01, C 0, B 1, XN.
        let nc = Leaf::data(Attribute::NormalNc).descriptor(0x0400_0000, EntrySize::Block);
        assert_eq!(nc, 0x0400_4412);
        let wb = Leaf::data(Attribute::WriteBack).descriptor(0x0400_1000, EntrySize::Page);
        assert_eq!(wb, 0x0400_1157);
        let code = Leaf { writable: false, executable: true, ..Leaf::data(Attribute::WriteBack) };
        assert_eq!(code.descriptor(0x8000, EntrySize::Page), 0x0000_8356);
        let device = Leaf::data(Attribute::Device).descriptor(0x2020_0000, EntrySize::Block);
        assert_eq!(device, 0x2020_0412);
    }

    #[test]
    fn mapped_pages_are_found_by_the_walk_and_changed() {
        let mut pool = pool(20);
        let mut tables = Tables::new(&mut pool, AT).unwrap();
        let nc = Leaf::data(Attribute::NormalNc);
        let code = Leaf { writable: false, executable: true, ..Leaf::data(Attribute::WriteBack) };
        tables.map(0xa000_0000, 0x0400_0000, 2 * BLOCK_BYTES, nc, EntrySize::Block).unwrap();
        tables.map(0x8000, 0x8000, 3 * PAGE_BYTES, code, EntrySize::Page).unwrap();
        let found = tables.walk(0xa010_1238).unwrap();
        assert_eq!(found, TableWalk { pa: 0x0410_1238, leaf: nc, entry_size: EntrySize::Block });
        let found = tables.walk(0xaff8).unwrap();
        assert_eq!(found, TableWalk { pa: 0xaff8, leaf: code, entry_size: EntrySize::Page });
        for nowhere in [0, 0xb000, 0x7ff8, 0xa000_0000 - 8, 0xa020_0000, SPACE_BYTES, u64::MAX] {
            assert_eq!(tables.walk(nowhere), None, "{nowhere:#x}");
        }
        assert_eq!(tables.used(), ROOT_TABLES + 1);
        let raw = Leaf::raw(0x4f);
        let mut tables = Tables::built(&mut pool, AT);
        tables.change(0xa000_0000, BLOCK_BYTES, raw, EntrySize::Block).unwrap();
        tables.change(0x9000, PAGE_BYTES, raw, EntrySize::Page).unwrap();
        let of = |at| tables.walk(at).map(|walked| (walked.pa, walked.leaf));
        assert_eq!([of(0xa000_0008), of(0x9000)], [Some((0x0400_0008, raw)), Some((0x9000, raw))]);
        assert_eq!([of(0xa010_0000), of(0x8000)], [Some((0x0410_0000, nc)), Some((0x8000, code))]);
        assert!(tables.change(0xa000_0000, PAGE_BYTES, raw, EntrySize::Page).is_err());
        assert!(tables.change(0xb000, PAGE_BYTES, raw, EntrySize::Page).is_err());
    }

    #[test]
    fn unmappable_requests_are_refused() {
        let mut pool = pool(ROOT_TABLES + 1);
        let mut tables = Tables::new(&mut pool, AT).unwrap();
        let leaf = Leaf::data(Attribute::Device);
        let page = EntrySize::Page;
        let mut refused = |va, pa, bytes, size| tables.map(va, pa, bytes, leaf, size).unwrap_err();
        assert!(refused(0x1000, 0x800, PAGE_BYTES, page).contains("aligned"));
        assert!(refused(SPACE_BYTES - PAGE_BYTES, 0, 2 * PAGE_BYTES, page).contains("outside"));
        assert!(refused(0, SPACE_BYTES, PAGE_BYTES, page).contains("outside"));
        tables.map(0x1000, 0, PAGE_BYTES, leaf, page).unwrap();
        let mut refused = |va, pa, bytes, size| tables.map(va, pa, bytes, leaf, size).unwrap_err();
        assert!(refused(0x1000, 0, PAGE_BYTES, page).contains("twice"));
        assert!(refused(0, 0, BLOCK_BYTES, EntrySize::Block).contains("twice"));
        assert!(refused(BLOCK_BYTES, 0, PAGE_BYTES, page).contains("exhausted"));
        assert!(Tables::new(&mut pool[..ROOT_TABLES - 1], AT).is_err());
    }
}
