//! TLB pairs of the same lines: two in each page, in two orders.
//!
//! One line per page and as many packed lines are not in the same sets of a cache: what the spread ones miss there looks like
//! translation. Two lines in each page are the same lines in both orders. In one, the second line of a page follows the first, and
//! needs no translation of its own; in the other, it is half a lap away, with all other pages in between, and needs it again. In
//! both, a page comes back after all others. The loads differ by half a translation.
//!
//! In memory they also differ by open rows: the second line of a page finds its row open in one order only. The same two orders over
//! half pages of few huge pages show how much that is ([`OpenRows`]): all their loads come from memory, and need no translation.

use fathom_probe::machine::Pages;
use fathom_probe::pattern::{self, Memory, OrderKind, PatternKind, Trial, Variant, Walk};

use crate::record::Record;
use crate::scale::{At, FEW_HUGE_PAGES, Scale};

/// Lines in each page that one order visits one after the other. In the other one each of them needs the translation.
pub(super) const LINES: u64 = 2;

/// The times of one number of pages.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TwoLines {
    /// Half a lap between the lines of a page.
    pub(crate) apart: At,
    /// The lines of a page one after the other.
    pub(crate) together: At,
    /// What open rows add to the difference, if the lines come from memory.
    rows: OpenRows,
    /// Standard error of the method, ns: at the end of a cache the two orders may find different lines there, and passes may be in step with the
    /// refreshes of memory.
    pub(super) method: f64,
    /// Whether these are passes over lines in memory, instead of two lines in each page.
    pub(super) are_passes: bool,
}

/// What open rows of memory add to the translation that two lines in each page show, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct OpenRows {
    pub(super) added: f64,
    pub(super) error: f64,
}

impl OpenRows {
    /// Returns a note on a step of so many ns if opening rows of memory may be all of it.
    pub(super) fn note(&self, step: f64) -> Option<String> {
        (step < self.added + Z * self.error).then(|| {
            format!(
                "rows of memory that are open no longer may cause this step, not a TLB: two lines of a page, one after the other, take {:.1} ns \
                 less than lines in other pages, also on few huge pages",
                self.added / LINES as f64
            )
        })
    }
}

/// Standard errors within which a step may be what opening rows adds.
const Z: f64 = 3.0;

impl TwoLines {
    /// Returns the times of two lines in each page.
    fn of(apart: At, together: At) -> TwoLines {
        TwoLines { apart, together, rows: OpenRows::default(), method: 0.0, are_passes: false }
    }

    /// Returns the times of passes over lines in memory.
    pub(super) fn of_passes(apart: At, together: At) -> TwoLines {
        TwoLines { are_passes: true, ..TwoLines::of(apart, together) }
    }

    /// Returns the time of a translation, ns: every load of one order needs it, and every second one of the other.
    pub(crate) fn translation(&self) -> f64 {
        LINES as f64 * (self.apart.time() - self.together.time()) - self.rows.added
    }

    /// Adds the error of the method where the lines just fit in a cache, or just do not.
    pub(super) fn add_end_of_cache(&mut self, curve: &[At]) {
        let bytes = self.apart.bytes as f64;
        self.method = end_of_cache(curve, bytes / END_OF_CACHE, bytes * END_OF_CACHE);
    }

    /// Returns the same lines, less what open rows add.
    pub(super) fn less(&self, rows: OpenRows) -> TwoLines {
        TwoLines { rows, ..self.clone() }
    }

    /// Returns its standard error, ns.
    pub(crate) fn error(&self) -> f64 {
        (LINES as f64 * self.apart.error().hypot(self.together.error())).hypot(self.shared_error())
    }

    /// Returns that part of it which other numbers of pages share: the error of the method, ns.
    pub(super) fn shared_error(&self) -> f64 {
        self.rows.error.hypot(self.method)
    }
}

/// Returns the pattern and the memory of a number of pages, in both orders.
pub(crate) fn both(scale: &Scale, pages: u64, page: Pages) -> [(pattern::Pattern, Memory); 2] {
    let stride = scale.pair_stride();
    let memory = Memory { page, ..Memory::of(LINES * pages * stride, stride) };
    [OrderKind::Random, OrderKind::Pairs].map(|order| {
        let walk = Walk { order, window: scale.base };
        (pattern::Pages { walk, per_page: LINES }.into(), memory)
    })
}

