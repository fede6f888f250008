//! TLBs and page-table walks: the cost of translation.

mod passes;

use std::ops::Range;

pub(crate) use passes::PageOf;

use crate::cache::{Cache, MAX_NUMBERS};
use crate::description::{Description, Holds, Index, WalkFrom};
use crate::rng::{Rng, Use};
use crate::time::Scale;
use crate::uncached::WINDOWS;

/// Page sizes, walk cost and addresses of descriptors; one for all CPUs.
#[derive(Clone, Debug)]
pub(crate) struct Paging {
    /// The part of the arena in huge pages; empty if there are none.
    huge: Range<u64>,
    base_shift: u32,
    huge_shift: u32,
    /// Fixed cost of a walk in units.
    pub walk: u64,
    /// First level in which descriptor fetches are looked up.
    pub from: Fetches,
    /// Descriptor addresses, one table per fetch, for base pages and for huge pages.
    tables: [Vec<Table>; 2],
    tlbs: Vec<Reach>,
    /// Whether translation has a cost: without TLBs it has none.
    pub costs: bool,
    /// log2 of the page numbers per window.
    window: u32,
    /// Start of the tables, and bytes of the tables of one window.
    arena: u64,
    span: u64,
    /// The two page sizes that TLBs distinguish.
    sizes: [u64; 2],
    /// Key of a base page and of a huge one: log2 of the bytes in the smallest entry that a TLB may have for it, and kind.
    keys: [(u32, u32); 2],
    /// Whether a TLB splits huge pages.
    splits: bool,
    /// Whether all TLBs that can hold huge pages split them. A walk then ends at the descriptor of a piece.
    walks_pieces: bool,
}

/// First level in which a walk's fetches are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetches {
    /// The data path from this position on.
    Path(usize),
    Memory,
    Nowhere,
}

/// One level of a page table: its address, and log2 of the pages that one of its descriptors covers.
#[derive(Clone, Copy, Debug)]
struct Table {
    start: u64,
    covers: u32,
}

/// Page sizes and latency of a TLB.
#[derive(Clone, Debug)]
struct Reach {
    holds: [bool; 2],
    /// Whether it holds huge pages in pieces of a base page.
    splits: bool,
    latency: u64,
    /// Bits that are ORed to a page's key when it is stored as the last one. All ones, which match no page, if a use
    /// after a fill changes state and so must not be skipped.
    no_repeat: u32,
}

/// A page, as TLBs see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Number and kind (bit 0: huge) of the smallest entry that a TLB may have for it: a piece if a TLB splits it, else
    /// the page. Unique among all.
    pub key: u32,
    number: u32,
    huge: u32,
    /// Number of the base page, which is also that of the piece.
    piece: u32,
}

impl Page {
    /// No page.
    pub const NONE: u32 = u32::MAX;

    /// Returns the entry of a page that is held whole: key, and number that selects the set.
    #[inline(always)]
    fn whole(number: u32, huge: u32) -> (u32, u32) {
        (number << 1 | huge, number)
    }
}

/// Something that happened to an entry of a TLB. TLBs are numbered in the order of the description; an entry is a number that no other
/// page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translation {
    /// A page was looked up.
    LookedUp {
        /// The TLB.
        tlb: usize,
        /// The entry.
        entry: u32,
        /// Its set.
        set: u64,
        /// Whether it was there.
        hit: bool,
    },
    /// An entry was replaced by the one that was looked up.
    Lost {
        /// The TLB.
        tlb: usize,
        /// The entry.
        entry: u32,
    },
}

/// The TLBs of one CPU.
#[derive(Clone, Debug)]
pub(crate) struct Tlbs {
    pub stores: Vec<Cache>,
    /// The page translated last, whose entry is the nearest TLB's most recent use. A further use of it changes no state
    /// there, so its cost is known without a look-up.
    pub last: u32,
    /// Cost of such a use in units.
    pub last_cost: u64,
    /// What the last translation cost that was not a repetition.
    pub anew: Option<u64>,
    /// Number of walks.
    pub walks: u64,
    /// Number of look-ups that the nearest TLB did not serve.
    pub missed: u64,
    /// What happened to entries, if that is kept.
    pub told: Option<Vec<Translation>>,
}

impl Reach {
    /// Returns the entry for a page: key, and number that selects the set.
    #[inline(always)]
    fn entry(&self, page: Page) -> (u32, u32) {
        if self.splits && page.huge == 1 {
            Page::whole(page.piece, 0)
        } else {
            Page::whole(page.number, page.huge)
        }
    }
}

