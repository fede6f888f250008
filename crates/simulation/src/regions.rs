//! Regions of a program, between marks that its source has: what their accesses and instructions add up to.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::counts::EntryTimes;

/// Regions of a program, at most.
pub const MAX_REGIONS: usize = 1024;

/// Times of entries of a region that are kept, at most: 8 MB. If there are more, their median is that of the first ones.
const MAX_TIMES: usize = 1 << 20;

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
    /// The region of this number begins, unless the thread is within it already. Everything that the thread makes counts.
    From(u32),
    /// It ends, if the thread is within it.
    To(u32),
    /// The thread, a CPU of a guest, executes other code than the program with the marks: [`Event::Begin`].
    Away,
    /// It executes that program's code again.
    Back,
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
    pub fn add(&mut self, before: &Sums, now: &Sums) {
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
    /// Whether what a CPU makes while it is away counts, too.
    whole: bool,
    /// Times of the first entries that have been left, in units; the shortest and the longest of all.
    times: Vec<u64>,
    extremes: Option<[u64; 2]>,
}

impl Region {
    fn left(&mut self, time: u64) {
        let [least, most] = self.extremes.unwrap_or([time; 2]);
        self.extremes = Some([least.min(time), most.max(time)]);
        if self.times.len() < MAX_TIMES {
            self.times.push(time);
        }
    }

    /// Returns the times of the entries that have been left.
    pub fn entries(&self) -> Option<EntryTimes> {
        let [least, most] = self.extremes?;
        let mut times = self.times.clone();
        times.sort_unstable();
        // The smallest that is not exceeded by more than the rest.
        let quantile = |percent: usize| times[(times.len() * percent).div_ceil(100).max(1) - 1];
        Some(EntryTimes { least, median: quantile(50), p99: quantile(99), most })
    }
}

/// A thread of the program.
#[derive(Debug, Default)]
struct Thread {
    /// How often it is within each region.
    depths: Vec<u64>,
    /// Time since it has entered each, in units.
    times: Vec<u64>,
    /// Instructions at its last mark.
    instructions: u64,
    /// Whether it executes other code than the program with the marks.
    away: bool,
}

impl Thread {
    /// Returns the regions that it is in.
    fn within(&self) -> impl Iterator<Item = usize> {
        self.depths.iter().enumerate().filter(|(_, depth)| **depth > 0).map(|(region, _)| region)
    }

    /// Returns those of them in which it counts.
    fn counting(&self, regions: &[Region]) -> Vec<usize> {
        self.within().filter(|&region| !self.away || regions[region].whole).collect()
    }
}

/// What things cost, in units.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Costs {
    /// A load and a store that hit in the nearest level and TLB, without translation.
    pub hits: [u64; 2],
    /// An instruction itself.
    pub operation: u64,
}

impl Costs {
    /// Returns the time of accesses, translations and fetches.
    pub fn time(&self, of: &Sums) -> u64 {
        let hits = (0..2).map(|kind| {
            let told: u64 = of.told.iter().map(|told| told[kind]).sum();
            of.accesses[kind].saturating_sub(told) * self.hits[kind]
        });
        of.units.iter().sum::<u64>() + hits.sum::<u64>() + of.translation_units + of.fetch_units
    }
}

/// The regions on a machine. Those that contain others have their counts too.
#[derive(Debug)]
pub(crate) struct Regions {
    levels: usize,
    costs: Costs,
    regions: Vec<Region>,
    threads: HashMap<u32, Thread>,
}

impl Regions {
    /// Creates it for a number of levels, with memory.
    pub fn new(levels: usize, costs: Costs) -> Regions {
        Regions { levels, costs, regions: Vec::new(), threads: HashMap::new() }
    }

    /// Returns whether a thread is in any region.
    pub fn has(&self, thread: u32) -> bool {
        // Programs without marks have no threads here.
        !self.threads.is_empty() && self.threads.get(&thread).is_some_and(|of| of.within().next().is_some())
    }

    /// Adds what a thread has made: all sums before and after it.
    pub fn add(&mut self, thread: u32, before: &Sums, now: &Sums) {
        let Some(thread) = self.threads.get_mut(&thread) else { return };
        let passed = self.costs.time(now) - self.costs.time(before);
        for region in thread.counting(&self.regions) {
            self.regions[region].sums.add(before, now);
            thread.times[region] += passed;
        }
    }

