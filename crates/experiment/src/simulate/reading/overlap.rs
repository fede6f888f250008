//! The lower bound of a program's time.

use fathom_analysis::findings::{Finding, Item};
use fathom_analysis::metrics::simulate as metrics;

use super::{cycles, knows_instructions};
use crate::record::Simulated;

/// Returns the least time, and the number of accesses that overlap then; nothing if that is not described.
pub(super) fn bound(simulated: &Simulated) -> Vec<Finding> {
    let Some(overlap) = simulated.overlap else { return Vec::new() };
    // Without all instructions, only data accesses are known to take time.
    let others = if knows_instructions(simulated) { simulated.units[0].max(overlap.fetches) } else { 0 };
    let mut outstanding = Finding::number(&metrics::OUTSTANDING, overlap.outstanding as f64);
    if overlap.window > 0 {
        outstanding.detail.set(metrics::WINDOW, Item::Number(overlap.window as f64));
    }
    vec![Finding::number(&metrics::LEAST_CYCLES, cycles(overlap.data.max(others))), outstanding]
}
