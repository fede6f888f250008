//! The physical pages of a guest's accesses: that of a virtual page is predicted to be the last one.

use fathom_model::GUEST_PAGE;

/// Virtual pages whose physical page is remembered, at most: those of 16 MiB. Neighbours are in different places.
const REMEMBERED: usize = 4096;
/// No virtual page: an address has fewer bits.
const NONE: u64 = u64::MAX;

/// Virtual pages with their last physical page.
#[derive(Debug)]
pub(super) struct Frames {
    recent: Vec<(u64, u32)>,
}

impl Frames {
    pub fn new() -> Frames {
        Frames { recent: vec![(NONE, 0); REMEMBERED] }
    }

    /// Returns the physical page that is predicted for an address.
    #[inline(always)]
    pub fn predicted(&self, address: u64) -> Option<u32> {
        let page = address / GUEST_PAGE;
        let (known, frame) = self.recent[page as usize % REMEMBERED];
        (known == page).then_some(frame)
    }

    /// Notes the physical page of an address.
    pub fn made(&mut self, address: u64, frame: u32) {
        let page = address / GUEST_PAGE;
        self.recent[page as usize % REMEMBERED] = (page, frame);
    }
}
