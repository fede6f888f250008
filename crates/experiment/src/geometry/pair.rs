//! Load pairs: how far a line fill serves the next load.
//!
//! Each pair is visited once per lap, its second address right after the first, the pairs in random order. A lap is
//! much larger than the tier. So the first load misses. The second hits if it is on the first one's line, or on a line
//! that was prefetched with it. If the next cache serves the first load, only the line size is visible; if memory
//! serves it, an adjacent-line prefetcher is too.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use fathom_analysis::interval::median;
use fathom_analysis::tiers::has_round_size;
use fathom_probe::pattern::{Memory, Pair, PatternKind, Trial};

use super::{Step, pages};
use crate::record::Record;
use crate::scale::Scale;

/// Distances to test, bytes. The shortest is within any line.
pub(crate) const DISTANCES: [u64; 7] = [8, 16, 32, 64, 128, 256, 512];
/// Alignment of the first addresses: no line of up to this length begins between the two addresses.
const ALIGNED: u64 = 512;
/// Bytes between pairs: an odd multiple, so that all sets of aligned addresses are used.
const PERIOD: u64 = 3 * ALIGNED;
/// Distance from the midpoint between hit and miss within which a second load is undecided: under random replacement
/// the translation of the first one's page may evict its line.
const UNDECIDED: f64 = 0.1;
/// Ratio of the first load's time to the next tier's, above which the second load's time is a small difference of large
/// times. (Translation and DRAM rows may double the time.)
const MAX_FIRST_RATIO: f64 = 2.0;
/// Smallest number of slow distances, the reach and longer ones. One slow distance shows no boundary: 512 bytes alone are
/// slow where every pair begins its own page or DRAM row.
const MIN_SLOW: usize = 2;
/// Maximum number of pairs: at [`PERIOD`] apart they span 192 MiB.
const MAX_PAIRS: u64 = 1 << 17;
/// Smallest lap as a multiple of the tier's capacity.
const MIN_LAP: f64 = 1.2;
/// Largest ratio, either way, of a recorded number of pairs to the one that the present estimate of the capacities asks
/// for: the result depends on the lap only by which caches it exceeds.
const MAX_RATIO: f64 = 1.25;

/// Returns the number of pairs that a lap needs to miss in a tier and, if there is a next cache, to hit in that. Each
/// pair takes the space of [`ALIGNED`] bytes, because only some of the sets are used.
fn needed(step: &Step, next: Option<&Step>) -> u64 {
    let capacity = step.capacity.value.max(1.0);
    let bytes = match next {
        Some(next) => {
            (1.25 * capacity * 0.6 * next.capacity.value).sqrt().min(4.0 * capacity).max(MIN_LAP * capacity)
        }
        None => 4.0 * capacity,
    };
    ((bytes / ALIGNED as f64) as u64).clamp(8, MAX_PAIRS)
}

/// Returns the number of pairs in a lap: that of recorded trials if it still serves, else [`needed`]. Estimates of
/// capacities change from round to round, and from one version of the analysis to the next.
fn pairs(record: &Record, step: &Step, next: Option<&Step>) -> u64 {
    let needed = needed(step, next);
    let serves = |pairs: &u64| {
        let ratio = *pairs as f64 / needed as f64;
        (1.0 / MAX_RATIO..=MAX_RATIO).contains(&ratio)
            && (*pairs * ALIGNED) as f64 >= MIN_LAP * step.capacity.value
    };
    let of_pairs = record.of(PatternKind::Pair).map(|r| &r.trial);
    let recorded = of_pairs.filter(|t| t.pattern.groups().period == PERIOD).map(|t| t.memory.cells() / 2);
    let mut trials: BTreeMap<u64, u64> = BTreeMap::new();
    for pairs in recorded.filter(serves) {
        *trials.entry(pairs).or_default() += 1;
    }
    let most = trials.into_iter().max_by_key(|&(pairs, n)| (n, Reverse(pairs.abs_diff(needed))));
    most.map_or(needed, |(pairs, _)| pairs)
}

