//! Memory that drivers lend: with another attribute, or at known places in physical memory.

use std::ops::Range;
use std::rc::Rc;

use fathom_probe::machine::{Attribute, COLOUR_SPAN, MapRequest, Mapping, Pages, Refusal, Translation};
use fathom_probe::splitmix::mix;

use super::Memory;
use crate::driver::{self, Driver, Presence, Region};
use crate::driver_buffer::{self, DriverBuffer};
use crate::placement;

/// Of what our own driver's openings may hold together, half is for coloured pages and an eighth for each attribute
/// (`driver_buffer`): so there is room for its recorder, and for somebody else.
const COLOURED_SHARE: u64 = 2;

/// Blocks more than a wish takes, among which its seed chooses: other frames, another set of a larger cache.
const SLACK_BLOCKS: u64 = 3;

/// Coloured pages: blocks of [`COLOUR_SPAN`] bytes, each in one piece of physical memory that begins at a multiple of
/// that.
#[derive(Debug)]
pub(super) struct Coloured {
    /// Where in the arena.
    area: Range<u64>,
    /// Those that are there, from the area's beginning on.
    blocks: Vec<Region>,
}

/// Most that is taken of coloured pages, bytes.
pub(super) fn most_coloured(driver: &Presence) -> u64 {
    let Presence::There(driver) = driver else { return 0 };
    driver.limit() / COLOURED_SHARE / COLOUR_SPAN * COLOUR_SPAN
}

impl Coloured {
    /// None yet, and room for them in that part of the arena.
    pub(super) fn within(area: Range<u64>) -> Coloured {
        Coloured { area, blocks: Vec::new() }
    }
}

impl Memory {
    /// A mapping in memory that a driver lends with the wish's attribute.
    pub(super) fn borrowed(&mut self, request: &MapRequest) -> Result<Mapping, Refusal> {
        if request.pages != Pages::Base {
            return Err(Refusal::new("what a driver lends is mapped in base pages", "ask for page=base"));
        }
        let page = self.sizes.base;
        let driver_buffer = self.provide(request.attribute, page)?.range;
        let there = driver_buffer.end - driver_buffer.start;
        let bytes = request.bytes.checked_next_multiple_of(page).filter(|&bytes| bytes > 0);
        let placed = bytes.and_then(|bytes| placement::place(bytes, page, there, request.place));
        let Some(placed) = placed else {
            let buffer_device = driver_buffer::find(&self.root, &self.driver, request.attribute);
            let who = buffer_device.map_or_else(String::new, |buffer_device| buffer_device.name);
            let reason = format!("{} bytes are wanted and {who} lends {there}", request.bytes);
            return Err(Refusal::new(reason, "ask for less, or load the driver with a larger buffer"));
        };
        Ok(self.mapping(driver_buffer.start + placed.start..driver_buffer.start + placed.end, page))
    }

    /// The memory that is lent with an attribute, borrowed where it is not yet.
    fn provide(&mut self, attribute: Attribute, page: u64) -> Result<DriverBuffer, Refusal> {
        if let Some((_, driver_buffer)) = self.driver_buffer.iter().find(|(of, _)| *of == attribute) {
            return Ok(driver_buffer.clone());
        }
        let buffer_device = driver_buffer::find(&self.root, &self.driver, attribute)
            .ok_or_else(|| driver_buffer::refusal(&self.root, &self.driver, attribute))?;
        // Each attribute has a part of its own behind the two halves.
        let nth = driver_buffer::ATTRIBUTES.iter().position(|a| *a == attribute).unwrap_or(0) as u64;
        let start = 2 * self.half + nth * driver_buffer::MAX_BUFFER_BYTES;
        let most = buffer_device.bytes.min(driver_buffer::MAX_BUFFER_BYTES) / page * page;
        let source = buffer_device.open(&self.root, most)?;
        let bytes = source.bytes().unwrap_or(most).min(most) / page * page;
        let range = start..start + bytes;
        self.arena
            .borrow(range.clone(), &source, source.offset())
            .map_err(|e| buffer_device.failed("cannot be mapped", &e))?;
        if let Some(driver) = source.driver()
            && let Err(refusal) = self.in_force(driver, &range, attribute)
        {
            self.arena.restore(range);
            return Err(refusal);
        }
        let driver_buffer = DriverBuffer { range, pa: buffer_device.pa, source: Rc::new(source) };
        self.driver_buffer.push((attribute, driver_buffer.clone()));
        Ok(driver_buffer)
    }

