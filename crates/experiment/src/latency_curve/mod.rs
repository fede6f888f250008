//! The latency curve: latency over growing working sets; and the translation cost that the TLB pairs show.
//!
//! The survey and the conflict study begin with it. The geometry of levels and TLBs builds on it. This module depends
//! on none of them.

mod bursts;
mod conflicts;
mod curves;
mod descriptors;
mod hashed;
mod in_cycles;
mod passes;
mod plan;
mod refreshes;
mod rows;
mod spacings;
mod splinters;
mod tables;
mod tlb_rows;
mod translation;
pub(crate) mod two_lines;
pub(crate) mod view;
mod walks;

use fathom_analysis::findings::Metric;
use fathom_analysis::metrics::latency::{LATENCY_CYCLES, LATENCY_TIME};
use fathom_analysis::metrics::survey;
use fathom_probe::pattern::Trial;

pub(crate) use curves::{Curves, MAX_PAIR, Step};
pub(crate) use plan::{SCAN_ROUNDS, coarse_top, plan, unexceeded_claim};
pub(crate) use rows::{MIN_MEMORY_NS, repeats, tier_rows};
pub(crate) use splinters::rows as splinter_rows;
pub(crate) use tables::DESCRIPTOR;
pub(crate) use tlb_rows::{leaves_a_tier, maybe_tables, penalty, tlb_rows};
pub(crate) use translation::{PLATEAU_SPAN, Pair, lines_per_page, read_pairs, steps, tlb_steps};

/// Returns whether a conflict trial belongs to a test of translation, not of geometry.
pub(crate) fn tests_translation(trial: &Trial) -> bool {
    descriptors::is_test(trial)
}

/// Metrics of the curve's points.
pub(crate) static METRICS: &[&Metric] = &[&LATENCY_TIME, &LATENCY_CYCLES];

/// Metrics derived from the curve and the TLB pairs.
pub(crate) static TIERS: &[&Metric] = &[
    &survey::TIER_LATENCY,
    &survey::TIER_LATENCY_CYCLES,
    &survey::TIER_CAPACITY,
    &survey::TLB_ENTRIES,
    &survey::TLB_PENALTY,
    &survey::TLB_WAYS,
    &survey::TLB_SETS,
    &survey::TLB_HUGE_ENTRIES,
    &survey::TLB_HUGE_PENALTY,
    &survey::TLB_HUGE_PAGES,
    &survey::WALK_LATENCY,
    &survey::WALK_SHARE,
    &survey::HUGE_SPLINTERED,
];
