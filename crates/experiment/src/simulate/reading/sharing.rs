//! Findings about what CPUs do to one another's lines.

use fathom_analysis::findings::{Detail, Field, Finding, Item, Metric};
use fathom_analysis::metrics::simulate as metrics;

use crate::record::{Simulated, SimulatedLevel, SimulatedSharing};

/// Counts by metric or field.
fn each<T>(of: SimulatedSharing, [invalidated, transfers, upgrades]: [T; 3]) -> [(T, f64); 3] {
    [(invalidated, of.invalidated), (transfers, of.transfers), (upgrades, of.upgrades)]
        .map(|(of, count)| (of, count as f64))
}

/// Returns the findings of all levels together.
pub(super) fn all(simulated: &Simulated) -> impl Iterator<Item = Finding> {
    let counts = simulated.sharing.into_iter().flat_map(|of| each(of, metrics::SHARING));
    counts.map(|(metric, count)| Finding::number(metric, count))
}

/// Returns those of a level, by metric.
pub(super) fn of_level(level: &SimulatedLevel) -> impl Iterator<Item = (&'static Metric, f64)> {
    level.sharing.into_iter().flat_map(|of| each(of, metrics::LEVEL_SHARING))
}

/// Adds those of an object.
pub(super) fn add(detail: &mut Detail, of: Option<SimulatedSharing>) {
    let fields: [Field; 3] = [metrics::INVALIDATED, metrics::TRANSFERS, metrics::UPGRADES];
    for (field, count) in of.into_iter().flat_map(|of| each(of, fields)) {
        detail.set(field, Item::Number(count));
    }
}
