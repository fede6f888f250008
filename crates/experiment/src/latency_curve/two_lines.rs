//! TLB pairs of the same lines: two in each page, in two orders.
//!
//! One line per page and as many packed lines are not in the same sets of a cache: what the spread ones miss there looks like
//! translation. Two lines in each page are the same lines in both orders. In one, the second line of a page follows the first, and
//! needs no translation of its own; in the other, it is half a lap away, with all other pages in between, and needs it again. In
//! both, a page comes back after all others. The loads differ by half a translation; in memory also by open rows
//! (`Pair::is_in_memory`).

use fathom_probe::machine::Pages;
use fathom_probe::pattern::{self, Memory, OrderKind, Walk};

use crate::record::Record;
use crate::scale::{At, Scale, has_one_line_per_page};

/// Lines in each page.
pub(super) const LINES: u64 = 2;

/// The times of one number of pages.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TwoLines {
    /// Half a lap between the lines of a page.
    pub(crate) apart: At,
    /// The lines of a page one after the other.
    pub(crate) together: At,
}

impl TwoLines {
    /// Returns the time of a translation, ns: every load of one order needs it, and every second one of the other.
    pub(crate) fn translation(&self) -> f64 {
        LINES as f64 * (self.apart.time() - self.together.time())
    }

    /// Returns its standard error, ns.
    pub(crate) fn error(&self) -> f64 {
        let of = |at: &At| at.sigma() * at.time();
        LINES as f64 * of(&self.apart).hypot(of(&self.together))
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

/// Returns the times of all numbers of pages of this kind, ascending.
pub(crate) fn read(record: &Record, scale: &Scale, page: Pages) -> Vec<(u64, TwoLines)> {
    let of = |order: OrderKind| {
        scale.gather(record, pattern::PatternKind::Pages, |trial| {
            !has_one_line_per_page(trial)
                && trial.memory.page == page
                && trial.memory.stride == scale.pair_stride()
                && trial.pattern.walk().order == order
        })
    };
    let together = of(OrderKind::Pairs);
    let pair = |apart: At| {
        let together = together.iter().find(|at| at.bytes == apart.bytes)?.clone();
        Some((apart.bytes / scale.pair_stride() / LINES, TwoLines { apart, together }))
    };
    of(OrderKind::Random).into_iter().filter_map(pair).collect()
}
