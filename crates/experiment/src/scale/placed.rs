//! Whether working sets take longer in some frames than in others.

use fathom_analysis::interval::median;
use fathom_analysis::tiers::Tier;

use crate::scale::At;

/// Relative difference of two trials of one working set on a described machine, beyond what the samples of each differ, that only other
/// frames explain, and number of working sets that show it. Of 15 machines with contiguous base pages (wide generator), under random
/// replacement too, 14 had no difference above 0.057; of 27 with random frames all had two above 0.07.
const MIN_PLACEMENT_DIFFERENCE: (f64, usize) = (0.065, 2);

/// Returns whether working sets take longer in some frames than in others.
pub(crate) fn placements_differ(curve: &[At]) -> bool {
    curve.iter().filter(|at| differs(at)).count() >= MIN_PLACEMENT_DIFFERENCE.1
}

/// Returns whether no working set of several trials takes longer in some frames than in others, and there are enough of them.
pub(crate) fn placements_agree(curve: &[At]) -> bool {
    let several = || curve.iter().filter(|at| at.groups.len() > 1);
    several().count() >= MIN_AGREEING && !several().any(differs)
}

/// Pages of a working set from which on its placements matter: of fewer, each is a way of a level that is indexed within a page. First levels have
/// up to 16 ways.
const MIN_PAGES: f64 = 24.0;
/// Largest such working set, bytes: in larger ones, chance evens out.
const MAX_EVEN: u64 = 2 << 20;
/// Trials of a working set that agree, and their largest difference, as a share of the step. In random frames the misses of 2 MiB
/// in 16 ways differ by 0.07 of a step from placement to placement (standard deviation), those of less by more.
const AGREEING: (usize, f64) = (4, 0.005);
/// Shares of a step between which a working set is on its rise.
const ON_RISE: (f64, f64) = (0.05, 0.95);
/// Ratio of two working sets, of which one fits in all trials and the other misses in all: LRU with four ways has 1.25. In random frames, colours
/// of the first are overfull by chance, or some of the second are not.
const STEEP: f64 = 1.35;
/// Trials of working sets that are smaller by [`STEEP`] at most, of which all fit, and of those that are larger by as much, of which all miss: as good
/// as several of one each.
const STEEP_TRIALS: (usize, usize) = (6, 2);

/// Difference to a working set that is larger by [`STEEP`] or less, as a share of the step, up to which both are on a plateau. The step is that
/// of the tiers by points one by one, which may miss the plateau's.
const PLATEAU: f64 = 0.02;

/// How far a working set is on the rise from one tier to the next in its trials, as shares of the step.
struct Shares {
    bytes: f64,
    low: f64,
    high: f64,
    trials: usize,
}

impl Shares {
    /// Returns those of a working set with this translation, ns.
    fn of(at: &At, two: &[Tier], translation: f64) -> Shares {
        let (hit, step) = (two[0].latency.value + translation, two[1].latency.value - two[0].latency.value);
        let shares = at.groups.iter().filter_map(|times| Some((median(times)? - hit) / step));
        let shares: Vec<f64> = shares.collect();
        let low = shares.iter().copied().fold(f64::INFINITY, f64::min);
        let high = shares.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Shares { bytes: at.bytes as f64, low, high, trials: shares.len() }
    }

    /// Returns whether the next larger working set takes as long.
    fn is_on_plateau(&self, next: Option<&Shares>) -> bool {
        next.is_some_and(|next| next.bytes <= STEEP * self.bytes && (next.low - self.low).abs() <= PLATEAU)
    }
}

/// Returns how many of the nearest levels end where they do in any frames: a working set on the rise beyond the last of them takes equally long in
/// all of its trials, or the rise is steep in all of them. Frames follow one another then, and a farther level that takes longer in some of them is
/// indexed by a hash. `translation` is that in a working set of so many bytes, ns.
pub(crate) fn ends_in_any_frames(
    curve: &[At],
    tiers: &[Tier],
    page: f64,
    translation: impl Fn(f64) -> f64,
) -> usize {
    let ends = |two: &[Tier]| {
        let end = two[1].capacity.map_or(f64::INFINITY, |next| next.below);
        let is_large = |at: &&At| at.bytes as f64 > MIN_PAGES * page && at.bytes <= MAX_EVEN;
        let before_the_next = curve.iter().filter(is_large).filter(|at| (at.bytes as f64) < end);
        let all: Vec<Shares> =
            before_the_next.map(|at| Shares::of(at, two, translation(at.bytes as f64))).collect();
        let is_on_rise = |(i, at): (usize, &Shares)| {
            let agree = at.low > ON_RISE.0 && at.high < ON_RISE.1 && at.high - at.low <= AGREEING.1;
            at.trials >= AGREEING.0 && agree && !at.is_on_plateau(all.get(i + 1))
        };
        let is_steep = |at: &[&Shares]| {
            at[0].high.abs() <= AGREEING.1 && at[1].low >= ON_RISE.1 && at[1].bytes <= STEEP * at[0].bytes
        };
        let of_several: Vec<&Shares> = all.iter().filter(|at| at.trials >= AGREEING.0).collect();
        all.iter().enumerate().any(is_on_rise) || of_several.windows(2).any(is_steep) || is_steep_in_all(&all)
    };
    tiers.windows(2).rposition(ends).map_or(0, |last| last + 1)
}

