//! The plan: the staircase first, as a survey of a share of the budget; then each level by its conflicts, and the
//! study's rounds; then the TLBs.

use fathom_probe::wire::Trial;

use super::{colours, study};
use crate::budget::Budget;
use crate::common::round;
use crate::common::scale::{Scale, believable};
use crate::geometry::{self, Level};
use crate::record::Record;
use crate::survey;

/// Share of the budget that finds the staircase.
const STAIRCASE: f64 = 0.3;

/// The next round; empty at the end.
#[must_use]
pub fn plan(record: &Record, seed: u64, budget_ms: u64) -> Vec<Trial> {
    if record.trials.iter().all(|run| !geometry::is_own(run.trial.pattern)) {
        let first = survey::plan(record, seed, (budget_ms as f64 * STAIRCASE) as u64);
        if !first.is_empty() {
            return first;
        }
    }
    if !believable(record) {
        return Vec::new();
    }
    let scale = Scale::of(record);
    let budget = Budget::of(record, budget_ms);
    let stairs = survey::Stairs::of(record, &scale);
    let steps = stairs.steps();
    let known = geometry::levels(record, &scale, &steps);
    let study = |nearest| study::wanted(record, &scale, nearest, budget.modelled);
    // The study's rounds as soon as it is known how many reads they should have, or that it will not be.
    let mut wanted =
        known.first().and_then(Level::geometry).map(|nearest| study(Some(nearest))).unwrap_or_default();
    // Colours were asked for by whoever asked for them: they come before replacement and farther levels.
    if wanted.is_empty() {
        wanted = colours::wanted(record, &scale, &steps, budget.modelled);
    }
    if wanted.is_empty() {
        wanted = geometry::wanted(record, &scale, &steps, budget.modelled, true);
    }
    if wanted.is_empty() && known.first().and_then(Level::geometry).is_none() {
        wanted = study(None);
    }
    let next = round::close(record, &budget, wanted, |_| false, (seed, 0xc0f1));
    if !next.is_empty() {
        return next;
    }
    let wanted = geometry::tlb::wanted(record, &scale, &stairs, &budget, budget_ms);
    round::close(record, &budget, wanted, |_| false, (seed, 0xc0f1))
}
