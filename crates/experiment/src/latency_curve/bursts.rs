//! Capacities of the curves on hardware, from single trials: noise comes in bursts.

use fathom_analysis::tiers::Reading;
pub(super) use fathom_analysis::tiers::bursts::Trial;
use fathom_analysis::tiers::bursts::{self, Bracket, Step};
use fathom_units::size;

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
            .map(move |s| Trial { x, at: s.trial, y: s.at_most() - less, quiet: s.is_sure() })
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
            .map(move |s| Trial { x, at: s.trial, y: s.at_most() - less, quiet: s.is_sure() })
            .collect::<Vec<_>>()
    };
    pairs.iter().flat_map(of).collect()
}

/// Lines of other data in a small cache, bytes: two, as of the stack and of the loop's own memory. Of 96 lines of a cache 95 did not always fit (described
/// machines beside neighbours, wide generator, seeds 560486 and 560507).
const OWN_BYTES: f64 = 128.0;

/// What trials are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Bytes, in caches.
    Bytes,
    /// Pages, in TLBs.
    Pages,
}

/// Replaces the capacities of tiers on the core's clock by those that single trials prove. Returns the brackets, one
/// per tier with such a capacity.
pub(super) fn apply(reading: &mut Reading, trials: &[Trial], scale: &Scale, kind: Kind) -> Vec<Bracket> {
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
        if here > scale.max_core_clocked() {
            break;
        }
        let before = i.checked_sub(1).and_then(|i| reading.tiers[i].capacity);
        let step = Step {
            here,
            next: next.latency.value,
            range: (before.map_or(first, |c| c.above), next.capacity.map_or(last, |c| c.below)),
            share: scale.share,
            may_cover_several: kind == Kind::Pages,
        };
        let Some(bracket) = bursts::bracket(trials, &step) else { continue };
        let mut capacity = capacity;
        capacity.onset = bracket.interval(capacity.onset.value, &step);
        if let (Kind::Bytes, Some(risen)) = (kind, bracket.risen) {
            capacity.onset.high = capacity.onset.high.max(risen + OWN_BYTES);
        }
        capacity.covered = bracket.covered;
        (capacity.below, capacity.above) = (bracket.fits, bracket.risen.unwrap_or(step.range.1));
        reading.tiers[i].capacity = Some(capacity);
        found.push(bracket);
    }
    found
}

/// Removes the last tier if neighbours may explain all of its slow trials: a burst at the largest working sets, of which there are few
/// trials, looks like one more level. Returns the working set to repeat then.
pub(super) fn merge_last(reading: &mut Reading, trials: &[Trial], scale: &Scale) -> Option<u64> {
    let [.., before, tier, last] = &reading.tiers[..] else { return None };
    let (here, next) = (tier.latency.value, last.latency.value);
    if here <= scale.max_core_clocked() {
        return None;
    }
    let end = trials.iter().map(|t| t.x).fold(0.0, f64::max);
    let range = (before.capacity?.above, end);
    let step = Step { here, next, range, share: scale.share, may_cover_several: false };
    let found = bursts::bracket(trials, &step).filter(|found| found.risen.is_none())?;
    let at = tier.capacity?.onset.value;
    reading.tiers.pop();
    reading.tiers.last_mut()?.capacity = None;
    reading.flat_end = true;
    reading.notes.push(format!(
        "a step near {} may be a burst of other users: a trial on {} took as long as on less",
        size(at),
        size(found.fits)
    ));
    found.doubtful.map(|x| x as u64)
}

/// Share of the undisturbed trials of a tier below which its interval begins.
const FASTEST: f64 = 0.05;

