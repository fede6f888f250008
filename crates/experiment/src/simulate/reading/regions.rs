//! Findings about the regions of a program.

use fathom_analysis::findings::{Finding, Item};
use fathom_analysis::metrics::simulate as metrics;

use crate::record::{Simulated, SimulatedRegion};

/// Returns the regions.
pub(super) fn regions(simulated: &Simulated) -> Vec<Finding> {
    simulated.regions.iter().zip(1u64..).map(|(region, rank)| of_region(region, rank, simulated)).collect()
}

fn of_region(region: &SimulatedRegion, rank: u64, simulated: &Simulated) -> Finding {
    let mut finding = Finding::number(metrics::REGION_CYCLES.at([rank.into()]), super::cycles(region.units));
    let by_level = |counts: &[u64]| super::by_level(simulated, counts);
    let detail = &mut finding.detail;
    detail.set(metrics::REGION, Item::Token(region.name.clone()));
    detail.set(metrics::ENTERED, Item::Number(region.entered as f64));
    if region.unmatched > 0 {
        detail.set(metrics::UNMATCHED, Item::Number(region.unmatched as f64));
    }
    if let Some(least) = region.least {
        detail.set(metrics::LEAST, Item::Number(super::cycles(least)));
    }
    detail.set(metrics::EXECUTED, Item::Number(region.instructions as f64));
    detail.set(metrics::ACCESSES, Item::Number(region.accesses as f64));
    detail.set(metrics::REACHED, by_level(&region.reached));
    detail.set(metrics::PASSED_ON, by_level(&region.misses));
    detail.set(metrics::WALKS, Item::Number(region.walks as f64));
    detail.set(metrics::MEMORY, Item::Number(region.memory as f64));
    let fields = [metrics::SHORTEST, metrics::MEDIAN, metrics::P99, metrics::LONGEST];
    for (field, time) in fields.into_iter().zip(region.entries.into_iter().flatten()) {
        detail.set(field, Item::Number(super::cycles(time)));
    }
    finding
}

/// Returns what is wrong with the marks of regions, and the remedy.
pub(super) fn unmatched(simulated: &Simulated) -> Option<(String, &'static str)> {
    let wrong = simulated.regions.iter().filter(|region| region.unmatched > 0);
    let named: Vec<String> =
        wrong.map(|region| format!("{} ({} times)", region.name, region.unmatched)).collect();
    let remedy = "mark every way out of the region, also return, break and longjmp";
    let text =
        || format!("a region has an end without a beginning, or the other way round: {}", named.join(", "));
    (!named.is_empty()).then(|| (text(), remedy))
}
