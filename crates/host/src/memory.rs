//! Memory mapping: limits, placement, population, verification.

use std::ops::Range;

use fathom_probe::machine::{Attribute, MapRequest, Mapping, Pages, Refusal};
use fathom_units::facts::CeilingSource;

use crate::arena::{Arena, HostCell};
use crate::driver::Presence;
use crate::driver_buffer::{self, DriverBuffer};
use crate::memory_limit::{self, MemoryLimit};
use crate::pages::{self, PageSizes};
use crate::placement::{self, Ranges};
use crate::process;
use crate::procfs::Root;

mod driver_memory;
mod page_map;

use driver_memory::{ColouredPages, max_coloured_bytes};

/// Maximum size of one half of the arena, bytes: four times the largest last-level cache on sale (1.1 GiB of AMD's
/// 9684X, all parts together) and a margin. A reservation costs addresses only.
const MAX_HALF_BYTES: u64 = 64 << 30;

/// Minimum size of one half, bytes; opening is refused below it.
const MIN_HALF_BYTES: u64 = 8 << 20;

/// Memory is populated in granules of at least this many bytes, so that a working set that grows page by page does
/// not need a verification for each page.
const GRANULE_BYTES: u64 = 256 << 10;

/// Bytes of the arena after its halves, for driver buffers.
const DRIVER_BUFFER_BYTES: u64 = driver_buffer::MAX_BUFFER_BYTES * driver_buffer::ATTRIBUTES.len() as u64;

/// Alignment of the arena if the kernel has no huge pages: the huge page size of most kernels.
const DEFAULT_ALIGN_BYTES: u64 = 2 << 20;

/// Memory of a host: an arena in two halves, one of base pages and one of huge pages.
pub(crate) struct Memory {
    pub(crate) arena: Arena,
    root: Root,
    pub(crate) sizes: PageSizes,
    /// Bytes in one half.
    half: u64,
    /// The caller's own limit, bytes.
    max_bytes: Option<u64>,
    /// Ranges backed by the process's memory.
    populated: Ranges,
    /// Ranges that have been mapped.
    mapped: Ranges,
    /// The latest mapping, in which cells are looked up first.
    current: Range<u64>,
    /// Why locking memory failed, once it has failed.
    pub(crate) lock_refusal: Option<Refusal>,
    /// Driver buffers by attribute, each opened at the first request.
    driver_buffer: Vec<(Attribute, DriverBuffer)>,
    /// Fathom's driver.
    driver: Presence,
    /// Coloured pages from the driver.
    coloured: ColouredPages,
    /// How the latest mapping of shared pages was verified.
    pub(crate) shared: Option<&'static str>,
}

impl Memory {
    /// Reserves the arena.
    pub(crate) fn open(
        root: Root,
        sizes: PageSizes,
        max_bytes: Option<u64>,
        driver: Presence,
    ) -> Result<Memory, Refusal> {
        // Addresses are reserved only if a driver can use them: they may be limited.
        let provided = |attribute: &Attribute| driver_buffer::find(&root, &driver, *attribute).is_some();
        let attributes_area =
            if driver_buffer::ATTRIBUTES.iter().any(provided) { DRIVER_BUFFER_BYTES } else { 0 };
        let driver_buffer = attributes_area + max_coloured_bytes(&root, &driver);
        let align = sizes.huge.unwrap_or(DEFAULT_ALIGN_BYTES).max(sizes.base).max(DEFAULT_ALIGN_BYTES);
        // Not limited by `max_bytes`: the first arena of a process sets the length of all (see `arena`), and
        // addresses cost nothing.
        let mut half = (memory_limit::total(&root) / 2).clamp(MIN_HALF_BYTES, MAX_HALF_BYTES);
        let address_space = process::address_room(&root);
        if let Some((address_space, _)) = address_space {
            // Half of the address space left: the program itself needs some.
            half = half.min(address_space / 4);
        }
        let min_length = align.max(MIN_HALF_BYTES) * 2;
        let arena = Arena::reserve(
            half.saturating_mul(2).saturating_add(driver_buffer),
            min_length + driver_buffer,
            align,
        )
        .map_err(|error| {
            let limit = address_space.map_or("the kernel", |(_, name)| name);
            Refusal::new(
                format!(
                    "the addresses of the arena, {} MiB at least, could not be reserved ({error})",
                    min_length >> 20
                ),
                format!("raise the limit on address space: {limit} (ulimit -v, ulimit -d), or vm.overcommit_memory=2"),
            )
        })?;
        let half = arena.length().saturating_sub(driver_buffer) / 2;
        let half = half - half % align;
        // A kernel without transparent huge pages rejects both advices, and then needs neither.
        let _ = arena.forbid_huge(0..half);
        let _ = arena.advise_huge(half..half * 2);
        Ok(Memory {
            arena,
            root,
            sizes,
            half,
            max_bytes,
            populated: Ranges::default(),
            mapped: Ranges::default(),
            current: 0..0,
            lock_refusal: None,
            driver_buffer: Vec::new(),
            driver,
            coloured: ColouredPages::within(2 * half + attributes_area..2 * half + driver_buffer),
            shared: None,
        })
    }

