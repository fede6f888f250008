//! The survey: what is the memory hierarchy of this machine?
//!
//! A chase over growing working sets (in the largest pages there are, so that translation stays out of
//! it) gives the staircase; pairs of chains with one line a page and with the same lines packed give
//! the TLBs; a ladder of orders gives what prefetch is worth; base pages against huge ones give the
//! share of translation. Claims are decoded from raw facts and stand beside what was measured.

mod claims;
pub(crate) mod curves;
mod plan;
mod reading;

pub use plan::plan;
pub use reading::read;

/// The experiment's name.
pub const NAME: &str = "survey";

/// One line for the help.
pub const ABOUT: &str = "the whole memory hierarchy of a subject: tiers, TLBs, prefetch, claims";

use crate::common::{STEP, WINDOW_PAGES};

/// Bytes from line to line in the TLB pairs: no line is longer, so that a pair's halves touch equally many
/// lines whatever the line is.
pub(crate) const PAIR_STEP: u64 = 128;

/// The steps of the record's staircase.
pub(crate) fn steps(
    record: &crate::record::Record,
    scale: &crate::common::scale::Scale,
) -> Vec<crate::geometry::Step> {
    let translation = scale.translation(&scale.pairs(record));
    let stairs = curves::read_staircase(&scale.staircase(record), &translation, scale.share);
    stairs.as_ref().map(crate::geometry::steps).unwrap_or_default()
}

/// The TLBs that the record's pairs show, as steps: capacities in bytes of base pages, times of a load that hits in
/// the nearest cache.
pub(crate) fn tlbs(
    record: &crate::record::Record,
    scale: &crate::common::scale::Scale,
) -> Vec<crate::geometry::Step> {
    let Some(reading) = curves::read_pairs(&scale.pairs(record), scale.share) else { return Vec::new() };
    let mut here = reading.tiers[0].latency.value;
    let mut all = Vec::new();
    for (capacity, beyond) in curves::tlb_steps(&reading) {
        let (capacity, next) = (capacity.onset.scaled(scale.base as f64), beyond.value);
        all.push(crate::geometry::Step { capacity, here, next });
        here = next;
    }
    all
}

/// The rows of the TLBs that the record's pairs show: entries, penalty, walk.
pub(crate) fn tlb_rows(
    record: &crate::record::Record,
    scale: &crate::common::scale::Scale,
    report: &mut fathom_analysis::findings::Report,
) {
    let pairs = scale.pairs(record);
    let stairs = curves::read_staircase(&scale.staircase(record), &scale.translation(&pairs), scale.share);
    reading::tlbs(&pairs, scale, stairs.as_ref(), report);
}

/// A sentence where a rise of translation at so many pages may be none of a TLB's.
pub(crate) fn tlb_note(
    record: &crate::record::Record,
    scale: &crate::common::scale::Scale,
    pages: f64,
) -> Option<String> {
    let translation = scale.translation(&scale.pairs(record));
    let stairs = curves::read_staircase(&scale.staircase(record), &translation, scale.share)?;
    reading::leaves_a_tier(pages, &stairs)
}
