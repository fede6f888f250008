//! The plan: the staircase first, as a survey of a share of the budget; then each level by its conflicts.

use fathom_probe::wire::{PatternKind, Trial};

use super::colours;
use crate::budget::Budget;
use crate::common::round;
use crate::common::scale::{Scale, believable};
use crate::geometry;
use crate::record::Record;
use crate::survey;

/// Share of the budget that finds the staircase.
const STAIRCASE: f64 = 0.4;

/// The next round; empty at the end.
#[must_use]
pub fn plan(record: &Record, seed: u64, budget_ms: u64) -> Vec<Trial> {
    if record.trials.iter().all(|run| run.trial.pattern != PatternKind::Conflict) {
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
    let steps = survey::steps(record, &scale);
    let mut wanted = geometry::wanted(record, &scale, &steps, budget.modelled);
    if wanted.is_empty() {
        wanted = colours::wanted(record, &scale, &steps, budget.modelled);
    }
    round::close(record, &budget, wanted, |_| false, (seed, 0xc0f1))
}
