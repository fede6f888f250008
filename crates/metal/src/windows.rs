//! The arena: one physical range, seen through windows.
//!
//! Each window is a range of virtual addresses onto the whole of the arena's memory, under one attribute and in
//! one size of pages. They lie one behind the other, and an offset in the arena counts from the first byte of
//! the first: so the same memory has an offset in each window, and an offset says how it is looked at.
//!
//! Two windows onto one block of memory with different attributes are what DDI 0487 calls "Mismatched
//! memory attributes". Whoever changes to another attribute has to write back and drop what the caches hold of
//! the block first ([`Blocks`]); speculation through a window that nobody uses may still leave clean lines in a
//! cache, which the next change drops. Whether a load through a non-cacheable window could be answered by such a line
//! is the core's affair; the proof of every trial would show it.

use fathom_probe::machine::{Attribute, MapRequest, Mapping, Pages, Refusal};
use fathom_probe::splitmix::mix;

use crate::registers;
use crate::tables::{BLOCK, Grain, Leaf};

/// Bytes of memory in the arena, and of a window: what the smallest board has to give (`crate::board::Board::arena`),
/// and so on every board, that equal offsets mean equal places.
pub const BYTES: u64 = 128 << 20;
/// Blocks of it whose attribute is kept account of.
pub const BLOCKS: usize = (BYTES / BLOCK) as usize;
/// Where the first window begins: beyond everything that is mapped where it lies.
pub const FIRST: u64 = 0x10_0000_0000;
/// Windows.
pub const WINDOWS: u64 = 10;
/// Bytes of all windows: offsets are below.
pub const LENGTH: u64 = WINDOWS * BYTES;
/// Tables that the windows take: one for each GiB of blocks begun, and one for each block of pages.
pub const TABLES: usize = (LENGTH.div_ceil(1 << 30)) as usize + 5 * BLOCKS;

/// How a window treats memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// By an attribute.
    Named(Attribute),
    /// By a byte of `MAIR_EL1` that is written there when it is asked for.
    Raw(u8),
}

impl Treatment {
    /// The byte of `MAIR_EL1`.
    #[must_use]
    pub fn byte(self) -> u8 {
        match self {
            Treatment::Named(attribute) => registers::byte_of(attribute),
            Treatment::Raw(byte) => byte,
        }
    }

    /// The index in `MAIR_EL1`.
    fn index(self) -> u64 {
        match self {
            Treatment::Named(attribute) => registers::index_of(attribute),
            Treatment::Raw(_) => registers::INDEX_RAW,
        }
    }

    /// Its place among the windows of one page size; write-back is the first.
    fn place(self) -> u64 {
        match self {
            Treatment::Named(Attribute::WriteBack) => 0,
            Treatment::Named(Attribute::WriteThrough) => 1,
            Treatment::Named(Attribute::NormalNc) => 2,
            Treatment::Named(Attribute::Device) => 3,
            Treatment::Raw(_) => 4,
        }
    }
}

/// A window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// How it treats memory.
    pub treatment: Treatment,
    /// In which pages.
    pub pages: Pages,
}

impl Window {
    /// Every window, in order. The two for bytes as wished begin with one that is an attribute's anyway.
    pub fn all() -> impl Iterator<Item = Window> {
        let named = Attribute::ALL.iter().map(|attribute| Treatment::Named(*attribute));
        let treatments = named.chain([Treatment::Raw(registers::byte_of(Attribute::NormalNc))]);
        let of = move |pages| treatments.clone().map(move |treatment| Window { treatment, pages });
        of(Pages::Huge).chain(of(Pages::Base))
    }

    /// The offset of its first byte.
    #[must_use]
    pub fn start(self) -> u64 {
        let half = match self.pages {
            Pages::Huge => 0,
            // One piece of physical memory: each of its pages is at its own place.
            Pages::Base | Pages::Coloured => WINDOWS / 2,
        };
        (half + self.treatment.place()) * BYTES
    }

    /// The entries that map it.
    #[must_use]
    pub fn grain(self) -> Grain {
        match self.pages {
            Pages::Huge => Grain::Block,
            Pages::Base | Pages::Coloured => Grain::Page,
        }
    }

    /// What its entries say.
    #[must_use]
    pub fn leaf(self) -> Leaf {
        Leaf::data(self.treatment.index())
    }

