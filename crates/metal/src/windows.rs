//! The arena: one physical range, mapped in several windows.
//!
//! Each window is a range of virtual addresses that maps the whole arena, with one attribute and one page size. They
//! are contiguous, and an offset in the arena counts from the first byte of the first window. So the same memory has
//! one offset in each window, and an offset determines the attribute of an access.
//!
//! Two windows onto one block of memory with different attributes are what DDI 0487 calls "Mismatched memory
//! attributes". Before a block is used with another attribute, its lines must be cleaned and invalidated
//! ([`Blocks`]). Speculation through an unused window may still leave clean lines in a cache, which the next change
//! invalidates. It depends on the core whether a load through a non-cacheable window can hit such a line; the proof
//! of every trial would show it.

use fathom_probe::machine::{Attribute, MapRequest, Mapping, Pages, Refusal};
use fathom_probe::splitmix::mix;

use crate::arch::registers;
use crate::arch::tables::{BLOCK_BYTES, EntrySize, FIRST_WINDOW, Leaf, TABLES_PER_GIB};

/// Size of the arena and of each window, bytes: the memory available on the smallest board
/// (`crate::board::Board::arena`). It is the same on every board, so that equal offsets are equal places.
pub const ARENA_BYTES: u64 = 128 << 20;
/// Number of blocks whose attribute is tracked.
pub const BLOCKS: usize = (ARENA_BYTES / BLOCK_BYTES) as usize;
/// Virtual address of the first window.
pub const FIRST_ADDRESS: u64 = FIRST_WINDOW;
/// Number of windows.
pub const WINDOWS: u64 = 10;
/// Size of all windows, bytes: the limit of offsets.
pub const OFFSETS_END: u64 = WINDOWS * ARENA_BYTES;
/// Number of tables for the windows: one for each started GiB of blocks, and one for each block of pages.
pub const WINDOW_TABLES: usize =
    OFFSETS_END.div_ceil(1 << 30) as usize * TABLES_PER_GIB + (WINDOWS / 2) as usize * BLOCKS;

/// Memory attribute of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowAttribute {
    /// One of the named attributes.
    Named(Attribute),
    /// A byte in the encoding of `MAIR_EL1`, which is set when it is requested.
    Raw(u8),
}

impl WindowAttribute {
    /// Returns its byte in the encoding of `MAIR_EL1`.
    #[must_use]
    pub fn byte(self) -> u8 {
        match self {
            WindowAttribute::Named(attribute) => registers::byte_of(attribute),
            WindowAttribute::Raw(byte) => byte,
        }
    }

    /// Returns the position among the windows of one page size; write-back is the first.
    fn place(self) -> u64 {
        match self {
            WindowAttribute::Named(Attribute::WriteBack) => 0,
            WindowAttribute::Named(Attribute::WriteThrough) => 1,
            WindowAttribute::Named(Attribute::NormalNc) => 2,
            WindowAttribute::Named(Attribute::Device) => 3,
            WindowAttribute::Raw(_) => 4,
        }
    }
}

/// A window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Memory attribute.
    pub attribute: WindowAttribute,
    /// Page size.
    pub pages: Pages,
}

impl Window {
    /// Returns every window, in order. The two windows for requested bytes start with the byte of a named attribute.
    pub fn all() -> impl Iterator<Item = Window> {
        let named = Attribute::ALL.iter().map(|attribute| WindowAttribute::Named(*attribute));
        let attributes = named.chain([WindowAttribute::Raw(registers::byte_of(Attribute::NormalNc))]);
        let of = move |pages| attributes.clone().map(move |attribute| Window { attribute, pages });
        of(Pages::Huge).chain(of(Pages::Base))
    }

    /// Returns the offset of its first byte.
    #[must_use]
    pub fn start(self) -> u64 {
        let half = match self.pages {
            Pages::Huge => 0,
            // The arena is physically contiguous, so that each page has the colour of its offset.
            Pages::Base | Pages::Coloured => WINDOWS / 2,
        };
        (half + self.attribute.place()) * ARENA_BYTES
    }

    /// Returns the size of its entries.
    #[must_use]
    pub fn entry_size(self) -> EntrySize {
        match self.pages {
            Pages::Huge => EntrySize::Block,
            Pages::Base | Pages::Coloured => EntrySize::Page,
        }
    }

    /// Returns access rights and attribute of its entries.
    #[must_use]
    pub fn leaf(self) -> Leaf {
        match self.attribute {
            WindowAttribute::Named(attribute) => Leaf::data(attribute),
            WindowAttribute::Raw(byte) => Leaf::raw(byte),
        }
    }

