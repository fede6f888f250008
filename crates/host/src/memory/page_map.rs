//! Coloured pages without a driver: of more base pages than are needed, those whose frames have the right colours are moved to
//! their places. Their frames are in `/proc/self/pagemap`, for processes with `CAP_SYS_ADMIN`.

use std::ops::Range;

use fathom_probe::machine::{COLOUR_SPAN, Refusal};

use super::Memory;
use crate::arena::pool::Pool;
use crate::memory_limit;
use crate::pages;
use crate::process;
use crate::procfs::Root;

/// Name of this source of coloured pages.
pub(super) const NAME: &str = "page map";

/// Largest size of all coloured pages, bytes. Each page may be a mapping of its own, and so may each that is left in the pool: with
/// pages of 4 KiB, half of the 65 530 mappings of a process (`vm.max_map_count`).
const MAX_BYTES: u64 = 64 << 20;
/// Smallest number of such sizes in all memory of the machine, and in the addresses that the process may have.
const MIN_PARTS: u64 = 8;
/// Pages that are looked at, as a multiple of those that are needed, the first time and at most. Of 4096 pages at random that fill 256
/// colours 16 times on average, every colour has 6 or more; the kernel gives runs of pages, which are more even.
const FACTORS: [u64; 3] = [2, 4, 8];

/// Returns the maximum size of all coloured pages, bytes; 0 if the page map does not tell frames.
pub(super) fn max_bytes(root: &Root) -> u64 {
    let page = rustix::param::page_size() as u64;
    let here = std::ptr::from_ref(&page).addr() as u64 / page * page;
    let known = pages::frames(root, &(here..here + page), page).is_some();
    if !known || page > COLOUR_SPAN {
        return 0;
    }
    let addresses = process::address_room(root).map_or(u64::MAX, |(bytes, _)| bytes);
    MAX_BYTES.min(memory_limit::total(root).min(addresses) / MIN_PARTS) / COLOUR_SPAN * COLOUR_SPAN
}

/// Returns for each colour the next pages of the pool that have it, `blocks` of them; `None` if one has fewer.
fn by_colour(frames: &[Option<u64>], colours: u64, blocks: usize) -> Option<Vec<Vec<usize>>> {
    let mut all = vec![Vec::new(); colours as usize];
    for (n, frame) in frames.iter().enumerate() {
        let of = frame.and_then(|frame| all.get_mut((frame % colours) as usize));
        if let Some(of) = of.filter(|of| of.len() < blocks) {
            of.push(n);
        }
    }
    all.iter().all(|of| of.len() == blocks).then_some(all)
}

impl Memory {
    /// Maps `blocks` more blocks from `start` of the arena on.
    pub(super) fn map_blocks_by_page_map(&mut self, start: u64, blocks: u64) -> Result<(), Refusal> {
        let range = start..start + blocks * COLOUR_SPAN;
        let moved = self.move_blocks(&range, blocks).and_then(|()| self.verify_colours(&range));
        if moved.is_err() {
            self.arena.map_anonymous(range);
            return moved;
        }
        self.lock(range);
        Ok(())
    }

    fn move_blocks(&mut self, range: &Range<u64>, blocks: u64) -> Result<(), Refusal> {
        let page = rustix::param::page_size() as u64;
        let colours = COLOUR_SPAN / page;
        for factor in FACTORS {
            let bytes = factor * blocks * COLOUR_SPAN;
            let taken = self.populated.total() + self.coloured.by_page_map * COLOUR_SPAN;
            let limit = self.limit().bytes.saturating_sub(taken);
            if bytes > limit {
                let reason =
                    format!("{bytes} bytes are needed to choose pages from, and {limit} are available");
                return Err(Refusal::new(reason, "request less, or free memory"));
            }
            let mut pool = Pool::new(bytes / page, page).map_err(|error| not_moved(&error))?;
            let frames = pages::frames(&self.root, &pool.addresses(), page).ok_or_else(hidden)?;
            let Some(chosen) = by_colour(&frames, colours, blocks as usize) else { continue };
            for block in 0..blocks as usize {
                let mut colour = 0;
                while colour < chosen.len() {
                    // Neighbours in the pool that are neighbours at their places move at once.
                    let first = chosen[colour][block];
                    let run =
                        chosen[colour..].iter().enumerate().take_while(|(n, of)| of[block] == first + n);
                    let run = run.count();
                    let at = range.start + block as u64 * COLOUR_SPAN + colour as u64 * page;
                    self.arena
                        .move_in(at, &mut pool, first..first + run)
                        .map_err(|error| not_moved(&error))?;
                    colour += run;
                }
            }
            return Ok(());
        }
        Err(Refusal::new(
            "the kernel's pages do not have all colours",
            "run it again, or load Fathom's driver",
        ))
    }

    /// Verifies that every page is at its place modulo [`COLOUR_SPAN`].
    pub(super) fn verify_colours(&self, range: &Range<u64>) -> Result<(), Refusal> {
        let (page, base) = (rustix::param::page_size() as u64, self.arena.address());
        let colours = COLOUR_SPAN / page;
        let frames =
            pages::frames(&self.root, &(base + range.start..base + range.end), page).ok_or_else(hidden)?;
        let at_place = |(n, frame): (usize, &Option<u64>)| {
            frame.is_some_and(|frame| frame % colours == n as u64 % colours)
        };
        match frames.iter().enumerate().all(at_place) {
            true => Ok(()),
            false => {
                let remedy = "run it again; if memory is compacted often, load Fathom's driver";
                Err(Refusal::new("the kernel moved a page of chosen colour to another frame", remedy))
            }
        }
    }
}

fn hidden() -> Refusal {
    Refusal::new("the page map does not tell the frames of pages", "run as root, with CAP_SYS_ADMIN")
}

fn not_moved(error: &std::io::Error) -> Refusal {
    Refusal::new(
        format!("pages of chosen colours cannot be put at their places ({error})"),
        "request less, or free memory",
    )
}

#[cfg(test)]
mod tests;