fn is_of(trial: &Trial, distance: u64, pairs: u64) -> bool {
    trial.kind() == PatternKind::Pair
        && (trial.memory.stride, trial.pattern.groups().period) == (distance, PERIOD)
        && trial.memory.cells() == 2 * pairs
}

/// Returns the next trials.
pub(crate) fn next_trials(
    record: &Record,
    scale: &Scale,
    step: &Step,
    next: Option<&Step>,
    exact: bool,
) -> Vec<Trial> {
    let pairs = pairs(record, step, next);
    let cells = 2 * pairs;
    let miss = (step.next - step.here).max(0.1);
    let clock = (200.0 * scale.resolution * scale.tick_ns / miss) as u64;
    // Whole laps if a lap is short; else parts of laps, each starting at the end of the previous one.
    let mut loads = match clock.clamp(4096, 1 << 17) {
        min if cells <= min => min.div_ceil(cells) * cells + 1,
        min => min.max(1 << 14) + 1,
    };
    while cells > 2 && (2 * loads).is_multiple_of(cells) {
        loads += 1;
    }
    let mut trials = Vec::new();
    for distance in DISTANCES {
        let had = record.trials.iter().filter(|r| is_of(&r.trial, distance, pairs)).count();
        for _ in had..if exact { 1 } else { 3 } {
            trials.push(Trial {
                // The same placement for all: distances are compared under equal conditions.
                memory: Memory { page: pages(scale).0, place: 1, ..Memory::of(cells * distance, distance) },
                loads,
                samples: if exact { 2 } else { 3 },
                warm: if cells <= loads { 3 * cells } else { loads },
                ..Trial::of(Pair { period: PERIOD, offset: 0 })
            });
        }
    }
    trials
}

/// Results of the pairs beyond a tier.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pairs {
    /// Time of the second load by distance, ns, with the trials.
    pub(crate) second: Vec<(u64, f64, Vec<u64>)>,
    /// Time of the first load, ns.
    pub(crate) first: f64,
    /// The shortest distance at which the second load takes longer than a load of the tier: its line, or the range of
    /// an adjacent-line prefetch.
    pub(crate) reach: Option<u64>,
}

/// Reads the pairs beyond a tier; `hit` is the time of a load that the nearest level serves, ns.
pub(crate) fn read(
    record: &Record,
    scale: &Scale,
    step: &Step,
    next: Option<&Step>,
    hit: f64,
) -> Option<Pairs> {
    let pairs = pairs(record, step, next);
    let time = |distance: u64| {
        let runs = || record.of(PatternKind::Pair).filter(move |r| is_of(&r.trial, distance, pairs));
        let fastest = runs().filter_map(|run| median(&scale.steady(run))).min_by(f64::total_cmp)?;
        Some((fastest, runs().map(|r| r.trial.id).collect::<Vec<u64>>()))
    };
    // Both halves of the shortest distance are on one line, so its second load is a hit.
    let first = 2.0 * time(DISTANCES[0])?.0 - hit;
    let second: Vec<(u64, f64, Vec<u64>)> = DISTANCES
        .iter()
        .filter_map(|&distance| time(distance).map(|(t, ids)| (distance, 2.0 * t - first, ids)))
        .collect();
    // If a lap exceeds the next tier too, the first load is served far beyond it. A second load that hits in the next
    // tier's longer line then takes that tier's time.
    let rise = first.min(step.next) - step.here;
    let share: Vec<f64> = second.iter().map(|(_, time, _)| (time - step.here) / rise).collect();
    let slow: Vec<bool> = share.iter().map(|share| *share > 0.5).collect();
    let at = slow.iter().position(|slow| *slow);
    let clear = share.iter().all(|share| (share - 0.5).abs() > UNDECIDED);
    // In sets that are no power of two in number, the second loads of one distance may have sets of their own, and fit there. They
    // look like hits on the first one's line.
    let elsewhere = |time: f64| step.here > 1.1 * hit && time > (hit + step.here) / 2.0;
    let in_other_sets =
        !has_round_size(&step.capacity) && second.iter().take(at.unwrap_or(0)).any(|s| elsewhere(s.1));
    let near = first > 1.1 * step.here && first < MAX_FIRST_RATIO * step.next;
    let confirmed = slow.iter().filter(|slow| **slow).count() >= MIN_SLOW;
    let valid = near && clear && confirmed && !in_other_sets && slow.len() == DISTANCES.len();
    let reach =
        at.filter(|&at| valid && at > 0 && slow[at..].iter().all(|slow| *slow)).map(|at| second[at].0);
    Some(Pairs { second, first, reach })
}