/// Returns whether a rise is steep in all trials of the working sets near its end.
fn is_steep_in_all(all: &[Shares]) -> bool {
    let trials = |of: &[Shares]| of.iter().map(|at| at.trials).sum::<usize>();
    (0..all.len()).any(|last| {
        let (near, end) = (all[last].bytes / STEEP, all[last].bytes * STEEP);
        let fitting = &all[all.partition_point(|at| at.bytes < near)..=last];
        let beyond = &all[last + 1..all.partition_point(|at| at.bytes <= end)];
        let missing = &beyond[beyond.partition_point(|at| at.low < ON_RISE.1)..];
        fitting.iter().all(|at| at.high.abs() <= AGREEING.1)
            && missing.iter().all(|at| at.low >= ON_RISE.1)
            && trials(fitting) >= STEEP_TRIALS.0
            && trials(missing) >= STEEP_TRIALS.1
    })
}

/// Smallest number of working sets of several trials that show no difference: the first rounds have five second
/// placements.
const MIN_AGREEING: usize = 4;

/// Returns whether a working set takes longer in some frames than in others.
fn differs(at: &At) -> bool {
    let medians: Vec<f64> = at.groups.iter().filter_map(|times| median(times)).collect();
    let pairs = at
        .groups
        .iter()
        .zip(&medians)
        .flat_map(|(times, middle)| times.iter().map(move |time| (time / middle - 1.0).abs()));
    let within = pairs.fold(0.0, f64::max);
    let low = medians.iter().copied().fold(f64::INFINITY, f64::min);
    medians.iter().any(|time| *time > low * (1.0 + MIN_PLACEMENT_DIFFERENCE.0 + 4.0 * within))
}

#[cfg(test)]
mod tests {
    use fathom_analysis::interval::Interval;
    use fathom_analysis::tiers::Capacity;
    use fathom_analysis::tiers::shape::Shape;

    use super::*;

    /// Returns tiers of 4, 10 and 50 ns that end at 128 KiB and at 1 MiB.
    fn tiers() -> Vec<Tier> {
        let exactly = |value: f64| Interval { value, low: value, high: value };
        let capacity = |bytes: f64| Capacity {
            onset: exactly(bytes),
            below: bytes,
            above: 1.01 * bytes,
            shape: Shape::Lru(8),
            explained: true,
            wide_rise: false,
            in_frames: false,
            covered: 0,
        };
        let ends = [(4.0, Some(131_072.0)), (10.0, Some(1_048_576.0)), (50.0, None)];
        let tier = |(ns, end): (f64, Option<f64>)| {
            let capacity = end.map(capacity);
            Tier { latency: exactly(ns), capacity, points: 3, on_plateau: 3, begin: 0.0 }
        };
        ends.map(tier).to_vec()
    }

    /// Returns how many levels end in any frames, by working sets with these times, ns.
    fn found(curve: &[(u64, &[f64])]) -> usize {
        let at = |&(bytes, times): &(u64, &[f64])| At {
            bytes,
            groups: times.iter().map(|time| vec![time + 1.0]).collect(),
            ..At::default()
        };
        let curve: Vec<At> = curve.iter().map(at).collect();
        // One of them is translation.
        ends_in_any_frames(&curve, &tiers(), 4096.0, |_| 1.0)
    }

    #[test]
    fn rise_that_is_the_same_in_all_placements_shows_frames_in_order() {
        assert_eq!(found(&[(140_000, &[7.0; 4]), (1_200_000, &[20.0, 30.0, 40.0, 25.0])]), 1);
        assert_eq!(found(&[(140_000, &[7.0; 4]), (180_000, &[7.05])]), 0, "a plateau that is no tier");
        assert_eq!(found(&[(140_000, &[7.0; 4]), (180_000, &[7.5])]), 1);
        assert_eq!(found(&[(140_000, &[7.0; 3])]), 0, "three do not show it");
        assert_eq!(found(&[(140_000, &[7.0, 7.0, 7.0, 7.1])]), 0, "1.7 % of the step");
        assert_eq!(found(&[(90_000, &[7.0; 4])]), 0, "22 pages may each be a way of a first level");
    }

    #[test]
    fn steep_rise_shows_frames_in_order() {
        assert_eq!(found(&[(131_072, &[4.0; 4]), (165_000, &[10.0; 4])]), 1);
        assert_eq!(found(&[(131_072, &[4.0; 4]), (208_000, &[10.0; 4])]), 0);
        assert_eq!(found(&[(131_072, &[4.0, 4.0, 4.0, 4.5]), (165_000, &[10.0; 4])]), 0);
        let ends = [(165_000, &[10.0; 2][..]), (180_000, &[10.0])];
        let before = [(100_000, &[4.0; 2][..]), (115_000, &[4.0; 2]), (131_072, &[4.0; 2])];
        assert_eq!(found(&[&before[..], &ends].concat()), 1, "six trials that fit");
        assert_eq!(found(&[&before[1..], &ends].concat()), 0);
        let between = [(145_000, &[7.0][..])];
        assert_eq!(found(&[&before[..], &between, &ends].concat()), 1);
        let overfull = [(131_072, &[4.0, 4.5][..])];
        assert_eq!(found(&[&before[..2], &overfull, &ends].concat()), 0);
    }
}