impl Paging {
    /// Creates the paging of an arena of `arena` bytes, with page tables after it.
    pub fn new(description: &Description, arena: u64, huge_part: Range<u64>, scale: Scale) -> Paging {
        let pages = &description.memory.pages;
        let (base, huge) = (pages[0], pages[pages.len() - 1]);
        let walk = description.walk.as_ref();
        let data = || description.levels.iter().filter(|l| l.holds != Holds::Instructions);
        let from = match walk.map(|w| &w.from) {
            Some(WalkFrom::Level(name)) => {
                data().position(|l| l.name == *name).map_or(Fetches::Nowhere, Fetches::Path)
            }
            Some(WalkFrom::Memory) => Fetches::Memory,
            Some(WalkFrom::Nowhere) | None => Fetches::Nowhere,
        };
        let mut next = arena;
        let mut tables_of = |page: u64| {
            let mut tables = Vec::new();
            // A table is one base page of 8-byte descriptors; the last level is first.
            let fan_out = base.trailing_zeros() - 3;
            for depth in 0..walk.map_or(0, |w| w.fetches) {
                let covers = depth * fan_out;
                tables.push(Table { start: next, covers: covers.min(63) });
                let bytes = ((arena / page) >> covers.min(63)) * 8 + 8;
                next += bytes.next_multiple_of(base);
            }
            tables
        };
        let tables = [tables_of(base), tables_of(huge)];
        let for_huge = || description.tlbs.iter().filter(|tlb| tlb.pages.contains(&huge));
        let splits = for_huge().any(|tlb| tlb.splits.is_some());
        Paging {
            huge: huge_part,
            base_shift: base.trailing_zeros(),
            huge_shift: huge.trailing_zeros(),
            walk: walk.map_or(0, |w| scale.units(w.latency)),
            from,
            tables,
            tlbs: description
                .tlbs
                .iter()
                .map(|tlb| Reach {
                    holds: [tlb.pages.contains(&base), tlb.pages.contains(&huge)],
                    splits: tlb.splits.is_some(),
                    latency: scale.units(tlb.latency),
                    no_repeat: if tlb.replacement.use_after_fill_is_idempotent() { 0 } else { Page::NONE },
                })
                .collect(),
            costs: !description.tlbs.is_empty(),
            window: (arena / base).next_power_of_two().trailing_zeros(),
            arena,
            span: next - arena,
            sizes: [base, huge],
            keys: [
                (base.trailing_zeros(), 0),
                if splits { (base.trailing_zeros(), 0) } else { (huge.trailing_zeros(), 1) },
            ],
            splits,
            walks_pieces: for_huge().next().is_some() && for_huge().all(|tlb| tlb.splits.is_some()),
        }
    }

    /// Returns the page of an address.
    #[inline(always)]
    pub fn page(&self, address: u64) -> Page {
        self.page_of_kind(address, usize::from(self.huge.contains(&address)))
    }

    /// Returns the page of an address: a base page (0) or a huge one (1).
    #[inline(always)]
    fn page_of_kind(&self, address: u64, huge: usize) -> Page {
        let (shift, kind) = self.keys[huge];
        Page {
            key: ((address >> shift) as u32) << 1 | kind,
            number: (address >> [self.base_shift, self.huge_shift][huge]) as u32,
            huge: huge as u32,
            piece: (address >> self.base_shift) as u32,
        }
    }

    /// Returns the base page of an address, also in the part of the arena for huge pages.
    pub fn base_page(&self, address: u64) -> Page {
        self.page_of_kind(address, 0)
    }

    /// Returns the page of a physical address in the kernel's linear map, which is mapped in huge pages after the
    /// `kernel` bytes of the kernel. [`Page::NONE`], which is not translated, if there are no huge pages.
    pub fn linear_page(&self, kernel: u64, physical: u64) -> Page {
        match self.sizes[1] > self.sizes[0] {
            true => self.kernel_page(kernel.next_multiple_of(self.sizes[1]) + physical),
            false => Page { key: Page::NONE, number: 0, huge: 0, piece: 0 },
        }
    }

    /// Removes a page from all TLBs of a CPU.
    pub fn forget(&self, tlbs: &mut Tlbs, page: Page) {
        for (reach, store) in self.tlbs.iter().zip(&mut tlbs.stores) {
            let (key, number) = reach.entry(page);
            store.remove_in_set(store.set_of(number), key);
        }
        if tlbs.last == page.key {
            (tlbs.last, tlbs.last_cost) = (Page::NONE, 0);
        }
    }

    /// Returns the same page in a window. TLBs distinguish windows, and each window has separate tables.
    pub fn in_window(&self, page: Page, window: u32) -> Page {
        let more = window << self.window;
        let (number, piece) = (page.number + more, page.piece + more);
        Page { key: page.key + (more << 1), number, huge: page.huge, piece }
    }

    /// Returns the start of a kernel of `bytes` bytes: after the tables of all windows, its own included.
    pub fn kernel(&self, bytes: u64) -> u64 {
        let windows = (self.walked(self.kernel_page(bytes)).1 >> self.window) + 1;
        (self.arena + self.span * u64::from(windows)).next_multiple_of(self.sizes[1])
    }

    /// Returns the page of an offset in the kernel, which is mapped in the largest pages.
    pub fn kernel_page(&self, at: u64) -> Page {
        let huge = usize::from(self.sizes[1] > self.sizes[0]);
        self.in_window(self.page_of_kind(at, huge), WINDOWS as u32)
    }

