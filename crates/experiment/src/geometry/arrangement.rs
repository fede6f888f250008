//! Arrangements of cells: groups at a period, of which a known number fall into one set.

use fathom_analysis::sets::{Geometry, MIN_SEPARATION};
use fathom_probe::machine::{COLOUR_SPAN, Pages};
use fathom_probe::pattern::{self, Groups, Memory, PatternKind, Trial};
use fathom_probe::splitmix::mix;

use super::{Step, pages};
use crate::scale::Scale;

/// Cells per trial, at most.
const MAX_CELLS: u64 = 512;
/// Cells per group that keep the nearer level busy, at most.
const MAX_GROUP: u64 = 32;
/// Bytes between the first and the last cell, at most.
pub(super) const MAX_SPAN: u64 = 512 << 20;
/// The same for pages of chosen colours, which are scarce: half of what Fathom's driver holds by default.
const COLOURED_SPAN: u64 = 32 << 20;
/// Minimum relative error of a latency curve's capacity: its onset is found within 6 % on models, and on hardware other
/// users occupy a part of shared levels.
pub(super) const CAPACITY_ERROR: f64 = 0.12;
/// The same for a latency curve in scattered pages: with 16 ways of 32 colours each, a level's pages overfill one of
/// them from half of its capacity on (Poisson distribution).
const SCATTERED_ERROR: f64 = 1.0;
/// Shortest period: the longest known line is 128 bytes, and adjacent lines are fetched together.
const MIN_PERIOD: u64 = 512;
/// Longest period without huge pages.
const MAX_PERIOD: u64 = 2 << 20;
/// Cells on more pages than this need a control trial on as many pages and in other sets, which measures the
/// translation cost. The smallest first-level TLB known has 8 entries.
const MAX_UNTRANSLATED_PAGES: u64 = 4;
/// Maximum share of twice the clock's resolution in the added time of the misses of a sample: it determines the number
/// of timed loads.
const CLOCK_SHARE: f64 = 0.006;
/// Alignment of the first cell: none of the distances of [`super::line`] then crosses a line's end by chance.
const ALIGNMENT: u64 = 256;
/// Positions of the first cell in its page: few trials then share a set with the stack or kernel data.
const PLACES: u64 = 16;
/// Geometries that separate trials distinguish, at most.
const MAX_DISTINGUISHED: usize = 12;

/// Returns the offset of the first cell of a trial in its page, bytes.
pub(crate) fn place(nth: u64) -> u64 {
    mix(nth) % PLACES * ALIGNMENT
}

/// The kind of set that is scanned: of lines (a cache) or of pages (a TLB).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Domain {
    /// Bytes that share a set regardless of the line: [`MIN_SEPARATION`] for lines, a page for pages.
    pub(super) grain: u64,
    /// The pages of the cells, and how many bytes of them are translated at once.
    pub(super) pages: (Pages, u64),
    /// Bytes added to each cell's step: the cells of different pages must not share a set of a cache.
    pub(super) cell_offset: u64,
    /// Additional distance between the cells of a control trial, bytes: a line, so that few of them meet in a set of the nearest cache.
    pub(super) control_offset: u64,
    /// The shortest and the longest period, bytes.
    pub(super) periods: (u64, u64),
    /// Bytes between the first and the last cell, at most.
    pub(super) span: u64,
    /// Cells per group that keep the nearer level busy, at most.
    pub(super) max_group: u64,
    /// Maximum share of twice the clock's resolution in the added time of misses.
    pub(super) clock_share: f64,
    /// Smallest relative error of the capacity.
    pub(super) capacity_error: f64,
}

impl Domain {
    /// Returns the domain of the cache of a step.
    pub(super) fn lines(scale: &Scale, step: &Step) -> Domain {
        let mut pages = pages(scale);
        if step.in_pieces {
            pages.1 = scale.base;
        }
        let (longest, span) = match pages.0 {
            Pages::Coloured => (COLOUR_SPAN, COLOURED_SPAN),
            _ => (scale.huge.unwrap_or(MAX_PERIOD), MAX_SPAN),
        };
        Domain {
            grain: MIN_SEPARATION,
            pages,
            cell_offset: 0,
            control_offset: scale.stride.max(MIN_SEPARATION),
            periods: (MIN_PERIOD, longest),
            span,
            max_group: MAX_GROUP,
            clock_share: CLOCK_SHARE,
            // If the curve is in scattered base pages and a way is longer than a page, one colour overflows long before the level is full.
            capacity_error: if pages.0 == scale.pages() { CAPACITY_ERROR } else { SCATTERED_ERROR },
        }
    }

    /// Returns an arrangement of `groups` groups at a period. Beyond a nearer level a group has as many cells of one of
    /// its sets as half a period holds. That keeps the set busy; half, so that a period of two ways differs from one of
    /// one.
    pub(super) fn arrange(&self, groups: u64, period: u64, nearer: Option<Geometry>) -> Arrangement {
        let (group, step) = nearer.map_or((1, self.grain), |nearer| {
            let max = self.max_group.min((MAX_CELLS / groups.max(1)).max(1));
            ((period / 2 / nearer.way_bytes).clamp(1, max), nearer.way_bytes)
        });
        let period = period + self.drift(groups, group);
        Arrangement { groups, group, stride: step + self.cell_offset, period }
    }

    /// Returns the bytes that each group is moved by: past the last group's cells, but so few that all groups' first
    /// cells stay within a page of their periods.
    fn drift(&self, groups: u64, group: u64) -> u64 {
        let steps = self.grain.checked_div(self.cell_offset).unwrap_or(0) / groups.max(1);
        self.cell_offset * steps.clamp(1, group.max(1))
    }

