//! Wishes for memory, granted or refused: ceilings, placement, population, verification.

use std::ops::Range;

use fathom_probe::machine::{Attribute, MapRequest, Mapping, Pages, Refusal};
use fathom_units::facts::CeilingSource;

use crate::arena::{Arena, HostCell};
use crate::ceiling::{self, Ceiling};
use crate::driver::Presence;
use crate::driver_buffer::{self, DriverBuffer};
use crate::pages::{self, PageSizes};
use crate::placement::{self, Ranges};
use crate::process;
use crate::read::Root;

mod driver_memory;

use driver_memory::{Coloured, most_coloured};

/// Most that one half of the arena reserves, bytes: four times the largest last level on sale (1.1 GiB of
/// AMD's 9684X, in all its parts) and a margin. Reserving costs addresses only.
const HALF_MOST: u64 = 64 << 30;

/// Least that one half reserves, bytes, before opening is refused.
const HALF_LEAST: u64 = 8 << 20;

/// Memory is populated in granules of at least this many bytes, so that growing a working set page by
/// page does not cost a verification each.
const GRANULE: u64 = 256 << 10;

/// Bytes of the arena behind its halves, for what drivers lend.
const DRIVER_BYTES: u64 = driver_buffer::MAX_BUFFER_BYTES * driver_buffer::ATTRIBUTES.len() as u64;

/// Alignment of the arena where the kernel has no huge pages: what most kernels would have.
const ALIGN: u64 = 2 << 20;