    /// See [`fathom_probe::machine::Machine::map`].
    pub(crate) fn map(&mut self, request: &MapRequest) -> Result<Mapping, Refusal> {
        if request.attribute != Attribute::WriteBack {
            return self.map_driver_memory(request);
        }
        if request.pages == Pages::Coloured {
            return self.map_coloured(request);
        }
        let page = self.page_for(request)?;
        let huge = request.pages == Pages::Huge;
        let half = if huge { self.half..self.half * 2 } else { 0..self.half };
        let range = self.place(request, page, half.start)?;
        self.back(&range, page, &half, request)?;
        Ok(self.mapping(range, page))
    }

    /// See [`fathom_probe::machine::Machine::map_shared`]. Uses memory of the half of base pages, where no huge pages
    /// are. The memory is released if it was populated, and then only read, so that the kernel's zero page backs all
    /// of it. It is neither populated nor locked, because both would write to it.
    pub(crate) fn map_shared(&mut self, request: &MapRequest, frames: u64) -> Result<Mapping, Refusal> {
        if frames != 1 || request.pages != Pages::Base {
            return Err(Refusal::new(
                "memory that is only read has one frame, the kernel's zero page",
                "request frames=1 and page=base",
            ));
        }
        let page = self.page_for(request)?;
        let range = self.place(request, page, 0)?;
        self.release_all(std::slice::from_ref(&range));
        if self.populated.total_in(&range) != 0 {
            return Err(Refusal::new("the kernel did not take memory back", "run it again"));
        }
        let before = self.resident();
        for at in range.clone().step_by(rustix::param::page_size()) {
            if let Some(cell) = self.arena.cell(at) {
                self.arena.follow(cell);
            }
        }
        self.shared = Some(self.verify_shared(&range, before)?);
        Ok(self.mapping(range, page))
    }

    /// Returns the range of a request in pages of `page` bytes, in the half that begins at `start`.
    fn place(&self, request: &MapRequest, page: u64, start: u64) -> Result<Range<u64>, Refusal> {
        let bytes = request.bytes.checked_next_multiple_of(page);
        let placed = bytes.and_then(|bytes| placement::place(bytes, page, self.half, request.place));
        let placed = placed.ok_or_else(|| too_much(request.bytes, page, &self.limit()))?;
        Ok(start + placed.start..start + placed.end)
    }

    /// Records a range as mapped.
    fn mapping(&mut self, range: Range<u64>, page: u64) -> Mapping {
        self.mapped.insert(range.clone());
        self.current = range.clone();
        Mapping { base: range.start, bytes: range.end - range.start, page_bytes: page }
    }

    /// Returns the page size of a request, or a refusal.
    fn page_for(&self, request: &MapRequest) -> Result<u64, Refusal> {
        if request.attribute != Attribute::WriteBack {
            return Err(Refusal::new(
                "pages that share a frame are ordinary memory",
                "request attribute write-back",
            ));
        }
        if request.bytes == 0 {
            return Err(Refusal::new("a mapping of 0 bytes", "request at least 8 bytes"));
        }
        match request.pages {
            Pages::Base | Pages::Coloured => Ok(self.sizes.base),
            Pages::Huge => self.huge_page(),
        }
    }

    /// Returns the huge page size, if the kernel provides huge pages.
    fn huge_page(&self) -> Result<u64, Refusal> {
        let Some(huge) = self.sizes.huge else {
            return Err(Refusal::new(
                "this kernel has no transparent huge pages",
                "use a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
            ));
        };
        if self.root.text(pages::THP).as_deref().and_then(pages::selected) == Some("never") {
            return Err(Refusal::new(
                "transparent huge pages are switched off (enabled is 'never')",
                THP_REMEDY,
            ));
        }
        Ok(huge)
    }

