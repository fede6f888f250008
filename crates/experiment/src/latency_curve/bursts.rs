//! Capacities of the curves on hardware, from single trials: noise comes in bursts.

use fathom_analysis::tiers::Reading;
pub(super) use fathom_analysis::tiers::bursts::Trial;
use fathom_analysis::tiers::bursts::{self, Bracket, Step};

use super::translation::{Pair, Translation, translation_at};
use crate::scale::{At, Scale};

/// Relative width of a bracket beyond which its ends are repeated.
const MAX_WIDTH: f64 = 0.03;
/// Trials of one working set, at most: more of them seldom decide.
const MAX_TRIALS: usize = 15;

/// Returns the trials of the latency curve, less their translation.
pub(super) fn curve_trials(latency_curve: &[At], translation: &Translation) -> Vec<Trial> {
    let of = |at: &At| {
        let x = at.bytes as f64;
        let less = translation_at(translation, x);
        at.singles()
            .iter()
            .map(move |s| Trial { x, at: s.trial, y: s.time - less, quiet: s.quiet })
            .collect::<Vec<_>>()
    };
    latency_curve.iter().flat_map(of).collect()
}

/// Returns the trials of the pairs: the time of a spread trial less that of the packed lines, plus that of a load which
/// hits.
pub(super) fn pair_trials(pairs: &[Pair], hit_time: f64) -> Vec<Trial> {
    let of = |pair: &Pair| {
        let (x, less) = (pair.pages as f64, pair.packed.time() - hit_time);
        pair.spread
            .singles()
            .iter()
            .map(move |s| Trial { x, at: s.trial, y: s.time - less, quiet: s.quiet })
            .collect::<Vec<_>>()
    };
    pairs.iter().flat_map(of).collect()
}

/// Replaces the capacities of tiers on the core's clock by those that single trials prove. Returns the brackets, one
/// per tier with such a capacity.
pub(super) fn apply(reading: &mut Reading, trials: &[Trial], scale: &Scale, max_ns: f64) -> Vec<Bracket> {
    let mut found = Vec::new();
    let (Some(first), Some(last)) = (
        trials.iter().map(|t| t.x).min_by(f64::total_cmp),
        trials.iter().map(|t| t.x).max_by(f64::total_cmp),
    ) else {
        return found;
    };
    for i in 0..reading.tiers.len() {
        let Some(capacity) = reading.tiers[i].capacity else { break };
        let here = reading.tiers[i].latency.value;
        let Some(next) = reading.tiers.get(i + 1) else { break };
        if here > max_ns {
            break;
        }
        let before = i.checked_sub(1).and_then(|i| reading.tiers[i].capacity);
        let step = Step {
            here,
            next: next.latency.value,
            range: (before.map_or(first, |c| c.above), next.capacity.map_or(last, |c| c.below)),
            share: scale.share,
        };
        let Some(bracket) = bursts::bracket(trials, &step) else { continue };
        let mut capacity = capacity;
        capacity.onset = bracket.interval(capacity.onset.value, &step);
        (capacity.below, capacity.above) = (bracket.fits, bracket.risen.unwrap_or(step.range.1));
        reading.tiers[i].capacity = Some(capacity);
        found.push(bracket);
    }
    found
}

/// Returns the working sets to repeat, each with its controls: the ends of a bracket that is wide, and the working set
/// whose slow trials noise may explain.
pub(super) fn doubtful(brackets: &[Bracket], trials: &[Trial]) -> Vec<f64> {
    let count = |x: f64| trials.iter().filter(|t| t.x == x).count();
    let mut all = Vec::new();
    for bracket in brackets {
        let narrow = bracket.risen.is_some_and(|x| x <= bracket.fits * (1.0 + MAX_WIDTH));
        let ends = [Some(bracket.fits), bracket.doubtful, bracket.risen];
        let open = ends.into_iter().flatten().filter(|x| count(*x) < MAX_TRIALS);
        all.extend(open.filter(|_| !narrow || bracket.doubtful != bracket.risen));
    }
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}
