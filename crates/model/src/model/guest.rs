//! Accesses of a guest, an operating system under an emulator: each has a virtual and a physical address.
//!
//! Caches and memory see the physical address, TLBs the virtual one. The source does not know address spaces; it knows the
//! physical page of each access. So an entry of a TLB is that of a **pair**, a virtual page with the physical page that it was
//! in: if another task, or the same one later, has the virtual page in another physical page, that is another entry, which
//! misses. Tasks that have a page in common, at the same address, share its entry, as a kernel's global pages do. On a core that
//! tags entries with address spaces, pages that only programs share are entries of each; the difference is not told.
//!
//! A pair is a page of the arena, which is what TLBs see here; `frames` has its physical page. Pairs of 512 neighbouring
//! virtual pages are neighbours in the arena, so that sets of TLBs and neighbourhood of descriptors are those of the virtual
//! addresses. The physical memory is placed in chunks of 2 MiB at their first use: what is below that in an address is kept.
//! Page tables are the model's: the guest's own are elsewhere, and may have larger pages.

use std::collections::HashMap;

use fathom_probe::machine::Refusal;

use super::Model;
use crate::arena::Arena;
use crate::cache::MAX_NUMBERS;
use crate::description::Description;
use crate::time::Scale;
use crate::translate::Paging;

/// Bytes of a page of a guest: the smallest page of x86, ARM and RISC-V.
pub const GUEST_PAGE: u64 = 1 << PAGE_SHIFT;
/// Accesses of a guest in a batch, at most.
pub const GUEST_BATCH: usize = 2048;
/// log2 of the bytes of a page.
pub(super) const PAGE_SHIFT: u32 = 12;
/// log2 of the pages that are placed together: those of one table of the last level.
const GROUP_SHIFT: u32 = 9;
/// log2 of the bytes of such a group.
const CHUNK_SHIFT: u32 = PAGE_SHIFT + GROUP_SHIFT;
/// Bytes for pairs, unless the machine has more memory, or lines so short that their numbers do not suffice.
const PAIRS: u64 = 8 << 30;

/// The pages of a guest. Pairs are in the table of chunks of [`Spaces`](super::accesses::Spaces).
#[derive(Clone, Debug, Default)]
pub(super) struct Guest {
    /// Physical pages in which each virtual page has been.
    versions: HashMap<u64, u32>,
    /// Places of groups of virtual pages, by group and version.
    groups: HashMap<(u64, u32), u64>,
    /// Places of chunks of physical memory.
    memory: HashMap<u32, u32>,
    /// Chunks of the arena: those for pairs, and those in memory.
    chunks: u64,
    memory_chunks: u32,
}

impl Model {
    /// Creates the machine of a description for the accesses of a guest: [`Access::space`](super::Access::space) is the number of
    /// an access's physical page of [`GUEST_PAGE`] bytes.
    ///
    /// # Errors
    /// A [`Refusal`] if the machine's smallest page has another size.
    ///
    /// # Panics
    /// As [`Model::new`].
    pub fn of_guest(description: &Description, seed: u64) -> Result<Model, Refusal> {
        let page = description.memory.pages[0];
        if page != GUEST_PAGE {
            let reason = format!("its smallest page has {page} bytes, and those of guests have {GUEST_PAGE}");
            return Err(Refusal::new(reason, "name a machine whose `pages` in [memory] begin with 4K"));
        }
        let mut model = Model::new(description, seed);
        let shortest = 1 << model.narrowest_line();
        let Arena { bytes, .. } = model.arena;
        let pairs = PAIRS.min(MAX_NUMBERS * shortest / 8 * 7).max(bytes) >> CHUNK_SHIFT;
        model.paging = Paging::new(description, pairs << CHUNK_SHIFT, 0..0, Scale::new(description));
        model.frames.begin_guest();
        let memory_chunks = (bytes >> CHUNK_SHIFT) as u32;
        model.guest = Some(Box::new(Guest { chunks: pairs, memory_chunks, ..Guest::default() }));
        Ok(model)
    }

    /// Begins with new pairs if there may be no room for those of a batch of so many accesses. TLBs are empty then: their
    /// entries are those of the old ones. Returns whether it has.
    #[inline(always)]
    pub(super) fn prepare_guest(&mut self, accesses: usize) -> bool {
        let full = |of: &Guest| of.groups.len() as u64 + accesses as u64 > of.chunks;
        let begins = self.guest.as_ref().is_some_and(|guest| full(guest));
        if begins {
            self.begin_pairs();
        }
        begins
    }

    #[cold]
    fn begin_pairs(&mut self) {
        if let Some(guest) = &mut self.guest {
            guest.versions.clear();
            guest.groups.clear();
        }
        self.spaces.chunks.clear();
        self.spaces.forget_recent();
        self.frames.begin_guest();
        self.drop_translations();
    }

    /// Returns the place of a new pair: physical and virtual page.
    pub(super) fn guest_page(&mut self, physical: u32, page: u64) -> Result<u64, Refusal> {
        let Some(guest) = &mut self.guest else { return Err(too_long()) };
        let version = guest.versions.entry(page).or_insert(0);
        let group = (page >> GROUP_SHIFT, *version);
        *version += 1;
        let next = guest.groups.len() as u64;
        let chunk = *guest.groups.entry(group).or_insert(next);
        if chunk >= guest.chunks {
            return Err(too_long());
        }
        let within = (1 << GROUP_SHIFT) - 1;
        let next = guest.memory.len() as u32;
        let memory = *guest.memory.entry(physical >> GROUP_SHIFT).or_insert(next);
        if memory >= guest.memory_chunks {
            let bytes = u64::from(guest.memory_chunks) << CHUNK_SHIFT;
            let reason = format!("the guest uses more memory than is described: {bytes} bytes");
            return Err(Refusal::new(reason, "give it less (QEMU's -m), or raise `size` in [memory]"));
        }
        let place = chunk << CHUNK_SHIFT | (page & within) << PAGE_SHIFT;
        self.frames.put(place, memory << GROUP_SHIFT | physical & within as u32);
        self.spaces.chunks.insert((physical, page), place);
        Ok(place)
    }
}

fn too_long() -> Refusal {
    let reason = format!("a batch of a guest has more than {GUEST_BATCH} accesses");
    Refusal::new(reason, "divide it")
}
