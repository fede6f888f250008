//! Where a wish is placed: arithmetic on offsets, no memory touched.

use std::ops::Range;

use fathom_probe::splitmix::mix;

/// Freedom that small working sets have to move about in their half, bytes. Large enough that different
/// places are different physical pages and different sets of any physically indexed second level; small
/// enough that visiting every place populates only some tens of MiB.
const SLACK: u64 = 48 << 20;

/// The range for `bytes` bytes (a multiple of `page`) under the seed `place`, in a half of `half` bytes;
/// nothing when it does not fit.
///
/// A pure function of its arguments, so equal wishes get equal placements whatever came before. Up to
/// 96 MiB the start depends on the seed alone: working sets of different sizes at one place are nested,
/// so that a curve over sizes does not jump because each size met other physical pages. Larger ones may
/// move by half their own size.
pub(crate) fn place(bytes: u64, page: u64, half: u64, place: u64) -> Option<Range<u64>> {
    let room = half.checked_sub(bytes)?;
    let slack = SLACK.max(page).max(bytes / 2).min(room);
    let slots = slack / page + 1;
    // The high half of a 64 x 64 bit product: uniform over the slots, and monotonic in the seed's hash,
    // so the start moves little where `slots` changes little.
    let slot = ((u128::from(mix(place)) * u128::from(slots)) >> 64) as u64;
    let start = slot * page;
    Some(start..start + bytes)
}

/// `range` widened to whole granules of `granule` bytes, cut at `limit`.
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

    /// Takes a range out.
    pub(crate) fn remove(&mut self, range: &Range<u64>) {
        // Nothing would otherwise cut a range in two that touch.
        if range.is_empty() {
            return;
        }
        let kept = self.0.iter().flat_map(|r| {
            [r.start..r.end.min(range.start).max(r.start), r.start.max(range.end).min(r.end)..r.end]
        });
        self.0 = kept.filter(|r| !r.is_empty()).collect();
    }

    /// The parts of `range` that are not in the set.
    pub(crate) fn missing(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut rest = Ranges(vec![range.clone()]);
        for have in self.overlapping(range) {
            rest.remove(&have);
        }
        rest.0.retain(|r| !r.is_empty());
        rest.0
    }

    /// The parts of the set outside `range`.
    pub(crate) fn outside(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut rest = self.clone();
        rest.remove(range);
        rest.0
    }

    /// Is all of `range` in the set?
    pub(crate) fn contains(&self, range: &Range<u64>) -> bool {
        let at = self.0.partition_point(|r| r.end < range.end);
        self.0.get(at).is_some_and(|r| r.start <= range.start && range.end <= r.end)
    }

    /// Bytes in the set.
    pub(crate) fn total(&self) -> u64 {
        self.0.iter().map(|r| r.end - r.start).sum()
    }

    /// Bytes of the set inside `range`.
    pub(crate) fn total_in(&self, range: &Range<u64>) -> u64 {
        self.overlapping(range).map(|r| r.end.min(range.end) - r.start.max(range.start)).sum()
    }

    fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().filter(|r| r.start < range.end && range.start < r.end).cloned()
    }
}

#[cfg(test)]
mod tests;
