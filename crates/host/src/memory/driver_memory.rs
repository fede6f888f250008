//! Memory from drivers: with other attributes than write-back, or at known physical addresses.

use std::ops::Range;
use std::rc::Rc;

use fathom_probe::machine::{Attribute, COLOUR_SPAN, MapRequest, Mapping, Pages, Refusal, Translation};
use fathom_probe::splitmix::mix;

use super::{Memory, page_map};
use crate::driver::{self, Driver, Presence, Region};
use crate::driver_buffer::{self, DriverBuffer};
use crate::placement;
use crate::procfs::Root;

/// Share of the driver's memory limit for coloured pages: a half. Each attribute may take an eighth
/// (`driver_buffer`), which leaves memory for the driver's recorder and for other processes.
const COLOURED_LIMIT_DIVISOR: u64 = 2;

/// Extra blocks beyond those that a request needs. Its seed chooses among them, which gives other frames and other
/// sets of a larger cache.
const SLACK_BLOCKS: u64 = 3;

/// Coloured pages: blocks of [`COLOUR_SPAN`] bytes. Those of the driver are physically contiguous and aligned to [`COLOUR_SPAN`], in
/// those by the page map each page is at its place modulo that.
#[derive(Debug)]
pub(super) struct ColouredPages {
    /// Their range in the arena.
    area: Range<u64>,
    /// Blocks of the driver that are mapped, from the area's start on.
    blocks: Vec<Region>,
    /// Number of blocks by the page map that are, where there is no driver.
    pub(super) by_page_map: u64,
}

/// Returns the maximum size of all coloured pages, bytes.
pub(super) fn max_coloured_bytes(root: &Root, driver: &Presence) -> u64 {
    let Presence::Available(driver) = driver else { return page_map::max_bytes(root) };
    driver.limit() / COLOURED_LIMIT_DIVISOR / COLOUR_SPAN * COLOUR_SPAN
}

impl ColouredPages {
    /// Returns an empty set whose blocks will be in `area` of the arena.
    pub(super) fn within(area: Range<u64>) -> ColouredPages {
        ColouredPages { area, blocks: Vec::new(), by_page_map: 0 }
    }
}

impl Memory {
    /// Maps memory from a driver with the attribute of the request.
    pub(super) fn map_driver_memory(&mut self, request: &MapRequest) -> Result<Mapping, Refusal> {
        if request.pages != Pages::Base {
            return Err(Refusal::new("memory from a driver is mapped in base pages", "request page=base"));
        }
        let page = self.sizes.base;
        let driver_buffer = self.provide(request.attribute, page)?.range;
        let available = driver_buffer.end - driver_buffer.start;
        let bytes = request.bytes.checked_next_multiple_of(page).filter(|&bytes| bytes > 0);
        let placed = bytes.and_then(|bytes| placement::place(bytes, page, available, request.place));
        let Some(placed) = placed else {
            let buffer_device = driver_buffer::find(&self.root, &self.driver, request.attribute);
            let device = buffer_device.map_or_else(String::new, |buffer_device| buffer_device.name);
            let reason = format!("{} bytes were requested and {device} provides {available}", request.bytes);
            return Err(Refusal::new(reason, "request less, or load the driver with a larger buffer"));
        };
        Ok(self.mapping(driver_buffer.start + placed.start..driver_buffer.start + placed.end, page))
    }

