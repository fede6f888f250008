//! Misses by line of data: what is named by object later.

use rustc_hash::FxHashMap;

use super::pairs::End;
use crate::counts::{LineCounts, Reason, SharingCounts};
use crate::origin::Accessor;

/// Lines that are counted separately, at most. Beyond it, two neighbours each are counted as one.
const MOST: usize = 1 << 18;

/// Counts by line.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    levels: usize,
    shift: u32,
    most: usize,
    lines: FxHashMap<(u64, Accessor), LineCounts>,
    /// By allocation site, of what is in blocks of the heap.
    sites: Vec<LineCounts>,
}

impl Tally {
    /// Counts by lines of 2^`shift` bytes.
    pub fn new(levels: usize, shift: u32) -> Tally {
        Tally { levels, shift, most: MOST, lines: FxHashMap::default(), sites: Vec::new() }
    }

    /// Adds an access that the levels `passed` did not serve: whether it walked, its time beyond a hit in units, why it missed in the
    /// nearest level, if it did, and what it did to lines of other CPUs.
    pub fn add<'a>(
        &mut self,
        own: End,
        passed: impl Iterator<Item = &'a usize>,
        (walked, [units, overlapped_units]): (bool, [u64; 2]),
        (reason, sharing): (Option<Reason>, SharingCounts),
    ) {
        let levels = self.levels;
        let End { address, accessor, .. } = own;
        let new = || LineCounts { address, accessor, misses: vec![0; levels], ..LineCounts::default() };
        let of = match own.owner.known() {
            None => self.lines.entry((address >> self.shift, accessor)).or_insert_with(new),
            Some((site, _)) => {
                let known = self.sites.len().max(site as usize + 1);
                self.sites.resize_with(known, new);
                &mut self.sites[site as usize]
            }
        };
        passed.for_each(|&level| of.misses[level] += 1);
        of.walks += u64::from(walked);
        of.units += units;
        of.overlapped_units += overlapped_units;
        of.sharing.add(sharing);
        if let Some(reason) = reason {
            of.reasons[reason as usize] += 1;
        }
        if self.lines.len() > self.most {
            self.merge_neighbours();
        }
    }

    #[cold]
    fn merge_neighbours(&mut self) {
        self.shift += 1;
        let mut all: Vec<LineCounts> = self.lines.drain().map(|(_, of)| of).collect();
        all.sort_by_key(|of| (of.address, of.accessor));
        for of in all {
            let key = (of.address >> self.shift, of.accessor);
            match self.lines.get_mut(&key) {
                Some(merged) => merged.add(&of),
                None => drop(self.lines.insert(key, of)),
            }
        }
    }

    /// Returns the bytes of what is counted as one.
    pub fn bytes(&self) -> u64 {
        1 << self.shift
    }

    /// Returns the counts by allocation site.
    pub fn sites(&self) -> Vec<LineCounts> {
        self.sites.clone()
    }

    /// Returns the counts of lines in the order of addresses.
    pub fn counts(&self) -> Vec<LineCounts> {
        let mut all: Vec<LineCounts> = self.lines.values().cloned().collect();
        all.sort_by_key(|of| (of.address, of.accessor));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Owner;

    #[test]
    fn neighbours_are_merged_without_losing_counts() {
        let mut tally = Tally { most: 100, ..Tally::new(2, 6) };
        for n in 0..1000u64 {
            let (address, accessor) = (64 * n + 8, Accessor::Program);
            let own = End { address, place: 0, cpu: 0, owner: Owner::NONE, accessor };
            tally.add(own, [0, 1].iter(), (true, [10, 3]), (Some(Reason::Cold), SharingCounts::default()));
        }
        let all = tally.counts();
        assert!(all.len() <= 100 && tally.bytes() == 64 << 4, "{} of {}", all.len(), tally.bytes());
        let sum = |of: fn(&LineCounts) -> u64| all.iter().map(of).sum::<u64>();
        assert_eq!((sum(|l| l.misses[1]), sum(|l| l.walks), sum(|l| l.units)), (1000, 1000, 10_000));
        assert_eq!(sum(|l| l.overlapped_units), 3000);
        assert_eq!(sum(|l| l.reasons[Reason::Cold as usize]), 1000);
        assert_eq!(all[1].address, 1024 + 8, "the first address that missed");
    }
}