    /// Returns the page of a virtual address that is translated by a guest's tables, in pages of `bytes`. It is mapped
    /// to the largest page size of the model that is not larger. `None` if the number exceeds what TLBs can
    /// distinguish.
    pub fn page_elsewhere(&self, address: u64, bytes: u64) -> Option<Page> {
        let huge = usize::from(self.sizes[1] > self.sizes[0] && bytes >= self.sizes[1]);
        (address >> self.keys[huge].0 < MAX_NUMBERS / 2).then(|| self.page_of_kind(address, huge))
    }

    /// Returns the address of a walk's descriptor number `fetch`, counted from the last level.
    pub fn descriptor(&self, page: Page, fetch: usize) -> u64 {
        let (kind, number) = self.walked(page);
        let table = self.tables[kind][fetch];
        let (window, number) = (number >> self.window, number & ((1 << self.window) - 1));
        table.start + u64::from(window) * self.span + (u64::from(number) >> table.covers) * 8
    }

    /// Returns the kind and the number of the page whose descriptors a walk fetches.
    fn walked(&self, page: Page) -> (usize, u32) {
        if self.walks_pieces { (0, page.piece) } else { (page.huge as usize, page.number) }
    }

    /// Returns the number of descriptors that a walk for this page fetches.
    pub fn fetches(&self, page: Page) -> usize {
        self.tables[page.huge as usize].len()
    }

    /// Looks a page up in every TLB that can hold it. Returns the latency of the nearest one that hits. Nearer TLBs are
    /// filled; if none hits, all are filled and a walk must follow.
    pub fn look_up(&self, tlbs: &mut Tlbs, page: Page) -> Option<u64> {
        match self.splits {
            true => self.look_up_in::<true>(tlbs, page),
            false => self.look_up_in::<false>(tlbs, page),
        }
    }

    /// The same, for TLBs of which some split huge pages, or none does. Two copies, to keep the common one small.
    #[inline(always)]
    fn look_up_in<const SPLITS: bool>(&self, tlbs: &mut Tlbs, page: Page) -> Option<u64> {
        let usable = |index: usize| self.tlbs[index].holds[page.huge as usize];
        let entry = |index: usize| match SPLITS {
            true => self.tlbs[index].entry(page),
            false => (page.key, page.number),
        };
        let mut hit = None;
        for index in (0..self.tlbs.len()).filter(|&i| usable(i)) {
            let store = &mut tlbs.stores[index];
            let (key, number) = entry(index);
            let set = store.set_of(number);
            let has = store.touch_in_set(set, key);
            if let Some(told) = &mut tlbs.told {
                told.push(Translation::LookedUp { tlb: index, entry: key, set: set as u64, hit: has });
            }
            if has {
                hit = Some(index);
                break;
            }
        }
        for index in (0..hit.unwrap_or(self.tlbs.len())).rev().filter(|&i| usable(i)) {
            let store = &mut tlbs.stores[index];
            let (key, number) = entry(index);
            let lost = store.fill_in_set(store.set_of(number), key, 0);
            if let (Some(told), Some(lost)) = (&mut tlbs.told, lost) {
                told.push(Translation::Lost { tlb: index, entry: lost.number });
            }
        }
        let nearest = (0..self.tlbs.len()).find(|&i| usable(i));
        tlbs.missed += u64::from(hit.is_none() || hit != nearest);
        tlbs.last = nearest.map_or(Page::NONE, |index| page.key | self.tlbs[index].no_repeat);
        tlbs.last_cost = nearest.map_or(0, |index| self.tlbs[index].latency);
        hit.map(|index| self.tlbs[index].latency)
    }
}

impl Tlbs {
    pub fn new(description: &Description, seed: u64, cpu: u32) -> Tlbs {
        let stores = description.tlbs.iter().enumerate().map(|(index, tlb)| {
            let rng = Rng::new(seed, Use::Tlb, (index as u64) << 32 | u64::from(cpu));
            Cache::new(u64::from(tlb.entries / tlb.ways), tlb.ways, tlb.replacement, Index::Bits, rng)
        });
        Tlbs {
            stores: stores.collect(),
            last: Page::NONE,
            last_cost: 0,
            anew: None,
            walks: 0,
            missed: 0,
            told: None,
        }
    }

    /// Returns whether both have the same state, counters excepted.
    pub fn state_equals(&self, other: &Tlbs) -> bool {
        let mut stores = self.stores.iter().zip(&other.stores);
        (self.last, self.last_cost) == (other.last, other.last_cost) && stores.all(|(a, b)| a.state_equals(b))
    }

    /// Adds the counts since `before` another `times` times.
    pub fn repeat_counts(&mut self, before: &Tlbs, times: u64) {
        self.stores.iter_mut().zip(&before.stores).for_each(|(store, was)| store.repeat_counts(was, times));
        self.walks += (self.walks - before.walks) * times;
        self.missed += (self.missed - before.missed) * times;
    }

    /// Returns what the translations since `anew` was cleared cost: of one access.
    pub fn charged(&self) -> u64 {
        self.anew.unwrap_or(self.last_cost)
    }

    /// Removes every translation.
    pub fn empty(&mut self) {
        self.stores.iter_mut().for_each(Cache::empty);
        (self.last, self.last_cost) = (Page::NONE, 0);
    }
}