/// The memory of a host: an arena in two halves, of base pages and of huge pages.
pub(crate) struct Memory {
    pub(crate) arena: Arena,
    root: Root,
    pub(crate) sizes: PageSizes,
    /// Bytes in one half.
    half: u64,
    /// The caller's own ceiling, bytes.
    max_bytes: Option<u64>,
    /// What is backed by memory of ours.
    populated: Ranges,
    /// What has been mapped.
    mapped: Ranges,
    /// The latest mapping: where cells are looked up first.
    current: Range<u64>,
    /// Why memory could not be locked, once it could not.
    pub(crate) unlocked: Option<Refusal>,
    /// What drivers lend, by attribute, once it was asked for.
    driver_buffer: Vec<(Attribute, DriverBuffer)>,
    /// Our own driver.
    driver: Presence,
    /// What it lends of coloured pages.
    coloured: Coloured,
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
        let driver_buffer = DRIVER_BYTES + most_coloured(&driver);
        let align = sizes.huge.unwrap_or(ALIGN).max(sizes.base).max(ALIGN);
        // Not by `max_bytes`: the first arena of a process sets the length of all (see `arena`), and
        // addresses cost nothing.
        let mut half = (ceiling::total(&root) / 2).clamp(HALF_LEAST, HALF_MOST);
        let memory_budget = process::address_room(&root);
        if let Some((memory_budget, _)) = memory_budget {
            // Half of the room: the program itself needs some.
            half = half.min(memory_budget / 4);
        }
        let least = align.max(HALF_LEAST) * 2;
        let arena = Arena::reserve(
            half.saturating_mul(2).saturating_add(driver_buffer),
            least + driver_buffer,
            align,
        )
        .map_err(|error| {
            let limit = memory_budget.map_or("the kernel", |(_, name)| name);
            Refusal::new(
                format!(
                    "the addresses of the arena, {} MiB at least, could not be reserved ({error})",
                    least >> 20
                ),
                format!("raise what limits them: {limit} (ulimit -v, ulimit -d), or vm.overcommit_memory=2"),
            )
        })?;
        let half = arena.length().saturating_sub(driver_buffer) / 2;
        let half = half - half % align;
        // A kernel without transparent huge pages knows neither advice, and then needs neither.
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
            unlocked: None,
            driver_buffer: Vec::new(),
            driver,
            coloured: Coloured::within(2 * half + DRIVER_BYTES..2 * half + driver_buffer),
            shared: None,
        })
    }

    /// See [`fathom_probe::machine::Machine::map`].
    pub(crate) fn map(&mut self, request: &MapRequest) -> Result<Mapping, Refusal> {
        if request.attribute != Attribute::WriteBack {
            return self.borrowed(request);
        }
        if request.pages == Pages::Coloured {
            return self.coloured(request);
        }
        let page = self.page_for(request)?;
        let huge = request.pages == Pages::Huge;
        let half = if huge { self.half..self.half * 2 } else { 0..self.half };
        let range = self.place(request, page, half.start)?;
        self.back(&range, page, &half, request)?;
        Ok(self.mapping(range, page))
    }

    /// See [`fathom_probe::machine::Machine::map_shared`]: memory of the half of base pages, where nobody has
    /// huge ones, given back if it was ours and then only read, so that the kernel's page of zeros is under all
    /// of it. It is neither populated nor locked, which would write to it.
    pub(crate) fn map_shared(&mut self, request: &MapRequest, frames: u64) -> Result<Mapping, Refusal> {
        if frames != 1 || request.pages != Pages::Base {
            return Err(Refusal::new(
                "memory that is only read lies in one frame, the kernel's base page of zeros",
                "ask for frames=1 and page=base",
            ));
        }
        let page = self.page_for(request)?;
        let range = self.place(request, page, 0)?;
        self.give_up(std::slice::from_ref(&range));
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

    /// Where in the half that begins at `start` a wish in pages of `page` bytes lies.
    fn place(&self, request: &MapRequest, page: u64, start: u64) -> Result<Range<u64>, Refusal> {
        let bytes = request.bytes.checked_next_multiple_of(page);
        let placed = bytes.and_then(|bytes| placement::place(bytes, page, self.half, request.place));
        let placed = placed.ok_or_else(|| self.too_much(request.bytes, &self.ceiling()))?;
        Ok(start + placed.start..start + placed.end)
    }

    /// Notes a range as mapped.
    fn mapping(&mut self, range: Range<u64>, page: u64) -> Mapping {
        self.mapped.insert(range.clone());
        self.current = range.clone();
        Mapping { base: range.start, bytes: range.end - range.start, page_bytes: page }
    }

    /// The page size of a wish, or why it cannot be.
    fn page_for(&self, request: &MapRequest) -> Result<u64, Refusal> {
        if request.attribute != Attribute::WriteBack {
            return Err(Refusal::new(
                "pages that share a frame are ordinary memory",
                "ask for attribute write-back",
            ));
        }
        if request.bytes == 0 {
            return Err(Refusal::new("a mapping of 0 bytes", "ask for at least 8 bytes"));
        }
        match request.pages {
            Pages::Base | Pages::Coloured => Ok(self.sizes.base),
            Pages::Huge => self.huge_page(),
        }
    }

    /// The huge page, if the kernel would give any.
    fn huge_page(&self) -> Result<u64, Refusal> {
        let Some(huge) = self.sizes.huge else {
            return Err(Refusal::new(
                "this kernel has no transparent huge pages",
                "a kernel with CONFIG_TRANSPARENT_HUGEPAGE gives them",
            ));
        };
        if self.root.text(pages::THP).as_deref().and_then(pages::chosen) == Some("never") {
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
        let granules = placement::widen(range, page.max(GRANULE), half.end);
        let fits = granules.end - granules.start <= self.ceiling().bytes;
        let range = if fits { &granules } else { range };
        let missing = self.populated.missing(range);
        let new: u64 = missing.iter().map(|r| r.end - r.start).sum();
        self.make_room(range, new, request.bytes)?;
        for part in &missing {
            if let Err(error) = self.arena.populate(part.clone(), rustix::param::page_size() as u64) {
                self.give_up(&missing);
                return Err(Refusal::new(
                    format!("the kernel did not back {} KiB of memory ({error})", new >> 10),
                    "free some memory or ask for less",
                ));
            }
            self.lock(part.clone());
        }
        missing.iter().for_each(|part| self.populated.insert(part.clone()));
        let huge = request.pages == Pages::Huge;
        let verified = if huge { self.verify_huge(&missing, page) } else { self.verify_base() };
        verified.inspect_err(|_| self.give_up(&missing))
    }

    /// The ceiling now, for everything that is populated together.
    fn ceiling(&self) -> Ceiling {
        let now = ceiling::ceiling(&self.root, self.populated.total());
        let now =
            now.and(self.half, CeilingSource::Process, || "the addresses reserved for one page size".into());
        match self.max_bytes {
            Some(max) => now.and(max, CeilingSource::Process, || "the limit asked for".into()),
            None => now,
        }
    }

    /// Makes sure that `new` bytes more stay below the ceiling, giving up what earlier wishes hold outside
    /// `range` where that is needed.
    fn make_room(&mut self, range: &Range<u64>, new: u64, requested: u64) -> Result<(), Refusal> {
        let ceiling = self.ceiling();
        if self.populated.total() + new <= ceiling.bytes {
            return Ok(());
        }
        if range.end - range.start > ceiling.bytes {
            return Err(self.too_much(requested, &ceiling));
        }
        let others = self.populated.outside(range);
        self.give_up(&others);
        // What was given back may have gone elsewhere meanwhile: look again.
        let ceiling = self.ceiling();
        if self.populated.total() + new <= ceiling.bytes {
            return Ok(());
        }
        Err(self.too_much(requested, &ceiling))
    }

    fn too_much(&self, requested: u64, ceiling: &Ceiling) -> Refusal {
        Refusal::new(
            format!(
                "{requested} bytes are wanted and {} bytes may be had, limited by {}",
                ceiling.bytes, ceiling.limit
            ),
            "ask for less, or free memory, or raise that limit",
        )
    }

    /// Returns memory to the system. It reads as zero afterwards.
    fn give_up(&mut self, parts: &[Range<u64>]) {
        for part in parts {
            // Should the kernel keep the memory, it stays accounted as ours.
            if self.arena.release(part.clone()).is_ok() {
                self.populated.remove(part);
                self.mapped.remove(part);
                self.current = 0..0;
            }
        }
    }

    /// Returns the memory of a mapping, which stays mapped: its pages fault when they are touched again.
    pub(crate) fn give_back(&mut self, range: Range<u64>) -> Result<(), Refusal> {
        self.arena.release(range.clone()).map_err(|error| {
            Refusal::new(format!("the kernel did not take memory back ({error}, MADV_DONTNEED)"), "")
        })?;
        // The next wish for it backs it again.
        self.populated.remove(&range);
        Ok(())
    }

    /// Stores to the first cell of a page that was given back.
    pub(crate) fn touch(&mut self, offset: u64) {
        if let Some(at) = self.cell(offset) {
            self.arena.link(at, at);
        }
    }

    fn lock(&mut self, part: Range<u64>) {
        if self.unlocked.is_some() {
            return;
        }
        if let Err(error) = self.arena.lock(part) {
            let remedy = "run as root, with CAP_IPC_LOCK, or with a larger limit (ulimit -l unlimited)";
            self.unlocked = Some(Refusal::new(format!("the kernel refuses it ({error})"), remedy));
        }
    }

    /// Bytes of the given range of the arena that huge pages back.
    fn huge_backed(&self, range: Range<u64>) -> Option<u64> {
        let base = self.arena.address();
        pages::huge_backed(&self.root, base + range.start..base + range.end)
    }

    /// Has every populated byte of the huge half got a huge page?
    fn verify_huge(&mut self, fresh: &[Range<u64>], page: u64) -> Result<(), Refusal> {
        let half = self.half..self.half * 2;
        let wanted = self.populated.total_in(&half);
        let mut got = self.huge_backed(half.clone());
        if got.is_some_and(|got| got < wanted) {
            // The kernel was not willing at the first touch; since Linux 6.1 it can be asked outright.
            for part in fresh {
                let _ = self.arena.collapse(part.clone());
            }
            got = self.huge_backed(half);
        }
        match got {
            Some(got) if got >= wanted => Ok(()),
            Some(got) => Err(Refusal::new(
                format!(
                    "huge pages of {} KiB were asked for and not all got ({} of {} KiB, AnonHugePages)",
                    page >> 10,
                    got >> 10,
                    wanted >> 10
                ),
                THP_REMEDY,
            )),
            None => Err(Refusal::new(
                "huge pages cannot be verified: /proc/self/smaps is not readable",
                "mount /proc, or allow reading it in the sandbox",
            )),
        }
    }

    /// Is the half of base pages free of huge ones? Unknown counts as yes: it was asked for, and a kernel
    /// that does not say has no reason to ignore it.
    fn verify_base(&self) -> Result<(), Refusal> {
        match self.huge_backed(0..self.half) {
            Some(got) if got != 0 => Err(Refusal::new(
                format!("base pages were asked for and {} KiB of huge pages got", got >> 10),
                "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
            )),
            _ => Ok(()),
        }
    }

    /// Resident bytes of the half of base pages.
    fn resident(&self) -> Option<u64> {
        let base = self.arena.address();
        pages::resident(&self.root, base..base + self.half)
    }

    /// Does the page of zeros lie under all of `range`, as far as anybody says? `before` is what was resident
    /// before it was read.
    fn verify_shared(&self, range: &Range<u64>, before: Option<u64>) -> Result<&'static str, Refusal> {
        let remedy = "mount /proc, or allow reading /proc/self/pagemap and smaps in the sandbox";
        let base = self.arena.address();
        let addresses = base + range.start..base + range.end;
        if let Some(words) = pages::page_map(&self.root, &addresses, rustix::param::page_size() as u64) {
            return pages::shared(&words).map_err(|reason| {
                Refusal::new(reason, "a kernel with one page of zeros, which neither mips nor s390 has")
            });
        }
        match (before, self.resident()) {
            (Some(before), Some(after)) if after <= before => Ok("no memory became resident (smaps)"),
            (Some(before), Some(after)) => Err(Refusal::new(
                format!("{} KiB became resident of memory that is only read", (after - before) >> 10),
                "a kernel with a page of zeros",
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

    /// Bytes backed now.
    pub(crate) fn populated(&self) -> u64 {
        self.populated.total()
    }

    /// Bytes of one half, as reserved.
    pub(crate) fn half(&self) -> u64 {
        self.half
    }

    /// What one wish may have at most, now, in words for the record.
    pub(crate) fn ceiling_now(&self) -> Ceiling {
        self.ceiling()
    }
}

const THP_REMEDY: &str = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, and where memory is \
    fragmented echo 1 > /proc/sys/vm/compact_memory (both as root)";

#[cfg(test)]
mod tests;