fn has_two_lines_per_page(trial: &Trial) -> bool {
    pattern::Pages::of(&trial.pattern).is_some_and(|pages| pages.per_page == LINES)
}

/// Returns the times of all numbers of pages of this kind, ascending.
pub(crate) fn read(record: &Record, scale: &Scale, page: Pages) -> Vec<(u64, TwoLines)> {
    let of = |order: OrderKind| {
        scale.gather(record, PatternKind::Pages, |trial| {
            has_two_lines_per_page(trial)
                && trial.memory.page == page
                && trial.memory.stride == scale.pair_stride()
                && trial.pattern.walk().order == order
        })
    };
    let together = of(OrderKind::Pairs);
    let pair = |apart: At| {
        let together = together.iter().find(|at| at.bytes == apart.bytes)?.clone();
        Some((apart.bytes / scale.pair_stride() / LINES, TwoLines::of(apart, together)))
    };
    of(OrderKind::Random).into_iter().filter_map(pair).collect()
}

/// Ratio of the lines to a cache, either way, within which the two orders may find different lines in it.
const END_OF_CACHE: f64 = 1.25;
/// Standard error of a translation there, as a share of what the curve rises: 5 of 147 ns behind an exclusive cache of 248 KiB with random
/// replacement (described machine). Where pairs fall they are left out, too (`conflicts`).
const END_OF_CACHE_SHARE: f64 = 0.03;

/// Returns the error of a translation by lines that just fit in a cache if they fill it with one of these working sets, ns.
pub(super) fn end_of_cache(curve: &[At], least: f64, most: f64) -> f64 {
    END_OF_CACHE_SHARE * (interpolated(curve, most) - interpolated(curve, least)).max(0.0)
}

/// Returns the time of a working set, between the points of the curve on both sides.
pub(super) fn interpolated(curve: &[At], bytes: f64) -> f64 {
    let after = curve.partition_point(|at| (at.bytes as f64) < bytes);
    match (after.checked_sub(1).map(|i| &curve[i]), curve.get(after)) {
        (Some(a), Some(b)) => {
            let part = (bytes / a.bytes as f64).ln() / (b.bytes as f64 / a.bytes as f64).ln();
            a.time() + part * (b.time() - a.time())
        }
        (Some(end), None) | (None, Some(end)) => end.time(),
        (None, None) => 0.0,
    }
}

/// Share of the time of memory from which on loads come from it.
pub(super) const IN_MEMORY: f64 = 0.8;
/// Error of what open rows add, as a share: up to a fifth of the loads of lines that count as in memory are hits.
const ROWS_ERROR: f64 = 0.1;

/// Returns pattern and memory of the test for open rows, in both orders; `None` without huge pages.
pub(super) fn open_rows_test(scale: &Scale) -> Option<[(pattern::Pattern, Memory); 2]> {
    let memory = Memory { page: Pages::Huge, ..Memory::of(FEW_HUGE_PAGES * scale.huge?, scale.base / LINES) };
    Some([OrderKind::Random, OrderKind::Pairs].map(|order| {
        let walk = Walk { order, window: scale.base };
        (pattern::Chase::over(walk).into(), memory)
    }))
}

/// Returns whether a trial belongs to that test.
pub(super) fn tests_open_rows(scale: &Scale, trial: &Trial, order: OrderKind) -> bool {
    let memory = &trial.memory;
    memory.page == Pages::Huge
        && memory.stride == scale.base / LINES
        && scale.huge.is_some_and(|huge| memory.bytes == FEW_HUGE_PAGES * huge)
        && trial.pattern.walk().order == order
}

/// Returns what open rows add; `None` if it was not measured, or if these loads did not come from memory, whose loads take `memory`
/// ns.
pub(super) fn open_rows(record: &Record, scale: &Scale, memory: f64) -> Option<OpenRows> {
    let of = |order| {
        let chases = scale.gather(record, PatternKind::Chase, |t| tests_open_rows(scale, t, order));
        chases.into_iter().next()
    };
    let (apart, together) = (of(OrderKind::Random)?, of(OrderKind::Pairs)?);
    let added = LINES as f64 * (apart.time() - together.time());
    let samples = LINES as f64 * apart.error().hypot(together.error());
    let error = samples.hypot(ROWS_ERROR * added);
    (apart.time() >= IN_MEMORY * memory).then_some(OpenRows { added, error })
}