    /// Where a wish lies in it.
    ///
    /// # Errors
    /// A [`Refusal`] where it does not fit.
    pub fn place(self, request: &MapRequest) -> Result<Mapping, Refusal> {
        let page = self.grain().bytes();
        let rounded = request.bytes.checked_next_multiple_of(page);
        let Some(bytes) = rounded.filter(|&bytes| request.bytes > 0 && bytes <= BYTES) else {
            let reason = alloc::format!("{} bytes do not fit the {BYTES} bytes of the arena", request.bytes);
            return Err(Refusal::new(reason, alloc::format!("ask for 1 to {BYTES} bytes")));
        };
        let places = (BYTES - bytes) / page + 1;
        Ok(Mapping { base: self.start() + mix(request.place) % places * page, bytes, page_bytes: page })
    }
}

/// The block of memory that an offset lies in.
#[must_use]
pub fn block_of(offset: u64) -> usize {
    (offset % BYTES / BLOCK) as usize
}

/// What has to be done with a block before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: it was last used in the same way.
    Nothing,
    /// What the caches hold of it is written back and dropped: it was used in another way.
    Maintain,
    /// It is filled with zeros, down to memory: nobody has used it yet.
    Zero,
}

/// How a block was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Use {
    #[default]
    Never,
    /// Under one attribute byte since it was maintained last.
    Sole(u8),
    /// Under several, whose mappings may all still be used.
    Several,
}

/// How each block of the arena's memory was used.
///
/// A trial may hold several mappings of a block at once, each with its own attribute (a copy from one half of it
/// to the other). So a block that was mapped in two ways in one trial is maintained at every mapping of it, until
/// a trial maps it in one way alone.
#[derive(Clone, Debug)]
pub struct Blocks {
    uses: [Use; BLOCKS],
    /// The trial in which each was mapped last.
    mapped: [u64; BLOCKS],
    trial: u64,
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks { uses: [Use::Never; BLOCKS], mapped: [0; BLOCKS], trial: 0 }
    }
}

impl Blocks {
    /// Was the block of this offset ever used?
    #[inline]
    #[must_use]
    pub fn is_used(&self, offset: u64) -> bool {
        self.uses[block_of(offset)] != Use::Never
    }

    /// A trial begins: nobody uses a mapping from before it any more.
    pub fn begin(&mut self) {
        self.trial += 1;
    }

    /// Notes that a block is used under an attribute byte from now on; what has to be done first.
    pub fn take(&mut self, block: usize, byte: u8) -> Need {
        let alone = self.mapped[block] != self.trial;
        self.mapped[block] = self.trial;
        let (need, now) = match self.uses[block] {
            Use::Never => (Need::Zero, Use::Sole(byte)),
            Use::Sole(last) if last == byte => (Need::Nothing, Use::Sole(byte)),
            Use::Sole(_) | Use::Several if alone => (Need::Maintain, Use::Sole(byte)),
            Use::Sole(_) | Use::Several => (Need::Maintain, Use::Several),
        };
        self.uses[block] = now;
        need
    }

