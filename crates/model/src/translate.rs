//! TLBs and page-table walks: the cost of translation.

use std::ops::Range;

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
    latency: u64,
    /// Bits that are ORed to a page's key when it is stored as the last one. All ones, which match no page, if a use
    /// after a fill changes state and so must not be skipped.
    no_repeat: u32,
}

/// A page: the key for look-ups in TLBs, and the number that selects the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Page number and kind (bit 0: huge), unique among all pages.
    pub key: u32,
    number: u32,
    huge: usize,
}

impl Page {
    /// No page.
    pub const NONE: u32 = u32::MAX;
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
    /// Number of walks.
    pub walks: u64,
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
                    latency: scale.units(tlb.latency),
                    no_repeat: if tlb.replacement.use_after_fill_is_idempotent() { 0 } else { Page::NONE },
                })
                .collect(),
            costs: !description.tlbs.is_empty(),
            window: (arena / base).next_power_of_two().trailing_zeros(),
            arena,
            span: next - arena,
            sizes: [base, huge],
        }
    }

    /// Returns the page of an address.
    #[inline(always)]
    pub fn page(&self, address: u64) -> Page {
        let huge = usize::from(self.huge.contains(&address));
        let number = (address >> [self.base_shift, self.huge_shift][huge]) as u32;
        Page { key: number << 1 | huge as u32, number, huge }
    }

    /// Returns the base page of an address, also in the part of the arena for huge pages.
    pub fn base_page(&self, address: u64) -> Page {
        let number = (address >> self.base_shift) as u32;
        Page { key: number << 1, number, huge: 0 }
    }

    /// Returns the page of a physical address in the kernel's linear map, which is mapped in huge pages after the
    /// `kernel` bytes of the kernel. [`Page::NONE`], which is not translated, if there are no huge pages.
    pub fn linear_page(&self, kernel: u64, physical: u64) -> Page {
        match self.sizes[1] > self.sizes[0] {
            true => self.kernel_page(kernel.next_multiple_of(self.sizes[1]) + physical),
            false => Page { key: Page::NONE, number: 0, huge: 0 },
        }
    }

    /// Removes a page from all TLBs of a CPU.
    pub fn forget(&self, tlbs: &mut Tlbs, page: Page) {
        for store in &mut tlbs.stores {
            store.remove_in_set(store.set_of(page.number), page.key);
        }
        if tlbs.last == page.key {
            (tlbs.last, tlbs.last_cost) = (Page::NONE, 0);
        }
    }

    /// Returns the same page in a window. TLBs distinguish windows, and each window has separate tables.
    pub fn in_window(&self, page: Page, window: u32) -> Page {
        let more = window << self.window;
        Page { key: page.key + (more << 1), number: page.number + more, huge: page.huge }
    }

    /// Returns the start of a kernel of `bytes` bytes: after the tables of all windows, its own included.
    pub fn kernel(&self, bytes: u64) -> u64 {
        let windows = (self.kernel_page(bytes).number >> self.window) + 1;
        (self.arena + self.span * u64::from(windows)).next_multiple_of(self.sizes[1])
    }

    /// Returns the page of an offset in the kernel, which is mapped in the largest pages.
    pub fn kernel_page(&self, at: u64) -> Page {
        let huge = usize::from(self.sizes[1] > self.sizes[0]);
        let number = (at >> [self.base_shift, self.huge_shift][huge]) as u32;
        self.in_window(Page { key: number << 1 | huge as u32, number, huge }, WINDOWS as u32)
    }

    /// Returns the page of a virtual address that is translated by a guest's tables, in pages of `bytes`. It is mapped
    /// to the largest page size of the model that is not larger. `None` if the number exceeds what TLBs can
    /// distinguish.
    pub fn page_elsewhere(&self, address: u64, bytes: u64) -> Option<Page> {
        let huge = usize::from(self.sizes[1] > self.sizes[0] && bytes >= self.sizes[1]);
        let number = address >> [self.base_shift, self.huge_shift][huge];
        let key = (number << 1 | huge as u64) as u32;
        (number < MAX_NUMBERS / 2).then_some(Page { key, number: number as u32, huge })
    }

    /// Returns the address of a walk's descriptor number `fetch`, counted from the last level.
    pub fn descriptor(&self, page: Page, fetch: usize) -> u64 {
        let table = self.tables[page.huge][fetch];
        let (window, number) = (page.number >> self.window, page.number & ((1 << self.window) - 1));
        table.start + u64::from(window) * self.span + (u64::from(number) >> table.covers) * 8
    }

    /// Returns the number of descriptors that a walk for this page fetches.
    pub fn fetches(&self, page: Page) -> usize {
        self.tables[page.huge].len()
    }

    /// Looks a page up in every TLB that can hold it. Returns the latency of the nearest one that hits. Nearer TLBs are
    /// filled; if none hits, all are filled and a walk must follow.
    pub fn look_up(&self, tlbs: &mut Tlbs, page: Page) -> Option<u64> {
        let usable = |index: usize| self.tlbs[index].holds[page.huge];
        let mut hit = None;
        for index in (0..self.tlbs.len()).filter(|&i| usable(i)) {
            let store = &mut tlbs.stores[index];
            if store.touch_in_set(store.set_of(page.number), page.key) {
                hit = Some(index);
                break;
            }
        }
        for index in (0..hit.unwrap_or(self.tlbs.len())).rev().filter(|&i| usable(i)) {
            let store = &mut tlbs.stores[index];
            store.fill_in_set(store.set_of(page.number), page.key, 0);
        }
        let nearest = (0..self.tlbs.len()).find(|&i| usable(i));
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
        Tlbs { stores: stores.collect(), last: Page::NONE, last_cost: 0, walks: 0 }
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
    }

    /// Removes every translation.
    pub fn empty(&mut self) {
        self.stores.iter_mut().for_each(Cache::empty);
        (self.last, self.last_cost) = (Page::NONE, 0);
    }
}
