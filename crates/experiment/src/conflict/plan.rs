//! The plan of `fathom conflict`: the latency curve with a share of the budget, then the geometry of each level, and
//! the rounds of study S1.

use fathom_probe::pattern::Trial;

use super::{colours, study};
use crate::budget::Budget;
use crate::geometry::{self, Level};
use crate::record::Record;

/// Share of the budget for the latency curve.
const LATENCY_CURVE_SHARE: f64 = 0.3;
/// The same on a model: a small machine needs less, a large one with a coarse clock this much.
const LATENCY_CURVE_SHARE_MODELLED: f64 = 0.5;

/// Returns the next round; empty at the end.
#[must_use]
pub fn plan(record: &Record, seed: u64, budget_ms: u64) -> Vec<Trial> {
    let modelled = Budget::of(record, budget_ms).modelled;
    let latency_curve = if modelled { LATENCY_CURVE_SHARE_MODELLED } else { LATENCY_CURVE_SHARE };
    geometry::plan(record, (seed, budget_ms), latency_curve, |request| {
        let geometry::GeometryRequest { record, scale, curves, budget } = *request;
        let steps = curves.steps();
        // Requested page colours come before replacement and farther levels.
        let colours = colours::next_trials(record, scale, &steps, budget.exact);
        if !colours.is_empty() {
            return colours;
        }
        let mut trials = geometry::next_trials(record, scale, curves, budget, true);
        // The study's rounds follow once the number of reads is known, or will not become known.
        let nearest = geometry::levels(record, scale, &steps[..steps.len().min(1)]);
        let nearest = nearest.first().and_then(Level::geometry);
        if nearest.is_some() || steps.is_empty() || trials.is_empty() {
            trials.extend(study::next_trials(record, scale, nearest, budget.exact));
        }
        trials
    })
}