    /// Returns the driver buffer with an attribute, and opens it if it is not open yet.
    fn provide(&mut self, attribute: Attribute, page: u64) -> Result<DriverBuffer, Refusal> {
        if let Some((_, driver_buffer)) = self.driver_buffer.iter().find(|(of, _)| *of == attribute) {
            return Ok(driver_buffer.clone());
        }
        let buffer_device = driver_buffer::find(&self.root, &self.driver, attribute)
            .ok_or_else(|| driver_buffer::refusal(&self.root, &self.driver, attribute))?;
        if self.coloured.area.start == 2 * self.half {
            let reason = format!("{} provides it only since this probe has been running", buffer_device.name);
            return Err(Refusal::new(reason, "start the measurement again"));
        }
        // Each attribute has a separate part after the two halves.
        let nth = driver_buffer::ATTRIBUTES.iter().position(|a| *a == attribute).unwrap_or(0) as u64;
        let start = 2 * self.half + nth * driver_buffer::MAX_BUFFER_BYTES;
        let max_bytes = buffer_device.bytes.min(driver_buffer::MAX_BUFFER_BYTES) / page * page;
        let source = buffer_device.open(&self.root, max_bytes)?;
        let bytes = source.bytes().unwrap_or(max_bytes).min(max_bytes) / page * page;
        let range = start..start + bytes;
        self.arena
            .map_buffer(range.clone(), &source, source.offset())
            .map_err(|e| buffer_device.operation_failed("cannot be mapped", &e))?;
        if let Some(driver) = source.driver()
            && let Err(refusal) = self.verify_attribute(driver, &range, attribute)
        {
            self.arena.map_anonymous(range);
            return Err(refusal);
        }
        let driver_buffer = DriverBuffer { range, pa: buffer_device.pa, source: Rc::new(source) };
        self.driver_buffer.push((attribute, driver_buffer.clone()));
        Ok(driver_buffer)
    }

    /// Verifies that every page of a range of the driver's memory is translated with this attribute.
    fn verify_attribute(
        &self,
        driver: &Driver,
        range: &Range<u64>,
        requested: Attribute,
    ) -> Result<(), Refusal> {
        for at in range.clone().step_by(rustix::param::page_size()) {
            let found = self.page_table_entry(driver, at)?;
            if found.attribute != Some(requested) {
                return Err(driver_buffer::wrong_attribute(driver::NAME, requested, &found));
            }
        }
        Ok(())
    }

    /// Returns the driver's report of the page table entry at an offset in its memory.
    fn page_table_entry(&self, driver: &Driver, at: u64) -> Result<driver::Translation, Refusal> {
        driver.translate(self.arena.address() + at).map_err(|error| {
            let reason = format!("the driver cannot report how its memory is translation ({error})");
            Refusal::new(reason, "see the kernel's log: dmesg")
        })
    }

    /// Returns how the byte at `offset` is translated: its virtual address and, if a driver reports them, its
    /// physical address and attribute.
    pub(crate) fn translation(&self, offset: u64) -> Translation {
        let va = self.arena.address() + offset;
        let reported = |driver: &Driver| {
            let found = driver.translate(va).ok()?;
            Some(Translation { va, pa: Some(found.pa), mair: found.mair })
        };
        let unreported = Translation { va, pa: None, mair: None };
        if self.coloured.area.contains(&offset) {
            let block = self.coloured.blocks.first();
            return block.and_then(|region| reported(region.driver())).unwrap_or(unreported);
        }
        let Some((_, driver_buffer)) =
            self.driver_buffer.iter().find(|(_, driver_buffer)| driver_buffer.range.contains(&offset))
        else {
            return unreported;
        };
        match driver_buffer.source.driver() {
            Some(driver) => reported(driver).unwrap_or(unreported),
            None => Translation {
                pa: driver_buffer.pa.map(|pa| pa + (offset - driver_buffer.range.start)),
                ..unreported
            },
        }
    }

    /// Maps coloured pages: each at its place modulo [`COLOUR_SPAN`] in physical memory.
    pub(super) fn map_coloured(&mut self, request: &MapRequest) -> Result<Mapping, Refusal> {
        if self.coloured.area.is_empty() {
            self.driver.driver("pages of chosen colours")?;
        }
        let page = self.sizes.base;
        let max_blocks = (self.coloured.area.end - self.coloured.area.start) / COLOUR_SPAN;
        let bytes = request.bytes.checked_next_multiple_of(page).filter(|&bytes| bytes > 0);
        let needed = bytes.map(|bytes| bytes.div_ceil(COLOUR_SPAN)).filter(|&needed| needed <= max_blocks);
        let Some((bytes, needed)) = bytes.zip(needed) else {
            let max_bytes = max_blocks * COLOUR_SPAN;
            let reason = format!(
                "{} bytes of coloured pages were requested and at most {max_bytes} are available",
                request.bytes
            );
            return Err(Refusal::new(reason, "request fewer, or load the driver with a larger limit_mb"));
        };
        let slots = SLACK_BLOCKS.min(max_blocks - needed) + 1;
        let first = mix(request.place) % slots;
        match &self.driver {
            Presence::Available(driver) => self.have_blocks_of(&Rc::clone(driver), first + needed)?,
            _ => self.have_blocks_by_page_map(first..first + needed)?,
        }
        let start = self.coloured.area.start + first * COLOUR_SPAN;
        Ok(self.mapping(start..start + bytes, page))
    }