    /// Is every page of a range of our own driver's translated with this attribute?
    fn in_force(&self, driver: &Driver, range: &Range<u64>, wanted: Attribute) -> Result<(), Refusal> {
        for at in range.clone().step_by(rustix::param::page_size()) {
            let found = self.reported(driver, at)?;
            if found.attribute != Some(wanted) {
                return Err(driver_buffer::not_in_force(driver::NAME, wanted, &found));
            }
        }
        Ok(())
    }

    /// What the tables say of a place that our own driver's memory lies at.
    fn reported(&self, driver: &Driver, at: u64) -> Result<driver::Translation, Refusal> {
        driver.translate(self.arena.address() + at).map_err(|error| {
            let reason = format!("the driver cannot tell how its memory is translated ({error})");
            Refusal::new(reason, "see the kernel's log: dmesg")
        })
    }

    /// How the byte at `offset` is translated: its address; and, where a driver tells it, its physical one and the
    /// attribute.
    pub(crate) fn translated(&self, offset: u64) -> Translation {
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

    /// A mapping in coloured pages: physically each at its own place modulo [`COLOUR_SPAN`].
    pub(super) fn coloured(&mut self, request: &MapRequest) -> Result<Mapping, Refusal> {
        let driver = Rc::clone(self.driver.driver("pages of chosen colours")?);
        let page = self.sizes.base;
        let most = (self.coloured.area.end - self.coloured.area.start) / COLOUR_SPAN;
        let bytes = request.bytes.checked_next_multiple_of(page).filter(|&bytes| bytes > 0);
        let needed = bytes.map(|bytes| bytes.div_ceil(COLOUR_SPAN)).filter(|&needed| needed <= most);
        let Some((bytes, needed)) = bytes.zip(needed) else {
            let most = most * COLOUR_SPAN;
            let reason =
                format!("{} bytes of coloured pages are wanted and at most {most} had", request.bytes);
            return Err(Refusal::new(reason, "ask for fewer, or load the driver with a larger limit_mb"));
        };
        let slots = SLACK_BLOCKS.min(most - needed) + 1;
        let first = mix(request.place) % slots;
        let before = self.coloured.blocks.len();
        while (self.coloured.blocks.len() as u64) < first + needed {
            // What cannot be had whole is not held in part: others may want it.
            self.another_block(&driver).inspect_err(|_| self.fewer_blocks(before))?;
        }
        let start = self.coloured.area.start + first * COLOUR_SPAN;
        Ok(self.mapping(start..start + bytes, page))
    }

    /// Borrows one block more, and looks at where each of its pages is.
    fn another_block(&mut self, driver: &Rc<Driver>) -> Result<(), Refusal> {
        let region = driver.region(COLOUR_SPAN, Attribute::WriteBack, None)?;
        let start = self.coloured.area.start + self.coloured.blocks.len() as u64 * COLOUR_SPAN;
        let range = start..start + COLOUR_SPAN;
        self.arena.borrow(range.clone(), &region, region.offset).map_err(|error| {
            Refusal::new(format!("memory of the {} cannot be mapped ({error})", driver::NAME), "see dmesg")
        })?;
        if let Err(refusal) = self.at_their_places(driver, &range) {
            self.arena.restore(range);
            return Err(refusal);
        }
        self.coloured.blocks.push(region);
        Ok(())
    }

    /// Gives up all blocks but the first `kept`.
    fn fewer_blocks(&mut self, kept: usize) {
        while self.coloured.blocks.len() > kept {
            let start = self.coloured.area.start + (self.coloured.blocks.len() as u64 - 1) * COLOUR_SPAN;
            // The mapping first: it holds the memory as its handle does.
            self.arena.restore(start..start + COLOUR_SPAN);
            self.coloured.blocks.pop();
        }
    }

    /// Is every page of a block of write-back memory, and at its place?
    fn at_their_places(&self, driver: &Driver, block: &Range<u64>) -> Result<(), Refusal> {
        self.in_force(driver, block, Attribute::WriteBack)?;
        for at in block.clone().step_by(rustix::param::page_size()) {
            let pa = self.reported(driver, at)?.pa;
            if pa % COLOUR_SPAN != (at - block.start) % COLOUR_SPAN {
                let reason =
                    format!("a page of the {} is at {pa:#x}, which is another colour's place", driver::NAME);
                return Err(Refusal::new(reason, "see driver/README.md"));
            }
        }
        Ok(())
    }

    /// Who gives coloured pages, if anybody does.
    pub(crate) fn coloured_page_provider(&self) -> Option<&'static str> {
        let Presence::There(driver) = &self.driver else { return None };
        (driver.provides(Attribute::WriteBack) && driver.translates()).then_some(driver::NAME)
    }
}

#[cfg(test)]
mod tests;