    /// Backs `range`, in the half `half`, with memory in pages of `page` bytes, locked and verified.
    fn back(
        &mut self,
        range: &Range<u64>,
        page: u64,
        half: &Range<u64>,
        request: &MapRequest,
    ) -> Result<(), Refusal> {
        if self.populated.contains(range) {
            return Ok(());
        }
        let granules = placement::widen(range, page.max(GRANULE_BYTES), half.end);
        let fits = granules.end - granules.start <= self.limit().bytes;
        let range = if fits { &granules } else { range };
        let missing = self.populated.missing(range);
        let new: u64 = missing.iter().map(|r| r.end - r.start).sum();
        self.make_room(range, new, request.bytes, page)?;
        for part in &missing {
            if let Err(error) = self.arena.populate(part.clone(), rustix::param::page_size() as u64) {
                self.release_all(&missing);
                return Err(Refusal::new(
                    format!("the kernel did not back {} KiB of memory ({error})", new >> 10),
                    "free some memory or request less",
                ));
            }
            self.lock(part.clone());
        }
        missing.iter().for_each(|part| self.populated.insert(part.clone()));
        let huge = request.pages == Pages::Huge;
        let verified = if huge { self.verify_huge(&missing, page) } else { self.verify_base() };
        verified.inspect_err(|_| self.release_all(&missing))
    }

    /// Returns the current limit for all populated memory together.
    fn limit(&self) -> MemoryLimit {
        let now = memory_limit::memory_limit(&self.root, self.populated.total());
        let now =
            now.and(self.half, CeilingSource::Process, || "the addresses reserved for one page size".into());
        match self.max_bytes {
            Some(max) => now.and(max, CeilingSource::Process, || "the requested limit".into()),
            None => now,
        }
    }

    /// Ensures that `new` more bytes stay below the limit. If needed, releases memory of earlier requests outside
    /// `range`.
    fn make_room(&mut self, range: &Range<u64>, new: u64, requested: u64, page: u64) -> Result<(), Refusal> {
        let limit = self.limit();
        if self.populated.total() + new <= limit.bytes {
            return Ok(());
        }
        if range.end - range.start > limit.bytes {
            return Err(too_much(requested, page, &limit));
        }
        let others = self.populated.outside(range);
        self.release_all(&others);
        // Other processes may have taken the released memory, so the limit is read again.
        let limit = self.limit();
        if self.populated.total() + new <= limit.bytes {
            return Ok(());
        }
        Err(too_much(requested, page, &limit))
    }

    /// Returns memory to the system. It reads as zero afterwards.
    fn release_all(&mut self, parts: &[Range<u64>]) {
        for part in parts {
            // If the kernel keeps the memory, it stays accounted as populated.
            if self.arena.release(part.clone()).is_ok() {
                self.populated.remove(part);
                self.mapped.remove(part);
                self.current = 0..0;
            }
        }
    }

    /// Returns the memory of a range to the system. The range stays mapped: its pages fault when they are next
    /// touched.
    pub(crate) fn release(&mut self, range: Range<u64>) -> Result<(), Refusal> {
        self.arena.release(range.clone()).map_err(|error| {
            Refusal::new(format!("the kernel did not take memory back ({error}, MADV_DONTNEED)"), "")
        })?;
        // The next request for the range backs it again.
        self.populated.remove(&range);
        Ok(())
    }

    /// Stores to the first cell of a released page.
    pub(crate) fn touch(&mut self, offset: u64) {
        if let Some(at) = self.cell(offset) {
            self.arena.link(at, at);
        }
    }

    fn lock(&mut self, part: Range<u64>) {
        if self.lock_refusal.is_some() {
            return;
        }
        if let Err(error) = self.arena.lock(part) {
            let remedy = "run as root, with CAP_IPC_LOCK, or with a larger limit (ulimit -l unlimited)";
            self.lock_refusal = Some(Refusal::new(format!("the kernel refuses it ({error})"), remedy));
        }
    }

    /// Returns how many bytes of a range of the arena are backed by huge pages.
    fn huge_backed(&self, range: Range<u64>) -> Option<u64> {
        let base = self.arena.address();
        pages::huge_backed(&self.root, base + range.start..base + range.end)
    }

