//! The lower bound of a program's time.

use fathom_analysis::findings::{Detail, Finding, Item};
use fathom_analysis::metrics::simulate as metrics;

use super::{cycles, knows_instructions};
use crate::record::Simulated;

/// Returns the least time, in units; `None` if the machine does not describe how many accesses overlap.
pub(super) fn least_units(simulated: &Simulated) -> Option<u64> {
    sides(simulated).map(|sides| sides.into_iter().map(|(_, units)| units).max().unwrap_or(0))
}

/// Returns what passes side by side, with its time in units.
fn sides(simulated: &Simulated) -> Option<Vec<(&'static str, u64)>> {
    let overlap = simulated.overlap?;
    let data = (metrics::DATA_SIDE, overlap.data);
    // Without all instructions, only data accesses are known to take time.
    if !knows_instructions(simulated) {
        return Some(vec![data]);
    }
    let others = [(metrics::INSTRUCTION_SIDE, simulated.units[0]), (metrics::FETCH_SIDE, overlap.fetches)];
    Some(others.into_iter().chain([data]).collect())
}

/// Returns the least time, and the number of accesses that overlap then; nothing if that is not described.
pub(super) fn bound(simulated: &Simulated) -> Vec<Finding> {
    let (Some(overlap), Some(sides)) = (simulated.overlap, sides(simulated)) else { return Vec::new() };
    let mut least =
        Finding::number(&metrics::LEAST_CYCLES, cycles(least_units(simulated).unwrap_or_default()));
    let named = sides.into_iter().map(|(name, units)| (name.to_owned(), cycles(units)));
    least.detail.set(metrics::SIDES, Item::Numbers(named.collect()));
    let mut outstanding = Finding::number(&metrics::OUTSTANDING, overlap.outstanding as f64);
    if overlap.window > 0 {
        outstanding.detail.set(metrics::WINDOW, Item::Number(overlap.window as f64));
    }
    vec![least, outstanding]
}

/// Adds what remains of a finding's time if accesses overlap, in units, if that is known.
pub(super) fn set_overlapped(detail: &mut Detail, overlapped: Option<u64>) {
    if let Some(units) = overlapped {
        detail.set(metrics::OVERLAPPED, Item::Number(cycles(units)));
    }
}