    /// Maps blocks of the driver until there are so many.
    fn have_blocks_of(&mut self, driver: &Rc<Driver>, wanted: u64) -> Result<(), Refusal> {
        let before = self.coloured.blocks.len();
        while (self.coloured.blocks.len() as u64) < wanted {
            // A part of the blocks is useless, so it is released for other processes.
            self.map_another_block(driver).inspect_err(|_| self.unmap_blocks_after(before))?;
        }
        Ok(())
    }

    /// Maps blocks by the page map up to the end of those that are wanted. If the kernel has moved pages of the wanted ones since they were
    /// mapped, all are mapped once more.
    fn have_blocks_by_page_map(&mut self, wanted: Range<u64>) -> Result<(), Refusal> {
        let place = |block: u64, area: &Range<u64>| area.start + block * COLOUR_SPAN;
        for is_last in [false, true] {
            let had = self.coloured.by_page_map;
            if wanted.end > had {
                self.map_blocks_by_page_map(place(had, &self.coloured.area), wanted.end - had)?;
                self.coloured.by_page_map = wanted.end;
            }
            let area = &self.coloured.area;
            let verified = self.verify_colours(&(place(wanted.start, area)..place(wanted.end, area)));
            if verified.is_ok() || is_last {
                return verified;
            }
            let all = area.start..place(self.coloured.by_page_map, area);
            self.arena.map_anonymous(all);
            self.coloured.by_page_map = 0;
        }
        Ok(())
    }

    /// Maps one more block, and verifies the physical address of each of its pages.
    fn map_another_block(&mut self, driver: &Rc<Driver>) -> Result<(), Refusal> {
        let region = driver.region(COLOUR_SPAN, Attribute::WriteBack, None)?;
        let start = self.coloured.area.start + self.coloured.blocks.len() as u64 * COLOUR_SPAN;
        let range = start..start + COLOUR_SPAN;
        self.arena.map_buffer(range.clone(), &region, region.offset).map_err(|error| {
            Refusal::new(format!("memory of the {} cannot be mapped ({error})", driver::NAME), "see dmesg")
        })?;
        if let Err(refusal) = self.verify_block(driver, &range) {
            self.arena.map_anonymous(range);
            return Err(refusal);
        }
        self.coloured.blocks.push(region);
        Ok(())
    }

    /// Unmaps all blocks after the first `kept`.
    fn unmap_blocks_after(&mut self, kept: usize) {
        while self.coloured.blocks.len() > kept {
            let start = self.coloured.area.start + (self.coloured.blocks.len() as u64 - 1) * COLOUR_SPAN;
            // The mapping is removed first: it holds the memory as its handle does.
            self.arena.map_anonymous(start..start + COLOUR_SPAN);
            self.coloured.blocks.pop();
        }
    }

    /// Verifies that every page of a block is write-back memory and at its place.
    fn verify_block(&self, driver: &Driver, block: &Range<u64>) -> Result<(), Refusal> {
        self.verify_attribute(driver, block, Attribute::WriteBack)?;
        for at in block.clone().step_by(rustix::param::page_size()) {
            let pa = self.page_table_entry(driver, at)?.pa;
            if pa % COLOUR_SPAN != (at - block.start) % COLOUR_SPAN {
                let reason =
                    format!("a page of the {} is at {pa:#x}, which is another colour's place", driver::NAME);
                return Err(Refusal::new(reason, "see driver/README.md"));
            }
        }
        Ok(())
    }

    /// Returns what provides coloured pages, if anything does, and their largest size, bytes.
    pub(crate) fn coloured_page_provider(&self) -> Option<(&'static str, u64)> {
        let name = match &self.driver {
            Presence::Available(driver) => {
                (driver.provides(Attribute::WriteBack) && driver.translates()).then_some(driver::NAME)?
            }
            _ => page_map::NAME,
        };
        let bytes = self.coloured.area.end - self.coloured.area.start;
        (bytes > 0).then_some((name, bytes))
    }
}

#[cfg(test)]
mod tests;