    /// Verifies that every populated byte of the huge half is backed by a huge page.
    fn verify_huge(&mut self, fresh: &[Range<u64>], page: u64) -> Result<(), Refusal> {
        let half = self.half..self.half * 2;
        let expected = self.populated.total_in(&half);
        let mut got = self.huge_backed(half.clone());
        if got.is_some_and(|got| got < expected) {
            // The kernel gave no huge page at the first touch; since Linux 6.1 it can be asked to collapse the range.
            for part in fresh {
                let _ = self.arena.collapse(part.clone());
            }
            got = self.huge_backed(half);
        }
        match got {
            Some(got) if got >= expected => Ok(()),
            Some(got) => Err(Refusal::new(
                format!(
                    "huge pages of {} KiB were requested but not all granted ({} of {} KiB, AnonHugePages)",
                    page >> 10,
                    got >> 10,
                    expected >> 10
                ),
                THP_REMEDY,
            )),
            None => Err(Refusal::new(
                "huge pages cannot be verified: /proc/self/smaps is not readable",
                "mount /proc, or allow reading it in the sandbox",
            )),
        }
    }

    /// Verifies that the half of base pages has no huge ones. An unknown state passes: base pages were requested, and
    /// a kernel without this figure has no reason to ignore the request.
    fn verify_base(&self) -> Result<(), Refusal> {
        match self.huge_backed(0..self.half) {
            Some(got) if got != 0 => Err(Refusal::new(
                format!("base pages were requested and {} KiB of huge pages granted", got >> 10),
                "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
            )),
            _ => Ok(()),
        }
    }

    /// Returns the resident bytes of the half of base pages.
    fn resident(&self) -> Option<u64> {
        let base = self.arena.address();
        pages::resident(&self.root, base..base + self.half)
    }

    /// Verifies, as far as the kernel reports it, that the zero page backs all of `range`. `before` is the resident
    /// size before the range was read.
    fn verify_shared(&self, range: &Range<u64>, before: Option<u64>) -> Result<&'static str, Refusal> {
        let remedy = "mount /proc, or allow reading /proc/self/pagemap and smaps in the sandbox";
        let base = self.arena.address();
        let addresses = base + range.start..base + range.end;
        if let Some(words) = pages::page_map(&self.root, &addresses, rustix::param::page_size() as u64) {
            return pages::shared(&words).map_err(|reason| {
                Refusal::new(reason, "use a kernel with one zero page (mips and s390 have several)")
            });
        }
        match (before, self.resident()) {
            (Some(before), Some(after)) if after <= before => Ok("no memory became resident (smaps)"),
            (Some(before), Some(after)) => Err(Refusal::new(
                format!("{} KiB became resident of memory that is only read", (after - before) >> 10),
                "use a kernel with a zero page",
            )),
            _ => Err(Refusal::new("that pages share a frame cannot be verified", remedy)),
        }
    }

    /// See [`fathom_probe::machine::Machine::cell`].
    #[inline]
    pub(crate) fn cell(&self, offset: u64) -> Option<HostCell> {
        let end = offset.checked_add(8)?;
        let here = self.current.start <= offset && end <= self.current.end;
        if here || self.mapped.contains(&(offset..end)) { self.arena.cell(offset) } else { None }
    }

    /// Returns the number of bytes backed now.
    pub(crate) fn populated(&self) -> u64 {
        self.populated.total()
    }

    /// Returns the reserved size of one half, bytes.
    pub(crate) fn half(&self) -> u64 {
        self.half
    }

    /// Returns the current limit of one request.
    pub(crate) fn limit_now(&self) -> MemoryLimit {
        self.limit()
    }
}

/// Returns the refusal of `requested` bytes in pages of `page` bytes. A huge page may be larger than the request: 512 MiB
/// where base pages have 64 KiB.
fn too_much(requested: u64, page: u64, limit: &MemoryLimit) -> Refusal {
    let (pages, remedy) = if page > requested {
        (format!(" in a page of {} KiB", page >> 10), "free memory, or raise that limit")
    } else {
        (String::new(), "request less, free memory, or raise that limit")
    };
    let reason = format!(
        "{requested} bytes were requested{pages} and {} bytes are available, limited by {}",
        limit.bytes, limit.limit
    );
    Refusal::new(reason, remedy)
}

const THP_REMEDY: &str = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, and where memory is \
    fragmented echo 1 > /proc/sys/vm/compact_memory (both as root)";

#[cfg(test)]
mod tests;
