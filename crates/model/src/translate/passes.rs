//! The pages of many accesses at once, TLB by TLB. A TLB's contents do not depend on those of farther ones.

use super::{Page, Paging, Tlbs};
use crate::cache::{Kernel, Sets};

/// The page of an event, if it differs from that of the event before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageOf {
    key: u32,
    pub event: u32,
}

impl PageOf {
    /// The value of unused entries.
    pub const NONE: PageOf = PageOf { key: Page::NONE, event: 0 };
}

/// One TLB: pages that it can hold are looked up and filled. The others, and those that miss, go on.
struct Pass<'a> {
    holds: [bool; 2],
    pages: &'a [PageOf],
    out: &'a mut Vec<PageOf>,
    /// Whether a nearer TLB can hold pages of a kind. The events of such hits are listed.
    farther: [bool; 2],
    hits: &'a mut Vec<u32>,
}

impl Kernel for Pass<'_> {
    type Out = ();
    #[inline(always)]
    fn run(self, sets: &mut impl Sets) {
        let Pass { holds, pages, out, farther, hits } = self;
        for &page in pages {
            if !holds[page.key as usize & 1] {
                out.push(page);
            } else if sets.touch(page.key >> 1, page.key) {
                if farther[page.key as usize & 1] {
                    hits.push(page.event);
                }
            } else {
                out.push(page);
                sets.fill(page.key >> 1, page.key, 0);
            }
        }
    }
}

impl Paging {
    /// Returns whether translations can be made by [`translate_all`](Paging::translate_all): no TLB splits pages, and the
    /// nearest TLBs of both page sizes have one latency, which is returned in units. 0 if translation is free.
    pub fn uniform_latency(&self) -> Option<u64> {
        if !self.costs {
            return Some(0);
        }
        let nearest = |huge: usize| self.tlbs.iter().find(|tlb| tlb.holds[huge]).map(|tlb| tlb.latency);
        let (base, huge) = (nearest(0)?, if self.huge.is_empty() { nearest(0)? } else { nearest(1)? });
        (base == huge && !self.splits).then_some(base)
    }

    /// Returns the latency of the TLB nearest to base pages, in units; 0 if translation is free.
    pub fn base_latency(&self) -> u64 {
        self.tlbs.iter().find(|tlb| tlb.holds[0]).map_or(0, |tlb| tlb.latency)
    }

    /// Returns whether a use of a page changes no state after any use of it in every nearest TLB.
    pub fn first_repeat_is_idle(&self) -> bool {
        self.tlbs.iter().all(|tlb| tlb.no_repeat == 0)
    }

    /// Writes the pages of lines of 2^`shift` bytes to `out`, without repetitions of the page before (`twice`: of the two
    /// before). Returns their number.
    #[inline(always)]
    pub fn pages_of(&self, lines: &[u32], shift: u32, twice: bool, out: &mut [PageOf]) -> usize {
        let (first, count) = (self.huge.start >> shift, (self.huge.end - self.huge.start) >> shift);
        let keys = self.keys.map(|(bits, kind)| (bits - shift, kind));
        let (mut last, mut before) = (Page::NONE, Page::NONE);
        let mut n = 0;
        for (event, &line) in lines.iter().enumerate() {
            let huge = usize::from(u64::from(line).wrapping_sub(first) < count);
            let (bits, kind) = keys[huge];
            let key = line >> bits << 1 | kind;
            out[n] = PageOf { key, event: event as u32 };
            n += usize::from(key != last || (twice && key != before));
            (before, last) = (last, key);
        }
        n
    }

    /// Translates pages, in order. Afterwards `pages` has those that need a walk; `late` gets the events that a farther TLB
    /// served, with its latency.
    pub fn translate_all(
        &self,
        tlbs: &mut Tlbs,
        pages: &mut Vec<PageOf>,
        spare: &mut Vec<PageOf>,
        late: &mut Vec<(u32, u64)>,
    ) {
        let mut nearer = [false; 2];
        let mut hits = Vec::new();
        for (reach, store) in self.tlbs.iter().zip(&mut tlbs.stores) {
            spare.clear();
            store.run(Pass { holds: reach.holds, pages, out: spare, farther: nearer, hits: &mut hits });
            late.extend(hits.drain(..).map(|event| (event, reach.latency)));
            std::mem::swap(pages, spare);
            (0..2).for_each(|kind| nearer[kind] |= reach.holds[kind]);
        }
        tlbs.walks += pages.len() as u64;
        tlbs.missed += (pages.len() + late.len()) as u64;
    }

    /// Returns the page of an event (see [`pages_of`](Paging::pages_of)).
    pub fn page_of_event(&self, page: PageOf, line: u32, shift: u32) -> Page {
        let of = self.page(u64::from(line) << shift);
        debug_assert_eq!(of.key, page.key);
        of
    }
}