    /// Returns the mapping of a request in this window.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if it does not fit.
    pub fn place(self, request: &MapRequest) -> Result<Mapping, Refusal> {
        let page = self.entry_size().bytes();
        let rounded = request.bytes.checked_next_multiple_of(page);
        let Some(bytes) = rounded.filter(|&bytes| request.bytes > 0 && bytes <= ARENA_BYTES) else {
            let reason =
                alloc::format!("{} bytes do not fit the {ARENA_BYTES} bytes of the arena", request.bytes);
            return Err(Refusal::new(reason, alloc::format!("request 1 to {ARENA_BYTES} bytes")));
        };
        let places = (ARENA_BYTES - bytes) / page + 1;
        Ok(Mapping { base: self.start() + mix(request.place) % places * page, bytes, page_bytes: page })
    }
}

/// Returns the index of the block of memory at an offset.
#[must_use]
pub fn block_of(offset: u64) -> usize {
    (offset % ARENA_BYTES / BLOCK_BYTES) as usize
}

/// Maintenance that a block needs before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maintenance {
    /// None: its last use had the same attribute.
    Nothing,
    /// Clean and invalidate its lines: its last use had another attribute.
    Maintain,
    /// Fill it with zeros, down to memory: it has not been used yet.
    Zero,
}

/// Use of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BlockUse {
    #[default]
    Never,
    /// With one attribute byte since the last maintenance.
    OneAttribute(u8),
    /// With several attribute bytes, whose mappings may all still be in use.
    SeveralAttributes,
}

/// Use of each block of the arena.
///
/// A trial may have several mappings of a block at once, each with its own attribute (a copy from one half of it to
/// the other). So a block with two attributes in one trial is maintained at every mapping, until a trial maps it with
/// one attribute only.
#[derive(Clone, Debug)]
pub struct Blocks {
    uses: [BlockUse; BLOCKS],
    /// Trial of each block's last mapping.
    last_trials: [u64; BLOCKS],
    trial: u64,
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks { uses: [BlockUse::Never; BLOCKS], last_trials: [0; BLOCKS], trial: 0 }
    }
}

impl Blocks {
    /// Returns whether the block at this offset was ever used.
    #[inline]
    #[must_use]
    pub fn is_used(&self, offset: u64) -> bool {
        self.uses[block_of(offset)] != BlockUse::Never
    }

    /// Begins a trial: earlier mappings are no longer in use.
    pub fn begin(&mut self) {
        self.trial += 1;
    }

    /// Records that a block is used with an attribute byte from now on, and returns the maintenance needed first.
    pub fn record_use(&mut self, block: usize, byte: u8) -> Maintenance {
        let alone = self.last_trials[block] != self.trial;
        self.last_trials[block] = self.trial;
        let (need, now) = match self.uses[block] {
            BlockUse::Never => (Maintenance::Zero, BlockUse::OneAttribute(byte)),
            BlockUse::OneAttribute(last) if last == byte => {
                (Maintenance::Nothing, BlockUse::OneAttribute(byte))
            }
            BlockUse::OneAttribute(_) | BlockUse::SeveralAttributes if alone => {
                (Maintenance::Maintain, BlockUse::OneAttribute(byte))
            }
            BlockUse::OneAttribute(_) | BlockUse::SeveralAttributes => {
                (Maintenance::Maintain, BlockUse::SeveralAttributes)
            }
        };
        self.uses[block] = now;
        need
    }

