//! Placement offsets of map requests; no memory is touched.

use std::ops::Range;

use fathom_probe::splitmix::mix;

/// Range of offsets over which small working sets may be placed, bytes. Large enough that different places are
/// different physical pages and different sets of any physically indexed second level. Small enough that visiting
/// every place populates only some tens of MiB.
const SLACK_BYTES: u64 = 48 << 20;

/// Returns the range of `bytes` bytes (a multiple of `page`) for the seed `place`, in a half of `half` bytes; `None`
/// if it does not fit.
///
/// A pure function of its arguments, so equal requests get equal placements regardless of earlier ones. Up to 96 MiB
/// the start depends on the seed alone. Working sets of different sizes at one place are then nested, so that a curve
/// over sizes does not jump because each size has other physical pages. Larger ones may move by half their own size.
pub(crate) fn place(bytes: u64, page: u64, half: u64, place: u64) -> Option<Range<u64>> {
    let room = half.checked_sub(bytes)?;
    let slack = SLACK_BYTES.max(page).max(bytes / 2).min(room);
    let slots = slack / page + 1;
    // The high half of a 64 x 64 bit product: uniform over the slots, and monotonic in the seed's hash, so the start
    // moves little if `slots` changes little.
    let slot = ((u128::from(mix(place)) * u128::from(slots)) >> 64) as u64;
    let start = slot * page;
    Some(start..start + bytes)
}

/// Returns `range` widened to whole granules of `granule` bytes, cut at `limit`.
pub(crate) fn widen(range: &Range<u64>, granule: u64, limit: u64) -> Range<u64> {
    let start = range.start - range.start % granule;
    let end = range.end.checked_next_multiple_of(granule).unwrap_or(limit).min(limit).max(range.end);
    start..end
}

/// A set of offsets as sorted, disjoint, non-touching ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// Adds a range.
    pub(crate) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let from = self.0.partition_point(|r| r.end < range.start);
        let to = self.0.partition_point(|r| r.start <= range.end);
        let merged = self.0[from..to].iter().fold(range, |all, r| all.start.min(r.start)..all.end.max(r.end));
        self.0.splice(from..to, [merged]);
    }

    /// Removes a range.
    pub(crate) fn remove(&mut self, range: &Range<u64>) {
        // An empty range would otherwise split a stored range in two that touch.
        if range.is_empty() {
            return;
        }
        let kept = self.0.iter().flat_map(|r| {
            [r.start..r.end.min(range.start).max(r.start), r.start.max(range.end).min(r.end)..r.end]
        });
        self.0 = kept.filter(|r| !r.is_empty()).collect();
    }

    /// Returns the parts of `range` that are not in the set.
    pub(crate) fn missing(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut rest = Ranges(vec![range.clone()]);
        for have in self.overlapping(range) {
            rest.remove(&have);
        }
        rest.0.retain(|r| !r.is_empty());
        rest.0
    }

    /// Returns the parts of the set outside `range`.
    pub(crate) fn outside(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut rest = self.clone();
        rest.remove(range);
        rest.0
    }

    /// Returns whether all of `range` is in the set.
    pub(crate) fn contains(&self, range: &Range<u64>) -> bool {
        let at = self.0.partition_point(|r| r.end < range.end);
        self.0.get(at).is_some_and(|r| r.start <= range.start && range.end <= r.end)
    }

    /// Returns the number of bytes in the set.
    pub(crate) fn total(&self) -> u64 {
        self.0.iter().map(|r| r.end - r.start).sum()
    }

    /// Returns the number of bytes of the set inside `range`.
    pub(crate) fn total_in(&self, range: &Range<u64>) -> u64 {
        self.overlapping(range).map(|r| r.end.min(range.end) - r.start.max(range.start)).sum()
    }

    fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().filter(|r| r.start < range.end && range.start < r.end).cloned()
    }
}

#[cfg(test)]
mod tests;