#[cfg(test)]
mod tests {
    use fathom_analysis::interval::Interval;
    use fathom_probe::rows::{Done, Sample};

    use super::*;
    use crate::record::TrialRun;

    /// A level of 32 KiB and 1 ns before memory of 30 ns.
    const STEP: Step = Step {
        capacity: Interval { value: 32768.0, low: 32768.0, high: 32768.0 },
        here: 1.0,
        next: 30.0,
        in_pieces: false,
    };

    /// Returns what is read of pairs whose second loads take so long, ns.
    fn read_of(second_ns: [u64; DISTANCES.len()]) -> Pairs {
        read(&recorded(second_ns), &Scale::of(&Record::default()), &STEP, None, 1.0).expect("pairs")
    }

    fn recorded(second_ns: [u64; DISTANCES.len()]) -> Record {
        let mut record = Record::default();
        for (id, (distance, second)) in DISTANCES.into_iter().zip(second_ns).enumerate() {
            let cells = 2 * needed(&STEP, None);
            let trial = Trial {
                id: id as u64,
                loads: 1000,
                memory: Memory::of(cells * distance, distance),
                ..Trial::of(Pair { period: PERIOD, offset: 0 })
            };
            // The mean of both loads; the first takes 30 ns, on a clock of 1 GHz.
            let sample = Sample { ticks: 0, ticks2: 500 * (30 + second), ..Sample::default() };
            let done = Some(Done { trial: id as u64, ..Done::default() });
            record.trials.push(TrialRun { trial, samples: vec![sample; 3], done, ..TrialRun::default() });
        }
        record
    }

    #[test]
    fn pairs_are_read_after_the_estimate_of_the_capacity_changed() {
        let record = recorded([1, 1, 1, 30, 30, 30, 30]);
        let scale = Scale::of(&record);
        let reach = |capacity: f64| {
            let capacity = Interval { value: capacity, low: capacity, high: capacity };
            read(&record, &scale, &Step { capacity, ..STEP }, None, 1.0).and_then(|p| p.reach)
        };
        assert_eq!(reach(1.1 * 32768.0), Some(64));
        assert_eq!(reach(0.9 * 32768.0), Some(64));
        // Four times the capacity was needed; twice it is another lap.
        assert_eq!(reach(2.0 * 32768.0), None);
    }

    /// A level of 262 sets of 4 ways, behind a nearer one of 1 ns. At 64 bytes the second loads have the odd sets for themselves.
    #[test]
    fn second_loads_in_other_sets_show_no_line() {
        let record = recorded([1, 1, 1, 5, 30, 30, 30]);
        let reach = |capacity: f64| {
            let capacity = Interval { value: capacity, low: capacity, high: capacity };
            let step = Step { capacity, here: 5.0, ..STEP };
            read(&record, &Scale::of(&record), &step, None, 1.0).and_then(|p| p.reach)
        };
        assert_eq!(reach(32768.0), Some(128));
        assert_eq!(reach(33536.0), None);
    }

    #[test]
    fn line_needs_two_distances_beyond_it() {
        assert_eq!(read_of([1, 1, 1, 30, 30, 30, 30]).reach, Some(64));
        assert_eq!(read_of([1, 30, 30, 30, 30, 30, 30]).reach, Some(16));
        assert_eq!(read_of([1, 1, 1, 1, 1, 30, 30]).reach, Some(256));
        // The last distance alone.
        assert_eq!(read_of([1, 1, 1, 1, 1, 1, 30]).reach, None);
        // A low between slow ones.
        assert_eq!(read_of([1, 30, 30, 30, 7, 30, 30]).reach, None);
        assert_eq!(read_of([1, 1, 1, 1, 1, 1, 1]).reach, None);
    }
}
