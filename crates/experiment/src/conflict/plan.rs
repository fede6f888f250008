//! The plan: the latency curve first, as a survey of a share of the budget; then how each level is built, and the
//! study's rounds.

use fathom_probe::pattern::Trial;

use super::{colours, study};
use crate::budget::Budget;
use crate::geometry::{self, Level};
use crate::record::Record;

/// Share of the budget that finds the latency curve.
const STAIRCASE: f64 = 0.3;
/// The same on a model: a small machine needs less, a large one with a coarse clock that much.
const STAIRCASE_MODELLED: f64 = 0.7;

/// The next round; empty at the end.
#[must_use]
pub fn plan(record: &Record, seed: u64, budget_ms: u64) -> Vec<Trial> {
    let modelled = Budget::of(record, budget_ms).modelled;
    let latency_curve = if modelled { STAIRCASE_MODELLED } else { STAIRCASE };
    geometry::plan(record, (seed, budget_ms), latency_curve, |request| {
        let geometry::GeometryRequest { record, scale, curves, budget } = *request;
        let steps = curves.steps();
        // Colours were asked for by whoever asked for them: they come before replacement and farther levels.
        let colours = colours::wanted(record, scale, &steps, budget.modelled);
        if !colours.is_empty() {
            return colours;
        }
        let mut wanted = geometry::wanted(record, scale, curves, budget, true);
        // As soon as it is known how many reads a round should have, or that it will not be.
        let nearest = geometry::levels(record, scale, &steps[..steps.len().min(1)]);
        let nearest = nearest.first().and_then(Level::geometry);
        if nearest.is_some() || steps.is_empty() || wanted.is_empty() {
            wanted.extend(study::wanted(record, scale, nearest, budget.modelled));
        }
        wanted
    })
}