    /// The blocks that a mapping lies in.
    pub fn of(mapping: &Mapping) -> impl Iterator<Item = usize> + use<> {
        let begin = mapping.base / BLOCK * BLOCK;
        (begin..mapping.base + mapping.bytes).step_by(BLOCK as usize).map(block_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    use crate::tables::{ENTRIES, PAGE, Table, Tables};

    fn request(bytes: u64, place: u64, pages: Pages) -> MapRequest {
        MapRequest { bytes, pages, attribute: Attribute::WriteBack, place }
    }

    #[test]
    fn the_first_cell_is_write_back_and_windows_lie_side_by_side() {
        let starts: Vec<u64> = Window::all().map(Window::start).collect();
        assert_eq!(starts, (0..WINDOWS).map(|n| n * BYTES).collect::<Vec<u64>>());
        assert_eq!(Window::all().next().unwrap().treatment, Treatment::Named(Attribute::WriteBack));
    }

    #[test]
    fn every_window_offset_maps_to_its_own_memory() {
        let mut pool = vec![Table([7; ENTRIES]); 1 + TABLES];
        let mut tables = Tables::new(&mut pool, 0x20_0000).unwrap();
        for window in Window::all() {
            tables.map(FIRST + window.start(), 0x0800_0000, BYTES, window.leaf(), window.grain()).unwrap();
        }
        assert_eq!(tables.used(), 1 + TABLES);
        for window in Window::all() {
            for at in [0, 8, PAGE, BLOCK - 8, BLOCK, BYTES - 8] {
                let walked = tables.walk(FIRST + window.start() + at).unwrap();
                assert_eq!((walked.pa, walked.grain), (0x0800_0000 + at, window.grain()));
                assert_eq!(walked.leaf, window.leaf());
                assert_eq!(block_of(window.start() + at), (at / BLOCK) as usize);
                let byte = (registers::mair(0x44) >> (8 * walked.leaf.index)) as u8;
                assert_eq!(byte, window.treatment.byte());
            }
        }
        assert_eq!(tables.walk(FIRST + LENGTH), None);
    }

    #[test]
    fn requests_fit_their_window_and_equal_ones_get_equal_places() {
        for pages in [Pages::Base, Pages::Huge] {
            let window = Window { treatment: Treatment::Named(Attribute::Device), pages };
            let mut seen = Vec::new();
            for place in 0..200 {
                let mapping = window.place(&request(3 * BLOCK - 5, place, pages)).unwrap();
                assert_eq!(Ok(mapping), window.place(&request(3 * BLOCK - 5, place, pages)));
                assert!(mapping.base >= window.start());
                assert!(mapping.base + mapping.bytes <= window.start() + BYTES);
                assert!(mapping.base.is_multiple_of(mapping.page_bytes));
                seen.push(mapping.base);
            }
            seen.sort_unstable();
            seen.dedup();
            assert!(seen.len() > 50, "places are spread: {}", seen.len());
            let all = window.place(&request(BYTES, 9, pages)).unwrap();
            assert_eq!((all.base, all.bytes), (window.start(), BYTES));
            for none in [0, BYTES + 1, u64::MAX] {
                assert!(window.place(&request(none, 0, pages)).is_err());
            }
        }
    }

    #[test]
    fn blocks_are_zeroed_once_and_maintained_at_every_change() {
        let mut blocks = Blocks::default();
        assert!(!blocks.is_used(0));
        for (byte, need) in [
            (0xff, Need::Zero),
            (0xff, Need::Nothing),
            (0x44, Need::Maintain),
            (0x44, Need::Nothing),
            (0xff, Need::Maintain),
        ] {
            blocks.begin();
            assert_eq!(blocks.take(0, byte), need);
        }
        assert_eq!(blocks.take(1, 0x44), Need::Zero);
        // Every window onto it.
        assert!(blocks.is_used(0) && blocks.is_used(9 * BYTES + BLOCK - 8) && !blocks.is_used(2 * BLOCK));
    }

    #[test]
    fn two_mappings_of_one_trial_are_maintained_until_one_is_alone() {
        let mut blocks = Blocks::default();
        blocks.begin();
        assert_eq!(blocks.take(0, 0xff), Need::Zero);
        // Stores go through either from here on, whatever was mapped last.
        for byte in [0x44, 0x44, 0xff, 0x44] {
            assert_eq!(blocks.take(0, byte), Need::Maintain, "{byte:#x}");
        }
        blocks.begin();
        assert_eq!(blocks.take(0, 0x44), Need::Maintain, "the other may have left dirty lines");
        assert_eq!(blocks.take(0, 0x44), Need::Nothing);
        blocks.begin();
        assert_eq!(blocks.take(0, 0x44), Need::Nothing);
    }

    #[test]
    fn a_mapping_lies_in_all_its_blocks() {
        let of = |base, bytes| {
            let mapping = Mapping { base, bytes, page_bytes: PAGE };
            Blocks::of(&mapping).collect::<Vec<usize>>()
        };
        assert_eq!(of(0, PAGE), [0]);
        assert_eq!(of(BLOCK - PAGE, 2 * PAGE), [0, 1]);
        assert_eq!(of(7 * BYTES + BLOCK - PAGE, BLOCK + 2 * PAGE), [0, 1, 2]);
        assert_eq!(of(2 * BYTES, BYTES).len(), BLOCKS);
    }
}
