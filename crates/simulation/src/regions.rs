//! Regions of a program, between marks that its source has: what their accesses and instructions add up to.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// Regions of a program, at most.
pub const MAX_REGIONS: usize = 1024;

/// What happens to a region, or to a thread within regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The region of this number begins.
    Begin(u32),
    /// It ends.
    End(u32),
    /// The thread may end here, without being told.
    Now,
    /// The thread has ended.
    Over,
}

/// A mark that a thread has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// What happens.
    pub event: Event,
    /// Instructions that the thread has executed so far.
    pub instructions: u64,
}

/// What accesses add up to on a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Accesses by kind.
    pub accesses: [u64; 3],
    /// Accesses that are not hits of the nearest level and TLB, by level and kind, with memory after the levels.
    pub told: Vec<[u64; 3]>,
    /// Time of data accesses without translation, by level.
    pub units: Vec<u64>,
    pub translation_units: u64,
    pub fetch_units: u64,
    pub walks: u64,
    /// Time beyond hits if accesses overlap: of data, and of fetches.
    pub overlap_units: [u64; 2],
}

impl Sums {
    /// Creates it for a number of levels, with memory.
    pub fn new(levels: usize) -> Sums {
        Sums { told: vec![[0; 3]; levels], units: vec![0; levels], ..Sums::default() }
    }

    /// Adds what has been added from `before` to `now`.
    fn add(&mut self, before: &Sums, now: &Sums) {
        let add = |sum: &mut u64, before: u64, now: u64| *sum += now - before;
        let kinds = |sum: &mut [u64; 3], before: &[u64; 3], now: &[u64; 3]| {
            (0..3).for_each(|kind| add(&mut sum[kind], before[kind], now[kind]));
        };
        kinds(&mut self.accesses, &before.accesses, &now.accesses);
        for level in 0..self.told.len() {
            kinds(&mut self.told[level], &before.told[level], &now.told[level]);
            add(&mut self.units[level], before.units[level], now.units[level]);
        }
        add(&mut self.translation_units, before.translation_units, now.translation_units);
        add(&mut self.fetch_units, before.fetch_units, now.fetch_units);
        add(&mut self.walks, before.walks, now.walks);
        for side in 0..2 {
            add(&mut self.overlap_units[side], before.overlap_units[side], now.overlap_units[side]);
        }
    }
}

/// A region's counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Region {
    /// Times that a thread has entered it from outside.
    pub entered: u64,
    /// Ends without a beginning, and beginnings without an end.
    pub unmatched: u64,
    pub instructions: u64,
    pub sums: Sums,
}

/// A thread of the program.
#[derive(Debug, Default)]
struct Thread {
    /// How often it is within each region.
    depths: Vec<u64>,
    /// Instructions at its last mark.
    instructions: u64,
}

impl Thread {
    /// Returns the regions that it is in.
    fn within(&self) -> impl Iterator<Item = usize> {
        self.depths.iter().enumerate().filter(|(_, depth)| **depth > 0).map(|(region, _)| region)
    }
}

/// The regions on a machine. Those that contain others have their counts too.
#[derive(Debug)]
pub(crate) struct Regions {
    levels: usize,
    regions: Vec<Region>,
    threads: HashMap<u32, Thread>,
}

impl Regions {
    /// Creates it for a number of levels, with memory.
    pub fn new(levels: usize) -> Regions {
        Regions { levels, regions: Vec::new(), threads: HashMap::new() }
    }

    /// Returns whether a thread is in any region.
    pub fn has(&self, thread: u32) -> bool {
        // Programs without marks have no threads here.
        !self.threads.is_empty() && self.threads.get(&thread).is_some_and(|of| of.within().next().is_some())
    }

    /// Adds what a thread has made: all sums before and after it.
    pub fn add(&mut self, thread: u32, before: &Sums, now: &Sums) {
        let Some(thread) = self.threads.get(&thread) else { return };
        for region in thread.within() {
            self.regions[region].sums.add(before, now);
        }
    }

    /// Takes a mark.
    pub fn mark(&mut self, thread: u32, mark: Mark) {
        if let Event::Begin(region) | Event::End(region) = mark.event {
            let wanted = (region as usize + 1).min(MAX_REGIONS);
            while self.regions.len() < wanted {
                self.regions.push(Region { sums: Sums::new(self.levels), ..Region::default() });
            }
        }
        let of = self.threads.entry(thread).or_default();
        let passed = mark.instructions.saturating_sub(of.instructions);
        of.instructions = mark.instructions;
        of.depths.resize(self.regions.len().max(of.depths.len()), 0);
        for region in of.within() {
            self.regions[region].instructions += passed;
        }
        match mark.event {
            Event::Begin(region) if (region as usize) < MAX_REGIONS => {
                let region = region as usize;
                self.regions[region].entered += u64::from(of.depths[region] == 0);
                of.depths[region] += 1;
            }
            Event::End(region) if (region as usize) < MAX_REGIONS => {
                let region = region as usize;
                match of.depths[region] {
                    0 => self.regions[region].unmatched += 1,
                    _ => of.depths[region] -= 1,
                }
            }
            Event::Over => {
                of.within().for_each(|region| self.regions[region].unmatched += of.depths[region]);
                of.depths.clear();
            }
            Event::Begin(_) | Event::End(_) | Event::Now => {}
        }
    }

    /// Returns the regions that have been entered or left, with their numbers, as if all threads ended now.
    pub fn counts(&self) -> Vec<(u32, Region)> {
        let mut all = self.regions.clone();
        for thread in self.threads.values() {
            thread.within().for_each(|region| all[region].unmatched += thread.depths[region]);
        }
        (0..).zip(all).filter(|(_, of)| of.entered + of.unmatched > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(marks: &[(u32, Event, u64)]) -> Vec<(u32, Region)> {
        let mut regions = Regions::new(1);
        for &(thread, event, instructions) in marks {
            regions.mark(thread, Mark { event, instructions });
        }
        regions.counts()
    }

    #[test]
    fn instructions_of_nested_regions_count_in_both_and_recursion_counts_once() {
        use Event::{Begin, End, Now, Over};
        let of = marked(&[
            (0, Begin(0), 100),
            (0, Begin(2), 110),
            (1, Begin(2), 5),
            (0, Begin(0), 115),
            (0, End(0), 120),
            (0, End(2), 125),
            (0, End(0), 150),
            (0, Now, 900),
            (1, Over, 35),
            (1, Now, 99),
        ]);
        let shown: Vec<_> = of.iter().map(|(n, r)| (*n, r.entered, r.unmatched, r.instructions)).collect();
        assert_eq!(shown, [(0, 1, 0, 50), (2, 2, 1, 15 + 30)]);
    }

    #[test]
    fn what_does_not_match_is_counted() {
        let of = marked(&[(0, Event::End(0), 7), (0, Event::Begin(1), 9), (0, Event::Now, 12)]);
        let shown: Vec<_> = of.iter().map(|(n, r)| (*n, r.entered, r.unmatched, r.instructions)).collect();
        assert_eq!(shown, [(0, 0, 1, 0), (1, 1, 1, 3)]);
        assert!(marked(&[(0, Event::Begin(u32::MAX), 7), (0, Event::End(u32::MAX), 8)]).is_empty());
    }
}
