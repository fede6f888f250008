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
pub(crate) use plan::staircase;
pub use reading::read;

/// The experiment's name.
pub const NAME: &str = "survey";

/// One line for the help.
pub const ABOUT: &str = "the whole memory hierarchy of a subject: tiers, TLBs, prefetch, claims";

use crate::common::{STEP, WINDOW_PAGES};

/// Bytes from line to line in the TLB pairs: no line is longer, so that a pair's halves touch equally many
/// lines whatever the line is.
pub(crate) const PAIR_STEP: u64 = 128;

pub(crate) use curves::Stairs;
pub(crate) use reading::{leaves_a_tier, repeats, tiers as tier_rows, tlbs as tlb_rows};

/// Is the levels' replacement asked too?
fn deep(record: &crate::record::Record) -> bool {
    record.run.as_ref().is_some_and(|run| run.deep)
}