    /// Returns the nominal period of an arrangement.
    pub(super) fn period(&self, of: Arrangement) -> u64 {
        of.period.saturating_sub(self.drift(of.groups, of.group))
    }

    /// Returns whether a trial belongs to the domain.
    pub(super) fn contains(&self, trial: &Trial) -> bool {
        // The page of a cell must not depend on the offset of the first cell. Trials that count refills belong to later
        // tests.
        trial.kind() == PatternKind::Conflict
            && trial.counted == 0
            && trial.memory.page == self.pages.0
            && (self.cell_offset == 0 || trial.pattern.groups().offset == 0)
    }
}

/// An arrangement of cells: groups, cells per group, stride, period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Arrangement {
    pub(super) groups: u64,
    pub(super) group: u64,
    pub(super) stride: u64,
    pub(super) period: u64,
}

impl Arrangement {
    /// Returns the control: the same number of cells on as many pages, in other sets.
    pub(super) fn control(self, domain: &Domain) -> Arrangement {
        let offset = domain.control_offset;
        Arrangement { stride: self.stride + offset, period: self.period + offset * self.group, ..self }
    }

    /// Returns whether a lap uses more pages than any TLB holds.
    pub(super) fn translates(self, page: u64) -> bool {
        let pages = match (self.stride >= page, self.period >= page) {
            (true, _) => self.cells(),
            (false, true) => self.groups,
            (false, false) => self.groups * self.period / page + 1,
        };
        pages > MAX_UNTRANSLATED_PAGES
    }

    pub(super) fn of(trial: &Trial) -> Arrangement {
        let Groups { period, group, .. } = trial.pattern.groups();
        let group = group.max(1);
        Arrangement { groups: trial.memory.cells() / group, group, stride: trial.memory.stride, period }
    }

    pub(super) fn cells(self) -> u64 {
        self.groups * self.group
    }

    /// Returns its `nth` trial, each in another set.
    pub(super) fn trial(self, scale: &Scale, domain: &Domain, step: &Step, exact: bool, nth: u64) -> Trial {
        let cells = self.cells();
        let place = place(self.period ^ mix(self.groups ^ mix(nth)));
        let offset = if domain.cell_offset == 0 { place } else { 0 };
        let groups = Groups { period: self.period, group: self.group, offset };
        Trial {
            memory: Memory { page: domain.pages.0, ..Memory::of(cells * self.stride, self.stride) },
            loads: loads(scale, domain.clock_share * (step.next - step.here), cells, MIN_LOADS),
            samples: if exact { 1 } else { 3 },
            // Random replacement takes laps to settle.
            warm: (32 * cells).min(1 << 14),
            ..Trial::of(pattern::Conflict::of(groups))
        }
    }
}

/// Smallest and largest number of timed loads of a scan's trial.
pub(super) const MIN_LOADS: u64 = 2048;
const MAX_LOADS: u64 = 1 << 17;

/// Returns n for a lap of `cells`: whole laps and one load more, enough that twice the clock's resolution are at most
/// `error` per load, ns, and at least `min`.
pub(super) fn loads(scale: &Scale, error: f64, cells: u64, min: u64) -> u64 {
    let clock = 2.0 * scale.resolution * scale.tick_ns / error.max(0.1 * CLOCK_SHARE);
    let mut loads = (clock as u64).clamp(min, MAX_LOADS).div_ceil(cells) * cells + 1;
    while cells > 2 && (2 * loads).is_multiple_of(cells) {
        loads += 1;
    }
    loads
}

/// Returns arrangements that distinguish geometries: at the size of each one's way (or a multiple that is long enough)
/// exactly its ways, and one more.
pub(super) fn informative(
    domain: &Domain,
    several: &[Geometry],
    nearer: Option<Geometry>,
) -> Vec<Arrangement> {
    let mut all = Vec::new();
    for one in several.iter().take(MAX_DISTINGUISHED) {
        let shortest = nearer.map_or(domain.periods.0, |n| n.way_bytes);
        let period = one.way_bytes * shortest.div_ceil(one.way_bytes).next_power_of_two();
        all.extend([one.ways, one.ways + 1, 2 * one.ways].map(|n| domain.arrange(n, period, nearer)));
    }
    all.retain(|a| a.groups * a.period <= domain.span);
    all
}

/// Returns arrangements that tell a geometry from one with fewer ways and a multiple of its sets: as many groups as it has ways, at
/// odd multiples of its way that divide its ways. At its way, and at powers of two times it, both have the same conflicts: 20 pages 10 pages apart fit in
/// 4 ways of 50 sets as they do in 20 ways of 10 sets. Of groups that would be too far apart there are fewer, but more than the other
/// has ways.
pub(super) fn multiples(domain: &Domain, several: &[Geometry], nearer: Option<Geometry>) -> Vec<Arrangement> {
    let mut all = Vec::new();
    for one in several.iter().take(MAX_DISTINGUISHED) {
        let shortest = nearer.map_or(domain.periods.0, |n| n.way_bytes);
        let odd = (3..=one.ways).step_by(2).filter(|odd| one.ways.is_multiple_of(*odd));
        all.extend(odd.filter_map(|odd| {
            let way = odd * one.way_bytes;
            let period = way * shortest.div_ceil(way).next_power_of_two();
            // Each group is moved by less than that.
            let groups = one.ways.min(domain.span / (period + domain.grain));
            (period <= domain.periods.1 && groups > one.ways / odd)
                .then(|| domain.arrange(groups, period, nearer))
        }));
    }
    all.retain(|a| a.groups * a.period <= domain.span);
    all
}