    /// Returns the blocks of a mapping.
    pub fn indices(mapping: &Mapping) -> impl Iterator<Item = usize> + use<> {
        let begin = mapping.base / BLOCK_BYTES * BLOCK_BYTES;
        (begin..mapping.base + mapping.bytes).step_by(BLOCK_BYTES as usize).map(block_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    use crate::arch::tables::{ENTRIES, PAGE_BYTES, ROOT_TABLES, Table, Tables};

    fn request(bytes: u64, place: u64, pages: Pages) -> MapRequest {
        MapRequest { bytes, pages, attribute: Attribute::WriteBack, place }
    }

    #[test]
    fn windows_are_adjacent_and_the_first_is_write_back() {
        let starts: Vec<u64> = Window::all().map(Window::start).collect();
        assert_eq!(starts, (0..WINDOWS).map(|n| n * ARENA_BYTES).collect::<Vec<u64>>());
        assert_eq!(Window::all().next().unwrap().attribute, WindowAttribute::Named(Attribute::WriteBack));
    }

    #[test]
    fn every_window_offset_maps_to_its_own_memory() {
        let mut pool = vec![Table([7; ENTRIES]); ROOT_TABLES + WINDOW_TABLES];
        let mut tables = Tables::new(&mut pool, 0x20_0000).unwrap();
        for window in Window::all() {
            tables
                .map(
                    FIRST_ADDRESS + window.start(),
                    0x0800_0000,
                    ARENA_BYTES,
                    window.leaf(),
                    window.entry_size(),
                )
                .unwrap();
        }
        assert_eq!(tables.used(), ROOT_TABLES + WINDOW_TABLES);
        for window in Window::all() {
            for at in [0, 8, PAGE_BYTES, BLOCK_BYTES - 8, BLOCK_BYTES, ARENA_BYTES - 8] {
                let walked = tables.walk(FIRST_ADDRESS + window.start() + at).unwrap();
                assert_eq!((walked.pa, walked.entry_size), (0x0800_0000 + at, window.entry_size()));
                assert_eq!(walked.leaf, window.leaf());
                assert_eq!(block_of(window.start() + at), (at / BLOCK_BYTES) as usize);
            }
        }
        assert_eq!(tables.walk(FIRST_ADDRESS + OFFSETS_END), None);
    }

    #[test]
    fn requests_fit_their_window_and_equal_ones_get_equal_places() {
        for pages in [Pages::Base, Pages::Huge] {
            let window = Window { attribute: WindowAttribute::Named(Attribute::Device), pages };
            let mut seen = Vec::new();
            for place in 0..200 {
                let mapping = window.place(&request(3 * BLOCK_BYTES - 5, place, pages)).unwrap();
                assert_eq!(Ok(mapping), window.place(&request(3 * BLOCK_BYTES - 5, place, pages)));
                assert!(mapping.base >= window.start());
                assert!(mapping.base + mapping.bytes <= window.start() + ARENA_BYTES);
                assert!(mapping.base.is_multiple_of(mapping.page_bytes));
                seen.push(mapping.base);
            }
            seen.sort_unstable();
            seen.dedup();
            assert!(seen.len() > 50, "places are spread: {}", seen.len());
            let all = window.place(&request(ARENA_BYTES, 9, pages)).unwrap();
            assert_eq!((all.base, all.bytes), (window.start(), ARENA_BYTES));
            for none in [0, ARENA_BYTES + 1, u64::MAX] {
                assert!(window.place(&request(none, 0, pages)).is_err());
            }
        }
    }

    #[test]
    fn blocks_are_zeroed_once_and_maintained_at_every_change() {
        let mut blocks = Blocks::default();
        assert!(!blocks.is_used(0));
        for (byte, need) in [
            (0xff, Maintenance::Zero),
            (0xff, Maintenance::Nothing),
            (0x44, Maintenance::Maintain),
            (0x44, Maintenance::Nothing),
            (0xff, Maintenance::Maintain),
        ] {
            blocks.begin();
            assert_eq!(blocks.record_use(0, byte), need);
        }
        assert_eq!(blocks.record_use(1, 0x44), Maintenance::Zero);
        // A used block is used in every window.
        assert!(
            blocks.is_used(0)
                && blocks.is_used(9 * ARENA_BYTES + BLOCK_BYTES - 8)
                && !blocks.is_used(2 * BLOCK_BYTES)
        );
    }

    #[test]
    fn two_mappings_of_a_trial_are_maintained_until_one_remains() {
        let mut blocks = Blocks::default();
        blocks.begin();
        assert_eq!(blocks.record_use(0, 0xff), Maintenance::Zero);
        // From here on stores may go through either mapping, whichever was mapped last.
        for byte in [0x44, 0x44, 0xff, 0x44] {
            assert_eq!(blocks.record_use(0, byte), Maintenance::Maintain, "{byte:#x}");
        }
        blocks.begin();
        assert_eq!(blocks.record_use(0, 0x44), Maintenance::Maintain, "the other may have left dirty lines");
        assert_eq!(blocks.record_use(0, 0x44), Maintenance::Nothing);
        blocks.begin();
        assert_eq!(blocks.record_use(0, 0x44), Maintenance::Nothing);
    }

    #[test]
    fn mapping_covers_all_its_blocks() {
        let of = |base, bytes| {
            let mapping = Mapping { base, bytes, page_bytes: PAGE_BYTES };
            Blocks::indices(&mapping).collect::<Vec<usize>>()
        };
        assert_eq!(of(0, PAGE_BYTES), [0]);
        assert_eq!(of(BLOCK_BYTES - PAGE_BYTES, 2 * PAGE_BYTES), [0, 1]);
        assert_eq!(of(7 * ARENA_BYTES + BLOCK_BYTES - PAGE_BYTES, BLOCK_BYTES + 2 * PAGE_BYTES), [0, 1, 2]);
        assert_eq!(of(2 * ARENA_BYTES, ARENA_BYTES).len(), BLOCKS);
    }
}