    /// Takes a mark.
    pub fn mark(&mut self, thread: u32, mark: Mark) {
        if let Event::Begin(region) | Event::End(region) | Event::From(region) | Event::To(region) =
            mark.event
        {
            let wanted = (region as usize + 1).min(MAX_REGIONS);
            while self.regions.len() < wanted {
                self.regions.push(Region { sums: Sums::new(self.levels), ..Region::default() });
            }
        }
        let of = self.threads.entry(thread).or_default();
        let passed = mark.instructions.saturating_sub(of.instructions);
        of.instructions = mark.instructions;
        of.depths.resize(self.regions.len().max(of.depths.len()), 0);
        of.times.resize(of.depths.len(), 0);
        for region in of.counting(&self.regions) {
            self.regions[region].instructions += passed;
            of.times[region] += passed * self.costs.operation;
        }
        match mark.event {
            Event::Begin(region) | Event::From(region) if (region as usize) < MAX_REGIONS => {
                let again = matches!(mark.event, Event::Begin(_));
                enter(of, &mut self.regions, region as usize, again);
            }
            Event::End(region) | Event::To(region) if (region as usize) < MAX_REGIONS => {
                let counts = matches!(mark.event, Event::End(_));
                leave(of, &mut self.regions, region as usize, counts);
            }
            Event::Away => of.away = true,
            Event::Back => of.away = false,
            Event::Over => {
                of.within().for_each(|region| self.regions[region].unmatched += of.depths[region]);
                of.depths.clear();
            }
            Event::Begin(_) | Event::End(_) | Event::From(_) | Event::To(_) | Event::Now => {}
        }
    }

    /// Returns the regions that have been entered or left, with their numbers, as if all threads ended now.
    pub fn counts(&self) -> Vec<(u32, Region)> {
        let mut all = self.regions.clone();
        for thread in self.threads.values() {
            // What is between addresses is no mistake if it goes on at the end.
            let marked = thread.within().filter(|&region| !self.regions[region].whole);
            marked.for_each(|region| all[region].unmatched += thread.depths[region]);
        }
        (0..).zip(all).filter(|(_, of)| of.entered + of.unmatched > 0).collect()
    }
}

/// A thread enters a region; `again`: also if it is within it already.
fn enter(thread: &mut Thread, regions: &mut [Region], region: usize, again: bool) {
    if thread.depths[region] == 0 {
        regions[region].entered += 1;
        regions[region].whole = !again;
        thread.times[region] = 0;
    }
    thread.depths[region] = if again { thread.depths[region] + 1 } else { 1 };
}

/// A thread leaves a region; `counts`: that it was not within it is noted.
fn leave(thread: &mut Thread, regions: &mut [Region], region: usize, counts: bool) {
    match thread.depths[region] {
        0 => regions[region].unmatched += u64::from(counts),
        depth => {
            thread.depths[region] = depth - 1;
            if depth == 1 {
                regions[region].left(thread.times[region]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(marks: &[(u32, Event, u64)]) -> Vec<(u32, Region)> {
        let mut regions = Regions::new(1, Costs { operation: 10, ..Costs::default() });
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
    fn each_entry_has_its_time() {
        use Event::{Away, Back, Begin, End, From, To};
        let mut marks = vec![(0, Begin(1), 0), (0, End(1), 7)];
        // The second one of two beginnings counts in neither; what is away counts between addresses only.
        let around = [From(0), Begin(1), Away, From(0), Back, End(1), To(0), To(0)];
        marks.extend(around.iter().zip(0..).map(|(event, n)| (0, *event, 100 + 10 * n)));
        let of = marked(&marks);
        let shown: Vec<_> = of.iter().map(|(n, r)| (*n, r.entered, r.unmatched, r.instructions)).collect();
        assert_eq!(shown, [(0, 1, 0, 60), (1, 2, 0, 7 + 20)]);
        let times = |least, median, p99, most| Some(EntryTimes { least, median, p99, most });
        assert_eq!(of[0].1.entries(), times(600, 600, 600, 600));
        assert_eq!(of[1].1.entries(), times(70, 70, 200, 200));
        let open = marked(&[(0, From(0), 0), (0, To(0), 5), (0, From(0), 7), (0, Event::Now, 9)]);
        assert_eq!((open[0].1.entered, open[0].1.unmatched), (2, 0));
    }

    #[test]
    fn what_does_not_match_is_counted() {
        let of = marked(&[(0, Event::End(0), 7), (0, Event::Begin(1), 9), (0, Event::Now, 12)]);
        let shown: Vec<_> = of.iter().map(|(n, r)| (*n, r.entered, r.unmatched, r.instructions)).collect();
        assert_eq!(shown, [(0, 0, 1, 0), (1, 1, 1, 3)]);
        assert!(marked(&[(0, Event::Begin(u32::MAX), 7), (0, Event::End(u32::MAX), 8)]).is_empty());
    }
}