/// Extends the latencies of tiers on the core's clock down to what a load takes while nobody disturbs it. Neighbours only add time,
/// and may do so for most of a session: beside one on the same core, loads of an EPYC guest's first level took 4.0 to 4.7 cycles,
/// each trial another time, and 4.0 in a sixth of the trials. The median is then what it took, and no more than an upper bound of
/// what the machine needs.
pub(super) fn undisturbed(reading: &mut Reading, trials: &[Trial], max_ns: f64) {
    for tier in reading.tiers.iter_mut().take_while(|tier| tier.latency.value <= max_ns) {
        let end = tier.capacity.map_or(f64::INFINITY, |c| c.below);
        let on = trials.iter().filter(|t| t.quiet && (tier.begin..=end).contains(&t.x));
        let mut times: Vec<f64> = on.map(|t| t.y).collect();
        times.sort_by(f64::total_cmp);
        if let Some(fastest) = times.get((FASTEST * times.len() as f64) as usize) {
            tier.latency.low = tier.latency.low.min(*fastest);
        }
    }
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

#[cfg(test)]
mod tests {
    use fathom_analysis::interval::Interval;
    use fathom_analysis::tiers::shape::Shape;
    use fathom_analysis::tiers::{Capacity, Tier};

    use super::*;
    use crate::record::Record;

    fn reading(value: f64) -> Reading {
        let latency = Interval { value, low: value - 0.03, high: value + 0.08 };
        let tier = Tier { latency, capacity: None, points: 10, on_plateau: 10, begin: 1.0 };
        Reading { tiers: vec![tier], flat_end: true, scatter: 0.0, notes: Vec::new() }
    }

    /// A fifth of the trials below the last capacity are slow; beyond it one of two is, or all ten are.
    #[test]
    fn last_tier_that_a_burst_explains_is_none() {
        let tier = |value: f64, end: Option<f64>| {
            let capacity = end.map(|end| Capacity {
                onset: Interval { value: end, low: 0.9 * end, high: 1.1 * end },
                below: end,
                above: 1.1 * end,
                shape: Shape::Lru(8),
                explained: true,
                wide_rise: false,
                covered: 0,
            });
            let latency = Interval { value, low: 0.9 * value, high: 1.1 * value };
            Tier { latency, capacity, points: 3, on_plateau: 3, begin: 1.0 }
        };
        let mut scale = Scale::of(&Record::default());
        scale.share = 0.04;
        let read = |beyond: &[(f64, f64)]| {
            let tiers = vec![tier(4.0, Some(1.0)), tier(100.0, Some(512.0)), tier(150.0, None)];
            let mut found = Reading { tiers, flat_end: false, scatter: 0.0, notes: Vec::new() };
            let before = (0..40).map(|n| (10.0 * f64::from(n), if n % 5 == 0 { 150.0 } else { 100.0 }));
            let all = before.chain(beyond.iter().copied());
            let trials: Vec<Trial> =
                (0..).step_by(10).zip(all).map(|(at, (x, y))| Trial { x, at, y, quiet: true }).collect();
            let repeat = merge_last(&mut found, &trials, &scale);
            (found.tiers.len(), found.flat_end, repeat)
        };
        assert_eq!(read(&[(600.0, 150.0), (1024.0, 100.0)]), (2, true, None));
        assert_eq!(read(&[(600.0, 100.0), (1024.0, 150.0)]), (2, true, Some(1024)));
        let slow: Vec<(f64, f64)> = (6..16).map(|n| (100.0 * f64::from(n), 150.0)).collect();
        assert_eq!(read(&slow), (3, false, None));
    }

    /// Three of four trials are disturbed.
    #[test]
    fn latency_begins_where_nobody_disturbs() {
        let trials: Vec<Trial> = (0..40u64)
            .map(|n| {
                let is_disturbed = n % 4 != 0;
                let x = 1.0 + (n / 4) as f64;
                Trial { x, at: n, y: if is_disturbed { 4.1 } else { 4.0 + 0.001 * x }, quiet: true }
            })
            .collect();
        let mut found = reading(4.07);
        undisturbed(&mut found, &trials, 10.0);
        let latency = found.tiers[0].latency;
        assert!((3.99..4.005).contains(&latency.low), "{latency:?}");
        assert_eq!((latency.value, latency.high), (4.07, 4.15));
        // A trial whose samples disagree shows nothing, and memory is not on the core's clock.
        let noisy: Vec<Trial> = trials.iter().map(|t| Trial { y: 3.0, quiet: false, ..*t }).collect();
        for (trials, max) in [(noisy, 10.0), (trials, 1.0)] {
            let mut found = reading(4.07);
            undisturbed(&mut found, &trials, max);
            assert_eq!(found.tiers[0].latency, reading(4.07).tiers[0].latency);
        }
    }
}
