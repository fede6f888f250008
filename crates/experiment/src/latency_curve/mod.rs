//! The latency curve: latency over growing working sets, and the translation that the TLB pairs show.
//!
//! The survey and the conflict study begin with it, and the geometry of levels and TLBs builds on it; it knows none of
//! them.

mod curves;
mod plan;
mod rows;

pub(crate) use curves::{Curves, MAX_PAIR, Step, read_pairs, tlb_steps};
pub(crate) use plan::plan;
pub(crate) use rows::{leaves_a_tier, maybe_tables, repeats, tier_rows, tlb_rows};

/// Bytes from line to line in the TLB pairs: no line is longer, so that a pair's halves touch equally many
/// lines whatever the line is.
pub(crate) const PAIR_STRIDE: u64 = 128;
