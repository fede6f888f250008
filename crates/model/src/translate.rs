//! TLBs and page-table walks: what a translation adds to an access.

use std::ops::Range;

use crate::cache::{Cache, MAX_NUMBERS};
use crate::description::{Description, Holds, Index, WalkFrom};
use crate::rng::{Rng, Use};
use crate::time::Scale;
use crate::uncached::WINDOWS;

/// The page sizes in use, the walk, and where descriptors lie; one for all CPUs.
#[derive(Clone, Debug)]
pub(crate) struct Paging {
    /// The part of the arena that is in huge pages; empty where there are none.
    huge: Range<u64>,
    base_shift: u32,
    huge_shift: u32,
    /// Fixed cost of a walk in units.
    pub walk: u64,
    /// Where descriptor fetches look first.
    pub from: Fetches,
    /// Descriptor addresses, one formula a fetch, for base pages and for huge ones.
    tables: [Vec<Table>; 2],
    tlbs: Vec<Reach>,
    /// Whether any translation costs anything: without TLBs all of it is free.
    pub costs: bool,
    /// log2 of the numbers that each window's pages have.
    window: u32,
    /// Where the tables begin, and bytes of those of one window.
    arena: u64,
    span: u64,
    /// Which page sizes the two are that TLBs tell apart.
    sizes: [u64; 2],
}

/// Where a walk's fetches go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetches {
    /// The data path from this position on.
    Path(usize),
    Memory,
    Nowhere,
}

/// One level of a page table: its address, and how many pages one of its descriptors covers (log2).
#[derive(Clone, Copy, Debug)]
struct Table {
    start: u64,
    covers: u32,
}

/// What one TLB of the description can hold and costs.
#[derive(Clone, Debug)]
struct Reach {
    holds: [bool; 2],
    latency: u64,
    /// What is added to the bits of a page's key to remember it as the last: all of them, which make no page,
    /// where a use that follows on a fill changes state and so may not be left out.
    no_repeat: u32,
}

/// A page: the number that TLBs are searched for, and the one that selects their set.
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
    /// The page translated last, whose entry is the nearest TLB's most recent use, when another use in a
    /// row changes no state there, so that its cost may be answered from here.
    pub last: u32,
    /// What that costs in units.
    pub last_cost: u64,
    /// Walks.
    pub walks: u64,
}

impl Paging {
    /// Paging of an arena of `arena` bytes, with tables behind it.
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
            // A table is one base page of 8-byte descriptors; the last level's first.
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
                    no_repeat: if tlb.replacement.rests_after_a_fill() { 0 } else { Page::NONE },
                })
                .collect(),
            costs: !description.tlbs.is_empty(),
            window: (arena / base).next_power_of_two().trailing_zeros(),
            arena,
            span: next - arena,
            sizes: [base, huge],
        }
    }

    /// The page of an address.
    #[inline(always)]
    pub fn page(&self, address: u64) -> Page {
        let huge = usize::from(self.huge.contains(&address));
        let number = (address >> [self.base_shift, self.huge_shift][huge]) as u32;
        Page { key: number << 1 | huge as u32, number, huge }
    }

    /// The same page in a window: TLBs tell them apart, and each window has tables of its own.
    pub fn in_window(&self, page: Page, window: u32) -> Page {
        let more = window << self.window;
        Page { key: page.key + (more << 1), number: page.number + more, huge: page.huge }
    }

    /// Where a kernel of so many bytes lies: behind the tables of all windows, its own included.
    pub fn kernel(&self, bytes: u64) -> u64 {
        let windows = (self.kernel_page(bytes).number >> self.window) + 1;
        (self.arena + self.span * u64::from(windows)).next_multiple_of(self.sizes[1])
    }

    /// The page of a place in the kernel, which is mapped in the largest pages that there are.
    pub fn kernel_page(&self, at: u64) -> Page {
        let huge = usize::from(self.sizes[1] > self.sizes[0]);
        let number = (at >> [self.base_shift, self.huge_shift][huge]) as u32;
        self.in_window(Page { key: number << 1 | huge as u32, number, huge }, WINDOWS as u32)
    }

    /// The page of a virtual address that is translated by somebody else's tables, in pages of `bytes`: as the
    /// largest page size here that is no larger. `None` beyond what TLBs can tell apart.
    pub fn page_elsewhere(&self, address: u64, bytes: u64) -> Option<Page> {
        let huge = usize::from(self.sizes[1] > self.sizes[0] && bytes >= self.sizes[1]);
        let number = address >> [self.base_shift, self.huge_shift][huge];
        let key = (number << 1 | huge as u64) as u32;
        (number < MAX_NUMBERS / 2).then_some(Page { key, number: number as u32, huge })
    }

    /// The address of a walk's descriptor number `fetch`, counted from the last level.
    pub fn descriptor(&self, page: Page, fetch: usize) -> u64 {
        let table = self.tables[page.huge][fetch];
        let (window, number) = (page.number >> self.window, page.number & ((1 << self.window) - 1));
        table.start + u64::from(window) * self.span + (u64::from(number) >> table.covers) * 8
    }

    /// Descriptors that a walk for this page fetches.
    pub fn fetches(&self, page: Page) -> usize {
        self.tables[page.huge].len()
    }

    /// Looks a page up in every TLB that can hold it; the latency of the nearest that does. The
    /// nearer ones are filled; so is every one when none answers and a walk must follow.
    pub fn look_up(&self, tlbs: &mut Tlbs, page: Page) -> Option<u64> {
        let able = |index: usize| self.tlbs[index].holds[page.huge];
        let mut answered = None;
        for index in (0..self.tlbs.len()).filter(|&i| able(i)) {
            let store = &mut tlbs.stores[index];
            if store.touch_in_set(store.set_of(page.number), page.key) {
                answered = Some(index);
                break;
            }
        }
        for index in (0..answered.unwrap_or(self.tlbs.len())).rev().filter(|&i| able(i)) {
            let store = &mut tlbs.stores[index];
            store.fill_in_set(store.set_of(page.number), page.key, 0);
        }
        let nearest = (0..self.tlbs.len()).find(|&i| able(i));
        tlbs.last = nearest.map_or(Page::NONE, |index| page.key | self.tlbs[index].no_repeat);
        tlbs.last_cost = nearest.map_or(0, |index| self.tlbs[index].latency);
        answered.map(|index| self.tlbs[index].latency)
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

    /// Whether everything from here on would be the same in other ones: all but what was counted.
    pub fn is_as(&self, other: &Tlbs) -> bool {
        let mut stores = self.stores.iter().zip(&other.stores);
        (self.last, self.last_cost) == (other.last, other.last_cost) && stores.all(|(a, b)| a.is_as(b))
    }

    /// Counts what was counted since `before` another `times`.
    pub fn count_again(&mut self, before: &Tlbs, times: u64) {
        self.stores.iter_mut().zip(&before.stores).for_each(|(store, was)| store.count_again(was, times));
        self.walks += (self.walks - before.walks) * times;
    }

    /// Drops every translation.
    pub fn empty(&mut self) {
        self.stores.iter_mut().for_each(Cache::empty);
        (self.last, self.last_cost) = (Page::NONE, 0);
    }
}
